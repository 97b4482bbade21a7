// The reason that comes from guard=none; see reasons.mlir.
//
// RUN: fusion-opt %s --tandem-fuse='guard=none report=%t.json' \
// RUN:   --remarks-filter=tandem-fuse --remark-policy=all --verify-diagnostics -o /dev/null
// RUN: FileCheck %s --implicit-check-not='"status"' < %t.json

// The residual might have one row where the sum has several. With a guard the
// dims are compared; here there is none.
// CHECK: "function": "ResidualShapeUnproven"
// CHECK-NEXT: "location": "{{.*}}:[[# @LINE + 8]]:8"
// CHECK-NEXT: "status": "missed"
// CHECK-NEXT: "reason": "ResidualShapeUnproven"
// CHECK-NEXT: "message": "the residual's shape can't be proven equal to the sum's, and guard=none leaves no place to compare them"
// CHECK-NEXT: "blocked_by": "onnx.Add at {{.*}}:[[# @LINE + 5]]:8"
// CHECK-NEXT: "suggestion": "use guard=chain, or give both the same dim_params"
func.func @ResidualShapeUnproven(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re@below {{[Missed] ResidualShapeUnproven | Category:tandem-fuse | Function=ResidualShapeUnproven | Reason="the residual's shape can't be proven equal to the sum's, and guard=none leaves no place to compare them", Suggestion="use guard=chain, or give both the same dim_params", blocked_by="onnx.Add at {{[^"]+}}"}}
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
