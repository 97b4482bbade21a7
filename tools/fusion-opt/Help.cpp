//===- Help.cpp - The help of fusion-opt ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Help.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

static constexpr const char introduction[] =
    R"help(fusion-opt: fuses all-reduce, residual add and RMSNorm in graphs of
tensor-parallel models, behind a check of the token count at run time.

Usage: fusion-opt INPUT [PASS...] [OPTION...] [-o OUTPUT]

Input
  NAME.onnx      An ONNX model. Given no pass, fusion-opt runs
                 --tandem-fuse-pipeline and ends with one line on standard
                 error: "fused F of N all-reduces (M missed)". Weights in
                 external files are not read and need not be there.
  NAME.mlir      MLIR text. Only the passes that you name are run.
  NAME.mlirbc    MLIR bytecode, likewise.
  -              Standard input: MLIR text or bytecode. This is the default.
  Files of other names are told apart by their content.

Output, -o FILE (default: text on standard output)
  NAME.mlir      MLIR text.
  NAME.mlirbc    MLIR bytecode: smaller, and exact.
  NAME.onnx      An ONNX model, of input that came from one. Fused ops are
                 ops of the domain ai.tandem, with function bodies for runtimes
                 that do not know them.
  Any other name gets MLIR text, as from mlir-opt.
  It is written whole at the end, or not at all.

Examples
  What fuses in a model, and what does not?
    fusion-opt model.onnx -o fused.mlir
  The same with a reason for each all-reduce, in a file for programs:
    fusion-opt model.onnx --tandem-fuse-pipeline="report=report.json" -o fused.mlir
  The reasons as remarks, for people:
    fusion-opt model.onnx --remarks-filter=tandem-fuse -o /dev/null
  An ONNX model for ONNX Runtime, with its weights copied beside it:
    fusion-opt model.onnx --weights=copy -o fused/model.onnx
  Fuse up to 1024 tokens, and fail if any all-reduce is left:
    fusion-opt model.onnx --tandem-fuse-pipeline="max-tokens=1024 require=all" -o fused.mlir
  Import only, to look at the graph:
    fusion-opt model.onnx --pass-pipeline="builtin.module()" -o graph.mlir
  One pass on MLIR text, then a clean-up pass of MLIR's:
    fusion-opt graph.mlir --tandem-raise --canonicalize

Passes and pipelines of Tandem (run in the order given; options are written
--PASS="NAME=VALUE NAME=VALUE")
)help";

static constexpr const char commonFlags[] = R"help(
Flags used most
  --pass-pipeline=TEXT        Run these passes, e.g. "builtin.module(cse)".
  --remarks-filter=REGEX      Print remarks of these categories.
  --mlir-print-ir-after-all   Print the IR after each pass.
  --mlir-print-debuginfo      Print locations: model file and node names.
  --mlir-elide-elementsattrs-if-larger=N
                              Leave out constants of more than N elements.
  --mlir-timing               Say where the time went.
  --verify-each               Check the graph after each pass, also where no
                              pass is named; else only what is written.
  --weights=keep|link|copy    External weights of ONNX output in another folder:
                              leave them, make hard links, or copy them.
  --external-data-dir=DIR     Where they are. Default: the input's folder. If
                              named, symbolic links in it may lead anywhere.
  --onnx-guard=if|op          ONNX output checks the token count in an If node
                              (default) or inside the fused op.
  --verify-roundtrip          Check that the IR reads back as it is written.
  --help-hidden               All passes and flags of MLIR's mlir-opt: they
                              all work here. Those about source text, such as
                              --split-input-file and --verify-diagnostics,
                              take MLIR input only.
  --version                   Print the version.

Exit status: 0 when all went well, 1 otherwise, with an error on standard
error.
)help";

static constexpr StringLiteral passNames[] = {
    "tandem-raise", "tandem-fuse", "tandem-restore",
    "tandem-materialize-workspaces", "tandem-to-runtime"};
static constexpr StringLiteral pipelineNames[] = {"tandem-fuse-pipeline",
                                                  "tandem-lower-pipeline"};

void mlir::tandem::printHelp(raw_ostream &os) {
  os << introduction;
  // MLIR prints an entry with its options to standard output.
  os.flush();
  constexpr size_t descriptionColumn = 32;
  for (StringRef name : pipelineNames)
    if (const PassPipelineInfo *info = PassPipelineInfo::lookup(name))
      info->printHelpStr(/*indent=*/2, descriptionColumn);
  for (StringRef name : passNames)
    if (const PassInfo *info = PassInfo::lookup(name))
      info->printHelpStr(/*indent=*/2, descriptionColumn);
  llvm::outs().flush();
  os << commonFlags;
}
