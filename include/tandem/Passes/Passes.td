//===- Passes.td - The passes ---------------------------- -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_PASSES_TD
#define TANDEM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def TandemRaise : Pass<"tandem-raise", "::mlir::ModuleOp"> {
  let summary = "raise source ops to tandem ops";
  let description = [{
    Finds all-reduces, same-shape adds and RMSNorms in the spellings of ONNX
    (`onnx.*` ops as onnx-mlir writes them, also as `torch.operator "onnx.*"`),
    of PyTorch's functional collectives and of the `shard` dialect, and
    replaces each by its tandem op. The replaced ops move into the new op's
    `source` region, from where `tandem-restore` can put them back.

    Norms are raised only where the tandem op means the same, rounding by
    rounding; docs/raise.md lists what is matched and what is not.
  }];
  let dependentDialects = ["::mlir::tandem::TandemDialect",
                           "::mlir::tensor::TensorDialect"];
}

def TandemFuse : Pass<"tandem-fuse", "::mlir::ModuleOp"> {
  let summary = "fuse all-reduce, add and RMSNorm behind a token-count check";
  let description = [{
    Replaces chains `all_reduce -> [bias add] -> [rms_norm ->] [add ->]
    rms_norm` by `tandem.fused_all_reduce_norm`, behind a check made at run
    time that the token count lies in 1..limit; the other branch keeps the
    original ops, its all-reduce marked `fallback`.

    Each all-reduce is reported, fused or not, with the reason: as a remark
    (category `tandem-fuse`), and in the file given by `report`. The module
    gets the attribute `tandem.signature`, which the ranks compare when they
    make a workspace. Running the pass again changes nothing.
  }];
  let options = [
    Option<"maxTokens", "max-tokens", "int64_t", "-1",
           "Fuse up to this many tokens, inclusive; -1: the runtime's limit "
           "alone">,
    Option<"limits", "limits", "std::string", "\"\"",
           "Tuning profile (JSON) with a limit for each hidden size, element "
           "type and world size">,
    Option<"worldSize", "world-size", "int64_t", "0",
           "Ranks in a group; 0: not known">,
    Option<"guard", "guard", "::mlir::tandem::GuardKind",
           "::mlir::tandem::GuardKind::Chain",
           "Where the token count is checked",
           [{::llvm::cl::values(
             clEnumValN(::mlir::tandem::GuardKind::Chain, "chain",
                        "at each chain"),
             clEnumValN(::mlir::tandem::GuardKind::Function, "function",
                        "once a function, which is then versioned"),
             clEnumValN(::mlir::tandem::GuardKind::None, "none",
                        "only in the runtime, which falls back by itself"))}]>,
    Option<"batchInvariant", "batch-invariant", "bool", "false",
           "A token's result must not depend on the batch around it">,
    Option<"mergeAllReduces", "merge-all-reduces", "bool", "false",
           "Turn all_reduce(a) + all_reduce(b) into all_reduce(a + b); changes "
           "bits">,
    Option<"reportFile", "report", "std::string", "\"\"",
           "Write the report (JSON) to this file; - is standard output">,
    Option<"require", "require", "::mlir::tandem::RequireKind",
           "::mlir::tandem::RequireKind::Nothing",
           "Fail where fusion is missed",
           [{::llvm::cl::values(
             clEnumValN(::mlir::tandem::RequireKind::Nothing, "nothing",
                        "never"),
             clEnumValN(::mlir::tandem::RequireKind::All, "all",
                        "if any all-reduce is not fused"))}]>,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tandem::TandemDialect",
                           "::mlir::tensor::TensorDialect"];
}

def TandemRestore : Pass<"tandem-restore", "::mlir::ModuleOp"> {
  let summary = "put the source ops of what did not fuse back";
  let description = [{
    Replaces every raised op that still holds its `source` region by the ops
    in it, at the places where they stood. A module in which nothing fused
    comes out as it went into `tandem-raise`.
  }];
}

#endif // TANDEM_PASSES_PASSES_TD
