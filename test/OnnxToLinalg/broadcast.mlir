// RUN: fusion-opt %s --tandem-onnx-to-linalg --canonicalize --cse | FileCheck %s

// Sizes of one name are one size: nothing to check, nothing to index.
// CHECK-LABEL: func.func @proven
// CHECK-NOT:     cf.assert
// CHECK-NOT:     tensor.extract
// CHECK:         return
func.func @proven(%a: tensor<?x4xf32> {onnx.dim_params = "0:n"},
                  %b: tensor<?x4xf32> {onnx.dim_params = "0:n"}) -> tensor<?x4xf32> {
  %0 = "onnx.Mul"(%a, %b) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// A size of 1 is read in one place, whatever the other is.
// CHECK-LABEL: func.func @ones
// CHECK-NOT:     cf.assert
// CHECK-NOT:     tensor.extract
// CHECK:         return
func.func @ones(%a: tensor<?x4xf32>, %b: tensor<1x1xf32>, %c: tensor<4xf32>) -> tensor<?x4xf32> {
  %0 = "onnx.Add"(%a, %b) : (tensor<?x4xf32>, tensor<1x1xf32>) -> tensor<?x4xf32>
  %1 = "onnx.Add"(%c, %0) : (tensor<4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// Two sizes of which nothing is known: either may be 1, and else they must be
// equal.
// CHECK-LABEL: func.func @unknown
// CHECK-SAME:    %[[A:.*]]: tensor<?xf32>, %[[B:.*]]: tensor<?xf32>
// CHECK:         %[[N:.*]] = tensor.dim %[[A]]
// CHECK:         %[[M:.*]] = tensor.dim %[[B]]
// CHECK:         %[[IS_ONE:.*]] = arith.cmpi eq, %[[N]], %{{.*}}
// CHECK:         %[[SIZE:.*]] = arith.select %[[IS_ONE]], %[[M]], %[[N]]
// CHECK:         cf.assert {{.*}} "node 'Sub' has inputs that don't broadcast"
// CHECK:         tensor.empty(%[[SIZE]])
// CHECK:         tensor.extract %[[A]]
// CHECK:         tensor.extract %[[B]]
func.func @unknown(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "onnx.Sub"(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// One is known: the other is that or 1. The name of the node is in the message.
// CHECK-LABEL: func.func @half_known
// CHECK:         cf.assert {{.*}} "node 'scale' (Div) has inputs that don't broadcast"
// CHECK:         tensor.empty() : tensor<4xf32>
func.func @half_known(%a: tensor<?xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Div"(%a, %b) {onnx_node_name = "scale"} : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A declared size that doesn't follow is checked.
// CHECK-LABEL: func.func @declared
// CHECK:         cf.assert {{.*}} "node 'Neg' has an output of another size than declared"
// CHECK:         return {{.*}} : tensor<4xf32>
func.func @declared(%a: tensor<?xf32>) -> tensor<4xf32> {
  %0 = "onnx.Neg"(%a) : (tensor<?xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
