// The fused op writes its results into its destinations: clean-ups of
// destination-style ops apply to it, and leave it valid.
// RUN: fusion-opt %s --canonicalize | FileCheck %s

// What a cast says of one operand's shape the op takes over; the others keep
// their types.
// CHECK-LABEL: func.func @cast_of_input
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4x8xf32>, %[[R:[^:]*]]: tensor<?x8xf32>, %[[D:[^:]*]]: tensor<?x8xf32>, %[[G:[^:]*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]] = tandem.fused_all_reduce_norm %[[X]] residual(%[[R]] : tensor<?x8xf32>) gamma(%[[G]] : tensor<8xf32>) outs(%[[D]] : tensor<?x8xf32>) {epsilon = 5.000000e-01 : f64} : tensor<4x8xf32> -> tensor<?x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @cast_of_input(%x: tensor<4x8xf32>, %r: tensor<?x8xf32>,
                         %d: tensor<?x8xf32>, %g: tensor<8xf32>)
    -> tensor<?x8xf32> {
  %0 = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tandem.fused_all_reduce_norm %0 residual(%r : tensor<?x8xf32>)
      gamma(%g : tensor<8xf32>) outs(%d : tensor<?x8xf32>)
      {epsilon = 0.5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// A destination's cast goes behind the result.
// CHECK-LABEL: func.func @cast_of_destination
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xf32>, %[[D:[^:]*]]: tensor<4x8xf32>, %[[G:[^:]*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]]:2 = tandem.fused_all_reduce_norm %[[X]] gamma(%[[G]] : tensor<8xf32>) outs(%[[D]], %[[X]] : tensor<4x8xf32>, tensor<?x8xf32>) {{.*}} : tensor<?x8xf32> -> tensor<4x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: %[[C:.*]] = tensor.cast %[[Y]]#0
// CHECK-NEXT: return %[[C]], %[[Y]]#1
func.func @cast_of_destination(%x: tensor<?x8xf32>, %d: tensor<4x8xf32>,
                               %g: tensor<8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = tensor.cast %d : tensor<4x8xf32> to tensor<?x8xf32>
  %1:2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%0, %x : tensor<?x8xf32>, tensor<?x8xf32>)
      {epsilon = 0.5 : f64, returns_sum}
      : tensor<?x8xf32> -> tensor<?x8xf32>, tensor<?x8xf32>
  return %1#0, %1#1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @cast_of_residual
// CHECK-NOT: tensor.cast
// CHECK: residual(%{{.*}} : tensor<4x8xf32>)
func.func @cast_of_residual(%x: tensor<?x8xf32>, %r: tensor<4x8xf32>,
                            %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = tensor.cast %r : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tandem.fused_all_reduce_norm %x residual(%0 : tensor<?x8xf32>)
      gamma(%g : tensor<8xf32>) outs(%x : tensor<?x8xf32>)
      {epsilon = 0.5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// The same from a size that turns out to be constant.
// CHECK-LABEL: func.func @constant_size
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x8xf32>
// CHECK: outs(%[[E]] : tensor<4x8xf32>)
func.func @constant_size(%x: tensor<?x8xf32>, %g: tensor<8xf32>)
    -> tensor<?x8xf32> {
  %c4 = arith.constant 4 : index
  %e = tensor.empty(%c4) : tensor<?x8xf32>
  %0 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%e : tensor<?x8xf32>) {epsilon = 0.5 : f64}
      : tensor<?x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
