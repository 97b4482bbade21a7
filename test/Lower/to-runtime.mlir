// Launches become calls, functions return a status.
//
// MLIR's llvm.func reads back with a property that it did not have.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-to-runtime -split-input-file | FileCheck %s
// RUN: fusion-opt %s --tandem-to-runtime --tandem-to-runtime -split-input-file | FileCheck %s
// RUN: fusion-opt %s --tandem-to-runtime -split-input-file --convert-scf-to-cf --convert-to-llvm --reconcile-unrealized-casts | FileCheck %s --check-prefix=LLVM

// LLVM-NOT: unrealized_conversion_cast
// LLVM-NOT: tandem.launch
// LLVM-LABEL: llvm.func @all_reduce(
// LLVM: llvm.call @tandem_all_reduce

// Every field of tandem_all_reduce_args but zeros. The slot is made where the
// function begins.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-SAME: %[[X:[^:]*]]: memref<?x3x8xbf16>, %[[Y:[^:]*]]: memref<?x3x8xbf16>, %[[W:[^:]*]]: !tandem.workspace, %[[Q:[^:]*]]: !tandem.stream) -> i32
// CHECK: %[[ARGS:.*]] = llvm.alloca %{{.*}} x !llvm.struct<(i64, i64, i64, i32, i32, ptr, struct<(ptr, i64)>, struct<(ptr, i64)>, i32, i32, array<4 x i64>)> {alignment = 8 : i64, tandem.arguments}
// CHECK: %[[STATUS:.*]] = llvm.alloca %{{.*}} x i32
// CHECK: llvm.store %{{.*}}, %[[STATUS]]
// CHECK: %[[WP:.*]] = builtin.unrealized_conversion_cast %[[W]] : !tandem.workspace to !llvm.ptr
// CHECK: "llvm.intr.memset"(%[[ARGS]]
// CHECK: %[[SIZE:.*]] = llvm.mlir.constant(112 : i64)
// CHECK: llvm.getelementptr %[[ARGS]][0, 0]
// CHECK: llvm.store %[[SIZE]],
// CHECK: %[[N:.*]] = memref.dim %[[X]]
// CHECK: %[[N64:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: %[[THREE:.*]] = llvm.mlir.constant(3 : i64)
// CHECK: %[[TOKENS:.*]] = llvm.mul %[[N64]], %[[THREE]]
// CHECK: llvm.getelementptr %[[ARGS]][0, 1]
// CHECK: llvm.store %[[TOKENS]],
// CHECK: %[[H:.*]] = llvm.mlir.constant(8 : i64)
// CHECK: llvm.getelementptr %[[ARGS]][0, 2]
// CHECK: %[[DTYPE:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.getelementptr %[[ARGS]][0, 3]
// CHECK: %[[FLAGS:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: llvm.getelementptr %[[ARGS]][0, 4]
// CHECK: llvm.getelementptr %[[ARGS]][0, 5]
// CHECK: memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: llvm.getelementptr %[[ARGS]][0, 6, 0]
// CHECK: memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: llvm.getelementptr %[[ARGS]][0, 7, 0]
// CHECK: %[[PROD:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: llvm.getelementptr %[[ARGS]][0, 8]
// CHECK: llvm.store %[[PROD]],
// CHECK: %[[NEW:.*]] = llvm.call @tandem_all_reduce(%[[WP]], %[[ARGS]])
// CHECK: %[[OLD:.*]] = llvm.load %[[STATUS]]
// CHECK: %[[BAD:.*]] = llvm.icmp "ne" %[[OLD]]
// CHECK: %[[FIRST:.*]] = llvm.select %[[BAD]], %[[OLD]], %[[NEW]]
// CHECK: llvm.store %[[FIRST]], %[[STATUS]]
// CHECK: %[[RESULT:.*]] = llvm.load %[[STATUS]]
// CHECK: return %[[RESULT]] : i32
func.func @all_reduce(%x: memref<?x3x8xbf16>, %y: memref<?x3x8xbf16>, %w: !tandem.workspace, %q: !tandem.stream) {
  %s = tandem.launch all_reduce %x workspace %w stream %q outs(%y : memref<?x3x8xbf16>)
    {fallback, batch_invariant, reduction = #tandem<reduction product>} : memref<?x3x8xbf16> -> i32
  return
}

// -----

// All of tandem_norm_args.
// CHECK-LABEL: func.func @fused(
// CHECK: llvm.mlir.constant(240 : i64)
// CHECK: getelementptr %[[A:.*]][0, 0]
// CHECK: getelementptr %[[A]][0, 6, 0]
// CHECK: getelementptr %[[A]][0, 7, 0]
// CHECK: getelementptr %[[A]][0, 8]
// CHECK: getelementptr %[[A]][0, 9, 0]
// CHECK: llvm.mlir.constant(0 : i32)
// CHECK: getelementptr %[[A]][0, 9, 1]
// CHECK: llvm.mlir.constant(1 : i32)
// CHECK: getelementptr %[[A]][0, 9, 2]
// CHECK: llvm.mlir.constant(9.9999999999999995E-7 : f64)
// CHECK: getelementptr %[[A]][0, 9, 3]
// CHECK: getelementptr %[[A]][0, 10, 0]
// CHECK: llvm.mlir.constant(1 : i32)
// CHECK: getelementptr %[[A]][0, 10, 1]
// CHECK: llvm.mlir.constant(0 : i32)
// CHECK: getelementptr %[[A]][0, 10, 2]
// CHECK: llvm.mlir.constant(1.000000e-05 : f64)
// CHECK: getelementptr %[[A]][0, 10, 3]
// CHECK: getelementptr %[[A]][0, 11, 0]
// CHECK: getelementptr %[[A]][0, 12, 0]
// CHECK: getelementptr %[[A]][0, 13, 0]
// CHECK: llvm.call @tandem_fused_all_reduce_norm(
func.func @fused(%x: memref<4x8xf16>, %h: memref<4x8xf16>, %b: memref<8xf16>, %p: memref<8xf32>, %g: memref<8xf16>,
                 %y: memref<4x8xf16>, %r: memref<4x8xf16>, %s: memref<4x8xf16>, %w: !tandem.workspace) {
  %0 = tandem.launch fused_all_reduce_norm %x residual(%h : memref<4x8xf16>) bias(%b : memref<8xf16>)
    pre_gamma(%p : memref<8xf32>) gamma(%g : memref<8xf16>) workspace %w
    outs(%y, %r, %s : memref<4x8xf16>, memref<4x8xf16>, memref<4x8xf16>)
    {epsilon = 1.0e-5 : f64, pre_epsilon = 1.0e-6 : f64, pre_rounding = #tandem<rounding after_gamma>,
     returns_residual, returns_sum} : memref<4x8xf16> -> i32
  return
}

// -----

// Calls of one function share the slots, in loops as well; norms need no
// workspace.
// CHECK-LABEL: func.func @loop(
// CHECK-COUNT-2: llvm.alloca
// CHECK-NOT: llvm.alloca
// CHECK: scf.for
// CHECK-NOT: llvm.alloca
// CHECK: %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK: llvm.call @tandem_rms_norm(%[[NULL]],
// CHECK: llvm.call @tandem_add_rms_norm(
// CHECK: return
func.func @loop(%x: memref<4x8xf32>, %g: memref<8xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %0 = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64} : memref<4x8xf32> -> i32
    %1 = tandem.launch add_rms_norm %x residual(%x : memref<4x8xf32>) gamma(%g : memref<8xf32>) outs(%x : memref<4x8xf32>) {epsilon = 1.0e-5 : f64} : memref<4x8xf32> -> i32
  }
  return
}

// -----

// A status goes up through calls; a private function that reaches no call has
// none, a public one always has.
// CHECK-LABEL: func.func @outer(
// CHECK-SAME: -> (index, i32)
// CHECK: %[[R:.*]]:2 = call @inner(%{{.*}}) : (memref<8xf32>, !tandem.workspace) -> (index, i32)
// CHECK: llvm.select %{{.*}}, %{{.*}}, %[[R]]#1
// CHECK: call @harmless() : () -> ()
// CHECK: return %[[R]]#0, %{{.*}} : index, i32
// CHECK: func.func private @inner({{.*}}) -> (index, i32)
// CHECK: func.func private @harmless() {
// CHECK: func.func @public() -> i32
func.func @outer(%x: memref<8xf32>, %w: !tandem.workspace) -> index {
  %i = func.call @inner(%x, %w) : (memref<8xf32>, !tandem.workspace) -> index
  func.call @harmless() : () -> ()
  return %i : index
}
func.func private @inner(%x: memref<8xf32>, %w: !tandem.workspace) -> index {
  %s = tandem.launch all_reduce %x workspace %w outs(%x : memref<8xf32>) : memref<8xf32> -> i32
  %c0 = arith.constant 0 : index
  return %c0 : index
}
func.func private @harmless() {
  return
}
func.func @public() {
  return
}

// -----

// Rows apart: their stride, and the offset of the first.
// CHECK-LABEL: func.func @strided(
// CHECK-SAME: %[[X:[^:]*]]: memref<?x8xf32, strided<[32, 1], offset: 8>>, %[[Y:[^:]*]]: memref<?x8xf32, strided<[?, 1], offset: ?>>
// CHECK: memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: %[[EIGHT:.*]] = llvm.mlir.constant(8 : i64)
// CHECK: %[[FOUR:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: llvm.mul %[[EIGHT]], %[[FOUR]]
// CHECK: llvm.getelementptr %[[A:.*]][0, 6, 0]
// CHECK: %[[STRIDE:.*]] = llvm.mlir.constant(32 : i64)
// CHECK: llvm.getelementptr %[[A]][0, 6, 1]
// CHECK: llvm.store %[[STRIDE]]
// CHECK: memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: %{{.*}}, %[[OFFSET:.*]], %{{.*}}:2, %{{.*}}:2 = memref.extract_strided_metadata %[[Y]]
// CHECK: llvm.getelementptr %[[A]][0, 7, 0]
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata %[[Y]]
// CHECK: arith.index_cast %[[STRIDES]]#0
// CHECK: llvm.getelementptr %[[A]][0, 7, 1]
func.func @strided(%x: memref<?x8xf32, strided<[32, 1], offset: 8>>, %y: memref<?x8xf32, strided<[?, 1], offset: ?>>, %w: !tandem.workspace) {
  %s = tandem.launch all_reduce %x workspace %w outs(%y : memref<?x8xf32, strided<[?, 1], offset: ?>>)
    : memref<?x8xf32, strided<[32, 1], offset: 8>> -> i32
  return
}

// -----

// The limit is the workspace's own; of a type that the runtime doesn't know
// there is none.
// CHECK-LABEL: func.func private @limit(
// CHECK: %[[P:.*]] = builtin.unrealized_conversion_cast
// CHECK: %[[H:.*]] = llvm.mlir.constant(4096 : i64)
// CHECK: %[[T:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: %[[L:.*]] = llvm.call @tandem_token_limit(%[[P]], %[[H]], %[[T]]) : (!llvm.ptr, i64, i32) -> i64
// CHECK: %[[NONE:.*]] = llvm.mlir.constant(-1 : i64)
// CHECK: return %[[L]], %[[NONE]]
func.func private @limit(%w: !tandem.workspace) -> (i64, i64) {
  %l = tandem.token_limit %w {hidden = 4096 : i64, element_type = bf16}
  %m = tandem.token_limit %w {hidden = 4096 : i64, element_type = f64}
  return %l, %m : i64, i64
}

// -----

// CHECK: module
// CHECK-NOT: tandem.module_info
// CHECK: llvm.mlir.global external constant @tandem_module_info("{}\00")
module attributes {tandem.module_info = "{}"} {}
