// Scalars of f16 and bf16 go about as 16-bit integers.
//
// RUN: fusion-opt %s --tandem-halves-as-bits | FileCheck %s
// RUN: fusion-opt %s --tandem-halves-as-bits | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=LLVM

// LLVM-NOT: bfloat

// What is only moved.
// CHECK-LABEL: llvm.func @moved(
// CHECK-SAME: %[[A:[^:]*]]: i16, %[[C:[^:]*]]: i1, %[[P:[^:]*]]: !llvm.ptr) -> i16
// CHECK: %[[K:.*]] = llvm.mlir.constant(16256 : i16) : i16
// CHECK: %[[L:.*]] = llvm.load %[[P]] : !llvm.ptr -> i16
// CHECK: %[[S:.*]] = llvm.select %[[C]], %[[L]], %[[A]] : i1, i16
// CHECK: llvm.store %[[S]], %[[P]] : i16, !llvm.ptr
// CHECK: llvm.cond_br %[[C]], ^[[END:.*]](%[[S]] : i16), ^[[END]](%[[K]] : i16)
// CHECK: ^[[END]](%[[R:.*]]: i16):
// CHECK: llvm.return %[[R]] : i16
llvm.func @moved(%a: bf16, %c: i1, %p: !llvm.ptr) -> bf16 {
  %k = llvm.mlir.constant(1.0 : bf16) : bf16
  %l = llvm.load %p : !llvm.ptr -> bf16
  %s = llvm.select %c, %l, %a : i1, bf16
  llvm.store %s, %p : bf16, !llvm.ptr
  llvm.cond_br %c, ^end(%s : bf16), ^end(%k : bf16)
^end(%r: bf16):
  llvm.return %r : bf16
}

// Casts to bits and back are nothing any more.
// CHECK-LABEL: llvm.func @casts(
// CHECK-SAME: %[[A:.*]]: i16) -> i16
// CHECK-NEXT: llvm.return %[[A]] : i16
llvm.func @casts(%a: bf16) -> bf16 {
  %b = llvm.bitcast %a : bf16 to i16
  %c = llvm.bitcast %b : i16 to f16
  %d = llvm.bitcast %c : f16 to bf16
  llvm.return %d : bf16
}

// What computes gets the type that it wants.
// CHECK-LABEL: llvm.func @computed(
// CHECK-SAME: %[[A:.*]]: i16, %[[B:.*]]: i16) -> i16
// CHECK: %[[HA:.*]] = llvm.bitcast %[[A]] : i16 to f16
// CHECK: %[[HB:.*]] = llvm.bitcast %[[B]] : i16 to f16
// CHECK: %[[SUM:.*]] = llvm.fadd %[[HA]], %[[HB]] : f16
// CHECK: %[[BITS:.*]] = llvm.bitcast %[[SUM]] : f16 to i16
// CHECK: %[[AGAIN:.*]] = llvm.bitcast %[[BITS]] : i16 to f16
// CHECK: %[[NEG:.*]] = llvm.fneg %[[AGAIN]] : f16
// CHECK: %[[R:.*]] = llvm.bitcast %[[NEG]] : f16 to i16
// CHECK: llvm.return %[[R]] : i16
llvm.func @computed(%a: f16, %b: f16) -> f16 {
  %s = llvm.fadd %a, %b : f16
  %n = llvm.fneg %s : f16
  llvm.return %n : f16
}

// Several results come in a struct; those of functions without a body keep
// their types.
// CHECK-LABEL: llvm.func @calls(
// CHECK-SAME: %[[A:.*]]: i16) -> !llvm.struct<(i16, i32)>
// CHECK: %[[BOTH:.*]] = llvm.call @calls(%[[A]]) : (i16) -> !llvm.struct<(i16, i32)>
// CHECK: %[[ONE:.*]] = llvm.extractvalue %[[BOTH]][0] : !llvm.struct<(i16, i32)>
// CHECK: %[[H:.*]] = llvm.bitcast %[[ONE]] : i16 to f16
// CHECK: %[[E:.*]] = llvm.call @other(%[[H]]) : (f16) -> f16
// CHECK: %[[EB:.*]] = llvm.bitcast %[[E]] : f16 to i16
// CHECK: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<(i16, i32)>
// CHECK: %[[I:.*]] = llvm.insertvalue %[[EB]], %[[U]][0] : !llvm.struct<(i16, i32)>
// CHECK: llvm.return %[[I]] : !llvm.struct<(i16, i32)>
// CHECK: llvm.func @other(f16) -> f16
llvm.func @calls(%a: f16) -> !llvm.struct<(f16, i32)> {
  %both = llvm.call @calls(%a) : (f16) -> !llvm.struct<(f16, i32)>
  %one = llvm.extractvalue %both[0] : !llvm.struct<(f16, i32)>
  %e = llvm.call @other(%one) : (f16) -> f16
  %u = llvm.mlir.undef : !llvm.struct<(f16, i32)>
  %i = llvm.insertvalue %e, %u[0] : !llvm.struct<(f16, i32)>
  llvm.return %i : !llvm.struct<(f16, i32)>
}
llvm.func @other(f16) -> f16

// Arrays and vectors are as they were.
// CHECK-LABEL: llvm.func @array(
// CHECK-SAME: %[[A:.*]]: !llvm.array<2 x f16>) -> i16
// CHECK: %[[E:.*]] = llvm.extractvalue %[[A]][1] : !llvm.array<2 x f16>
// CHECK: %[[B:.*]] = llvm.bitcast %[[E]] : f16 to i16
// CHECK: llvm.return %[[B]] : i16
llvm.func @array(%a: !llvm.array<2 x f16>) -> f16 {
  %e = llvm.extractvalue %a[1] : !llvm.array<2 x f16>
  llvm.return %e : f16
}
