// Folds and canonicalizations. None of them touches a collective.
// RUN: fusion-opt %s --canonicalize --split-input-file | FileCheck %s

// x + -0.0 is x, for x = -0.0 too.
// CHECK-LABEL: func.func @add_negative_zero
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @add_negative_zero(%x: tensor<4x8xbf16>)
    -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %z = arith.constant dense<-0.0> : tensor<4x8xbf16>
  %0 = tandem.add %x, %z : tensor<4x8xbf16>
  %1 = tandem.add %z, %x : tensor<4x8xbf16>
  return %0, %1 : tensor<4x8xbf16>, tensor<4x8xbf16>
}

// -----

// What the sum was raised from goes with it.
// CHECK-LABEL: func.func @add_negative_zero_with_source
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @add_negative_zero_with_source(%x: tensor<4x8xf32>)
    -> tensor<4x8xf32> {
  %z = arith.constant dense<-0.0> : tensor<4x8xf32>
  %0 = tandem.add %x, %z : tensor<4x8xf32> source {
    %1 = "onnx.Add"(%x, %z)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// -0.0 + 0.0 is 0.0, so 0.0 is not neutral.
// CHECK-LABEL: func.func @add_positive_zero
// CHECK: tandem.add
// CHECK: tandem.add
func.func @add_positive_zero(%x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %0 = tandem.add %x, %z : tensor<4xf32>
  %1 = tandem.add %z, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @add_some_negative_zeros
// CHECK: tandem.add
func.func @add_some_negative_zeros(%x: tensor<2xf32>) -> tensor<2xf32> {
  %z = arith.constant dense<[-0.0, 0.0]> : tensor<2xf32>
  %0 = tandem.add %x, %z : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Constants that are no splat, or whose bytes are elsewhere, or that are empty.
// CHECK-LABEL: func.func @add_other_constants
// CHECK-COUNT-3: tandem.add
func.func @add_other_constants(%x: tensor<2xf32>, %e: tensor<0xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<0xf32>) {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense_resource<blob> : tensor<2xf32>
  %c = arith.constant dense<> : tensor<0xf32>
  %0 = tandem.add %x, %a : tensor<2xf32>
  %1 = tandem.add %x, %b : tensor<2xf32>
  %2 = tandem.add %e, %c : tensor<0xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<0xf32>
}

// -----

// Of a commutative op the constant comes second.
// CHECK-LABEL: func.func @add_commutes
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>)
// CHECK: %[[C:.*]] = arith.constant
// CHECK: tandem.add %[[X]], %[[C]]
func.func @add_commutes(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<1.0> : tensor<2xf32>
  %0 = tandem.add %c, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A sum over ranks of a constant is no constant, one of zeros is still sent,
// and one in a group of one rank stays.
// CHECK-LABEL: func.func @collectives_of_constants
// CHECK-COUNT-3: tandem.all_reduce
// CHECK: tandem.fused_all_reduce_norm
func.func @collectives_of_constants(%g: tensor<8xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %z = arith.constant dense<0.0> : tensor<2x8xf32>
  %n = arith.constant dense<-0.0> : tensor<2x8xf32>
  %e = tensor.empty() : tensor<2x8xf32>
  %0 = tandem.all_reduce %z : tensor<2x8xf32>
  %1 = tandem.all_reduce %n {reduction = #tandem<reduction max>}
      : tensor<2x8xf32>
  %2 = tandem.all_reduce %z {group = #tandem.group<"one", size = 1>}
      : tensor<2x8xf32>
  %3 = tandem.fused_all_reduce_norm %z residual(%n : tensor<2x8xf32>)
      gamma(%g : tensor<8xf32>) outs(%e : tensor<2x8xf32>)
      {epsilon = 1.0e-5 : f64} : tensor<2x8xf32> -> tensor<2x8xf32>
  return %0, %1, %2, %3
      : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Casts that tell shapes are not pushed into a collective: its type is part of
// what the ranks compare.
// CHECK-LABEL: func.func @casts_around_collectives
// CHECK: tensor.cast
// CHECK: tandem.all_reduce %{{.*}} : tensor<?x8xf32>
// CHECK: tensor.cast
func.func @casts_around_collectives(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tandem.all_reduce %0 : tensor<?x8xf32>
  %2 = tensor.cast %1 : tensor<?x8xf32> to tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Two all-reduces in a row are two.
// CHECK-LABEL: func.func @all_reduce_twice
// CHECK-COUNT-2: tandem.all_reduce
func.func @all_reduce_twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tandem.all_reduce %x {reduction = #tandem<reduction max>} : tensor<4xf32>
  %1 = tandem.all_reduce %0 {reduction = #tandem<reduction max>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000008000000080"
    }
  }
#-}
