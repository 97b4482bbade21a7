// RUN: fusion-opt %s --tandem-fuse -split-input-file | FileCheck %s
// RUN: fusion-opt %s --tandem-fuse='guard=none report=-' -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT

// What one value of the chain is declared with holds for its rows: the fused op
// has it, and is given a cast that can be checked before it writes anything.
// CHECK-LABEL: func.func @add
// CHECK: scf.if
// CHECK: %[[ROWS:.*]] = tensor.cast %{{.*}} : tensor<?x8xf32> to tensor<5x8xf32>
// CHECK: tandem.fused_all_reduce_norm %[[ROWS]] {{.*}} : tensor<5x8xf32> -> tensor<5x8xf32>
// CHECK-NOT: tensor.cast
// CHECK: else
func.func @add(%x: tensor<?x8xf32> {onnx.dim_params = "0:n"}, %r: tensor<?x8xf32> {onnx.dim_params = "0:n"}, %g: tensor<8xf32>) -> tensor<5x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %h = "onnx.Add"(%s, %r) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<5x8xf32>
  %y = tandem.rms_norm %h, %g {epsilon = 1.0e-5 : f64} : tensor<5x8xf32>, tensor<8xf32>
  return %y : tensor<5x8xf32>
}

// -----

// Two that don't agree.
// REPORT: "function": "differ"
// REPORT: "reason": "ResidualShape"
// REPORT-NEXT: "message": "the add broadcasts: tensor<?x8xf32> is added to tensor<3x8xf32>"
// CHECK-LABEL: func.func @differ
// CHECK-NOT: fused_all_reduce_norm
func.func @differ(%x: tensor<?x8xf32> {onnx.dim_params = "0:n"}, %b: tensor<8xf32>, %r: tensor<?x8xf32> {onnx.dim_params = "0:n"}, %g: tensor<8xf32>) -> tensor<5x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %t = "onnx.Add"(%s, %b) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %h = "onnx.Add"(%t, %r) : (tensor<3x8xf32>, tensor<?x8xf32>) -> tensor<5x8xf32>
  %y = tandem.rms_norm %h, %g {epsilon = 1.0e-5 : f64} : tensor<5x8xf32>, tensor<8xf32>
  return %y : tensor<5x8xf32>
}
