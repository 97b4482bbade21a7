// RUN: fusion-opt %s --tandem-onnx-to-linalg -split-input-file -verify-diagnostics

func.func @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  // expected-error @+1 {{tandem-onnx-to-linalg: node 'n' (Neg) has input #0, whose rank is not known}}
  %0 = "onnx.Neg"(%x) {onnx_node_name = "n"} : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

func.func @element_type(%x: tensor<4xf8E5M2>) -> tensor<4xf8E5M2> {
  // expected-error @+1 {{(Neg) has input #0 of f8E5M2, which can't be computed with}}
  %0 = "onnx.Neg"(%x) : (tensor<4xf8E5M2>) -> tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}

// -----

func.func @too_few_inputs(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Add) has 1 inputs}}
  %0 = "onnx.Add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @lacks_input(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{(MatMul) lacks input #1}}
  %0 = "onnx.MatMul"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// What an importer knows nothing of is of type none.
func.func @input_without_type(%x: none, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{(MatMul) has input #0, whose type is not known: declare it in the model, or run shape inference on it}}
  %0 = "onnx.MatMul"(%x, %w) : (none, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @left_out(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %n = "onnx.NoValue"() {value} : () -> none
  // expected-error @+1 {{(MatMul) lacks input #1}}
  %0 = "onnx.MatMul"(%x, %n) : (tensor<4x4xf32>, none) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @initializer_name() -> tensor<4xf32> {
  // expected-error @+1 {{tandem-onnx-to-linalg: initializer 'gamma' (Constant) holds no value that can be computed with}}
  %0 = "onnx.Constant"() {tandem.initializer, tandem.outputs = ["gamma"]} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_broadcast(%a: tensor<4xf32>, %b: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Add) has inputs that don't broadcast: sizes 4 and 3}}
  %0 = "onnx.Add"(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @mixed_types(%a: tensor<4xf32>, %b: tensor<4xf16>) -> tensor<4xf32> {
  // expected-error @+1 {{(Add) has inputs of several element types}}
  %0 = "onnx.Add"(%a, %b) : (tensor<4xf32>, tensor<4xf16>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @booleans(%a: tensor<4xi1>) -> tensor<4xi1> {
  // expected-error @+1 {{(Mul) has boolean inputs}}
  %0 = "onnx.Mul"(%a, %a) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

func.func @integers(%a: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error @+1 {{(Sigmoid) is computed in floating point only, and its input has integers}}
  %0 = "onnx.Sigmoid"(%a) : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @integer_power(%a: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error @+1 {{(Pow) is computed in floating point only, and its base has integers}}
  %0 = "onnx.Pow"(%a, %a) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @cast_without_type(%a: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error @+1 {{(Cast) has no type to cast to}}
  %0 = "onnx.Cast"(%a) : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @cast_to(%a: tensor<4xf32>) -> tensor<4xf8E5M2> {
  // expected-error @+1 {{(Cast) casts to f8E5M2, which can't be computed with}}
  %0 = "onnx.Cast"(%a) {to = f8E5M2} : (tensor<4xf32>) -> tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}

// -----

func.func @contraction(%a: tensor<3x4xf32>, %b: tensor<5x6xf32>) -> tensor<3x6xf32> {
  // expected-error @+1 {{(MatMul) contracts sizes that differ: 4 and 5}}
  %0 = "onnx.MatMul"(%a, %b) : (tensor<3x4xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

func.func @rank0(%a: tensor<f32>, %b: tensor<5x6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{(MatMul) has an operand of rank 0}}
  %0 = "onnx.MatMul"(%a, %b) : (tensor<f32>, tensor<5x6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @two_types(%a: tensor<3x5xf16>, %b: tensor<5x6xf32>) -> tensor<3x6xf32> {
  // expected-error @+1 {{(MatMul) has operands of two element types}}
  %0 = "onnx.MatMul"(%a, %b) : (tensor<3x5xf16>, tensor<5x6xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

func.func @boolean_product(%a: tensor<3x3xi1>) -> tensor<3x3xi1> {
  // expected-error @+1 {{(MatMul) has boolean operands}}
  %0 = "onnx.MatMul"(%a, %a) : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  return %0 : tensor<3x3xi1>
}

// -----

func.func @gemm_rank(%a: tensor<1x3x4xf32>, %b: tensor<4x6xf32>) -> tensor<3x6xf32> {
  // expected-error @+1 {{(Gemm) has operands that are no matrices}}
  %0 = "onnx.Gemm"(%a, %b) : (tensor<1x3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

func.func @gemm_c(%a: tensor<3x4xf32>, %b: tensor<4x6xf32>, %c: tensor<5xf32>) -> tensor<3x6xf32> {
  // expected-error @+1 {{(Gemm) has a C that doesn't broadcast: size 5 to 6}}
  %0 = "onnx.Gemm"(%a, %b, %c) : (tensor<3x4xf32>, tensor<4x6xf32>, tensor<5xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

func.func @gemm_integers(%a: tensor<3x3xi32>) -> tensor<3x3xi32> {
  // expected-error @+1 {{(Gemm) scales integers}}
  %0 = "onnx.Gemm"(%a, %a) {alpha = 0.5 : f32} : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
  return %0 : tensor<3x3xi32>
}

// -----

func.func @gemm_c_type(%a: tensor<3x3xf32>, %c: tensor<3xf16>) -> tensor<3x3xf32> {
  // expected-error @+1 {{(Gemm) has a C of another element type or of a rank above 2}}
  %0 = "onnx.Gemm"(%a, %a, %c) : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf16>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// -----

func.func @axes_not_constant(%a: tensor<3x4xf32>, %axes: tensor<1xi64>) -> tensor<3x1xf32> {
  // expected-error @+1 {{(ReduceMean) has axes that are not constant}}
  %0 = "onnx.ReduceMean"(%a, %axes) : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

func.func @axis_range(%a: tensor<3x4xf32>) -> tensor<3x1xf32> {
  // expected-error @+1 {{(ReduceMean) has the axis 2 of a tensor of rank 2}}
  %0 = "onnx.ReduceMean"(%a) {axes = [2]} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

func.func @axis_twice(%a: tensor<3x4xf32>) -> tensor<3x1xf32> {
  // expected-error @+1 {{(ReduceSum) names the axis -1 twice}}
  %0 = "onnx.ReduceSum"(%a) {axes = [1, -1]} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

func.func @reduce_integers(%a: tensor<3x4xi32>) -> tensor<3x1xi32> {
  // expected-error @+1 {{(ReduceMean) takes the mean of i32 elements, which is not lowered; Cast to a float before}}
  %0 = "onnx.ReduceMean"(%a) {axes = [1]} : (tensor<3x4xi32>) -> tensor<3x1xi32>
  return %0 : tensor<3x1xi32>
}

// -----

func.func @reshape_count(%a: tensor<3x4xf32>) -> tensor<5x2xf32> {
  %s = "onnx.Constant"() {value = dense<[5, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
  // expected-error @+1 {{(Reshape) reshapes a tensor to another number of elements: 10 and 12}}
  %0 = "onnx.Reshape"(%a, %s) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}

// -----

func.func @reshape_two(%a: tensor<3x4xf32>) -> tensor<?x?xf32> {
  %s = "onnx.Constant"() {value = dense<-1> : tensor<2xi64>} : () -> tensor<2xi64>
  // expected-error @+1 {{(Reshape) has a shape with more than one -1}}
  %0 = "onnx.Reshape"(%a, %s) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// -----

func.func @reshape_copy(%a: tensor<3x4xf32>) -> tensor<3x4x1xf32> {
  %s = "onnx.Constant"() {value = dense<[3, 4, 0]> : tensor<3xi64>} : () -> tensor<3xi64>
  // expected-error @+1 {{(Reshape) copies size #2 of a tensor of rank 2}}
  %0 = "onnx.Reshape"(%a, %s) : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x1xf32>
  return %0 : tensor<3x4x1xf32>
}

// -----

func.func @reshape_negative(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %s = "onnx.Constant"() {value = dense<[3, -4]> : tensor<2xi64>} : () -> tensor<2xi64>
  // expected-error @+1 {{(Reshape) has the size -4}}
  %0 = "onnx.Reshape"(%a, %s) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @reshape_length(%a: tensor<3x4xf32>, %s: tensor<?xi64>) -> tensor<3x4xf32> {
  // expected-error @+1 {{(Reshape) has a shape whose length is not known}}
  %0 = "onnx.Reshape"(%a, %s) : (tensor<3x4xf32>, tensor<?xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @flatten(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // expected-error @+1 {{(Flatten) has an axis that its input has not}}
  %0 = "onnx.Flatten"(%a) {axis = 3 : si64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @squeeze(%a: tensor<3x4xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{(Squeeze) drops a dim whose size is not 1: 4 and 1}}
  %0 = "onnx.Squeeze"(%a) {axes = [1]} : (tensor<3x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @squeeze_unknown(%a: tensor<?x4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Squeeze) drops dims by their sizes, which are not known; it needs axes}}
  %0 = "onnx.Squeeze"(%a) : (tensor<?x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unsqueeze(%a: tensor<4xf32>) -> tensor<1x4xf32> {
  // expected-error @+1 {{(Unsqueeze) has no axes}}
  %0 = "onnx.Unsqueeze"(%a) : (tensor<4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

func.func @transpose(%a: tensor<3x4xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{(Transpose) has a perm that is no permutation of its dims}}
  %0 = "onnx.Transpose"(%a) {perm = [1, 1]} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @split_sum(%a: tensor<4xf32>) -> tensor<3xf32> {
  %s = "onnx.Constant"() {value = dense<[3, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
  // expected-error @+1 {{(Split) has parts that don't add up to its size: 4 and 5}}
  %0:2 = "onnx.Split"(%a, %s) : (tensor<4xf32>, tensor<2xi64>) -> (tensor<3xf32>, tensor<2xf32>)
  return %0#0 : tensor<3xf32>
}

// -----

func.func @split_count(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Split) has 1 outputs and 2 parts}}
  %0 = "onnx.Split"(%a) {split = [2, 2]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @split_negative(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Split) has a part of size -2}}
  %0:2 = "onnx.Split"(%a) {split = [-2, 6]} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}

// -----

func.func @concat_axis(%a: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{(Concat) has no axis}}
  %0 = "onnx.Concat"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @concat_rank(%a: tensor<4xf32>, %b: tensor<1x4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{(Concat) has inputs of several ranks or element types}}
  %0 = "onnx.Concat"(%a, %b) {axis = 0 : si64} : (tensor<4xf32>, tensor<1x4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @concat_sizes(%a: tensor<4x3xf32>, %b: tensor<4x2xf32>) -> tensor<8x3xf32> {
  // expected-error @+1 {{(Concat) has inputs whose other sizes differ: 3 and 2}}
  %0 = "onnx.Concat"(%a, %b) {axis = 0 : si64} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// -----

func.func @slice_step(%a: tensor<4xf32>) -> tensor<4xf32> {
  %s = "onnx.Constant"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %e = "onnx.Constant"() {value = dense<-9> : tensor<1xi64>} : () -> tensor<1xi64>
  %x = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %t = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  // expected-error @+1 {{(Slice) has the step -1; only positive ones are supported}}
  %0 = "onnx.Slice"(%a, %s, %e, %x, %t) : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @slice_lengths(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Slice) has starts, ends, axes and steps of several lengths}}
  %0 = "onnx.Slice"(%a) {starts = [0], ends = [1, 2], axes = [0]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @slice_number(%a: tensor<4xf32>, %s: tensor<?xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{(Slice) has starts whose number is not known}}
  %0 = "onnx.Slice"(%a, %s, %s) : (tensor<4xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @gather_floats(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Gather) has indices that are no integers}}
  %0 = "onnx.Gather"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @gather_range(%a: tensor<?x4xf32>) -> tensor<i64> {
  %s = "onnx.Shape"(%a) : (tensor<?x4xf32>) -> tensor<2xi64>
  %i = "onnx.Constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  // expected-error @+1 {{(Gather) has the index 2 in a list of 2}}
  %0 = "onnx.Gather"(%s, %i) : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

func.func @expand(%a: tensor<4xf32>) -> tensor<5xf32> {
  %s = "onnx.Constant"() {value = dense<5> : tensor<1xi64>} : () -> tensor<1xi64>
  // expected-error @+1 {{(Expand) expands the size 4 to 5}}
  %0 = "onnx.Expand"(%a, %s) : (tensor<4xf32>, tensor<1xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @expand_negative(%a: tensor<1xf32>) -> tensor<5xf32> {
  %s = "onnx.Constant"() {value = dense<-5> : tensor<1xi64>} : () -> tensor<1xi64>
  // expected-error @+1 {{(Expand) expands to the size -5}}
  %0 = "onnx.Expand"(%a, %s) : (tensor<1xf32>, tensor<1xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @shape_unranked(%a: tensor<*xf32>) -> tensor<2xi64> {
  // expected-error @+1 {{(Shape) has an input whose rank is not known}}
  %0 = "onnx.Shape"(%a) : (tensor<*xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @declared_rank(%a: tensor<4xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{(Neg) has output #0 declared as tensor<2x2xf32>, but it is tensor<4xf32>}}
  %0 = "onnx.Neg"(%a) : (tensor<4xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @declared_size(%a: tensor<4xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{(Neg) has an output of another size than declared: 4 and 5}}
  %0 = "onnx.Neg"(%a) : (tensor<4xf32>) -> tensor<5xf32>
  %1 = "onnx.Neg"(%0) : (tensor<5xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

func.func @undeclared(%a: tensor<4xf32>) -> tensor<*xf32> {
  // expected-error @+1 {{(Neg) has an output whose rank is not declared}}
  %0 = "onnx.Neg"(%a) : (tensor<4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

func.func @outputs(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{(Neg) has 2 outputs; it can have 1}}
  %0:2 = "onnx.Neg"(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}

// -----

func.func @string_constant() -> tensor<2xi64> {
  // expected-error @+1 {{(Constant) holds no value that can be computed with}}
  %0 = "onnx.Constant"() {value_string = "text"} : () -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @external() -> tensor<4xf32> {
  // expected-error @+1 {{(Constant) is external data, and its location does not name the model's file; give the folder as external-data-dir}}
  %0 = "onnx.Constant"() {value = #tandem.external<"w.data", offset = 0, length = 16>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @external_size() -> tensor<4xf32> {
  // expected-error @+1 {{(Constant) is external data of 12 bytes, which is not the size of its type}}
  %0 = "onnx.Constant"() {value = #tandem.external<"w.data", offset = 0, length = 12>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @elided() -> tensor<4xf32> {
  // expected-error @+1 {{(Constant) has no data, or not the size that its type has; was the text written with its weights left out?}}
  %0 = "onnx.Constant"() {value = dense_resource<__elided__> : tensor<4xf32>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
