// The dialect's ops in a plain one-shot-bufferize, without the passes around it.
//
// RUN: fusion-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize | FileCheck %s

// Destinations are written to.
// CHECK-LABEL: func.func @fused(
// CHECK-SAME: %[[X:[^:]*]]: memref<?x8xf32>, %[[G:[^:]*]]: memref<8xf32>, %[[D:[^:]*]]: memref<?x8xf32>
// CHECK-NOT: alloc
// CHECK: %[[S:.*]] = tandem.launch fused_all_reduce_norm %[[X]] gamma(%[[G]] : memref<8xf32>) workspace %{{.*}} outs(%[[D]] : memref<?x8xf32>) {epsilon = 1.000000e-05 : f64, rounding = #tandem<rounding after_gamma>} : memref<?x8xf32> -> i32
// CHECK: return %[[D]]
func.func @fused(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %d: tensor<?x8xf32>, %w: !tandem.workspace) -> tensor<?x8xf32> {
  %y = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>) workspace %w
    outs(%d : tensor<?x8xf32>) {epsilon = 1.0e-5 : f64, rounding = #tandem<rounding after_gamma>}
    : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The input itself as destination: the runtime can do that.
// CHECK-LABEL: func.func @over_input(
// CHECK-SAME: %[[X:[^:]*]]: memref<4x8xf32>
// CHECK-NOT: alloc
// CHECK: tandem.launch all_reduce %[[X]] workspace %{{.*}} outs(%[[X]] :
func.func @over_input(%x: tensor<4x8xf32>, %w: !tandem.workspace) -> tensor<4x8xf32> {
  %y = tandem.launch all_reduce %x workspace %w outs(%x : tensor<4x8xf32>) : tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Gamma as destination: it can't; there the old gamma is kept.
// CHECK-LABEL: func.func @over_gamma(
// CHECK-SAME: %[[X:[^:]*]]: memref<8xf32>, %[[G:[^:]*]]: memref<8xf32>
// CHECK: %[[NEW:.*]] = memref.alloc()
// CHECK: tandem.launch rms_norm %[[X]] gamma(%[[G]] : memref<8xf32>) outs(%[[NEW]] :
func.func @over_gamma(%x: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %y = tandem.launch rms_norm %x gamma(%g : tensor<8xf32>) outs(%g : tensor<8xf32>) {epsilon = 1.0e-5 : f64} : tensor<8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Others allocate.
// CHECK-LABEL: func.func @others(
// CHECK-SAME: %[[X:[^:]*]]: memref<?x8xf32>
// CHECK: %[[A:.*]] = memref.alloc(%{{.*}}) {alignment = 64 : i64} : memref<?x8xf32>
// CHECK: tandem.launch all_reduce %[[X]] workspace %{{.*}} outs(%[[A]] : memref<?x8xf32>) {fallback, reduction = #tandem<reduction max>}
// CHECK: %[[B:.*]] = memref.alloc
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[X]] : memref<?x8xf32>, memref<?x8xf32>) outs(%[[B]] :
// CHECK: arith.addf
// CHECK: %[[C:.*]] = memref.alloc
// CHECK: tandem.launch rms_norm %[[B]] gamma(%{{.*}}) workspace %{{.*}} outs(%[[C]] :
func.func @others(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %w: !tandem.workspace) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x workspace %w {fallback, reduction = #tandem<reduction max>} : tensor<?x8xf32>
  %r = tandem.add %s, %x : tensor<?x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}

// Rows that lie apart are passed with their stride.
// CHECK-LABEL: func.func @rows_apart(
// CHECK: %[[V:.*]] = memref.subview
// CHECK-NOT: memref.copy
// CHECK: tandem.launch rms_norm %[[V]] {{.*}} : memref<4x8xf32, strided<[32, 1], offset: 8>>
func.func @rows_apart(%x: tensor<4x32xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %v = tensor.extract_slice %x[0, 8] [4, 8] [1, 1] : tensor<4x32xf32> to tensor<4x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}

// Elements that lie apart are copied first; so are rows of two strides.
// CHECK-LABEL: func.func @elements_apart(
// CHECK: %[[V:.*]] = memref.subview
// CHECK: %[[C:.*]] = memref.alloc() {alignment = 64 : i64} : memref<4x8xf32>
// CHECK: memref.copy %[[V]], %[[C]]
// CHECK: tandem.launch rms_norm %[[C]]
func.func @elements_apart(%x: tensor<4x32xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %v = tensor.extract_slice %x[0, 0] [4, 8] [1, 4] : tensor<4x32xf32> to tensor<4x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<4x8xf32>, tensor<8xf32>
  return %y : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @two_strides(
// CHECK: memref.copy
// CHECK: tandem.launch rms_norm
func.func @two_strides(%x: tensor<3x4x32xf32>, %g: tensor<8xf32>) -> tensor<3x2x8xf32> {
  %v = tensor.extract_slice %x[0, 0, 0] [3, 2, 8] [1, 1, 1] : tensor<3x4x32xf32> to tensor<3x2x8xf32>
  %y = tandem.rms_norm %v, %g {epsilon = 1.0e-5 : f64} : tensor<3x2x8xf32>, tensor<8xf32>
  return %y : tensor<3x2x8xf32>
}
