// A compiler that has a registered onnx dialect of its own, with properties and
// folders, runs our passes on its own ops.
//
// RUN: %mini-compiler %s --load-dialect-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(tandem-fuse-pipeline{max-tokens=64 report=%t.json})" -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: %mini-compiler %t.once --load-dialect-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(tandem-fuse-pipeline{max-tokens=64})" -o %t.twice
// RUN: cmp %t.once %t.twice
//
// Its own passes in between leave collectives alone: onnx.Custom is Pure here,
// tandem.all_reduce is not.
// RUN: %mini-compiler %s --load-dialect-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(tandem-raise,canonicalize,cse,tandem-fuse{max-tokens=64},canonicalize,cse,tandem-restore)" \
// RUN:   | FileCheck %s --check-prefix=BETWEEN
//
// Raising alone can be undone.
// RUN: %mini-compiler %s -o %t.before
// RUN: %mini-compiler %s --load-dialect-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(tandem-raise,tandem-restore)" -o %t.after
// RUN: cmp %t.before %t.after

// REPORT: "all_reduces": 3,
// REPORT-NEXT: "fused": 2,
// REPORT-NEXT: "guarded": 2,
// REPORT-NEXT: "missed": 1
// REPORT: "reason": "NoNormConsumer"

// CHECK-LABEL: func.func @one_op(
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} residual(
// CHECK: return
// BETWEEN-LABEL: func.func @one_op(
// BETWEEN: tandem.fused_all_reduce_norm
func.func @one_op(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = "onnx.Custom"(%x) <{function_name = "AllReduce", domain_name = "com.microsoft"}> {tandem.dim_params = ["0:n"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = "onnx.RMSNormalization"(%a, %g) <{axis = -1 : si64, epsilon = 1.0e-5 : f32, stash_type = 1 : si64}> : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @decomposed(
// CHECK: scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}}epsilon = 1.562500e-02
// CHECK-NOT: onnx.Pow
// CHECK: return
// BETWEEN-LABEL: func.func @decomposed(
// BETWEEN: tandem.fused_all_reduce_norm
func.func @decomposed(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = "onnx.Custom"(%x) <{function_name = "AllReduce", domain_name = "com.microsoft"}> : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %two = "onnx.Constant"() <{value = dense<2.0> : tensor<f32>}> : () -> tensor<f32>
  %squares = "onnx.Pow"(%s, %two) : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %mean = "onnx.ReduceMeanV13"(%squares) <{axes = [-1], keepdims = 1 : si64}> : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %epsilon = "onnx.Constant"() <{value = dense<1.562500e-02> : tensor<f32>}> : () -> tensor<f32>
  %sum = "onnx.Add"(%mean, %epsilon) : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %root = "onnx.Sqrt"(%sum) : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = "onnx.Div"(%s, %root) : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = "onnx.Mul"(%n, %g) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// What does not fuse is the host's op again, properties and all.
// CHECK-LABEL: func.func @negative_no_norm(
// CHECK: "onnx.Custom"(%arg0) <{domain_name = "com.microsoft", function_name = "AllReduce"}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: return
func.func @negative_no_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = "onnx.Custom"(%x) <{function_name = "AllReduce", domain_name = "com.microsoft"}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
