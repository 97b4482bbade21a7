// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --mlir-print-op-generic | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --canonicalize --cse | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: func.func @tensors(
// CHECK: tandem.launch all_reduce %{{.*}} outs(%{{.*}} : tensor<?x8xf32>) {reduction = #tandem<reduction max>} : tensor<?x8xf32> -> tensor<?x8xf32>
// CHECK: tandem.launch fused_all_reduce_norm %{{.*}} residual(%{{.*}} : tensor<?x8xf32>) bias(%{{.*}} : tensor<8xf32>) pre_gamma(%{{.*}} : tensor<8xf16>) gamma(%{{.*}} : tensor<8xf16>) workspace %{{.*}} stream %{{.*}} outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
// CHECK: tandem.launch add_rms_norm
// CHECK: tandem.launch rms_norm
func.func @tensors(%x: tensor<?x8xf32>, %b: tensor<8xf32>, %g: tensor<8xf16>, %w: !tandem.workspace, %q: !tandem.stream) -> tensor<?x8xf32> {
  %s = tandem.launch all_reduce %x outs(%x : tensor<?x8xf32>) {reduction = #tandem<reduction max>} : tensor<?x8xf32> -> tensor<?x8xf32>
  %f:3 = tandem.launch fused_all_reduce_norm %s residual(%x : tensor<?x8xf32>) bias(%b : tensor<8xf32>)
    pre_gamma(%g : tensor<8xf16>) gamma(%g : tensor<8xf16>) workspace %w stream %q
    outs(%x, %x, %x : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
    {epsilon = 1.0e-5 : f64, pre_epsilon = 1.0e-6 : f64, returns_residual, returns_sum}
    : tensor<?x8xf32> -> tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
  %n = tandem.launch add_rms_norm %f#0 residual(%f#1 : tensor<?x8xf32>) gamma(%g : tensor<8xf16>)
    outs(%x : tensor<?x8xf32>) {epsilon = 1.0e-5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
  %r = tandem.launch rms_norm %n gamma(%g : tensor<8xf16>) outs(%x : tensor<?x8xf32>) {epsilon = 1.0e-5 : f64} : tensor<?x8xf32> -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// A collective stays though nobody reads its result; a norm whose result nobody
// reads goes, but not one that writes to a buffer.
// KEPT-LABEL: func.func @unused(
// KEPT: tandem.launch all_reduce %{{.*}} : tensor<8xf32>
// KEPT: tandem.launch all_reduce %{{.*}} : tensor<8xf32>
// KEPT-NOT: rms_norm {{.*}} : tensor<8xf32> ->
// KEPT: tandem.launch rms_norm %{{.*}} -> i32
func.func @unused(%x: tensor<8xf32>, %g: tensor<8xf32>, %m: memref<8xf32>, %n: memref<8xf32>) {
  %s = tandem.launch all_reduce %x outs(%x : tensor<8xf32>) : tensor<8xf32> -> tensor<8xf32>
  %t = tandem.launch all_reduce %x outs(%x : tensor<8xf32>) : tensor<8xf32> -> tensor<8xf32>
  %y = tandem.launch rms_norm %x gamma(%g : tensor<8xf32>) outs(%x : tensor<8xf32>) {epsilon = 1.0e-5 : f64} : tensor<8xf32> -> tensor<8xf32>
  %i = tandem.launch rms_norm %m gamma(%n : memref<8xf32>) outs(%m : memref<8xf32>) {epsilon = 1.0e-5 : f64} : memref<8xf32> -> i32
  return
}
