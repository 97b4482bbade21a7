//===- DiagnosticPrinter.cpp - Diagnostics about a model file -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiagnosticPrinter.h"

#include "mlir/IR/Location.h"
#include "tandem/OnnxOps/PrintableText.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

/// Where a diagnostic points: the innermost file position and node name.
namespace {
struct Place {
  FileLineColLoc position;
  StringRef node;
};
} // namespace

static Place findPlace(Location loc) {
  Place place;
  loc->walk([&](Location inner) {
    if (auto position = dyn_cast<FileLineColLoc>(inner)) {
      place.position = position;
      return WalkResult::interrupt();
    }
    if (auto name = dyn_cast<NameLoc>(inner))
      place.node = name.getName();
    return WalkResult::advance();
  });
  return place;
}

static StringRef getLabel(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error: ";
  case DiagnosticSeverity::Warning:
    return "warning: ";
  case DiagnosticSeverity::Remark:
    return "remark: ";
  case DiagnosticSeverity::Note:
    return "note: ";
  }
  return "";
}

static void print(const Diagnostic &diagnostic) {
  raw_ostream &os = llvm::errs();
  Place place = findPlace(diagnostic.getLocation());
  if (place.position) {
    os << makePrintable(place.position.getFilename().getValue()) << ':';
    if (place.position.getLine() != 0)
      os << place.position.getLine() << ':' << place.position.getColumn()
         << ':';
    os << ' ';
  }
  os << getLabel(diagnostic.getSeverity());
  std::string message = diagnostic.str();
  // Many messages name the node themselves.
  if (!place.node.empty() && !StringRef(message).contains(place.node))
    message = ("node '" + place.node + "': " + message).str();
  // MLIR's notes that show an op or a stack have lines of their own.
  StringRef text = message;
  bool hasLines = diagnostic.getSeverity() == DiagnosticSeverity::Note &&
                  (text.starts_with("see current operation:") ||
                   text.starts_with("diagnostic emitted with trace:"));
  os << makePrintable(text, hasLines) << '\n';
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context,
                                     const MlirOptMainConfig &config)
    : ScopedDiagnosticHandler(context) {
  VerbosityLevel verbosity = config.getDiagnosticVerbosityLevel();
  bool showNotes = config.shouldShowNotes();
  setHandler([verbosity, showNotes](Diagnostic &diagnostic) {
    DiagnosticSeverity severity = diagnostic.getSeverity();
    if ((severity == DiagnosticSeverity::Warning &&
         verbosity == VerbosityLevel::ErrorsOnly) ||
        (severity == DiagnosticSeverity::Remark &&
         verbosity != VerbosityLevel::ErrorsWarningsAndRemarks))
      return;
    print(diagnostic);
    if (showNotes)
      for (const Diagnostic &note : diagnostic.getNotes())
        print(note);
  });
}
