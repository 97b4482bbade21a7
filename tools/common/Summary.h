//===- Summary.h - What a tool says of a run of tandem-fuse ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_SUMMARY_H
#define TANDEM_TOOLS_COMMON_SUMMARY_H

#include "mlir/Support/LLVM.h"

#include <cstddef>

namespace mlir::tandem {
struct FusionReport;

/// What became of a model's all-reduces.
struct FusionCount {
  size_t fused = 0;
  size_t missed = 0;
  /// Ops that only read like all-reduces; the pass has warned of them.
  size_t lookAlikes = 0;
  /// Whether the reasons were told, in a report or as remarks.
  bool isExplained = false;

  /// Adds a run of the pass to those before. A later run reports again what
  /// earlier ones have fused and missed.
  void add(const FusionReport &report);
};

/// Prints a note to standard error where there is something to look into,
/// `advice` being how to see the reasons of misses, and then the line
/// "fused F of N all-reduces (M missed)", which scripts may rely on.
void printSummary(StringRef tool, const FusionCount &count, StringRef advice);

/// Whether one of a tool's arguments is an option of `tandem-fuse`, which only
/// goes inside of another: "--max-tokens=8", or "max-tokens=8" where a file is
/// expected. Returns it as NAME=VALUE, an empty string if there is none.
std::string findFuseOption(ArrayRef<char *> arguments);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_SUMMARY_H
