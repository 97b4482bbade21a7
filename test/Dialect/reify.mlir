// Dims of results are those of operands, so no op is needed to know a shape.
// RUN: fusion-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize \
// RUN:   | FileCheck %s

// CHECK-LABEL: func.func @all_reduce
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x?xbf16>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
// CHECK: tandem.all_reduce
// CHECK: %[[D0:.*]] = tensor.dim %[[X]], %[[C0]]
// CHECK: %[[D2:.*]] = tensor.dim %[[X]], %[[C2]]
// CHECK: return %[[D0]], %[[C8]], %[[D2]]
func.func @all_reduce(%x: tensor<?x8x?xbf16>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = tandem.all_reduce %x : tensor<?x8x?xbf16>
  %d0 = tensor.dim %0, %c0 : tensor<?x8x?xbf16>
  %d1 = tensor.dim %0, %c1 : tensor<?x8x?xbf16>
  %d2 = tensor.dim %0, %c2 : tensor<?x8x?xbf16>
  return %d0, %d1, %d2 : index, index, index
}

// Of a tensor of unknown rank nothing is known.
// CHECK-LABEL: func.func @unranked
// CHECK: %[[S:.*]] = tandem.all_reduce
// CHECK: tensor.dim %[[S]]
func.func @unranked(%x: tensor<*xbf16>) -> index {
  %c0 = arith.constant 0 : index
  %0 = tandem.all_reduce %x : tensor<*xbf16>
  %d = tensor.dim %0, %c0 : tensor<*xbf16>
  return %d : index
}

// Through a chain of pure ops, which are dead then.
// CHECK-LABEL: func.func @add_and_norm
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xf32>
// CHECK: %[[C0:.*]] = arith.constant 0 : index
// CHECK-NEXT: %[[D:.*]] = tensor.dim %[[X]], %[[C0]]
// CHECK-NEXT: return %[[D]]
func.func @add_and_norm(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>,
                        %g: tensor<8xf32>) -> index {
  %c0 = arith.constant 0 : index
  %0 = tandem.add %x, %r : tensor<?x8xf32>
  %1 = tandem.rms_norm %0, %g {epsilon = 0.5 : f64}
      : tensor<?x8xf32>, tensor<8xf32>
  %d = tensor.dim %1, %c0 : tensor<?x8xf32>
  return %d : index
}

// The fused op's results are as large as their destinations.
// CHECK-LABEL: func.func @fused
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x8xf32>
// CHECK: %[[C0:.*]] = arith.constant 0 : index
// CHECK: %[[D:.*]] = tensor.dim %[[X]], %[[C0]]
// CHECK: tandem.fused_all_reduce_norm
// CHECK: return %[[D]], %[[D]]
func.func @fused(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (index, index) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %0:2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%e, %e : tensor<?x8xf32>, tensor<?x8xf32>)
      {epsilon = 0.5 : f64, returns_sum}
      : tensor<?x8xf32> -> tensor<?x8xf32>, tensor<?x8xf32>
  %d0 = tensor.dim %0#0, %c0 : tensor<?x8xf32>
  %d1 = tensor.dim %0#1, %c0 : tensor<?x8xf32>
  return %d0, %d1 : index, index
}
