// Sums of two tensors of one shape.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// CHECK-LABEL: func.func @static(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xbf16>, %[[B:.*]]: tensor<4x8xbf16>)
// CHECK: %[[S:.*]] = tandem.add %[[A]], %[[B]] {source_positions = array<i64: 0>} : tensor<4x8xbf16> source {
// CHECK: "onnx.Add"(%[[A]], %[[B]])
// CHECK: %[[T:.*]] = tandem.add %[[S]], %[[S]]
// CHECK: "onnx.AddV14"
// CHECK: %[[U:.*]] = tandem.add %[[T]], %[[A]]
// CHECK: arith.addf
// CHECK: return %[[U]]
func.func @static(%a: tensor<4x8xbf16>, %b: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = "onnx.Add"(%a, %b) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %1 = "onnx.AddV14"(%0, %0) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %2 = arith.addf %1, %a : tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// Dims of one name are equal, also where the name is an argument's and an
// op's. arith.addf needs no proof: its operands have one shape.
// CHECK-LABEL: func.func @names(
// CHECK: tandem.add {{.*}} {source_positions = array<i64: 1>, tandem.dim_params = ["0:b,1:s"]} : tensor<?x?x8xf32>
// CHECK: tandem.add
// CHECK: tandem.add
func.func @names(%a: tensor<?x?x8xf32> {onnx.dim_params = "0:b,1:s"}, %c: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %b = "onnx.Custom"(%c) {domain_name = "com.acme", function_name = "F", tandem.dim_params = ["0:b,1:s"]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %0 = "onnx.Add"(%a, %b) {tandem.dim_params = ["0:b,1:s"]} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %1 = "onnx.Add"(%b, %0) : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %2 = arith.addf %1, %c : tensor<?x?x8xf32>
  return %2 : tensor<?x?x8xf32>
}

// Not raised: what broadcasts or might, and what is not a sum of floats.
// CHECK-LABEL: func.func @not_raised(
// CHECK-NOT: tandem.
// CHECK: return
func.func @not_raised(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>, %c: tensor<8xf32>, %d: tensor<1x8xf32>, %i: tensor<8xi64>, %u: tensor<*xf32>, %s: f32, %v: vector<8xf32>) -> f32 {
  // Both are [?, 8], but one of them may be [1, 8].
  %0 = "onnx.Add"(%a, %b) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = "onnx.Add"(%a, %c) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %2 = "onnx.Add"(%d, %a) : (tensor<1x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %3 = "onnx.Add"(%i, %i) : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %4 = "onnx.Add"(%u, %u) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %5 = "onnx.Custom"(%c, %c) {domain_name = "com.acme", function_name = "Add"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = "onnx.Sub"(%c, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = "onnx.Add"(%c, %c) : (tensor<8xf32>, tensor<8xf32>) -> none
  %8 = arith.addf %s, %s : f32
  %9 = arith.addf %v, %v : vector<8xf32>
  return %8 : f32
}
