// guard=none: no check in the program; the runtime falls back by itself. A
// static count above a given limit, or a residual whose shape would have to be
// compared, is still not fused.
//
// RUN: fusion-opt %s --tandem-fuse='guard=none max-tokens=32 report=%t.json' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fusion-opt %t.once --tandem-fuse='guard=none max-tokens=32' -o %t.twice
// RUN: cmp %t.once %t.twice

// REPORT: "all_reduces": 4
// REPORT: "fused": 2
// REPORT: "guarded": 0
// REPORT: "missed": 2

// CHECK-LABEL: func.func @dynamic(
// CHECK-NOT: scf.if
// CHECK-NOT: tandem.token_limit
// CHECK: %[[F:.*]]:2 = tandem.fused_all_reduce_norm
// CHECK-NOT: tandem.guard
// CHECK: return %[[F]]#0, %[[F]]#1
// REPORT: "function": "dynamic"
// REPORT: "guard": null
func.func @dynamic(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = tandem.add %s, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @static(
// CHECK-NOT: scf.if
// CHECK: tandem.fused_all_reduce_norm
func.func @static(%x: tensor<32x8xf32>, %g: tensor<8xf32>) -> tensor<32x8xf32> {
  %s = tandem.all_reduce %x : tensor<32x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<32x8xf32>, tensor<8xf32>
  return %y : tensor<32x8xf32>
}

// CHECK-LABEL: func.func @negative_static_above_limit(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
// REPORT: "function": "negative_static_above_limit"
// REPORT: "reason": "StaticTokensExceedLimit"
func.func @negative_static_above_limit(%x: tensor<33x8xf32>, %g: tensor<8xf32>) -> tensor<33x8xf32> {
  %s = tandem.all_reduce %x : tensor<33x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<33x8xf32>, tensor<8xf32>
  return %y : tensor<33x8xf32>
}

// CHECK-LABEL: func.func @negative_not_compared(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
// REPORT: "function": "negative_not_compared"
// REPORT: "reason": "ResidualShapeUnproven"
func.func @negative_not_compared(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
