// A module in which nothing fuses comes out byte by byte as it went in, with
// any options: no signature, no constants, nothing moved.
//
// RUN: fusion-opt %s -o %t.in
// RUN: fusion-opt %s --tandem-fuse -o %t.out && cmp %t.in %t.out
// RUN: fusion-opt %s --tandem-fuse='guard=function max-tokens=3 world-size=2 batch-invariant' -o %t.out && cmp %t.in %t.out
// RUN: fusion-opt %s --tandem-fuse='guard=none merge-all-reduces' -o %t.out && cmp %t.in %t.out
// RUN: fusion-opt %s --tandem-fuse-pipeline -o %t.out && cmp %t.in %t.out
// RUN: fusion-opt %s --tandem-fuse -o %t.mlirbc
// RUN: fusion-opt %t.mlirbc -o %t.out && cmp %t.in %t.out
//
// The pass keeps what analyses know, so the next run of another pass is not
// told that the module changed.
// RUN: fusion-opt %s --tandem-fuse --mlir-print-ir-after-change --mlir-print-ir-after-all -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNCHANGED --allow-empty
// UNCHANGED-NOT: IR Dump After TandemFuse

func.func @no_norm(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}
func.func @no_all_reduce(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %a = tandem.add %x, %r : tensor<?x8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
func.func @onnx_source(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce", onnx_node_name = "ar"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %axes = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %p = "onnx.Pow"(%s, %two) : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %m = "onnx.ReduceMean"(%p, %axes) {keepdims = 1 : si64} : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?x1xf32>
  %y = "onnx.Add"(%m, %r) : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
