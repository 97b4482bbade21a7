// The reason that comes from world-size; see reasons.mlir.
//
// RUN: fusion-opt %s --tandem-fuse='world-size=1 report=%t.json' \
// RUN:   --remarks-filter=tandem-fuse --remark-policy=all --verify-diagnostics -o /dev/null
// RUN: FileCheck %s --implicit-check-not='"status"' < %t.json

// The group has no size of its own, so the option's counts.
// CHECK: "function": "WorldSizeOne"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "WorldSizeOne"
// CHECK-NEXT: "message": "a group of one rank has nothing to reduce"
// CHECK-NEXT: "blocked_by": null
// CHECK-NEXT: "suggestion": "remove the all-reduce"
func.func @WorldSizeOne(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] WorldSizeOne | Category:tandem-fuse | Function=WorldSizeOne | Reason="a group of one rank has nothing to reduce", Suggestion="remove the all-reduce", blocked_by=none}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// A group that has one keeps it.
// CHECK: "function": "group_of_two"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 4]]:8"
// CHECK-NEXT: "status": "fused"
func.func @group_of_two(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark@below {{[Passed] Fused | Category:tandem-fuse | Function=group_of_two | dtype=f32}}
  %s = tandem.all_reduce %x {group = #tandem.group<"tp", size = 2>} : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
