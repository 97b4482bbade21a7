// RUN: fusion-opt %s --tandem-onnx-to-linalg --canonicalize --cse | FileCheck %s

// What each op computes is tested by running it (test/Run); this is about the
// form: which ops come out, where sums are kept in f32, where values round.

// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[$COLUMN:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[$RESULT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>

// The innermost loop runs along rows of the second operand and of the result.
// CHECK-LABEL: func.func @matmul_bf16
// CHECK-SAME:    %[[X:.*]]: tensor<?x?x64xbf16>, %[[W:.*]]: tensor<64x8xbf16>
// CHECK:         %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<?x?x8xf32>
// CHECK:         %[[SUM:.*]] = linalg.generic
// CHECK-SAME:      indexing_maps = [#[[$ROW]], #[[$COLUMN]], #[[$RESULT]]]
// CHECK-SAME:      iterator_types = ["parallel", "parallel", "reduction", "parallel"]
// CHECK-SAME:      ins(%[[X]], %[[W]] : {{.*}}) outs(%[[ZERO]]
// CHECK:           arith.extf
// CHECK:           arith.extf
// CHECK:           arith.mulf {{.*}} : f32
// CHECK:           arith.addf {{.*}} : f32
// CHECK-NOT:       arith.truncf
// CHECK:           linalg.yield
// CHECK:         linalg.generic {{.*}} ins(%[[SUM]]
// CHECK:           arith.truncf {{.*}} : f32 to bf16
// CHECK-NOT:     cf.assert
// CHECK:         return
func.func @matmul_bf16(%x: tensor<?x?x64xbf16>, %w: tensor<64x8xbf16>)
    -> tensor<?x?x8xbf16> {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x?x64xbf16>, tensor<64x8xbf16>) -> tensor<?x?x8xbf16>
  return %0 : tensor<?x?x8xbf16>
}

// CHECK-LABEL: func.func @matmul_vectors
// CHECK:         tensor.expand_shape
// CHECK:         tensor.collapse_shape {{.*}} : tensor<1x1xf32> into tensor<f32>
func.func @matmul_vectors(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<f32> {
  %0 = "onnx.MatMul"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Scales and adds in f32 before it rounds.
// CHECK-LABEL: func.func @gemm
// CHECK:         linalg.transpose {{.*}} permutation = [1, 0]
// CHECK:         linalg.generic {{.*}}"reduction"
// CHECK:         linalg.generic
// CHECK:           arith.mulf {{.*}} : f32
// CHECK:           arith.addf {{.*}} : f32
// CHECK:           arith.truncf {{.*}} : f32 to f16
func.func @gemm(%a: tensor<3x4xf16>, %b: tensor<6x4xf16>, %c: tensor<6xf16>)
    -> tensor<3x6xf16> {
  %0 = "onnx.Gemm"(%a, %b, %c) {alpha = 0.5 : f32, transB = 1 : si64} : (tensor<3x4xf16>, tensor<6x4xf16>, tensor<6xf16>) -> tensor<3x6xf16>
  return %0 : tensor<3x6xf16>
}

// CHECK-LABEL: func.func @sigmoid
// CHECK:         arith.extf {{.*}} : bf16 to f32
// CHECK:         arith.negf
// CHECK:         math.exp
// CHECK:         arith.addf
// CHECK:         arith.divf
// CHECK:         arith.truncf {{.*}} : f32 to bf16
func.func @sigmoid(%x: tensor<?xbf16>) -> tensor<?xbf16> {
  %0 = "onnx.Sigmoid"(%x) : (tensor<?xbf16>) -> tensor<?xbf16>
  return %0 : tensor<?xbf16>
}

// A square is a product, not a power.
// CHECK-LABEL: func.func @square
// CHECK-NOT:     math.powf
// CHECK:         arith.mulf
func.func @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Pow"(%x, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @reduce_mean
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK:           arith.extf
// CHECK:           arith.addf {{.*}} : f32
// CHECK:         linalg.generic
// CHECK:           arith.divf {{.*}} : f32
// CHECK:           arith.truncf
func.func @reduce_mean(%x: tensor<?x?x64xf16>) -> tensor<?x?x1xf16> {
  %0 = "onnx.ReduceMean"(%x) {axes = [-1]} : (tensor<?x?x64xf16>) -> tensor<?x?x1xf16>
  return %0 : tensor<?x?x1xf16>
}

// A half and what is left of it, without a copy.
// CHECK-LABEL: func.func @split
// CHECK-SAME:    %[[X:.*]]: tensor
// CHECK-DAG:     tensor.extract_slice %[[X]][0, 0, 0] [{{.*}}, {{.*}}, 32]
// CHECK-DAG:     tensor.extract_slice %[[X]][0, 0, 32] [{{.*}}, {{.*}}, 32]
func.func @split(%x: tensor<?x?x64xf32>) -> (tensor<?x?x32xf32>, tensor<?x?x32xf32>) {
  %0:2 = "onnx.Split"(%x) {axis = -1 : si64, num_outputs = 2 : si64} : (tensor<?x?x64xf32>) -> (tensor<?x?x32xf32>, tensor<?x?x32xf32>)
  return %0#0, %0#1 : tensor<?x?x32xf32>, tensor<?x?x32xf32>
}

// Sizes that come from a Shape are not read back from memory.
// CHECK-LABEL: func.func @reshape_of_shape
// CHECK-SAME:    %[[X:.*]]: tensor
// CHECK-NOT:     tensor.from_elements
// CHECK:         %[[FLAT:.*]] = tensor.collapse_shape %[[X]]
// CHECK:         linalg.generic
// CHECK:           tensor.extract %[[FLAT]]
func.func @reshape_of_shape(%x: tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32> {
  %s = "onnx.Shape"(%x) {start = 0 : si64, end = 2 : si64} : (tensor<?x?x8xf32>) -> tensor<2xi64>
  %c = "onnx.Constant"() {value = dense<[2, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %d = "onnx.Concat"(%s, %c) {axis = 0 : si64} : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %0 = "onnx.Reshape"(%x, %d) : (tensor<?x?x8xf32>, tensor<4xi64>) -> tensor<?x?x2x4xf32>
  return %0 : tensor<?x?x2x4xf32>
}

// CHECK-LABEL: func.func @reshape_static
// CHECK-NOT:     cf.assert
// CHECK:         tensor.collapse_shape {{.*}} : tensor<3x4xf32> into tensor<12xf32>
// CHECK:         tensor.expand_shape {{.*}} : tensor<12xf32> into tensor<2x6xf32>
func.func @reshape_static(%x: tensor<3x4xf32>) -> tensor<2x6xf32> {
  %c = "onnx.Constant"() {value = dense<[2, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %0 = "onnx.Reshape"(%x, %c) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// CHECK-LABEL: func.func @cast
// CHECK:         arith.cmpf une
// CHECK:         arith.uitofp
// CHECK:         arith.fptosi
func.func @cast(%x: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>, tensor<4xi32>) {
  %0 = "onnx.Cast"(%x) {to = i1} : (tensor<4xf32>) -> tensor<4xi1>
  %1 = "onnx.Cast"(%0) {to = f32} : (tensor<4xi1>) -> tensor<4xf32>
  %2 = "onnx.Cast"(%x) {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  return %0, %1, %2 : tensor<4xi1>, tensor<4xf32>, tensor<4xi32>
}

// A collective and a norm that did not fuse are raised again.
// CHECK-LABEL: func.func @raised
// CHECK:         tandem.all_reduce
// CHECK:         tandem.rms_norm
// CHECK-NOT:     source
// CHECK:         return
func.func @raised(%x: tensor<?x64xf32>, %g: tensor<64xf32>) -> tensor<?x64xf32> {
  %0 = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %1 = "onnx.RMSNormalization"(%0, %g) {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}

// An input that is left out.
// CHECK-LABEL: func.func @absent
// CHECK-NOT:     onnx.NoValue
// CHECK:         return
func.func @absent(%a: tensor<3x4xf32>, %b: tensor<4x6xf32>) -> tensor<3x6xf32> {
  %none = "onnx.NoValue"() {value} : () -> none
  %0 = "onnx.Gemm"(%a, %b, %none) : (tensor<3x4xf32>, tensor<4x6xf32>, none) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// So is one that still holds its sources, which go.
// CHECK-LABEL: func.func @holds_sources
// CHECK:         tandem.all_reduce %{{[a-z0-9]+}} : tensor<?x64xf32>
// CHECK-NOT:     onnx.
// CHECK:         return
func.func @holds_sources(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = tandem.all_reduce %x : tensor<?x64xf32> source {
    %1 = "onnx.Custom"(%x) {function_name = "AllReduce", domain_name = "com.microsoft"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
    tandem.yield %1 : tensor<?x64xf32>
  }
  return %0 : tensor<?x64xf32>
}
