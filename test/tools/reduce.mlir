// fusion-reduce knows our ops: of this module it keeps what the script asks
// for, and drops the rest.
// RUN: fusion-reduce %s -reduction-tree="traversal-mode=0 test=%S/Inputs/keeps-all-reduce.sh" \
// RUN:   | FileCheck %s

// CHECK-NOT: func.func @other
func.func @other(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tandem.add %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK: func.func @kept
// CHECK: tandem.all_reduce{{.*}}reduction max
func.func @kept(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-NOT: func.func @another
func.func @another(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.Relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
