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

    In a model that Tandem exported, the fused nodes of the domain `ai.tandem`
    become fused ops again; these have no source region. The other branch of an
    `onnx.If` that guards one stays as it is.
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

    docs/tools.md says more of the options, and of the pipelines.
  }];
  let options = [
    Option<"maxTokens", "max-tokens", "int64_t", "-1",
           "Fuse up to this many tokens, inclusive: a positive number, or -1 "
           "(default), the runtime's limit alone">,
    Option<"limits", "limits", "std::string", "\"\"",
           "Tuning profile (JSON) with a limit for each hidden size, element "
           "type and world size; default: none">,
    Option<"worldSize", "world-size", "int64_t", "0",
           "Ranks in a group that doesn't say its size: a positive number, or 0 "
           "(default), not known">,
    Option<"guard", "guard", "::mlir::tandem::GuardKind",
           "::mlir::tandem::GuardKind::Chain",
           "Where the token count is checked: chain (default), function or none",
           [{::llvm::cl::values(
             clEnumValN(::mlir::tandem::GuardKind::Chain, "chain",
                        "at each chain"),
             clEnumValN(::mlir::tandem::GuardKind::Function, "function",
                        "once a function, which is then versioned"),
             clEnumValN(::mlir::tandem::GuardKind::None, "none",
                        "only in the runtime, which falls back by itself"))}]>,
    Option<"batchInvariant", "batch-invariant", "bool", "false",
           "A token's result must not depend on the batch around it; default: "
           "false">,
    Option<"mergeAllReduces", "merge-all-reduces", "bool", "false",
           "Turn all_reduce(a) + all_reduce(b) into all_reduce(a + b); changes "
           "bits; default: false">,
    Option<"reportFile", "report", "std::string", "\"\"",
           "Write the report (JSON) to this file; - is standard output; "
           "default: to none">,
    Option<"require", "require", "::mlir::tandem::RequireKind",
           "::mlir::tandem::RequireKind::Nothing",
           "Fail where fusion is missed: nothing (default), which is never, or "
           "all",
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

def TandemMaterializeWorkspaces
    : Pass<"tandem-materialize-workspaces", "::mlir::ModuleOp"> {
  let summary = "hand workspaces and the stream to all that need them";
  let description = [{
    Appends to every function that reaches a collective one `!tandem.workspace`
    argument for each group, in order of first use, then one `!tandem.stream`,
    and hands them to all collectives, fused or not, to `tandem.token_limit`,
    and through `func.call` to other functions, recursive ones too. Functions
    that reach only norms get the stream alone. The argument's attribute
    `tandem.group` says which group it is.

    A function that gets arguments must only be used by `func.call`; any other
    use of its name is an error. Running the pass again changes nothing. Source
    regions of raised ops are dropped.

    ```mlir
    func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %s = tandem.all_reduce %x : tensor<?x8xf32>
      return %s : tensor<?x8xf32>
    }
    // becomes
    func.func @f(%x: tensor<?x8xf32>,
                 %w: !tandem.workspace {tandem.group = #tandem.group<"world">},
                 %q: !tandem.stream) -> tensor<?x8xf32> {
      %s = tandem.all_reduce %x workspace %w stream %q : tensor<?x8xf32>
      return %s : tensor<?x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::tandem::TandemDialect"];
}

def TandemDescribe : Pass<"tandem-describe", "::mlir::ModuleOp"> {
  let summary = "write down what callers of public functions need to know";
  let description = [{
    Sets the module's attribute `tandem.module_info` (JSON; see
    docs/lowering.md), and adds for each public function `@f` with a tensor
    result `@f_result_shapes`, which takes `f`'s arguments but its workspaces
    and stream, and stores all dims of all results to a `memref<?xindex>`.
    Public functions get the attribute `llvm.emit_c_interface`.

    Runs on tensors, after `tandem-materialize-workspaces`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tandem::TandemDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::ub::UBDialect"];
}

def TandemSetDestinations
    : Pass<"tandem-set-destinations", "::mlir::ModuleOp"> {
  let summary = "choose the buffers of results before bufferization";
  let description = [{
    Replaces the ops of the dialect by `tandem.launch`, which has destinations,
    pairing each add with the norm behind it, and chooses the destinations so
    that `one-shot-bufferize` needs few buffers and no copies:

    - Results of functions become arguments, put behind the inputs; they carry
      `tandem.result`. Callers pass buffers.
    - A norm is written over its input, and the new residual over the old one,
      where bufferization's analysis finds nothing that still reads those.
      Arguments of public functions are not written to, unless they carry
      `bufferization.writable = true`.
    - Both branches of an `scf.if` write to one buffer, made before it.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tandem::TandemDialect",
                           "::mlir::tensor::TensorDialect"];
}

def TandemToRuntime : Pass<"tandem-to-runtime", "::mlir::ModuleOp"> {
  let summary = "call the runtime's C ABI";
  let description = [{
    Replaces `tandem.launch` on buffers and `tandem.token_limit` by calls of the
    C ABI (`include/tandem/Runtime/tandem.h`), with their arguments in the
    function's stack frame. Every public function, and every function that
    reaches such a call, a check (`cf.assert`) or an allocation, returns an `i32`
    behind its other results: the status of the first call that failed, or 0. The
    module's `tandem.module_info` becomes the global `@tandem_module_info`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::tandem::TandemDialect"];
}

def TandemReturnFailures : Pass<"tandem-return-failures", "::mlir::ModuleOp"> {
  let summary = "return a status where a check or an allocation fails";
  let description = [{
    In functions with a status (`tandem-to-runtime`), whose regions are blocks by
    now (`convert-scf-to-cf`): a `cf.assert` that does not hold, a `memref.alloc`
    for which there is no memory or whose size in bytes is out of range, and a
    call of the runtime or of a function that returns a status other than 0 end
    the function, so that nothing reads what that would have written. It
    frees what the call has allocated, fails the groups whose workspaces it has
    (`tandem_workspace_fail`), so that peers don't wait for it, and returns the
    status.
    `@tandem_module_last_message` returns what was wrong to the same thread.

    Adds the functions by which `finalize-memref-to-llvm` with
    `use-generic-functions` allocates; they remember which buffers there are.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::ub::UBDialect"];
}

def TandemExpandCopies : Pass<"tandem-expand-copies", "::mlir::ModuleOp"> {
  let summary = "copy buffers that are not one block by loops";
  let description = [{
    Replaces each `memref.copy` between buffers of which one has another than
    the identity layout by a `linalg.generic`. Conversion would call a function
    of MLIR's runner library for it, which a compiled model must not need.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

def TandemStrictRounding : Pass<"tandem-strict-rounding"> {
  let summary = "keep each rounding to a narrower float type";
  let description = [{
    Clears the fast-math flags of `arith.extf` and `arith.truncf`. Upstream's
    passes that do narrow arithmetic in f32 set `contract` on them, which lets
    folding drop a rounding between two operations.

    Rounds f64 to bf16 in one step, of which processors and support libraries
    have none: by way of f32, rounded to odd.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def TandemHalvesAsBits : Pass<"tandem-halves-as-bits", "::mlir::ModuleOp"> {
  let summary = "carry scalars of f16 and bf16 as 16-bit integers";
  let description = [{
    In the LLVM dialect: arguments and results of functions that have a body,
    constants, and what is loaded, stored, selected and passed on become `i16`.
    What computes with halves gets and gives them through `llvm.bitcast`.

    So the C interface takes such scalars as `uint16_t`, and code generation for
    processors without such registers needs no functions (`__truncsfbf2`) that
    only some compilers' support libraries have.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // TANDEM_PASSES_PASSES_TD
