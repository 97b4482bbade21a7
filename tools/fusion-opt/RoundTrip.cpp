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
#include "tandem/Registration/ModuleAlignment.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

/// Prints `op` as text, generic (so that no printer of an op hides anything) or
/// not, with locations or without.
static std::string print(Operation *op, bool generic, bool locations) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  if (generic)
    flags.printGenericOpForm();
  if (locations)
    flags.enableDebugInfo();
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

/// Reads `written` back and compares with `op`, its locations too if
/// `locations` is set.
static LogicalResult check(Operation *op, StringRef form, StringRef written,
                           bool locations, const DialectRegistry &registry) {
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
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(copyModule(written, "round trip"), SMLoc());
  OwningOpRef<Operation *> readBack = parseSourceFile(source, config);
  if (!readBack)
    return emitError(op->getLoc(), "round trip through ")
           << form << ": it does not read back: " << problem;
  std::string expected = print(op, /*generic=*/true, locations);
  std::string actual = print(*readBack, /*generic=*/true, locations);
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
  std::string bytecode;
  llvm::raw_string_ostream os(bytecode);
  if (failed(writeBytecodeToFile(op, os)))
    return emitError(op->getLoc(),
                     "round trip through bytecode: it can't be written");
  // Ops print their block arguments in forms of their own, which have no place
  // for the arguments' locations.
  std::string text = print(op, /*generic=*/false, /*locations=*/true);
  std::string generic = print(op, /*generic=*/true, /*locations=*/true);
  return success(
      succeeded(check(op, "text", text, /*locations=*/false, registry)) &&
      succeeded(
          check(op, "generic text", generic, /*locations=*/true, registry)) &&
      succeeded(check(op, "bytecode", bytecode, /*locations=*/true, registry)));
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
