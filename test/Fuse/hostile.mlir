// Input that is legal and hostile: each ended in a crash, a hang or a loss once.
// RUN: fusion-opt %s --tandem-fuse-pipeline --split-input-file | FileCheck %s

// The op that ends the second chain is only read by the first.
// CHECK-LABEL: func.func @castlike_use_after_free(
// CHECK: tandem.fused_all_reduce_norm
// CHECK: tandem.fused_all_reduce_norm
func.func @castlike_use_after_free(%x: tensor<?x4096xf32>, %x2: tensor<?x4096xf32>, %g: tensor<4096xf32>) -> tensor<?x4096xf32> {
  %s = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %s2 = "onnx.Custom"(%x2) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y2 = "onnx.RMSNormalization"(%s2, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  %c = "onnx.CastLike"(%s, %y2) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %y = "onnx.RMSNormalization"(%c, %g) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// An op that changes nothing may still read what is defined late.
// CHECK-LABEL: func.func @castlike_dominance(
// CHECK: "onnx.Neg"
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm
func.func @castlike_dominance(%x: tensor<?x4096xf32>, %r: tensor<?x4096xf32>, %g: tensor<4096xf32>) -> (tensor<?x4096xf32>, tensor<?x4096xf32>) {
  %s = tandem.all_reduce %x : tensor<?x4096xf32>
  %like = "onnx.Neg"(%g) : (tensor<4096xf32>) -> tensor<4096xf32>
  %c = "onnx.CastLike"(%s, %like) : (tensor<?x4096xf32>, tensor<4096xf32>) -> tensor<?x4096xf32>
  %a = tandem.add %c, %r : tensor<?x4096xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x4096xf32>, tensor<4096xf32>
  return %y, %a : tensor<?x4096xf32>, tensor<?x4096xf32>
}

// -----

// Unreachable code may hold cycles.
// CHECK-LABEL: func.func @cycle_hang_raise(
// CHECK: "onnx.Add"
func.func @cycle_hang_raise(%x: tensor<?x4096xf32>) -> tensor<?x4096xf32> {
  return %x : tensor<?x4096xf32>
^bb1:
  %a = "onnx.Identity"(%b) : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %b = "onnx.Identity"(%a) : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %c = "onnx.Add"(%a, %b) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %c : tensor<?x4096xf32>
}

// -----

// Shapes of a cycle depend on themselves.
// CHECK-LABEL: func.func @cycle_hang_shapes(
// CHECK: "onnx.Add"
func.func @cycle_hang_shapes(%x: tensor<?x4096xf32>) -> tensor<?x4096xf32> {
  return %x : tensor<?x4096xf32>
^bb1:
  %a = "onnx.Relu"(%b) : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %b = "onnx.Relu"(%a) : (tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %c = "onnx.Add"(%a, %x) : (tensor<?x4096xf32>, tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %c : tensor<?x4096xf32>
}

// -----

// Handles and wishes of the source go to both branches.
// CHECK-LABEL: func.func @batch_invariant_and_workspace_lost(
// CHECK-SAME: %[[W:[a-z0-9]*]]: !tandem.workspace, %[[S:[a-z0-9]*]]: !tandem.stream
// CHECK: tandem.fused_all_reduce_norm {{.*}} workspace %[[W]] stream %[[S]]
// CHECK-SAME: batch_invariant
// CHECK: tandem.all_reduce {{.*}} workspace %[[W]] stream %[[S]] {batch_invariant, fallback
func.func @batch_invariant_and_workspace_lost(%x: tensor<?x4096xf32>, %g: tensor<4096xf32>, %w: !tandem.workspace, %st: !tandem.stream) -> tensor<?x4096xf32> {
  %s = tandem.all_reduce %x workspace %w stream %st {batch_invariant} : tensor<?x4096xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x4096xf32>, tensor<4096xf32>
  return %y : tensor<?x4096xf32>
}
