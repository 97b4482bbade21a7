// What the verifiers and the parsers of attributes, types and ops say.
// RUN: fusion-opt %s --split-input-file --verify-diagnostics

//===----------------------------------------------------------------------===//
// #tandem.group
//===----------------------------------------------------------------------===//

// expected-error@below {{group name is empty}}
func.func private @f() attributes {a = #tandem.group<"">}

// -----

// expected-error@below {{group size is negative: -2}}
func.func private @f() attributes {a = #tandem.group<"tp", size = -2>}

// -----

// expected-error@below {{group with ranks needs a size}}
func.func private @f() attributes {a = #tandem.group<"tp", ranks = [0, 1]>}

// -----

// expected-error@below {{number of ranks (3) is not a multiple of the group size (2)}}
func.func private @f() attributes {a = #tandem.group<"tp", size = 2, ranks = [0, 1, 2]>}

// -----

// expected-error@below {{rank is negative: -1}}
func.func private @f() attributes {a = #tandem.group<"tp", size = 2, ranks = [0, -1]>}

// -----

// expected-error@below {{rank 3 is given twice}}
func.func private @f() attributes {a = #tandem.group<"tp", size = 2, ranks = [3, 3]>}

// -----

// The largest numbers are ranks like any other, not marks of an empty place.
func.func private @f() attributes {a = #tandem.group<"tp", size = 2, ranks = [9223372036854775807, 9223372036854775806]>}

// -----

// expected-error@below {{unknown field 'rank', expected one of: size, ranks}}
func.func private @f() attributes {a = #tandem.group<"tp", rank = [0]>}

// -----

// expected-error@below {{field 'size' is given twice}}
func.func private @f() attributes {a = #tandem.group<"tp", size = 1, size = 1>}

// -----

// expected-error@below {{expected string}}
func.func private @f() attributes {a = #tandem.group<tp>}

// -----

// expected-error@below {{expected '<'}}
func.func private @f() attributes {a = #tandem.group}

// -----

// expected-error@below {{expected valid keyword}}
func.func private @f() attributes {a = #tandem.group<"tp", 2>}

// -----

// expected-error@below {{expected '='}}
func.func private @f() attributes {a = #tandem.group<"tp", size 2>}

// -----

// expected-error@below {{expected integer value}}
func.func private @f() attributes {a = #tandem.group<"tp", size = two>}

// -----

// expected-error@below {{integer value too large}}
func.func private @f() attributes {a = #tandem.group<"tp", size = 99999999999999999999>}

// -----

// expected-error@below {{expected '['}}
func.func private @f() attributes {a = #tandem.group<"tp", ranks = 0>}

// -----

// expected-error@below {{expected '>'}}
func.func private @f() attributes {a = #tandem.group<"tp" size = 2>}

// -----

//===----------------------------------------------------------------------===//
// #tandem.external
//===----------------------------------------------------------------------===//

// expected-error@below {{location of external data is empty}}
func.func private @f() attributes {a = #tandem.external<"">}

// -----

// expected-error@below {{offset of external data is negative: -1}}
func.func private @f() attributes {a = #tandem.external<"w", offset = -1>}

// -----

// expected-error@below {{length of external data is negative: -2}}
func.func private @f() attributes {a = #tandem.external<"w", length = -2>}

// -----

// expected-error@below {{unknown field 'size', expected one of: offset, length}}
func.func private @f() attributes {a = #tandem.external<"w", size = 1>}

// -----

// expected-error@below {{field 'offset' is given twice}}
func.func private @f() attributes {a = #tandem.external<"w", offset = 1, length = 1, offset = 1>}

// -----

//===----------------------------------------------------------------------===//
// Enums, and names that there are not
//===----------------------------------------------------------------------===//

// expected-error@+2 {{expected ::mlir::tandem::ReductionKind to be one of: sum, product, min, max, average}}
// expected-error@+1 {{failed to parse Tandem_ReductionKindAttr parameter 'value' which is to be a `::mlir::tandem::ReductionKind`}}
func.func private @f() attributes {a = #tandem<reduction mean>}

// -----

// expected-error@+2 {{expected ::mlir::tandem::NormRounding to be one of: before_gamma, after_gamma}}
// expected-error@+1 {{failed to parse Tandem_NormRoundingAttr parameter 'value' which is to be a `::mlir::tandem::NormRounding`}}
func.func private @f() attributes {a = #tandem<rounding never>}

// -----

// expected-error@below {{unknown attribute `team` in dialect `tandem`}}
func.func private @f() attributes {a = #tandem.team<"tp">}

// -----

// expected-error@below {{unknown  type `handle` in dialect `tandem`}}
func.func private @f(!tandem.handle)

// -----

func.func @f() {
  // expected-error@below {{unregistered operation 'tandem.all_gather' found in dialect ('tandem') that does not allow unknown operations}}
  "tandem.all_gather"() : () -> ()
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.all_reduce
//===----------------------------------------------------------------------===//

func.func @operand_type(%x: memref<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op operand #0 must be tensor of floating-point or integer values, but got 'memref<4xf32>'}}
  %0 = "tandem.all_reduce"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> ({}) : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

func.func @element_type(%x: tensor<4xindex>) {
  // expected-error@below {{op operand #0 must be tensor of floating-point or integer values, but got 'tensor<4xindex>'}}
  %0 = tandem.all_reduce %x : tensor<4xindex>
  return
}

// -----

func.func @result_type(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op failed to verify that all of {input, result} have same type}}
  %0 = "tandem.all_reduce"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> ({}) : (tensor<4xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @workspace_type(%x: tensor<4xf32>, %w: !tandem.stream) {
  // expected-error@below {{'tandem.all_reduce' op operand #1 must be a group's handle, but got '!tandem.stream'}}
  %0 = "tandem.all_reduce"(%x, %w) <{operandSegmentSizes = array<i32: 1, 1, 0>}> ({}) : (tensor<4xf32>, !tandem.stream) -> tensor<4xf32>
  return
}

// -----

func.func @stream_type(%x: tensor<4xf32>, %w: !tandem.workspace) {
  // expected-error@below {{'tandem.all_reduce' op operand #1 must be the queue that a function's device work is put on, but got '!tandem.workspace'}}
  %0 = "tandem.all_reduce"(%x, %w) <{operandSegmentSizes = array<i32: 1, 0, 1>}> ({}) : (tensor<4xf32>, !tandem.workspace) -> tensor<4xf32>
  return
}

// -----

func.func @reduction_attribute(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op attribute 'reduction' failed to satisfy constraint: how an all-reduce combines the ranks' values}}
  %0 = tandem.all_reduce %x {reduction = "sum"} : tensor<4xf32>
  return
}

// -----

func.func @group_attribute(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op attribute 'group' failed to satisfy constraint: the ranks that a collective spans}}
  %0 = tandem.all_reduce %x {group = "world"} : tensor<4xf32>
  return
}

// -----

func.func @source_without_yield(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op source region must end in tandem.yield}}
  %0 = tandem.all_reduce %x : tensor<4xf32> source {
    %1 = "onnx.Custom"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  }
  return
}

// -----

func.func @source_empty(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op expects a non-empty block}}
  %0 = "tandem.all_reduce"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> ({
  ^bb0:
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @source_blocks(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op expects region #0 to have 0 or 1 blocks}}
  %0 = tandem.all_reduce %x : tensor<4xf32> source {
    cf.br ^bb1
  ^bb1:
    tandem.yield %x : tensor<4xf32>
  }
  return
}

// -----

func.func @source_arguments(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op region should have no arguments}}
  %0 = tandem.all_reduce %x : tensor<4xf32> source {
  ^bb0(%a: tensor<4xf32>):
    tandem.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @yield_nothing(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op source region must yield one or two values, not 0}}
  %0 = "tandem.all_reduce"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> ({
    "tandem.yield"() : () -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @yield_three(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op source region must yield one or two values, not 3}}
  %0 = tandem.all_reduce %x : tensor<4xf32> source {
    tandem.yield %x, %x, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

func.func @positions(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op has 2 source positions for 1 source ops}}
  %0 = tandem.all_reduce %x {source_positions = array<i64: 0, 1>} : tensor<4xf32> source {
    %1 = "onnx.Custom"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    tandem.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @positions_type(%x: tensor<4xf32>) {
  // expected-error@below {{'tandem.all_reduce' op attribute 'source_positions' failed to satisfy constraint: i64 dense array attribute}}
  %0 = tandem.all_reduce %x {source_positions = [0]} : tensor<4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.add
//===----------------------------------------------------------------------===//

func.func @no_broadcast(%a: tensor<4x8xf32>, %b: tensor<1x8xf32>) {
  // expected-error@below {{'tandem.add' op failed to verify that all of {lhs, rhs, result} have same type}}
  %0 = "tandem.add"(%a, %b) ({}) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @add_integers(%a: tensor<4xi32>) {
  // expected-error@below {{'tandem.add' op operand #0 must be ranked tensor of floating-point values, but got 'tensor<4xi32>'}}
  %0 = tandem.add %a, %a : tensor<4xi32>
  return
}

// -----

func.func @add_unranked(%a: tensor<*xf32>) {
  // expected-error@below {{'tandem.add' op operand #0 must be ranked tensor of floating-point values, but got 'tensor<*xf32>'}}
  %0 = "tandem.add"(%a, %a) ({}) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @add_source(%a: tensor<4xf32>) {
  // expected-error@below {{'tandem.add' op source region must end in tandem.yield}}
  %0 = tandem.add %a, %a : tensor<4xf32> source {
    %1 = "onnx.Add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  }
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.rms_norm
//===----------------------------------------------------------------------===//

func.func @norm_of_scalar(%x: tensor<f32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op input must have at least one dimension}}
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<f32>, tensor<8xf32>
  return
}

// -----

func.func @gamma_length(%x: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error@below {{'tandem.rms_norm' op gamma has length 4, but the last dimension is 8}}
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<4xf32>
  return
}

// -----

func.func @gamma_rank(%x: tensor<4x8xf32>, %g: tensor<1x8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op operand #1 must be rank-1 tensor of floating-point values, but got 'tensor<1x8xf32>'}}
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<1x8xf32>
  return
}

// -----

func.func @gamma_element_type(%x: tensor<4x8xf32>, %g: tensor<8xi8>) {
  // expected-error@below {{'tandem.rms_norm' op operand #1 must be rank-1 tensor of floating-point values, but got 'tensor<8xi8>'}}
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xi8>
  return
}

// -----

func.func @epsilon_missing(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op requires attribute 'epsilon'}}
  %0 = tandem.rms_norm %x, %g : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @epsilon_type(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op attribute 'epsilon' failed to satisfy constraint: 64-bit float attribute}}
  %0 = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @epsilon_negative(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op epsilon must be finite and not negative, not -0.5}}
  %0 = tandem.rms_norm %x, %g {epsilon = -0.5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @epsilon_infinite(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op epsilon must be finite and not negative, not +Inf}}
  %0 = tandem.rms_norm %x, %g {epsilon = 0x7FF0000000000000 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @epsilon_nan(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op epsilon must be finite and not negative, not NaN}}
  %0 = tandem.rms_norm %x, %g {epsilon = 0x7FF8000000000000 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rounding_attribute(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op attribute 'rounding' failed to satisfy constraint: when a norm rounds to the element type}}
  %0 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64, rounding = 1 : i32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @norm_source(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.rms_norm' op has 1 source positions for 0 source ops}}
  %0 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64, source_positions = array<i64: 3>} : tensor<4x8xf32>, tensor<8xf32> source {
    tandem.yield %x : tensor<4x8xf32>
  }
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.fused_all_reduce_norm
//===----------------------------------------------------------------------===//

func.func @fused_scalar(%x: tensor<f32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op input must have at least one dimension}}
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<f32>) {epsilon = 0.5 : f64} : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @fused_gamma(%x: tensor<4x8xf32>, %g: tensor<7xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op gamma has length 7, but the last dimension is 8}}
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<7xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_epsilon(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op epsilon must be finite and not negative, not -1}}
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = -1.0 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_residual(%x: tensor<4x8xf32>, %r: tensor<1x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op residual has type 'tensor<1x8xf32>', which does not fit the input's type 'tensor<4x8xf32>'}}
  %0 = tandem.fused_all_reduce_norm %x residual(%r : tensor<1x8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_bias_length(%x: tensor<4x8xf32>, %b: tensor<1xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op bias has length 1, but the last dimension is 8}}
  %0 = tandem.fused_all_reduce_norm %x bias(%b : tensor<1xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_bias_type(%x: tensor<4x8xf16>, %b: tensor<8xf32>, %g: tensor<8xf16>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op bias has element type 'f32', but the input has 'f16'}}
  %0 = tandem.fused_all_reduce_norm %x bias(%b : tensor<8xf32>) gamma(%g : tensor<8xf16>) outs(%x : tensor<4x8xf16>) {epsilon = 0.5 : f64} : tensor<4x8xf16> -> tensor<4x8xf16>
  return
}

// -----

func.func @pre_gamma_alone(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op pre_gamma and pre_epsilon must be given together}}
  %0 = tandem.fused_all_reduce_norm %x residual(%x : tensor<4x8xf32>) pre_gamma(%g : tensor<8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @pre_epsilon_alone(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op pre_gamma and pre_epsilon must be given together}}
  %0 = tandem.fused_all_reduce_norm %x residual(%x : tensor<4x8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64, pre_epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @sandwich_without_residual(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op pre_gamma needs a residual: without one the second norm would follow the first directly}}
  %0 = tandem.fused_all_reduce_norm %x pre_gamma(%g : tensor<8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64, pre_epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @pre_gamma_length(%x: tensor<4x8xf32>, %p: tensor<9xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op pre_gamma has length 9, but the last dimension is 8}}
  %0 = tandem.fused_all_reduce_norm %x residual(%x : tensor<4x8xf32>) pre_gamma(%p : tensor<9xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64, pre_epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @pre_epsilon_negative(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op pre_epsilon must be finite and not negative, not -0.5}}
  %0 = tandem.fused_all_reduce_norm %x residual(%x : tensor<4x8xf32>) pre_gamma(%g : tensor<8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64, pre_epsilon = -0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @returns_no_residual(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op returns_residual needs a residual}}
  %0:2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) {epsilon = 0.5 : f64, returns_residual} : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @too_few_destinations(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op needs 2 destinations in outs, got 1}}
  %0:2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64, returns_sum} : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @too_many_results(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op needs 1 results, got 2}}
  %0:2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @residual_element_type(%x: tensor<4x8xf16>, %r: tensor<4x8xf32>, %g: tensor<8xf16>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op residual has type 'tensor<4x8xf32>', which does not fit the input's type 'tensor<4x8xf16>'}}
  %0 = tandem.fused_all_reduce_norm %x residual(%r : tensor<4x8xf32>) gamma(%g : tensor<8xf16>) outs(%x : tensor<4x8xf16>) {epsilon = 0.5 : f64} : tensor<4x8xf16> -> tensor<4x8xf16>
  return
}

// -----

func.func @residual_rank(%x: tensor<4x8xf32>, %r: tensor<1x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op residual has type 'tensor<1x4x8xf32>', which does not fit the input's type 'tensor<4x8xf32>'}}
  %0 = tandem.fused_all_reduce_norm %x residual(%r : tensor<1x4x8xf32>) gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @destination_type(%x: tensor<4x8xf32>, %d: tensor<5x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op destination has type 'tensor<5x8xf32>', which does not fit the input's type 'tensor<4x8xf32>'}}
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%d : tensor<5x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @result_type(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error@below {{'tandem.fused_all_reduce_norm' op expected type of operand #2 ('tensor<4x8xf32>') to match type of corresponding result ('tensor<?x8xf32>')}}
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<?x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.token_limit
//===----------------------------------------------------------------------===//

func.func @hidden_zero() {
  // expected-error@below {{'tandem.token_limit' op attribute 'hidden' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = tandem.token_limit {hidden = 0 : i64, element_type = f32}
  return
}

// -----

func.func @hidden_missing() {
  // expected-error@below {{'tandem.token_limit' op requires attribute 'hidden'}}
  %0 = tandem.token_limit {element_type = f32}
  return
}

// -----

func.func @element_type_missing() {
  // expected-error@below {{'tandem.token_limit' op requires attribute 'element_type'}}
  %0 = tandem.token_limit {hidden = 8 : i64}
  return
}

// -----

func.func @element_type_integer() {
  // expected-error@below {{'tandem.token_limit' op attribute 'element_type' failed to satisfy constraint: type attribute of floating-point}}
  %0 = tandem.token_limit {hidden = 8 : i64, element_type = i8}
  return
}

// -----

//===----------------------------------------------------------------------===//
// tandem.yield
//===----------------------------------------------------------------------===//

func.func @yield_elsewhere(%c: i1, %x: tensor<4xf32>) {
  scf.if %c {
    // expected-error@below {{'tandem.yield' op expects parent op to be one of 'tandem.all_reduce, tandem.add, tandem.rms_norm'}}
    tandem.yield %x : tensor<4xf32>
  }
  return
}
