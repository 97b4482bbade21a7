// The dialect's own interface: a host's convert-to-llvm takes launches and
// handles along. The status is the host's to look at.
//
// MLIR's llvm.func reads back with a property that it did not have.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --convert-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.func @f(
// CHECK-SAME: %[[W:[^:]*]]: !llvm.ptr, %[[Q:[^:]*]]: !llvm.ptr) -> !llvm.struct<(i32, i64)>
// CHECK: llvm.alloca
// CHECK: llvm.call @tandem_token_limit(%[[W]],
// CHECK: llvm.store %[[Q]],
// CHECK: %[[S:.*]] = llvm.call @tandem_all_reduce(%[[W]],
// CHECK: llvm.insertvalue %[[S]]
// CHECK-NOT: unrealized_conversion_cast
func.func @f(%x: memref<?x8xf32>, %w: !tandem.workspace, %q: !tandem.stream) -> (i32, i64) {
  %l = tandem.token_limit %w {hidden = 8 : i64, element_type = f32}
  %s = tandem.launch all_reduce %x workspace %w stream %q outs(%x : memref<?x8xf32>) : memref<?x8xf32> -> i32
  return %s, %l : i32, i64
}
