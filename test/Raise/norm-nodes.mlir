// RMSNorms that are one op in the source.
//
// RUN: fusion-opt %s --tandem-raise | FileCheck %s
// RUN: fusion-opt %s -o %t.before
// RUN: fusion-opt %s --tandem-raise --tandem-restore -o %t.after
// RUN: cmp %t.before %t.after

// The default epsilon is 1e-5, as an f32.
// CHECK-LABEL: func.func @standard(
// CHECK-SAME: %[[X:.*]]: tensor<?x4x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[Y:.*]] = tandem.rms_norm %[[X]], %[[G]] {epsilon = 9.9999997473787516E-6 : f64, source_positions = array<i64: 0>} : tensor<?x4x8xbf16>, tensor<8xbf16> source {
// CHECK-NEXT: %[[S:.*]] = "onnx.RMSNormalization"(%[[X]], %[[G]])
// CHECK-NEXT: tandem.yield %[[S]] : tensor<?x4x8xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: return %[[Y]]
func.func @standard(%x: tensor<?x4x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x4x8xbf16> {
  %0 = "onnx.RMSNormalization"(%x, %g) : (tensor<?x4x8xbf16>, tensor<8xbf16>) -> tensor<?x4x8xbf16>
  return %0 : tensor<?x4x8xbf16>
}

// CHECK-LABEL: func.func @standard_attributes(
// CHECK: tandem.rms_norm {{.*}} {epsilon = 1.562500e-02 : f64, source_positions
func.func @standard_attributes(%x: tensor<3x4x8xf16>, %g: tensor<8xf16>) -> tensor<3x4x8xf16> {
  %0 = "onnx.RMSNormalization"(%x, %g) {axis = 2 : si64, epsilon = 1.562500e-02 : f32, stash_type = 1 : si64} : (tensor<3x4x8xf16>, tensor<8xf16>) -> tensor<3x4x8xf16>
  return %0 : tensor<3x4x8xf16>
}

// Signless integers and a version suffix, as onnx-mlir may write them.
// CHECK-LABEL: func.func @other_spelling(
// CHECK: tandem.rms_norm
func.func @other_spelling(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.RMSNormalizationV23"(%x, %g) {axis = -1 : i64, stash_type = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// SimplifiedLayerNormalization rounds once, after gamma. Its second output
// may be there if nothing uses it.
// CHECK-LABEL: func.func @simplified(
// CHECK: tandem.rms_norm {{.*}} {epsilon = 9.9999997473787516E-6 : f64, rounding = #tandem<rounding after_gamma>, source_positions
// CHECK: tandem.rms_norm {{.*}} rounding = #tandem<rounding after_gamma>
// CHECK: tandem.rms_norm {{.*}} rounding = #tandem<rounding after_gamma>
// CHECK-NOT: tandem.rms_norm
func.func @simplified(%x: tensor<4x8xf16>, %g: tensor<8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>) {
  %0 = "onnx.SimplifiedLayerNormalization"(%x, %g) {axis = -1 : si64, stash_type = 1 : si64} : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  %1:2 = "onnx.Custom"(%x, %g) {domain_name = "com.microsoft", function_name = "SimplifiedLayerNormalization"} : (tensor<4x8xf16>, tensor<8xf16>) -> (tensor<4x8xf16>, tensor<4x1xf32>)
  %2 = "onnx.Custom"(%x, %g) {domain_name = "ai.onnx", function_name = "SimplifiedLayerNormalization"} : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  return %0, %1#0, %2 : tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>
}

// SkipSimplifiedLayerNormalization adds first. Its default epsilon is 1e-12,
// and the sum is output 3.
// CHECK-LABEL: func.func @skip(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf16>, %[[S:.*]]: tensor<2x4x8xf16>, %[[G:.*]]: tensor<8xf16>)
// CHECK: %[[R:.*]] = tandem.add %[[X]], %[[S]] : tensor<2x4x8xf16>
// CHECK-NEXT: %[[Y:.*]] = tandem.rms_norm %[[R]], %[[G]] {epsilon = 9.999999960041972E-13 : f64, rounding = #tandem<rounding after_gamma>, source_positions = array<i64: 0>}
// CHECK-NEXT: %[[ALL:.*]]:4 = "onnx.Custom"(%[[X]], %[[S]], %[[G]])
// CHECK-NEXT: tandem.yield %[[ALL]]#0, %[[ALL]]#3
// CHECK-NEXT: }
// CHECK-NEXT: return %[[Y]], %[[R]]
func.func @skip(%x: tensor<2x4x8xf16>, %s: tensor<2x4x8xf16>, %g: tensor<8xf16>) -> (tensor<2x4x8xf16>, tensor<2x4x8xf16>) {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<2x4x8xf16>, tensor<2x4x8xf16>, tensor<8xf16>) -> (tensor<2x4x8xf16>, none, none, tensor<2x4x8xf16>)
  return %0#0, %0#3 : tensor<2x4x8xf16>, tensor<2x4x8xf16>
}

// The bias is input 3; it is part of the sum. The last norm of a model has
// one output.
// CHECK-LABEL: func.func @skip_bias(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[S:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = tandem.add %[[X]], %[[S]]
// CHECK-NEXT: %[[T:.*]] = "onnx.Add"(%[[R]], %[[B]])
// CHECK-NEXT: tandem.rms_norm %[[T]], %[[G]] {epsilon = 1.562500e-02 : f64
// CHECK: tandem.yield %{{.*}} : tensor<4x8xf32>
func.func @skip_bias(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.Custom"(%x, %s, %g, %b) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization", epsilon = 1.562500e-02 : f32} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A bias that is left out.
// CHECK-LABEL: func.func @skip_no_bias(
// CHECK: tandem.add
// CHECK-NOT: onnx.Add
// CHECK: tandem.rms_norm
func.func @skip_no_bias(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %none = "onnx.NoValue"() {value} : () -> none
  %0 = "onnx.Custom"(%x, %s, %g, %none) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, none) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Dims that have the same names are the same.
// CHECK-LABEL: func.func @skip_names(
// CHECK: tandem.add
// CHECK: tandem.rms_norm
func.func @skip_names(%x: tensor<?x?x8xf32> {onnx.dim_params = "0:b,1:s"}, %s: tensor<?x?x8xf32> {onnx.dim_params = "0:b,1:s"}, %g: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %0 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
  return %0 : tensor<?x?x8xf32>
}

// ONNX Runtime broadcasts a skip, and dims without names may differ: then the
// sum is an Add, which tandem-fuse reads as it is.
// CHECK-LABEL: func.func @skip_may_broadcast(
// CHECK-SAME: %[[X:.*]]: tensor<?x4x8xf32>, %[[S:.*]]: tensor<?x4x8xf32>, %[[T:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = "onnx.Add"(%[[X]], %[[S]]) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// CHECK: tandem.rms_norm %[[R]], %[[G]]
// CHECK: %[[Q:.*]] = "onnx.Add"(%[[R]], %[[T]]) : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
// CHECK: tandem.rms_norm %[[Q]], %[[G]]
func.func @skip_may_broadcast(%x: tensor<?x4x8xf32>, %s: tensor<?x4x8xf32>, %t: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %0:4 = "onnx.Custom"(%x, %s, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, none, none, tensor<?x4x8xf32>)
  %1 = "onnx.Custom"(%0#3, %t, %g) {domain_name = "com.microsoft", function_name = "SkipSimplifiedLayerNormalization"} : (tensor<?x4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  return %0#0, %1 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}
