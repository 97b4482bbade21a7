// Ops that look like an RMSNorm and must stay as they are. `why` is the reason
// that matchers give to someone who asks what became of the norm of %x (checked
// by the unit test RaiseTest, which reads this file); "none" where nothing
// resembles a norm.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s --implicit-check-not=tandem.rms_norm
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise -o %t.after
// RUN: cmp %t.before %t.after

// A cube is no square.
// CHECK-LABEL: func.func @exponent_three(
func.func @exponent_three(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "SquareExponent"} {
  %0 = "onnx.Constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// Constants in a file that was not there at the import.
// CHECK-LABEL: func.func @exponent_external(
func.func @exponent_external(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "ConstantNotRead"} {
  %0 = "onnx.Constant"() {value = #tandem.external<"w.data", length = 4>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Identity"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "onnx.Add"(%3, %5) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %7 = "onnx.Sqrt"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %9 = "onnx.Div"(%8, %7) : (tensor<f32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %10 = "onnx.Mul"(%x, %9) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %11 : tensor<3x8xf32>
}

// The same: the axes.
// CHECK-LABEL: func.func @axes_external(
func.func @axes_external(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "ConstantNotRead"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = #tandem.external<"w.data", length = 8>} : () -> tensor<1xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Identity"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "onnx.Add"(%3, %5) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %7 = "onnx.Sqrt"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %9 = "onnx.Div"(%8, %7) : (tensor<f32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %10 = "onnx.Mul"(%x, %9) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %11 : tensor<3x8xf32>
}

// The same: epsilon, behind an Identity.
// CHECK-LABEL: func.func @epsilon_external(
func.func @epsilon_external(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "ConstantNotRead"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = #tandem.external<"w.data", length = 4>} : () -> tensor<f32>
  %5 = "onnx.Identity"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "onnx.Add"(%3, %5) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %7 = "onnx.Sqrt"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %9 = "onnx.Div"(%8, %7) : (tensor<f32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %10 = "onnx.Mul"(%x, %9) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %11 : tensor<3x8xf32>
}

// The same: the numerator.
// CHECK-LABEL: func.func @numerator_external(
func.func @numerator_external(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "ConstantNotRead"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Identity"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "onnx.Add"(%3, %5) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %7 = "onnx.Sqrt"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Constant"() {value = #tandem.external<"w.data", length = 4>} : () -> tensor<f32>
  %9 = "onnx.Div"(%8, %7) : (tensor<f32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %10 = "onnx.Mul"(%x, %9) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %11 : tensor<3x8xf32>
}

// The exponent is an input of the model.
// CHECK-LABEL: func.func @exponent_input(
func.func @exponent_input(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %p: tensor<f32>) -> tensor<3x8xf32>
    attributes {why = "SquareExponent"} {
  %0 = "onnx.Pow"(%x, %p) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %1 = "onnx.ReduceMean"(%0) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %2 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Add"(%1, %2) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %4 = "onnx.Sqrt"(%3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Reciprocal"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// An exponent for each column, even if all are 2.
// CHECK-LABEL: func.func @exponent_per_column(
func.func @exponent_per_column(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %p: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "SquareExponent"} {
  %0 = "onnx.Pow"(%x, %p) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %1 = "onnx.ReduceMean"(%0) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %2 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Add"(%1, %2) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %4 = "onnx.Sqrt"(%3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Reciprocal"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// A mean of products of two values, as in a covariance.
// CHECK-LABEL: func.func @product_of_two(
func.func @product_of_two(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %z: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "none"} {
  %0 = "onnx.Mul"(%x, %z) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = "onnx.ReduceMean"(%0) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %2 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Add"(%1, %2) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %4 = "onnx.Sqrt"(%3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Reciprocal"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// The sum is not divided by the length.
// CHECK-LABEL: func.func @sum_of_squares(
func.func @sum_of_squares(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NotAMean"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceSum"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The axes are an input of the model.
// CHECK-LABEL: func.func @axes_input(
func.func @axes_input(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %axes: tensor<1xi64>) -> tensor<3x8xf32>
    attributes {why = "AxesNotConstant"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1, %axes) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The axes are computed from the shape, as in an inlined RMSNormalization.
// CHECK-LABEL: func.func @axes_computed(
func.func @axes_computed(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %axes: tensor<?xi64>) -> tensor<3x8xf32>
    attributes {why = "AxesNotConstant"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1, %axes) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<?xi64>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The mean is over the rows.
// CHECK-LABEL: func.func @first_axis(
func.func @first_axis(%x: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<8x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [0], keepdims = 1 : si64} : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %8 : tensor<8x8xf32>
}

// The mean is over the rows, the axes are an input.
// CHECK-LABEL: func.func @first_axis_input(
func.func @first_axis_input(%x: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<8x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = "onnx.Constant"() {value = dense<-2> : tensor<1xi64>} : () -> tensor<1xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<8x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %8 = "onnx.Mul"(%x, %7) : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %9 : tensor<8x8xf32>
}

// The mean is over the last two dimensions.
// CHECK-LABEL: func.func @two_axes(
func.func @two_axes(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>) -> tensor<2x3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-2, -1], keepdims = 1 : si64} : (tensor<2x3x8xf32>) -> tensor<2x1x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<2x3x8xf32>, tensor<2x1x1xf32>) -> tensor<2x3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}

// An axis that the tensor has not.
// CHECK-LABEL: func.func @axis_out_of_range(
func.func @axis_out_of_range(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [5], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// Without axes the mean is over all dimensions, not over the last.
// CHECK-LABEL: func.func @all_axes(
func.func @all_axes(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<1x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<1x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// An empty list of axes means all of them.
// CHECK-LABEL: func.func @empty_axes(
func.func @empty_axes(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<[]> : tensor<0xi64>} : () -> tensor<0xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64} : (tensor<3x8xf32>, tensor<0xi64>) -> tensor<1x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %8 = "onnx.Mul"(%x, %7) : (tensor<3x8xf32>, tensor<1x1xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %9 : tensor<3x8xf32>
}

// An empty list of axes that means none: the mean is the squares themselves.
// CHECK-LABEL: func.func @empty_axes_noop(
func.func @empty_axes_noop(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<[]> : tensor<0xi64>} : () -> tensor<0xi64>
  %3 = "onnx.ReduceMean"(%1, %2) {keepdims = 1 : si64, noop_with_empty_axes = 1 : si64} : (tensor<3x8xf32>, tensor<0xi64>) -> tensor<3x8xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%x, %7) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %9 : tensor<3x8xf32>
}

// Without its dimension the mean is broadcast along the wrong one.
// CHECK-LABEL: func.func @drops_dimension(
func.func @drops_dimension(%x: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<8x8xf32>
    attributes {why = "KeepDims"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 0 : si64} : (tensor<8x8xf32>) -> tensor<8xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<8xf32>) -> tensor<8xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %8 : tensor<8x8xf32>
}

// Without an epsilon a row of zeros is no number.
// CHECK-LABEL: func.func @no_epsilon(
func.func @no_epsilon(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoEpsilon"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Sqrt"(%2) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Reciprocal"(%3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Mul"(%x, %4) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %6 = "onnx.Mul"(%g, %5) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %6 : tensor<3x8xf32>
}

// A Sub where the epsilon belongs.
// CHECK-LABEL: func.func @epsilon_subtracted(
func.func @epsilon_subtracted(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoEpsilon"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Sub"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// Epsilon is an input of the model, or an initializer that is also one and so
// can be overridden.
// CHECK-LABEL: func.func @epsilon_input(
func.func @epsilon_input(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %e: tensor<f32>) -> tensor<3x8xf32>
    attributes {why = "EpsilonNotConstant"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Add"(%2, %e) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %4 = "onnx.Sqrt"(%3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Reciprocal"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// An epsilon for each row.
// CHECK-LABEL: func.func @epsilon_per_row(
func.func @epsilon_per_row(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>) -> tensor<2x3x8xf32>
    attributes {why = "EpsilonNotConstant"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %3 = "onnx.Constant"() {value = dense<[[1.0e-5], [1.0e-5], [1.0e-6]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %4 = "onnx.Add"(%2, %3) : (tensor<2x3x1xf32>, tensor<3x1xf32>) -> tensor<2x3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}

// One number, but it broadcasts the mean to a rank that the input has not.
// CHECK-LABEL: func.func @epsilon_adds_dimension(
func.func @epsilon_adds_dimension(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<1x3x8xf32>
    attributes {why = "EpsilonNotConstant"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<1x1x1xf32>} : () -> tensor<1x1x1xf32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<1x1x1xf32>) -> tensor<1x3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<1x3x1xf32>) -> tensor<1x3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<1x3x8xf32>) -> tensor<1x3x8xf32>
  return %8 : tensor<1x3x8xf32>
}

// A negative epsilon.
// CHECK-LABEL: func.func @epsilon_negative(
func.func @epsilon_negative(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "EpsilonInvalid"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<-9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// An epsilon that is no number.
// CHECK-LABEL: func.func @epsilon_nan(
func.func @epsilon_nan(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "EpsilonInvalid"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<0x7FC00000> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// An infinite epsilon.
// CHECK-LABEL: func.func @epsilon_infinite(
func.func @epsilon_infinite(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "EpsilonInvalid"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<0x7F800000> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// Divided by the mean of squares, not by its root.
// CHECK-LABEL: func.func @no_root(
func.func @no_root(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoInverseRoot"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Div"(%x, %4) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %6 = "onnx.Mul"(%g, %5) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %6 : tensor<3x8xf32>
}

// Multiplied by the root, not divided by it.
// CHECK-LABEL: func.func @multiplied_by_root(
func.func @multiplied_by_root(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoInverseRoot"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// The root divided by the input.
// CHECK-LABEL: func.func @upside_down(
func.func @upside_down(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoInverseRoot"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Div"(%5, %x) : (tensor<3x1xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// Two over the root.
// CHECK-LABEL: func.func @two_over_root(
func.func @two_over_root(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "InputsDiffer"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %7 = "onnx.Div"(%6, %5) : (tensor<f32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Mul"(%x, %7) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %9 : tensor<3x8xf32>
}

// Another value is scaled than was squared.
// CHECK-LABEL: func.func @divides_other(
func.func @divides_other(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %z: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "InputsDiffer"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Div"(%z, %5) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %7 = "onnx.Mul"(%g, %6) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// The same with a multiplication.
// CHECK-LABEL: func.func @scales_other(
func.func @scales_other(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %z: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "InputsDiffer"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%z, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The same where each has an upcast of its own.
// CHECK-LABEL: func.func @upcasts_other(
func.func @upcasts_other(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>, %z: tensor<3x8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "InputsDiffer"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Cast"(%z) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %9 = "onnx.Mul"(%8, %7) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %10 = "onnx.Cast"(%9) {to = bf16} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %11 : tensor<3x8xbf16>
}

// A LayerNorm: the mean is subtracted before the squares are taken.
// CHECK-LABEL: func.func @layer_norm(
func.func @layer_norm(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "MeanSubtracted"} {
  %0 = "onnx.ReduceMean"(%x) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %1 = "onnx.Sub"(%x, %0) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %2 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Pow"(%1, %2) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %4 = "onnx.ReduceMean"(%3) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %5 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %6 = "onnx.Add"(%4, %5) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %7 = "onnx.Sqrt"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Reciprocal"(%7) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %9 = "onnx.Mul"(%1, %8) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %10 = "onnx.Mul"(%g, %9) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %10 : tensor<3x8xf32>
}

// The same with casts.
// CHECK-LABEL: func.func @layer_norm_bf16(
func.func @layer_norm_bf16(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "MeanSubtracted"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.ReduceMean"(%0) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %2 = "onnx.Sub"(%0, %1) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %3 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Pow"(%2, %3) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %5 = "onnx.ReduceMean"(%4) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %7 = "onnx.Add"(%5, %6) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %8 = "onnx.Sqrt"(%7) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %9 = "onnx.Reciprocal"(%8) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %10 = "onnx.Mul"(%2, %9) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %11 = "onnx.Cast"(%10) {to = bf16} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %12 = "onnx.Mul"(%g, %11) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %12 : tensor<3x8xbf16>
}

// A LayerNorm in one op.
// CHECK-LABEL: func.func @layer_normalization(
func.func @layer_normalization(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "MeanSubtracted"} {
  %0 = "onnx.LayerNormalization"(%x, %g) {axis = -1 : si64} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// A p-norm times gamma times the root of the length differs by epsilon.
// CHECK-LABEL: func.func @lp_normalization(
func.func @lp_normalization(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "LpNormalization"} {
  %0 = "onnx.LpNormalization"(%x) {axis = -1 : si64, p = 2 : si64} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = "onnx.Mul"(%g, %0) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// No scale follows.
// CHECK-LABEL: func.func @no_gamma(
func.func @no_gamma(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoGamma"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.MatMul"(%7, %w) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// A shift, not a scale.
// CHECK-LABEL: func.func @gamma_added(
func.func @gamma_added(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoGamma"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Add"(%7, %g) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The normalised value times itself.
// CHECK-LABEL: func.func @scaled_by_itself(
func.func @scaled_by_itself(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "NoGamma"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%7, %7) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// H is 1, and the multiplication by a longer gamma broadcasts the norm.
// CHECK-LABEL: func.func @gamma_broadcasts(
func.func @gamma_broadcasts(%x: tensor<3x1xf32>, %g: tensor<2xf32>) -> tensor<3x2xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  return %8 : tensor<3x2xf32>
}

// A gamma of one element for a hidden size of eight.
// CHECK-LABEL: func.func @gamma_one(
func.func @gamma_one(%x: tensor<3x8xf32>, %g: tensor<1xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<1xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// A scalar gamma.
// CHECK-LABEL: func.func @gamma_scalar(
func.func @gamma_scalar(%x: tensor<3x8xf32>, %g: tensor<f32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<f32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// A gamma for each row.
// CHECK-LABEL: func.func @gamma_per_row(
func.func @gamma_per_row(%x: tensor<3x8xf32>, %g: tensor<3x1xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<3x1xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// A gamma for each element.
// CHECK-LABEL: func.func @gamma_per_element(
func.func @gamma_per_element(%x: tensor<3x8xf32>, %g: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// A gamma of higher rank adds a dimension.
// CHECK-LABEL: func.func @gamma_adds_dimension(
func.func @gamma_adds_dimension(%x: tensor<3x8xf32>, %g: tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<1x1x8xf32>, tensor<3x8xf32>) -> tensor<1x3x8xf32>
  return %8 : tensor<1x3x8xf32>
}

// A gamma of unknown length might be of length one.
// CHECK-LABEL: func.func @gamma_unknown(
func.func @gamma_unknown(%x: tensor<3x8xf32>, %g: tensor<?xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<?xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The hidden size is not known, so it might be one.
// CHECK-LABEL: func.func @hidden_unknown(
func.func @hidden_unknown(%x: tensor<3x?xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x?xf32>, tensor<f32>) -> tensor<3x?xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x?xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x?xf32>, tensor<3x1xf32>) -> tensor<3x?xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x?xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// The rank is not known, so neither is the last dimension.
// CHECK-LABEL: func.func @rank_unknown(
func.func @rank_unknown(%x: tensor<*xf32>, %g: tensor<8xf32>) -> tensor<*xf32>
    attributes {why = "UnknownType"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<*xf32>) -> tensor<*xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<*xf32>) -> tensor<*xf32>
  %6 = "onnx.Div"(%x, %5) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %7 = "onnx.Mul"(%6, %g) : (tensor<*xf32>, tensor<8xf32>) -> tensor<*xf32>
  return %7 : tensor<*xf32>
}

// The statistics are in f16; tandem.rms_norm has them in f32.
// CHECK-LABEL: func.func @half_throughout(
func.func @half_throughout(%x: tensor<3x8xf16>, %g: tensor<8xf16>) -> tensor<3x8xf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f16>} : () -> tensor<f16>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf16>, tensor<f16>) -> tensor<3x8xf16>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf16>) -> tensor<3x1xf16>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f16>} : () -> tensor<f16>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf16>, tensor<f16>) -> tensor<3x1xf16>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf16>) -> tensor<3x1xf16>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf16>) -> tensor<3x1xf16>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf16>, tensor<3x1xf16>) -> tensor<3x8xf16>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf16>, tensor<3x8xf16>) -> tensor<3x8xf16>
  return %8 : tensor<3x8xf16>
}

// The statistics are in bf16.
// CHECK-LABEL: func.func @bf16_throughout(
func.func @bf16_throughout(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<bf16>} : () -> tensor<bf16>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xbf16>, tensor<bf16>) -> tensor<3x8xbf16>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xbf16>) -> tensor<3x1xbf16>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<bf16>} : () -> tensor<bf16>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xbf16>, tensor<bf16>) -> tensor<3x1xbf16>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xbf16>) -> tensor<3x1xbf16>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xbf16>) -> tensor<3x1xbf16>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xbf16>, tensor<3x1xbf16>) -> tensor<3x8xbf16>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %8 : tensor<3x8xbf16>
}

// The statistics of an f32 norm are in f64.
// CHECK-LABEL: func.func @f32_in_f64(
func.func @f32_in_f64(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Cast"(%x) {to = f64} : (tensor<3x8xf32>) -> tensor<3x8xf64>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f64>} : () -> tensor<f64>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf64>, tensor<f64>) -> tensor<3x8xf64>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf64>) -> tensor<3x1xf64>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f64>} : () -> tensor<f64>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf64>, tensor<f64>) -> tensor<3x1xf64>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf64>) -> tensor<3x1xf64>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x1xf64>) -> tensor<3x1xf64>
  %8 = "onnx.Mul"(%0, %7) : (tensor<3x8xf64>, tensor<3x1xf64>) -> tensor<3x8xf64>
  %9 = "onnx.Cast"(%8) {to = f32} : (tensor<3x8xf64>) -> tensor<3x8xf32>
  %10 = "onnx.Mul"(%g, %9) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %10 : tensor<3x8xf32>
}

// The inverse root is rounded to bf16 before it is multiplied.
// CHECK-LABEL: func.func @inverse_rounded(
func.func @inverse_rounded(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Cast"(%7) {to = bf16} : (tensor<3x1xf32>) -> tensor<3x1xbf16>
  %9 = "onnx.Mul"(%x, %8) : (tensor<3x8xbf16>, tensor<3x1xbf16>) -> tensor<3x8xbf16>
  %10 = "onnx.Mul"(%g, %9) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %10 : tensor<3x8xbf16>
}

// The root is rounded to bf16 before the division.
// CHECK-LABEL: func.func @root_rounded(
func.func @root_rounded(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Cast"(%6) {to = bf16} : (tensor<3x1xf32>) -> tensor<3x1xbf16>
  %8 = "onnx.Div"(%x, %7) : (tensor<3x8xbf16>, tensor<3x1xbf16>) -> tensor<3x8xbf16>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %9 : tensor<3x8xbf16>
}

// An f32 norm rounds to bf16 before gamma, so the result is of another type.
// CHECK-LABEL: func.func @narrowed(
func.func @narrowed(%x: tensor<3x8xf32>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Cast"(%7) {to = bf16} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %9 = "onnx.Mul"(%g, %8) : (tensor<8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %9 : tensor<3x8xbf16>
}

// A bf16 norm rounds to f16.
// CHECK-LABEL: func.func @other_half(
func.func @other_half(%x: tensor<3x8xbf16>, %g: tensor<8xf16>) -> tensor<3x8xf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Mul"(%0, %7) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Cast"(%8) {to = f16} : (tensor<3x8xf32>) -> tensor<3x8xf16>
  %10 = "onnx.Mul"(%g, %9) : (tensor<8xf16>, tensor<3x8xf16>) -> tensor<3x8xf16>
  return %10 : tensor<3x8xf16>
}

// The normalised value is rounded to bf16, the product with an f32 gamma to
// f32, and that to bf16 again.
// CHECK-LABEL: func.func @rounded_three_times(
func.func @rounded_three_times(%x: tensor<3x8xbf16>, %g: tensor<8xf32>) -> tensor<3x8xbf16>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.Cast"(%x) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Pow"(%0, %1) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %4 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Reciprocal"(%6) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = "onnx.Mul"(%0, %7) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Cast"(%8) {to = bf16} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %10 = "onnx.Cast"(%9) {to = f32} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %11 = "onnx.Mul"(%g, %10) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %12 = "onnx.Cast"(%11) {to = bf16} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  return %12 : tensor<3x8xbf16>
}

// The normalised value is an output of the graph.
// CHECK-LABEL: func.func @interior_returned(
func.func @interior_returned(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8, %7 : tensor<3x8xf32>, tensor<3x8xf32>
}

// The inverse root is an output of the graph.
// CHECK-LABEL: func.func @inverse_returned(
func.func @inverse_returned(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8, %6 : tensor<3x8xf32>, tensor<3x1xf32>
}

// The normalised value has another user.
// CHECK-LABEL: func.func @interior_used(
func.func @interior_used(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Neg"(%7) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %9, %8 : tensor<3x8xf32>, tensor<3x8xf32>
}

// The variance has another user.
// CHECK-LABEL: func.func @variance_used(
func.func @variance_used(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Neg"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Div"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8, %5 : tensor<3x8xf32>, tensor<3x1xf32>
}

// A body of an If captures the normalised value.
// CHECK-LABEL: func.func @interior_captured(
func.func @interior_captured(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %cond: tensor<i1>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %c = "onnx.If"(%cond) ({
    %t = "onnx.Neg"(%7) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    "onnx.Yield"(%t) : (tensor<3x8xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<3x8xf32>) -> ()
  }) : (tensor<i1>) -> tensor<3x8xf32>
  %8 = "onnx.Mul"(%g, %7) : (tensor<8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8, %c : tensor<3x8xf32>, tensor<3x8xf32>
}

// The variance is computed outside of the body that scales.
// CHECK-LABEL: func.func @half_in_a_body(
func.func @half_in_a_body(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %cond: tensor<i1>) -> tensor<3x8xf32>
    attributes {why = "InteriorUse"} {
  %0 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Pow"(%x, %0) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %2 = "onnx.ReduceMean"(%1) {axes = [-1], keepdims = 1 : si64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %3 = "onnx.Constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %4 = "onnx.Add"(%2, %3) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = "onnx.Sqrt"(%4) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = "onnx.Reciprocal"(%5) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %c = "onnx.If"(%cond) ({
    %n = "onnx.Mul"(%x, %6) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
    %t = "onnx.Mul"(%n, %g) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
    "onnx.Yield"(%t) : (tensor<3x8xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<3x8xf32>) -> ()
  }) : (tensor<i1>) -> tensor<3x8xf32>
  return %c : tensor<3x8xf32>
}

// The statistics are in bf16.
// CHECK-LABEL: func.func @stash_bf16(
func.func @stash_bf16(%x: tensor<3x8xbf16>, %g: tensor<8xbf16>) -> tensor<3x8xbf16>
    attributes {why = "StashType"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {stash_type = 16 : si64} : (tensor<3x8xbf16>, tensor<8xbf16>) -> tensor<3x8xbf16>
  return %0 : tensor<3x8xbf16>
}

// The statistics are in f64.
// CHECK-LABEL: func.func @stash_f64(
func.func @stash_f64(%x: tensor<3x8xf64>, %g: tensor<8xf64>) -> tensor<3x8xf64>
    attributes {why = "StashType"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {stash_type = 11 : si64} : (tensor<3x8xf64>, tensor<8xf64>) -> tensor<3x8xf64>
  return %0 : tensor<3x8xf64>
}

// A type that is none.
// CHECK-LABEL: func.func @stash_absurd(
func.func @stash_absurd(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "StashType"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {stash_type = -940 : si64} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// An f64 norm whose statistics are in f32.
// CHECK-LABEL: func.func @f64_in_f32(
func.func @f64_in_f32(%x: tensor<3x8xf64>, %g: tensor<8xf64>) -> tensor<3x8xf64>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<3x8xf64>, tensor<8xf64>) -> tensor<3x8xf64>
  return %0 : tensor<3x8xf64>
}

// It normalises over the last two dimensions.
// CHECK-LABEL: func.func @normalizes_two_dimensions(
func.func @normalizes_two_dimensions(%x: tensor<2x3x8xf32>, %g: tensor<3x8xf32>) -> tensor<2x3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {axis = 1 : si64} : (tensor<2x3x8xf32>, tensor<3x8xf32>) -> tensor<2x3x8xf32>
  return %0 : tensor<2x3x8xf32>
}

// It normalises over all dimensions.
// CHECK-LABEL: func.func @axis_zero(
func.func @axis_zero(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {axis = 0 : si64} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// It names an axis that the tensor has not.
// CHECK-LABEL: func.func @axis_beyond(
func.func @axis_beyond(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "WrongAxes"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {axis = 2 : si64} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// The result has the type of the scale.
// CHECK-LABEL: func.func @scale_of_other_type(
func.func @scale_of_other_type(%x: tensor<3x8xbf16>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "MixedPrecision"} {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<3x8xbf16>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// A scalar scale is legal ONNX.
// CHECK-LABEL: func.func @scale_scalar(
func.func @scale_scalar(%x: tensor<3x8xf32>, %g: tensor<f32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// So is one that broadcasts.
// CHECK-LABEL: func.func @scale_one(
func.func @scale_one(%x: tensor<3x8xf32>, %g: tensor<1xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<3x8xf32>, tensor<1xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// And one of the shape of the input.
// CHECK-LABEL: func.func @scale_matrix(
func.func @scale_matrix(%x: tensor<3x8xf32>, %g: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// A negative epsilon as an attribute.
// CHECK-LABEL: func.func @epsilon_attribute_negative(
func.func @epsilon_attribute_negative(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "EpsilonInvalid"} {
  %0 = "onnx.RMSNormalization"(%x, %g) {epsilon = -1.0e-5 : f32} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// A node of another domain means what that domain says.
// CHECK-LABEL: func.func @rms_of_another_domain(
func.func @rms_of_another_domain(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "none"} {
  %0 = "onnx.Custom"(%x, %g) {domain_name = "com.acme", function_name = "RMSNormalization"} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// ONNX Runtime has no op of this name in its domain.
// CHECK-LABEL: func.func @rms_of_microsoft(
func.func @rms_of_microsoft(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "none"} {
  %0 = "onnx.Custom"(%x, %g) {domain_name = "com.microsoft", function_name = "RMSNormalization"} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// So does this one.
// CHECK-LABEL: func.func @simplified_of_another_domain(
func.func @simplified_of_another_domain(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32>
    attributes {why = "none"} {
  %0 = "onnx.Custom"(%x, %g) {domain_name = "com.acme", function_name = "SimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// The inverse deviation is used.
// CHECK-LABEL: func.func @simplified_deviation_used(
func.func @simplified_deviation_used(%x: tensor<3x8xf32>, %g: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
    attributes {why = "ExtraOutput"} {
  %0:2 = "onnx.SimplifiedLayerNormalization"(%x, %g) : (tensor<3x8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
  return %0#0, %0#1 : tensor<3x8xf32>, tensor<3x1xf32>
}

// The statistics are in f16.
// CHECK-LABEL: func.func @simplified_stash(
func.func @simplified_stash(%x: tensor<3x8xf16>, %g: tensor<8xf16>) -> tensor<3x8xf16>
    attributes {why = "StashType"} {
  %0 = "onnx.SimplifiedLayerNormalization"(%x, %g) {stash_type = 10 : si64} : (tensor<3x8xf16>, tensor<8xf16>) -> tensor<3x8xf16>
  return %0 : tensor<3x8xf16>
}

// The mean is used.
// CHECK-LABEL: func.func @skip_mean_used(
func.func @skip_mean_used(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
    attributes {why = "ExtraOutput"} {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, none, tensor<3x8xf32>)
  return %0#0, %0#1 : tensor<3x8xf32>, tensor<3x1xf32>
}

// The inverse deviation is used.
// CHECK-LABEL: func.func @skip_deviation_used(
func.func @skip_deviation_used(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>)
    attributes {why = "ExtraOutput"} {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, none, tensor<3x1xf32>, tensor<3x8xf32>)
  return %0#0, %0#2 : tensor<3x8xf32>, tensor<3x1xf32>
}

// A skip that would broadcast the input.
// CHECK-LABEL: func.func @skip_larger(
func.func @skip_larger(%x: tensor<1x3x8xf32>, %g: tensor<8xf32>, %s: tensor<2x3x8xf32>) -> tensor<1x3x8xf32>
    attributes {why = "SkipShape"} {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<1x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>) -> (tensor<1x3x8xf32>, none, none, tensor<1x3x8xf32>)
  return %0#0 : tensor<1x3x8xf32>
}

// A skip of another static shape, as far as that is known.
// CHECK-LABEL: func.func @skip_unknown(
func.func @skip_unknown(%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %s: tensor<?x3x8xf32>) -> tensor<2x3x8xf32>
    attributes {why = "SkipShape"} {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<2x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32>) -> (tensor<2x3x8xf32>, none, none, tensor<2x3x8xf32>)
  return %0#0 : tensor<2x3x8xf32>
}

// A skip of another type.
// CHECK-LABEL: func.func @skip_type(
func.func @skip_type(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf16>) -> tensor<3x8xf32>
    attributes {why = "SkipShape"} {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf16>, tensor<8xf32>) -> (tensor<3x8xf32>, none, none, tensor<3x8xf32>)
  return %0#0 : tensor<3x8xf32>
}

// A bias that broadcasts.
// CHECK-LABEL: func.func @skip_bias_shape(
func.func @skip_bias_shape(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf32>, %b: tensor<1xf32>) -> tensor<3x8xf32>
    attributes {why = "GammaShape"} {
  %0:4 = "onnx.Custom"(%x, %s, %g, %b) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<1xf32>) -> (tensor<3x8xf32>, none, none, tensor<3x8xf32>)
  return %0#0 : tensor<3x8xf32>
}

// A node of another domain.
// CHECK-LABEL: func.func @skip_of_another_domain(
func.func @skip_of_another_domain(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "none"} {
  %0 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.acme", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// A LayerNorm with a skip.
// CHECK-LABEL: func.func @skip_layer_norm(
func.func @skip_layer_norm(%x: tensor<3x8xf32>, %g: tensor<8xf32>, %s: tensor<3x8xf32>) -> tensor<3x8xf32>
    attributes {why = "MeanSubtracted"} {
  %0 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipLayerNormalization"} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
