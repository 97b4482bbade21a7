// RUN: fusion-opt %s --tandem-expand-copies | FileCheck %s

// One block of memory is left to memcpy.
// CHECK-LABEL: func.func @contiguous(
// CHECK: memref.copy
// CHECK-LABEL: func.func @strided(
// CHECK-NOT: memref.copy
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : memref<4x8xf32, strided<[32, 4]>>) outs(%{{.*}} : memref<4x8xf32>)
// CHECK-LABEL: func.func @to_strided(
// CHECK-NOT: memref.copy
// CHECK: linalg.generic
// CHECK-LABEL: func.func @unranked(
// CHECK: memref.copy
func.func @contiguous(%a: memref<?x8xf32>, %b: memref<?x8xf32>) {
  memref.copy %a, %b : memref<?x8xf32> to memref<?x8xf32>
  return
}
func.func @strided(%a: memref<4x8xf32, strided<[32, 4]>>, %b: memref<4x8xf32>) {
  memref.copy %a, %b : memref<4x8xf32, strided<[32, 4]>> to memref<4x8xf32>
  return
}
func.func @to_strided(%a: memref<4x8xf32>, %b: memref<4x8xf32, strided<[?, 1], offset: ?>>) {
  memref.copy %a, %b : memref<4x8xf32> to memref<4x8xf32, strided<[?, 1], offset: ?>>
  return
}
// Conversion has a function for what has no rank.
func.func @unranked(%a: memref<*xf32>, %b: memref<*xf32>) {
  memref.copy %a, %b : memref<*xf32> to memref<*xf32>
  return
}
