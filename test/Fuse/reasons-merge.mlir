// The reason that there is with merge-all-reduces only. What else keeps two
// all-reduces apart is in merge.mlir.
//
// RUN: fusion-opt %s --tandem-fuse='merge-all-reduces report=%t.json' --remarks-filter=tandem-fuse --remark-policy=all --verify-diagnostics -o /dev/null
// RUN: FileCheck %s < %t.json

// CHECK: "function": "AllReducesNotMerged"
// CHECK-NEXT: "location": "{{.*}}reasons-merge.mlir:[[# @LINE + 14]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "AllReducesNotMerged"
// CHECK-NEXT: "message": "the sum of two all-reduces is needed before the norm, and merge-all-reduces could not make one of them: one of them is also used elsewhere"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}reasons-merge.mlir:[[# @LINE + 12]]:8"
// CHECK-NEXT: "suggestion": "remove what keeps them apart, or reduce once in the model"
// CHECK: "function": "AllReducesNotMerged"
// CHECK-NEXT: "location": "{{.*}}reasons-merge.mlir:[[# @LINE + 9]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "AllReducesNotMerged"
// CHECK-NEXT: "message"
// CHECK-NEXT: "blocked_by": "tandem.all_reduce at {{.*}}reasons-merge.mlir:[[# @LINE + 3]]:8"
func.func @AllReducesNotMerged(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-remark-re@below {{[Missed] AllReducesNotMerged | Category:tandem-fuse | Function=AllReducesNotMerged | Reason="the sum of two all-reduces is needed before the norm, and merge-all-reduces could not make one of them: one of them is also used elsewhere", Suggestion="remove what keeps them apart, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  // expected-remark-re@below {{[Missed] AllReducesNotMerged | Category:tandem-fuse | Function=AllReducesNotMerged | Reason="the sum of two all-reduces is needed before the norm, and merge-all-reduces could not make one of them: one of them is also used elsewhere", Suggestion="remove what keeps them apart, or reduce once in the model", blocked_by="tandem.all_reduce at {{[^"]+}}"}}
  %t = tandem.all_reduce %z : tensor<?x8xf32>
  %u = tandem.add %s, %t : tensor<?x8xf32>
  %a = tandem.add %u, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %t : tensor<?x8xf32>, tensor<?x8xf32>
}
