// Ops that communicate are neither deleted, merged, hoisted, sunk nor executed
// where they were not, by any of MLIR's clean-ups, alone or together. The pure
// ops of the dialect are: that shows that each pass had something to do.
//
// RUN: fusion-opt %s --canonicalize | FileCheck %s --check-prefixes=CHECK,DEAD
// RUN: fusion-opt %s --cse | FileCheck %s --check-prefixes=CHECK,DEAD,MERGE
// RUN: fusion-opt %s --loop-invariant-code-motion \
// RUN:   | FileCheck %s --check-prefixes=CHECK,HOIST
// RUN: fusion-opt %s --control-flow-sink \
// RUN:   | FileCheck %s --check-prefixes=CHECK,SINK
// RUN: fusion-opt %s --sccp | FileCheck %s
// RUN: fusion-opt %s --symbol-dce | FileCheck %s --check-prefixes=CHECK,SYMBOL
// RUN: fusion-opt %s --remove-dead-values | FileCheck %s
// RUN: fusion-opt %s \
// RUN:   --pass-pipeline="builtin.module(func.func(canonicalize,cse,loop-invariant-code-motion,control-flow-sink),sccp,symbol-dce,canonicalize{region-simplify=aggressive},cse)" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,DEAD,SYMBOL
// RUN: fusion-opt %s \
// RUN:   --pass-pipeline="builtin.module(sccp,func.func(control-flow-sink,loop-invariant-code-motion,cse,canonicalize,control-flow-sink,cse),inline,symbol-dce)" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,DEAD,SYMBOL

// An unused result is no reason to take part less often.
// CHECK-LABEL: func.func @unused
// CHECK: tandem.all_reduce
// CHECK: tandem.fused_all_reduce_norm
// DEAD-NOT: tandem.add
// DEAD-NOT: tandem.rms_norm
// DEAD-NOT: tandem.token_limit
// CHECK: return
func.func @unused(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  %0 = tandem.all_reduce %x : tensor<4x8xf32>
  %1 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64}
      : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tandem.add %x, %x : tensor<4x8xf32>
  %3 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %4 = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  return
}

// A raised op is what it stands for, whatever its source ops may be.
// CHECK-LABEL: func.func @unused_raised
// CHECK: tandem.all_reduce
// CHECK: "onnx.Custom"
// DEAD-NOT: tandem.add
// CHECK: return
func.func @unused_raised(%x: tensor<4x8xf32>) {
  %0 = tandem.all_reduce %x : tensor<4x8xf32> source {
    %2 = "onnx.Custom"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %2 : tensor<4x8xf32>
  }
  %1 = tandem.add %x, %x : tensor<4x8xf32> source {
    %2 = "onnx.Add"(%x, %x)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    tandem.yield %2 : tensor<4x8xf32>
  }
  return
}

// CHECK-LABEL: func.func @identical
// CHECK-COUNT-2: tandem.all_reduce
// CHECK-COUNT-2: tandem.fused_all_reduce_norm
// MERGE: tandem.add
// MERGE-NOT: tandem.add
// MERGE: tandem.rms_norm
// MERGE-NOT: tandem.rms_norm
// MERGE: tandem.token_limit
// MERGE-NOT: tandem.token_limit
// CHECK: return
func.func @identical(%x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        i64, i64) {
  %0 = tandem.all_reduce %x : tensor<4x8xf32>
  %1 = tandem.all_reduce %x : tensor<4x8xf32>
  %2 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64}
      : tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64}
      : tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = tandem.add %x, %0 : tensor<4x8xf32>
  %5 = tandem.add %0, %x : tensor<4x8xf32>
  %6 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %7 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %8 = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  %9 = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9
      : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>,
        i64, i64
}

// Norms that differ in one attribute are two.
// CHECK-LABEL: func.func @nearly_identical
// CHECK-COUNT-3: tandem.rms_norm
// CHECK-COUNT-3: tandem.token_limit
// CHECK: return
func.func @nearly_identical(%x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, i64, i64, i64) {
  %0 = tandem.rms_norm %x, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %1 = tandem.rms_norm %x, %g {epsilon = 0.25 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %2 = tandem.rms_norm %x, %g
      {epsilon = 0.5 : f64, rounding = #tandem<rounding after_gamma>}
      : tensor<4x8xf32>, tensor<8xf32>
  %3 = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  %4 = tandem.token_limit {hidden = 8 : i64, element_type = bf16}
  %5 = tandem.token_limit {hidden = 8 : i64, element_type = f32,
                           group = #tandem.group<"tp">}
  return %0, %1, %2, %3, %4, %5
      : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, i64, i64, i64
}

// In a loop a collective takes part once an iteration, also if its operands
// do not change; and an all-reduce whose result is not used stays there too.
// CHECK-LABEL: func.func @loop
// HOIST: tandem.add
// HOIST: tandem.rms_norm
// HOIST: tandem.token_limit
// CHECK: scf.for
// CHECK: tandem.all_reduce
// CHECK: tandem.all_reduce
// CHECK: tandem.fused_all_reduce_norm
// CHECK: scf.yield
// CHECK: return
func.func @loop(%x: tensor<4x8xf32>, %g: tensor<8xf32>, %n: index)
    -> (tensor<4x8xf32>, i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %l = arith.constant 0 : i64
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %k = %l)
      -> (tensor<4x8xf32>, i64) {
    %0 = tandem.all_reduce %x {reduction = #tandem<reduction max>}
        : tensor<4x8xf32>
    %1 = tandem.all_reduce %x : tensor<4x8xf32>
    %2 = tandem.fused_all_reduce_norm %x residual(%x : tensor<4x8xf32>)
        gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>)
        {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
    %3 = tandem.add %x, %x : tensor<4x8xf32>
    %4 = tandem.rms_norm %3, %g {epsilon = 0.5 : f64}
        : tensor<4x8xf32>, tensor<8xf32>
    %5 = tandem.token_limit {hidden = 8 : i64, element_type = f32}
    %6 = arith.addf %a, %1 : tensor<4x8xf32>
    %7 = arith.addf %6, %2 : tensor<4x8xf32>
    %8 = arith.addf %7, %4 : tensor<4x8xf32>
    %9 = arith.addi %k, %5 : i64
    scf.yield %8, %9 : tensor<4x8xf32>, i64
  }
  return %r#0, %r#1 : tensor<4x8xf32>, i64
}

// An op that only one branch needs may be computed there, a collective not:
// the ranks may branch apart.
// CHECK-LABEL: func.func @before_if
// CHECK: tandem.all_reduce
// CHECK: tandem.fused_all_reduce_norm
// SINK-NOT: tandem.add
// SINK-NOT: tandem.rms_norm
// CHECK: scf.if
// CHECK-NOT: tandem.all_reduce
// CHECK-NOT: tandem.fused_all_reduce_norm
// SINK: tandem.add
// SINK: tandem.rms_norm
// CHECK: return
func.func @before_if(%c: i1, %x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> tensor<4x8xf32> {
  %0 = tandem.all_reduce %x : tensor<4x8xf32>
  %1 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
      outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64}
      : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tandem.add %x, %x : tensor<4x8xf32>
  %3 = tandem.rms_norm %2, %g {epsilon = 0.5 : f64}
      : tensor<4x8xf32>, tensor<8xf32>
  %4 = scf.if %c -> tensor<4x8xf32> {
    %5 = "onnx.Use"(%0, %1, %3)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
        -> tensor<4x8xf32>
    scf.yield %5 : tensor<4x8xf32>
  } else {
    %5 = "onnx.Other"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    scf.yield %5 : tensor<4x8xf32>
  }
  return %4 : tensor<4x8xf32>
}

// The other way: a collective in a branch is executed only there. Both
// branches are alike, and still each keeps its own.
// CHECK-LABEL: func.func @in_if
// CHECK-NOT: tandem.all_reduce
// CHECK: scf.if
// CHECK-NEXT: tandem.all_reduce
// CHECK-NEXT: tandem.fused_all_reduce_norm
// CHECK: else
// CHECK-NEXT: tandem.all_reduce
// CHECK-NEXT: tandem.fused_all_reduce_norm
// CHECK: return
func.func @in_if(%c: i1, %x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> tensor<4x8xf32> {
  %0 = scf.if %c -> tensor<4x8xf32> {
    %1 = tandem.all_reduce %x : tensor<4x8xf32>
    %2 = tandem.fused_all_reduce_norm %x residual(%1 : tensor<4x8xf32>)
        gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>)
        {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
    scf.yield %2 : tensor<4x8xf32>
  } else {
    %1 = tandem.all_reduce %x : tensor<4x8xf32>
    %2 = tandem.fused_all_reduce_norm %x residual(%1 : tensor<4x8xf32>)
        gamma(%g : tensor<8xf32>) outs(%x : tensor<4x8xf32>)
        {epsilon = 0.5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
    scf.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// A branch that holds nothing but a collective is not empty.
// CHECK-LABEL: func.func @only_in_if
// CHECK: scf.if
// CHECK-NEXT: tandem.all_reduce
// CHECK: return
func.func @only_in_if(%c: i1, %x: tensor<4x8xf32>) {
  scf.if %c {
    %0 = tandem.all_reduce %x : tensor<4x8xf32>
  }
  return
}

// The fused path and its fallback: no select of two collectives' results.
// CHECK-LABEL: func.func @guarded
// CHECK: scf.if
// CHECK-NEXT: tandem.fused_all_reduce_norm
// CHECK: else
// CHECK-NEXT: tandem.all_reduce %{{.*}} {fallback}
// CHECK-NOT: arith.select
// CHECK: return
func.func @guarded(%x: tensor<4x8xf32>, %g: tensor<8xf32>, %n: i64)
    -> tensor<4x8xf32> {
  %l = tandem.token_limit {hidden = 8 : i64, element_type = f32}
  %c = arith.cmpi sle, %n, %l : i64
  %0 = scf.if %c -> tensor<4x8xf32> {
    %1 = tandem.fused_all_reduce_norm %x gamma(%g : tensor<8xf32>)
        outs(%x : tensor<4x8xf32>) {epsilon = 0.5 : f64}
        : tensor<4x8xf32> -> tensor<4x8xf32>
    scf.yield %1 : tensor<4x8xf32>
  } else {
    %1 = tandem.all_reduce %x {fallback} : tensor<4x8xf32>
    %2 = tandem.rms_norm %1, %g {epsilon = 0.5 : f64}
        : tensor<4x8xf32>, tensor<8xf32>
    scf.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// Collectives of different groups and other effects keep their order.
// CHECK-LABEL: func.func @order
// CHECK: tandem.all_reduce %{{.*}} {group = #tandem.group<"b">}
// CHECK-NEXT: "onnx.Effect"
// CHECK-NEXT: tandem.all_reduce %{{.*}} {group = #tandem.group<"a">}
// CHECK-NEXT: tandem.all_reduce %{{.*}} {group = #tandem.group<"b">}
// CHECK-NEXT: return
func.func @order(%x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = tandem.all_reduce %x {group = #tandem.group<"b">} : tensor<4xf32>
  "onnx.Effect"() : () -> ()
  %1 = tandem.all_reduce %x {group = #tandem.group<"a">} : tensor<4xf32>
  %2 = tandem.all_reduce %x {group = #tandem.group<"b">} : tensor<4xf32>
  return %2, %1, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A private function that is called only for its collectives stays; one that
// is not called goes.
// CHECK-LABEL: func.func private @communicates
// CHECK-NEXT: tandem.all_reduce
// SYMBOL-NOT: @not_called
func.func private @communicates(%x: tensor<4xf32>) {
  %0 = tandem.all_reduce %x : tensor<4xf32>
  "onnx.NotInlined"() : () -> ()
  return
}
func.func private @not_called(%x: tensor<4xf32>) {
  %0 = tandem.all_reduce %x : tensor<4xf32>
  return
}
// CHECK-LABEL: func.func @caller
// CHECK: call @communicates
func.func @caller(%x: tensor<4xf32>) {
  call @communicates(%x) : (tensor<4xf32>) -> ()
  return
}

// A loop that does nothing but communicate is not dead, and its constant
// condition opens no way to fold a collective.
// CHECK-LABEL: func.func @constant_condition
// CHECK: tandem.all_reduce
// CHECK: return
func.func @constant_condition(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %true = arith.constant true
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %0 = scf.if %true -> tensor<4xf32> {
    %1 = tandem.all_reduce %z : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %z : tensor<4xf32>
  }
  scf.for %i = %c0 to %n step %c1 {
    %1 = tandem.all_reduce %z {reduction = #tandem<reduction max>}
        : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
