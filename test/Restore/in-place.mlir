// Where nothing has changed in between, every op comes back to where it
// stood: between others, with its location, in generic form too.
//
// RUN: fusion-opt %s --mlir-print-debuginfo -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore --mlir-print-debuginfo -o %t.after
// RUN: cmp %t.before %t.after
// RUN: fusion-opt %s --mlir-print-op-generic -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore --mlir-print-op-generic -o %t.after
// RUN: cmp %t.before %t.after
// RUN: fusion-opt %s --tandem-raise --tandem-restore --tandem-restore --mlir-print-op-generic -o %t.again
// RUN: cmp %t.after %t.again

// Something was raised at all.
// RUN: fusion-opt %s --tandem-raise | FileCheck %s

// CHECK-LABEL: func.func @interleaved(
// CHECK: tandem.all_reduce
// CHECK: tandem.rms_norm
// CHECK: tandem.rms_norm
func.func @interleaved(%x: tensor<4x8xbf16>, %h: tensor<4x8xbf16>, %g: tensor<8xbf16>, %k: tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  // A constant that nothing uses stays.
  %unused = "onnx.Constant"() {value = dense<7.0> : tensor<f32>} : () -> tensor<f32> loc("unused")
  %0 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce", reduce_op = "sum", group_name = "tp"} : (tensor<4x8xbf16>) -> tensor<4x8xbf16> loc("start"("model.onnx":1:1))
  %1 = "onnx.Cast"(%h) {to = f32} : (tensor<4x8xbf16>) -> tensor<4x8xf32> loc("up"("model.onnx":2:1))
  %2 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Pow"(%1, %2) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc("square"("model.onnx":4:1))
  %4 = "onnx.Custom"(%0) {domain_name = "_c10d_functional", function_name = "wait_tensor"} : (tensor<4x8xbf16>) -> tensor<4x8xbf16> loc("wait"("model.onnx":5:1))
  %5 = "onnx.ReduceMean"(%3) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32> loc("mean"("model.onnx":6:1))
  %6 = "onnx.Add"(%4, %h) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16> loc("sum"("model.onnx":7:1))
  %7 = "onnx.Constant"() {value_float = 1.0e-5 : f32} : () -> tensor<f32>
  %8 = "onnx.Add"(%5, %7) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("variance"("model.onnx":9:1))
  %9 = "onnx.RMSNormalization"(%6, %k) : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16> loc("other"("model.onnx":10:1))
  %10 = "onnx.Sqrt"(%8) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %11 = "onnx.Relu"(%9) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %12 = "onnx.Div"(%1, %10) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %13 = "onnx.Cast"(%12) {to = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %14 = "onnx.Relu"(%11) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %15 = "onnx.Mul"(%g, %13) : (tensor<8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16> loc("scale"("model.onnx":16:1))
  return %15, %14, %9 : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>
}

// What raising made is gone again: sums of a skip norm with and without a
// bias, with its sum used, unused and left out; a collapsed gamma.
// CHECK-LABEL: func.func @made_up(
// CHECK-COUNT-5: tandem.rms_norm
func.func @made_up(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %k: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %none = "onnx.NoValue"() {value} : () -> none
  %0:4 = "onnx.Custom"(%x, %s, %g, %b) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
  // This one's input is the sum of the one before it.
  %1:4 = "onnx.Custom"(%0#3, %0#0, %g, %none) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, none) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
  %2:4 = "onnx.Custom"(%1#3, %1#3, %g, %b) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
  %3 = "onnx.Custom"(%0#3, %2#0, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = "onnx.RMSNormalization"(%3, %k) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %0#0, %1#3, %4, %0#3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Casts that change nothing in front of a skip norm move with it; the made-up
// sum with the bias must not stay.
// CHECK-LABEL: func.func @casts_in_front(
// CHECK: tandem.add
// CHECK: "onnx.Add"
// CHECK: tandem.rms_norm
func.func @casts_in_front(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = "onnx.Identity"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "onnx.Cast"(%s) {to = f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2:4 = "onnx.Custom"(%0, %1, %g, %b) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, none, none, tensor<4x8xf32>)
  return %2#0, %2#3 : tensor<4x8xf32>, tensor<4x8xf32>
}
