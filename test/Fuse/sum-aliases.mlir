// The all-reduce's sum has other names behind ops that change nothing, and
// other shapes behind reshapes. The names become a result of the fused op; the
// shapes can't.
// RUN: fusion-opt %s --tandem-fuse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @other_name
// CHECK: %[[R:.*]]:2 = scf.if
// CHECK: tandem.fused_all_reduce_norm {{.*}} returns_sum
// CHECK: "onnx.Neg"(%[[R]]#1)
func.func @other_name(%x: tensor<?x?x2xf32>, %g: tensor<2xf32>)
    -> (tensor<?x?x2xf32>, tensor<?x?x2xf32>) {
  %0 = tandem.all_reduce %x : tensor<?x?x2xf32>
  %1 = "onnx.Identity"(%0) : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
  %2 = tandem.rms_norm %1, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x?x2xf32>, tensor<2xf32>
  %3 = "onnx.Neg"(%0) : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
  return %2, %3 : tensor<?x?x2xf32>, tensor<?x?x2xf32>
}

// -----

// Of the same type, but not of the same shape: 2x3x2 becomes 1x6x2.
// CHECK-LABEL: func.func @other_shape_of_the_same_type
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
func.func @other_shape_of_the_same_type(%x: tensor<?x?x2xf32>,
                                        %g: tensor<2xf32>)
    -> (tensor<?x?x2xf32>, tensor<?x?x2xf32>) {
  %0 = tandem.all_reduce %x : tensor<?x?x2xf32>
  %c = "onnx.Constant"() {value = dense<[1, -1, 2]> : tensor<3xi64>}
      : () -> tensor<3xi64>
  %1 = "onnx.Reshape"(%0, %c)
      : (tensor<?x?x2xf32>, tensor<3xi64>) -> tensor<?x?x2xf32>
  %2 = tandem.rms_norm %1, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x?x2xf32>, tensor<2xf32>
  %3 = "onnx.Neg"(%0) : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
  return %2, %3 : tensor<?x?x2xf32>, tensor<?x?x2xf32>
}

// -----

// The chain's shape changes behind the bias, so the fused op's sum would not
// have the shape that the sum's other name has.
// CHECK-LABEL: func.func @other_name_before_a_reshape
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
func.func @other_name_before_a_reshape(%x: tensor<?x?x2xf32>,
                                       %r: tensor<?x2xf32>, %b: tensor<2xf32>,
                                       %g: tensor<2xf32>)
    -> (tensor<?x2xf32>, tensor<?x?x2xf32>) {
  %0 = tandem.all_reduce %x : tensor<?x?x2xf32>
  %1 = "onnx.Identity"(%0) : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
  %2 = "onnx.Add"(%1, %b)
      : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  %c = "onnx.Constant"() {value = dense<[-1, 2]> : tensor<2xi64>}
      : () -> tensor<2xi64>
  %3 = "onnx.Reshape"(%2, %c)
      : (tensor<?x?x2xf32>, tensor<2xi64>) -> tensor<?x2xf32>
  %4 = "onnx.Add"(%3, %r)
      : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %5 = tandem.rms_norm %4, %g {epsilon = 1.0e-5 : f64}
      : tensor<?x2xf32>, tensor<2xf32>
  %6 = "onnx.Neg"(%0) : (tensor<?x?x2xf32>) -> tensor<?x?x2xf32>
  return %5, %6 : tensor<?x2xf32>, tensor<?x?x2xf32>
}
