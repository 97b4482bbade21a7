// Bodies of If and Loop and all functions are raised in as well, each block on
// its own; and raising again finds nothing.
//
// RUN: fusion-opt %s --tandem-raise -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --tandem-raise -o %t.twice
// RUN: cmp %t.once %t.twice
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// CHECK-LABEL: func.func @main(
// CHECK: "onnx.If"
// CHECK: tandem.all_reduce %{{.*}} {source_positions = array<i64: 0>}
// CHECK: tandem.add %{{.*}} {source_positions = array<i64: 1>}
// CHECK: "onnx.Yield"
// CHECK: "onnx.Loop"
// CHECK: tandem.add %{{.*}} {source_positions = array<i64: 1>}
// CHECK: "onnx.Yield"
// CHECK: tandem.add %{{.*}} {source_positions = array<i64: 2>}
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>, %n: tensor<i64>) -> tensor<4xf32> {
  %0 = "onnx.If"(%c) ({
    %1 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "onnx.Add"(%1, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  %3 = "onnx.Loop"(%n, %c, %0) ({
  ^bb0(%i: tensor<i64>, %cond: tensor<i1>, %acc: tensor<4xf32>):
    %4 = "onnx.Identity"(%cond) : (tensor<i1>) -> tensor<i1>
    %5 = "onnx.Add"(%acc, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%4, %5) : (tensor<i1>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %6 = "onnx.Add"(%3, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}

// Blocks in an order that is not that of dominance.
// CHECK-LABEL: func.func private @branches(
// CHECK-COUNT-3: tandem.add
func.func private @branches(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cf.br ^bb2
^bb1:
  %1 = "onnx.Add"(%2, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
^bb2:
  %2 = "onnx.Add"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cf.br ^bb1
}

// CHECK: module @nested
module @nested {
  // CHECK: func.func @inner(
  // CHECK: tandem.add
  func.func @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "onnx.Add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
