//===- ExportFlags.cpp - Flags of the tools that write ONNX -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExportFlags.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ManagedStatic.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Says which values there are where one is none of them.
template <typename T>
struct ChoiceParser : llvm::cl::parser<T> {
  using llvm::cl::parser<T>::parser;

  bool parse(llvm::cl::Option &option, StringRef name, StringRef text,
             T &value) {
    if (this->findOption(text) != this->getNumOptions())
      return llvm::cl::parser<T>::parse(option, name, text, value);
    std::string choices;
    for (unsigned i = 0, e = this->getNumOptions(); i != e; ++i)
      choices += (i == 0 ? "" : " or ") + this->getOption(i).str();
    return option.error("takes " + choices + ", not '" + text + "'");
  }
};

struct ExportFlags {
  llvm::cl::opt<ExternalWeights, false, ChoiceParser<ExternalWeights>> weights{
      "weights",
      llvm::cl::desc("Weights in external files, for ONNX output elsewhere"),
      llvm::cl::init(ExternalWeights::Keep),
      llvm::cl::values(clEnumValN(ExternalWeights::Keep, "keep",
                                  "leave them where they are"),
                       clEnumValN(ExternalWeights::Link, "link", "hard links"),
                       clEnumValN(ExternalWeights::Copy, "copy", "copies"))};
  llvm::cl::opt<ExportedGuard, false, ChoiceParser<ExportedGuard>> guard{
      "onnx-guard", llvm::cl::desc("Where ONNX output checks the token count"),
      llvm::cl::init(ExportedGuard::If),
      llvm::cl::values(
          clEnumValN(ExportedGuard::If, "if", "in the graph, by an If node"),
          clEnumValN(ExportedGuard::Op, "op", "inside the fused op"))};
  llvm::cl::opt<std::string> externalDataDir{
      "external-data-dir", llvm::cl::desc("Folder of external data files"),
      llvm::cl::value_desc("folder")};
};
} // namespace

static llvm::ManagedStatic<ExportFlags> flags;

void mlir::tandem::registerExportFlags() { *flags; }

StringRef mlir::tandem::getGivenExportFlag() {
  if (flags->weights.getNumOccurrences())
    return "--weights";
  if (flags->guard.getNumOccurrences())
    return "--onnx-guard";
  return {};
}

OnnxExportOptions mlir::tandem::getExportFlags(StringRef outputPath) {
  OnnxExportOptions options;
  options.outputPath = outputPath.str();
  options.externalDataDir = flags->externalDataDir;
  options.weights = flags->weights;
  options.guard = flags->guard;
  return options;
}
