//===- RoundTrip.cpp - Check that IR survives printing and parsing --------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RoundTrip.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Operation.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

/// The form in which the original and what came back are compared: generic, so
/// that no printer of an op hides anything, and with locations.
static std::string printForComparison(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os, OpPrintingFlags().printGenericOpForm().enableDebugInfo());
  return text;
}

static std::string printText(Operation *op, bool generic) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  if (generic)
    flags.printGenericOpForm();
  op->print(os, flags);
  return text;
}

/// The first line in which the two texts differ, for a person to look at.
static std::pair<StringRef, StringRef> firstDifference(StringRef before,
                                                       StringRef after) {
  while (!before.empty() || !after.empty()) {
    auto [lineBefore, restBefore] = before.split('\n');
    auto [lineAfter, restAfter] = after.split('\n');
    if (lineBefore != lineAfter)
      return {lineBefore, lineAfter};
    before = restBefore;
    after = restAfter;
  }
  return {};
}

static LogicalResult check(Operation *op, StringRef expected, StringRef form,
                           StringRef written, const DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(
      op->getContext()->allowsUnregisteredDialects());
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
  });
  FallbackAsmResourceMap resources;
  ParserConfig config(&context, /*verifyAfterParse=*/true, &resources);
  // Resources in bytecode are aligned relative to the buffer's begin.
  std::unique_ptr<llvm::WritableMemoryBuffer> buffer =
      llvm::WritableMemoryBuffer::getNewUninitMemBuffer(
          written.size(), "round trip", llvm::Align(4096));
  llvm::copy(written, buffer->getBufferStart());
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(std::move(buffer), SMLoc());
  OwningOpRef<Operation *> readBack = parseSourceFile(source, config);
  if (!readBack)
    return emitError(op->getLoc(), "round trip through ")
           << form << ": it does not read back: " << problem;
  std::string actual = printForComparison(*readBack);
  if (actual == expected)
    return success();
  auto [before, after] = firstDifference(expected, actual);
  InFlightDiagnostic error = emitError(op->getLoc(), "round trip through ")
                             << form << ": it reads back as something else";
  error.attachNote() << "before: " << before;
  error.attachNote() << "after:  " << after;
  return error;
}

LogicalResult mlir::tandem::verifyRoundTrip(Operation *op,
                                            const DialectRegistry &registry) {
  std::string expected = printForComparison(op);
  std::string bytecode;
  llvm::raw_string_ostream os(bytecode);
  if (failed(writeBytecodeToFile(op, os)))
    return emitError(op->getLoc(),
                     "round trip through bytecode: it can't be written");
  return success(
      succeeded(check(op, expected, "text", printText(op, false), registry)) &&
      succeeded(
          check(op, expected, "generic text", printText(op, true), registry)) &&
      succeeded(check(op, expected, "bytecode", bytecode, registry)));
}

namespace {
class VerifyRoundTrip : public PassWrapper<VerifyRoundTrip, OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyRoundTrip)

  explicit VerifyRoundTrip(const DialectRegistry &registry)
      : registry(registry) {}

  StringRef getName() const override { return "VerifyRoundTrip"; }

  void runOnOperation() override {
    if (failed(verifyRoundTrip(getOperation(), registry)))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  const DialectRegistry &registry;
};
} // namespace

std::unique_ptr<Pass>
mlir::tandem::createVerifyRoundTripPass(const DialectRegistry &registry) {
  return std::make_unique<VerifyRoundTrip>(registry);
}
