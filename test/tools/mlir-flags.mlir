// mlir-opt's flags and passes work on MLIR input.
// RUN: fusion-opt %s --split-input-file --verify-diagnostics
// RUN: not fusion-opt %s --split-input-file \
// RUN:   --pass-pipeline="builtin.module(func.func(canonicalize,cse))" \
// RUN:   --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not fusion-opt %s --split-input-file --convert-arith-to-llvm 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=LLVM
// RUN: fusion-opt %s --list-passes | FileCheck %s --check-prefix=PASSES
// RUN: fusion-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: not fusion-opt %s --no-such-flag 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOFLAG
// RUN: not fusion-opt /dev/null --pass-pipeline="builtin.module(no-such-pass)" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOPASS

// PIPELINE: func.func(
// PIPELINE-NEXT: canonicalize
// PIPELINE-NEXT: cse
// PASSES-DAG: tandem-raise
// PASSES-DAG: control-flow-sink
// PASSES-DAG: one-shot-bufferize
// DIALECTS-DAG: onnx
// DIALECTS-DAG: tandem
// DIALECTS-DAG: shard
// NOFLAG: Unknown command line argument '--no-such-flag'
// NOPASS: 'no-such-pass' does not refer to a registered pass or pass pipeline

// LLVM: llvm.add
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  return %0 : i32
}

// -----

func.func @g(%a: i32) -> f32 {
  // expected-error@below {{type of return operand 0 ('i32') doesn't match function result type ('f32')}}
  return %a : i32
}
