// The check of the token count: 0 < tokens <= limit, in 64 bits, tokens being
// the product of all dimensions but the last.
//
// RUN: fusion-opt %s --tandem-fuse | FileCheck %s --check-prefixes=CHECK,RUNTIME
// RUN: fusion-opt %s --tandem-fuse='max-tokens=32' | FileCheck %s --check-prefixes=CHECK,GIVEN
// RUN: fusion-opt %s --tandem-fuse='max-tokens=32' -o %t.once
// RUN: fusion-opt %t.once --tandem-fuse='max-tokens=32' -o %t.twice
// RUN: cmp %t.once %t.twice

// Without a given limit the runtime's counts alone; with one, the smaller.
// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: %[[X:.*]]: tensor<?x3x?x8xf32>, %{{.*}}) ->
// CHECK: %[[LIMIT:.*]] = tandem.token_limit {element_type = f32, hidden = 8 : i64}
// GIVEN: %[[GIVEN:.*]] = arith.constant 32 : i64
// GIVEN: %[[MIN:.*]] = arith.minsi %[[GIVEN]], %[[LIMIT]] : i64
// CHECK: %[[D0:.*]] = tensor.dim %[[X]], %c0 :
// CHECK: %[[D2:.*]] = tensor.dim %[[X]], %c2 :
// CHECK: %[[L0:.*]] = arith.index_cast %[[D0]] : index to i64
// CHECK: %[[L2:.*]] = arith.index_cast %[[D2]] : index to i64
// CHECK: %[[M:.*]] = arith.muli %[[L0]], %[[L2]] : i64
// CHECK: %[[C3:.*]] = arith.constant 3 : i64
// CHECK: %[[TOKENS:.*]] = arith.muli %[[M]], %[[C3]] : i64
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %[[TOKENS]], %[[ZERO]] : i64
// RUNTIME: %[[FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %[[LIMIT]] : i64
// GIVEN: %[[FEW:.*]] = arith.cmpi sle, %[[TOKENS]], %[[MIN]] : i64
// CHECK: %[[BOTH:.*]] = arith.andi %[[SOME]], %[[FEW]] : i1
// CHECK: scf.if %[[BOTH]]
// RUNTIME: tandem.guard = "tokens <= token_limit"
// GIVEN: tandem.guard = "tokens <= 32"
func.func @dynamic(%x: tensor<?x3x?x8xf32>, %g: tensor<8xf32>) -> tensor<?x3x?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x3x?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x3x?x8xf32>, tensor<8xf32>
  return %y : tensor<?x3x?x8xf32>
}

// A static count at the limit: a given one makes the check superfluous. The
// runtime's is known only when the program runs.
// CHECK-LABEL: func.func @static_at_limit(
// RUNTIME: %[[LIMIT:.*]] = tandem.token_limit
// RUNTIME: %[[TOKENS:.*]] = arith.constant 32 : i64
// RUNTIME: arith.cmpi sle, %[[TOKENS]], %[[LIMIT]]
// RUNTIME: scf.if
// RUNTIME: tandem.fused_all_reduce_norm
// GIVEN-NOT: scf.if
// GIVEN-NOT: tandem.token_limit
// GIVEN: %[[F:.*]] = tandem.fused_all_reduce_norm
// GIVEN-NOT: tandem.guard
// GIVEN: return %[[F]]
func.func @static_at_limit(%x: tensor<4x8x8xf32>, %g: tensor<8xf32>) -> tensor<4x8x8xf32> {
  %s = tandem.all_reduce %x : tensor<4x8x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<4x8x8xf32>, tensor<8xf32>
  return %y : tensor<4x8x8xf32>
}

// One more token than the limit: never fused with a given limit.
// CHECK-LABEL: func.func @static_above_limit(
// RUNTIME: tandem.fused_all_reduce_norm
// GIVEN-NOT: tandem.fused_all_reduce_norm
// GIVEN: tandem.all_reduce
// GIVEN-NOT: fallback
// GIVEN: tandem.rms_norm
// CHECK: return
func.func @static_above_limit(%x: tensor<11x3x8xf32>, %g: tensor<8xf32>) -> tensor<11x3x8xf32> {
  %s = tandem.all_reduce %x : tensor<11x3x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<11x3x8xf32>, tensor<8xf32>
  return %y : tensor<11x3x8xf32>
}

// No tokens, though another dimension is large.
// CHECK-LABEL: func.func @zero_tokens(
// CHECK-NOT: tandem.fused_all_reduce_norm
// CHECK: return
func.func @zero_tokens(%x: tensor<9223372036854775807x0x8xf32>, %g: tensor<8xf32>) -> tensor<9223372036854775807x0x8xf32> {
  %s = tandem.all_reduce %x : tensor<9223372036854775807x0x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<9223372036854775807x0x8xf32>, tensor<8xf32>
  return %y : tensor<9223372036854775807x0x8xf32>
}

// More tokens than 64 bits can count: no limit reaches them, and the count does
// not wrap to a small one.
// CHECK-LABEL: func.func @too_many_tokens(
// RUNTIME: %[[TOKENS:.*]] = arith.constant 9223372036854775807 : i64
// RUNTIME: arith.cmpi sle, %[[TOKENS]],
func.func @too_many_tokens(%x: tensor<4294967296x4294967297x8xf32>, %g: tensor<8xf32>) -> tensor<4294967296x4294967297x8xf32> {
  %s = tandem.all_reduce %x : tensor<4294967296x4294967297x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<4294967296x4294967297x8xf32>, tensor<8xf32>
  return %y : tensor<4294967296x4294967297x8xf32>
}

// A single row has one token.
// CHECK-LABEL: func.func @one_row(
// RUNTIME: %[[TOKENS:.*]] = arith.constant 1 : i64
// RUNTIME: arith.cmpi sle, %[[TOKENS]],
// CHECK: tandem.fused_all_reduce_norm %{{.*}} : tensor<8xf32> -> tensor<8xf32>
func.func @one_row(%x: tensor<8xf32>, %r: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %s = tandem.all_reduce %x : tensor<8xf32>
  %a = tandem.add %s, %r : tensor<8xf32>
  %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<8xf32>, tensor<8xf32>
  return %y : tensor<8xf32>
}

// Three chains over as many tokens share one comparison, since Relu keeps the
// shape and the third's two dims have the same product. Another hidden size
// has its own limit, so it is compared again.
// CHECK-LABEL: func.func @shared(
// CHECK-COUNT-2: tandem.token_limit
// CHECK: %[[FUSE:.*]] = arith.andi
// CHECK: scf.if %[[FUSE]]
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %[[FUSE]]
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %[[FUSE]]
// CHECK: arith.cmpi sgt
// CHECK: arith.cmpi sle
// CHECK: %[[OTHER:.*]] = arith.andi
// CHECK: scf.if %[[OTHER]]
// CHECK-NOT: tandem.token_limit
// CHECK: return
func.func @shared(%x: tensor<?x?x8xf32>, %g: tensor<8xf32>, %g4: tensor<4xf32>, %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %s1 = tandem.all_reduce %x : tensor<?x?x8xf32>
  %y1 = tandem.rms_norm %s1, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  %x2 = "onnx.Relu"(%y1) : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %s2 = tandem.all_reduce %x2 : tensor<?x?x8xf32>
  %y2 = tandem.rms_norm %s2, %g {epsilon = 1.0e-5 : f64} : tensor<?x?x8xf32>, tensor<8xf32>
  %rows = "onnx.Constant"() {value = dense<[-1, 8]> : tensor<2xi64>} : () -> tensor<2xi64>
  %x3 = "onnx.Reshape"(%y2, %rows) : (tensor<?x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
  %s3 = tandem.all_reduce %x3 : tensor<?x8xf32>
  %y3 = tandem.rms_norm %s3, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %x4 = "onnx.MatMul"(%y3, %w) : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %s4 = tandem.all_reduce %x4 : tensor<?x4xf32>
  %y4 = tandem.rms_norm %s4, %g4 {epsilon = 1.0e-5 : f64} : tensor<?x4xf32>, tensor<4xf32>
  return %y4 : tensor<?x4xf32>
}

// Counts that are not known to be equal are compared apart, with one limit.
// CHECK-LABEL: func.func @not_shared(
// CHECK: tandem.token_limit
// CHECK: arith.cmpi sle
// CHECK: scf.if
// CHECK: arith.cmpi sle
// CHECK: scf.if
// CHECK: return
func.func @not_shared(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s1 = tandem.all_reduce %x : tensor<?x8xf32>
  %y1 = tandem.rms_norm %s1, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %s2 = tandem.all_reduce %z : tensor<?x8xf32>
  %y2 = tandem.rms_norm %s2, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y1, %y2 : tensor<?x8xf32>, tensor<?x8xf32>
}
