// From source ops to fused ops and back: what did not fuse, or is computed once
// more, is spelled as the source had it.
//
// RUN: fusion-opt %s --allow-unregistered-dialect --tandem-fuse-pipeline -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --allow-unregistered-dialect --tandem-fuse-pipeline -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: fusion-opt %s --allow-unregistered-dialect --pass-pipeline="builtin.module(tandem-raise,tandem-fuse,tandem-restore)" -o %t.passes
// RUN: cmp %t.once %t.passes

// ONNX Runtime's op adds, normalises, and gives the sum as its fourth result.
// CHECK-LABEL: func.func @skip_norm(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} residual({{.*}} returns_residual
// CHECK-NOT: SkipSimplified
// CHECK: return %[[IF]]#0, %[[IF]]#1
func.func @skip_norm(%x: tensor<4x8xf16>, %r: tensor<4x8xf16>, %g: tensor<8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>) {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %y:4 = "onnx.Custom"(%s, %r, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization", epsilon = 1.0e-5 : f32} : (tensor<4x8xf16>, tensor<4x8xf16>, tensor<8xf16>) -> (tensor<4x8xf16>, none, none, tensor<4x8xf16>)
  return %y#0, %y#3 : tensor<4x8xf16>, tensor<4x8xf16>
}

// The norm before the residual has another user, so it is there twice: in the
// fused op, and in the source's form behind it.
// CHECK-LABEL: func.func @pre_norm_used(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} pre_gamma({{.*}} returns_sum
// CHECK: "onnx.RMSNormalization"(%[[IF]]#1, %{{.*}}) {{.*}}onnx_node_name = "pre"
// CHECK-NOT: tandem.rms_norm
// CHECK: return
func.func @pre_norm_used(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = "onnx.RMSNormalization"(%s, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32, onnx_node_name = "pre"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %a = "onnx.Add"(%p, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y, %p : tensor<4x8xf32>, tensor<4x8xf32>
}

// Two norms on one sum: the second stays the source's.
// CHECK-LABEL: func.func @two_norms(
// CHECK: %[[IF:.*]]:2 = scf.if
// CHECK: "onnx.SimplifiedLayerNormalization"(%[[IF]]#1,
// CHECK: return
func.func @two_norms(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.SimplifiedLayerNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = "onnx.SimplifiedLayerNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-6 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// An all-reduce that did not fuse, next to one that did.
// CHECK-LABEL: func.func @one_of_two(
// CHECK: "onnx.Custom"(%arg0) {domain_name = "com.microsoft", function_name = "AllReduce", onnx_node_name = "stays"}
// CHECK: tandem.fused_all_reduce_norm %arg1
// CHECK: "onnx.Add"
// CHECK: return
func.func @one_of_two(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce", onnx_node_name = "stays"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "onnx.Custom"(%z) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = "onnx.RMSNormalization"(%t, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %u = "onnx.Add"(%s, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %u : tensor<4x8xf32>, tensor<4x8xf32>
}

// MLIR's own all-reduce: the group is the grid.
// CHECK-LABEL: func.func @shard_all_reduce(
// CHECK: tandem.fused_all_reduce_norm {{.*}} group = #tandem.group<"grid", size = 2>
shard.grid @grid(shape = 2)
func.func @shard_all_reduce(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = shard.all_reduce %x on @grid grid_axes = [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}

// A body of ONNX's If, captured values and all.
// CHECK-LABEL: func.func @onnx_if(
// CHECK: "onnx.If"
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm %arg0 residual(%arg1
// CHECK: "onnx.Yield"
func.func @onnx_if(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %g: tensor<8xf32>, %c: tensor<i1>) -> tensor<4x8xf32> {
  %y = "onnx.If"(%c) ({
    %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %a = "onnx.Add"(%s, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %n = "onnx.RMSNormalization"(%a, %g) {axis = -1 : si64, epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    "onnx.Yield"(%n) : (tensor<4x8xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<4x8xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
