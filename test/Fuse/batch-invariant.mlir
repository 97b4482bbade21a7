// batch-invariant: neither branch may use a sum whose order depends on the
// batch, so both carry the request.
//
// RUN: fusion-opt %s --tandem-fuse='batch-invariant' | FileCheck %s --check-prefixes=CHECK,CHAIN
// RUN: fusion-opt %s --tandem-fuse='batch-invariant guard=function' | FileCheck %s --check-prefixes=CHECK,FUNCTION
// RUN: fusion-opt %s --tandem-fuse | FileCheck %s --check-prefix=PLAIN

// CHECK: tandem.signature = ["all_reduce_rms_norm {{.*}} batch-invariant", "all_reduce_sum group=world type=?x8xf32"
// CHAIN-LABEL: func.func @f(
// FUNCTION-LABEL: func.func private @f_fused(
// CHECK: tandem.fused_all_reduce_norm {{.*}} {batch_invariant, epsilon
// FUNCTION-LABEL: func.func private @f_fallback(
// CHECK: tandem.all_reduce %{{.*}} {batch_invariant, fallback}
// PLAIN-NOT: batch
func.func @f(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  // An all-reduce that does not fuse stays what it was.
  %t = tandem.all_reduce %x : tensor<?x8xf32>
  return %y, %t : tensor<?x8xf32>, tensor<?x8xf32>
}
