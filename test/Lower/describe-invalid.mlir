// RUN: fusion-opt %s --tandem-describe -split-input-file -verify-diagnostics

// A caller has a buffer for each result, and no other place.
// expected-error@below {{'func.func' op result #1 has type 'index'; only tensors with a rank can be results of a public function}}
func.func @scalar(%x: tensor<8xf32>, %i: index) -> (tensor<8xf32>, index) {
  return %x, %i : tensor<8xf32>, index
}

// -----

// Nobody can make a buffer for a tensor of any rank.
// expected-error@below {{'func.func' op result #0 has type 'tensor<*xf32>'; only tensors with a rank}}
func.func @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
// expected-error@below {{the name @f_result_shapes is needed for the sizes of @f's results}}
func.func private @f_result_shapes(tensor<8xf32>)
