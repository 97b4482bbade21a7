// Checks, allocations and calls that fail return a status.
//
// MLIR's llvm.mlir.global reads back with a property that it did not have.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --tandem-to-runtime --convert-scf-to-cf --tandem-return-failures | FileCheck %s
// RUN: fusion-opt %s --tandem-to-runtime --convert-scf-to-cf --tandem-return-failures \
// RUN:   --finalize-memref-to-llvm=use-generic-functions --convert-to-llvm --reconcile-unrealized-casts | FileCheck %s --check-prefix=LLVM

// Each message once.
// CHECK-DAG: llvm.mlir.global internal constant @tandem_module_message_{{.*}}("x has rows\00")
// CHECK-DAG: llvm.mlir.global internal constant @[[$OTHER:tandem_module_message_[0-9]+]]("a call in another of its groups failed\00")
// CHECK-DAG: llvm.mlir.global internal constant @tandem_module_message_{{.*}}("there is not enough memory for a value in between\00")
// CHECK-NOT: ("x has rows

// CHECK-LABEL: func.func @check(
// CHECK-SAME: %[[OK:[^:]*]]: i1) -> i32
// CHECK: cf.cond_br %[[OK]], ^[[ON:.*]], ^[[SAY:.*]]
// CHECK: ^[[ON]]:
// CHECK: cf.cond_br %[[OK]], ^[[ON2:.*]], ^[[SAY]]
// CHECK: ^[[ON2]]:
// CHECK: return %{{.*}} : i32
// CHECK: ^[[SAY]]:
// CHECK: %[[PLACE:.*]] = llvm.mlir.addressof @tandem_module_message : !llvm.ptr
// CHECK: %[[TEXT:.*]] = llvm.mlir.addressof @tandem_module_message_
// CHECK: llvm.store %[[TEXT]], %[[PLACE]]
// CHECK: %[[INVALID:.*]] = arith.constant 1 : i32
// CHECK: cf.br ^[[END:.*]](%[[INVALID]] : i32)
// CHECK: ^[[END]](%[[STATUS:.*]]: i32):
// CHECK: llvm.call @tandem_module_release() : () -> ()
// CHECK: return %[[STATUS]] : i32
// LLVM-NOT: @abort
// LLVM-NOT: @puts
func.func @check(%ok: i1) {
  cf.assert %ok, "x has rows"
  cf.assert %ok, "x has rows"
  return
}

// A size that is known can't be too much to count; one that isn't may be.
// CHECK-LABEL: func.func @buffers(
// CHECK-SAME: %[[N:.*]]: index, %[[M:.*]]: index, %[[F:.*]]: f32)
// CHECK: %[[A:.*]] = memref.alloc() : memref<8xf32>
// CHECK: %[[ADDRESS:.*]] = memref.extract_aligned_pointer_as_index %[[A]]
// CHECK: %[[THERE:.*]] = arith.cmpi ne, %[[ADDRESS]]
// CHECK: cf.cond_br %[[THERE]], ^[[ON:.*]], ^[[SAY:.*]]
// CHECK: ^[[ON]]:
// CHECK: %[[STATIC:.*]] = arith.constant 1.280000e+02 : f64
// CHECK: %[[NI:.*]] = arith.index_castui %[[N]] : index to i64
// CHECK: %[[NF:.*]] = arith.uitofp %[[NI]] : i64 to f64
// CHECK: %[[P:.*]] = arith.mulf %[[STATIC]], %[[NF]] : f64
// CHECK: %[[MI:.*]] = arith.index_castui %[[M]] : index to i64
// CHECK: %[[MF:.*]] = arith.uitofp %[[MI]] : i64 to f64
// CHECK: %[[Q:.*]] = arith.mulf %[[P]], %[[MF]] : f64
// CHECK: %[[MOST:.*]] = arith.constant 4.6116860184273879E+18 : f64
// CHECK: %[[FITS:.*]] = arith.cmpf ole, %[[Q]], %[[MOST]] : f64
// CHECK: cf.cond_br %[[FITS]], ^[[ON2:.*]], ^[[SAY]]
// CHECK: ^[[ON2]]:
// CHECK: memref.alloc(%[[N]], %[[M]])
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[SAY]]
// CHECK: arith.constant 3 : i32
// LLVM-LABEL: llvm.func @buffers(
// LLVM-NOT: llvm.call @malloc
// LLVM: llvm.call @_mlir_memref_to_llvm_alloc
// LLVM: llvm.call @_mlir_memref_to_llvm_free
// LLVM-NOT: llvm.call @free
// LLVM-LABEL: llvm.func @absurd(
func.func @buffers(%n: index, %m: index, %f: f32) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<8xf32>
  memref.store %f, %a[%c0] : memref<8xf32>
  %b = memref.alloc(%n, %m) : memref<?x?x8xf32>
  memref.store %f, %b[%c0, %c0, %c0] : memref<?x?x8xf32>
  memref.dealloc %b : memref<?x?x8xf32>
  memref.dealloc %a : memref<8xf32>
  return
}

// One that is known to be too much never can be had.
// CHECK-LABEL: func.func @absurd(
// CHECK: %[[NO:.*]] = arith.cmpf ole
// CHECK: cf.cond_br %[[NO]]
func.func @absurd(%f: f32) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<4611686018427387904x8xf32>
  memref.store %f, %a[%c0, %c0] : memref<4611686018427387904x8xf32>
  memref.dealloc %a : memref<4611686018427387904x8xf32>
  return
}

// In a loop.
// CHECK-LABEL: func.func @loop(
// CHECK: memref.alloc
// CHECK: cf.cond_br
func.func @loop(%n: index, %f: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.alloc(%i) : memref<?xf32>
    memref.store %f, %a[%c0] : memref<?xf32>
    memref.dealloc %a : memref<?xf32>
  }
  return
}

// A private function that fails has results that nobody may use; its caller ends
// with the same status.
// CHECK-LABEL: func.func @caller(
// CHECK: %[[R:.*]]:3 = call @part(
// CHECK: %[[WELL:.*]] = arith.cmpi eq, %[[R]]#2
// CHECK: cf.cond_br %[[WELL]], ^{{.*}}, ^[[END:.*]](%[[R]]#2 : i32)
// CHECK: ^[[END]](%[[S:.*]]: i32):
// CHECK: return %[[S]]
func.func @caller(%ok: i1, %m: memref<8xf32>, %f: f32) {
  %i, %n = call @part(%ok, %m) : (i1, memref<8xf32>) -> (index, memref<8xf32>)
  memref.store %f, %n[%i] : memref<8xf32>
  return
}
// CHECK-LABEL: func.func private @part(
// CHECK-SAME: -> (index, memref<8xf32>, i32)
// CHECK-DAG: %[[I:.*]] = ub.poison : index
// CHECK-DAG: %[[M:.*]] = ub.poison : memref<8xf32>
// CHECK: return %[[I]], %[[M]], %{{.*}}
func.func private @part(%ok: i1, %m: memref<8xf32>) -> (index, memref<8xf32>) {
  cf.assert %ok, "not here"
  %c0 = arith.constant 0 : index
  return %c0, %m : index, memref<8xf32>
}

// A function that fails says so to the groups that it has: peers may wait for its
// calls.
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %[[OK:[^:]*]]: i1, %[[M:[^:]*]]: memref<8xf32>, %[[W:[^:]*]]: !tandem.workspace, %[[V:[^:]*]]: !tandem.workspace, %[[S:[^:]*]]: !tandem.stream) -> i32
// CHECK: cf.cond_br %[[OK]], ^{{.*}}, ^[[SAY:[^(]*]]{{$}}
// CHECK: %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[END:.*]](%{{.*}}, %[[NULL]] : i32, !llvm.ptr)
// CHECK: ^[[SAY]]:
// CHECK: %[[TEXT:.*]] = llvm.mlir.addressof @tandem_module_message_
// CHECK: cf.br ^[[END]](%{{.*}}, %[[TEXT]] : i32, !llvm.ptr)
// CHECK: ^[[END]](%[[STATUS:.*]]: i32, %[[WHY:.*]]: !llvm.ptr):
// CHECK: llvm.call @tandem_module_release
// CHECK: %[[WP:.*]] = builtin.unrealized_conversion_cast %[[W]] : !tandem.workspace to !llvm.ptr
// CHECK: llvm.call @tandem_workspace_fail(%[[WP]], %[[STATUS]], %[[WHY]]) : (!llvm.ptr, i32, !llvm.ptr) -> i32
// CHECK: %[[VP:.*]] = builtin.unrealized_conversion_cast %[[V]] : !tandem.workspace to !llvm.ptr
// CHECK: llvm.call @tandem_workspace_fail(%[[VP]], %[[STATUS]], %[[WHY]])
// CHECK: return %[[STATUS]] : i32
func.func @groups(%ok: i1, %m: memref<8xf32>, %w: !tandem.workspace, %v: !tandem.workspace, %s: !tandem.stream) {
  cf.assert %ok, "no rows"
  %i, %n = call @part(%ok, %m) : (i1, memref<8xf32>) -> (index, memref<8xf32>)
  return
}

// A call of the runtime, in whatever it lies: nothing behind it reads what it would
// have brought. Groups keep the first failure that they have, so the own one's stays.
// CHECK-LABEL: func.func @calls(
// CHECK: %[[S:.*]] = llvm.call @tandem_all_reduce({{[^{]*}}) : (!llvm.ptr, !llvm.ptr) -> i32
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-NEXT: %[[WHY:.*]] = llvm.mlir.addressof @[[$OTHER]] : !llvm.ptr
// CHECK-NEXT: %[[WELL:.*]] = arith.cmpi eq, %[[S]], %[[ZERO]] : i32
// CHECK-NEXT: cf.cond_br %[[WELL]], ^{{.*}}, ^[[END:.*]](%[[S]], %[[WHY]] : i32, !llvm.ptr)
// CHECK: memref.load
// CHECK: %[[N:.*]] = llvm.call @tandem_rms_norm(
// CHECK-NEXT: arith.constant 0 : i32
// CHECK-NEXT: llvm.mlir.addressof @[[$OTHER]] : !llvm.ptr
// CHECK-NEXT: arith.cmpi eq, %[[N]],
// CHECK-NEXT: cf.cond_br %{{.*}}, ^{{.*}}, ^[[END]](%[[N]],
// CHECK-NOT: tandem.status
// CHECK: ^[[END]](%{{.*}}: i32, %{{.*}}: !llvm.ptr):
// CHECK: llvm.call @tandem_module_release
// CHECK-COUNT-2: llvm.call @tandem_workspace_fail(
// CHECK: return
func.func @calls(%x: memref<1x8xf32>, %g: memref<8xf32>, %w: !tandem.workspace, %v: !tandem.workspace) {
  %c0 = arith.constant 0 : index
  %most = arith.constant 1.0 : f32
  scf.while : () -> () {
    %s = tandem.launch all_reduce %x workspace %v outs(%x : memref<1x8xf32>) : memref<1x8xf32> -> i32
    %e = memref.load %x[%c0, %c0] : memref<1x8xf32>
    %c = arith.cmpf olt, %e, %most : f32
    scf.condition(%c)
  } do {
    %n = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) workspace %w outs(%x : memref<1x8xf32>) {epsilon = 1.0e-5 : f64} : memref<1x8xf32> -> i32
    scf.yield
  }
  return
}

// One without groups has none to tell.
// CHECK-LABEL: func.func @norm(
// CHECK: %[[S:.*]] = llvm.call @tandem_rms_norm(
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[END:.*]](%[[S]] : i32)
// CHECK: ^[[END]](%{{.*}}: i32):
func.func @norm(%x: memref<1x8xf32>, %g: memref<8xf32>) {
  %n = tandem.launch rms_norm %x gamma(%g : memref<8xf32>) outs(%x : memref<1x8xf32>) {epsilon = 1.0e-5 : f64} : memref<1x8xf32> -> i32
  return
}

// What can't fail has no status and stays as it is.
// CHECK-LABEL: func.func private @sum(
// CHECK-SAME: -> index
// CHECK-NOT: cf.cond_br
func.func private @sum(%a: index, %b: index) -> index {
  %c = arith.addi %a, %b : index
  return %c : index
}

// CHECK: llvm.func @tandem_module_last_message() -> !llvm.ptr
// CHECK: llvm.func internal @_mlir_memref_to_llvm_alloc(
// CHECK: llvm.func internal @_mlir_memref_to_llvm_free(
// CHECK: llvm.func internal @tandem_module_release()
