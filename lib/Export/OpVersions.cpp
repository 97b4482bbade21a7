//===- OpVersions.cpp - When the ops of ONNX changed ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVersions.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <iterator>

namespace {
struct Entry {
  llvm::StringLiteral name;
  /// In ascending order; zeros behind them.
  uint8_t versions[12];
};
} // namespace

static constexpr Entry table[] = {
#include "OpVersions.inc"
};

bool mlir::tandem::onnx::isSameOp(llvm::StringRef opType, int64_t opset,
                                  int64_t otherOpset) {
  const Entry *entry = llvm::lower_bound(
      table, opType, [](const Entry &entry, llvm::StringRef name) {
        return entry.name < name;
      });
  if (entry == std::end(table) || entry->name != opType)
    return true;
  auto [first, last] = std::minmax(opset, otherOpset);
  return llvm::none_of(entry->versions,
                       [first = first, last = last](uint8_t version) {
                         return version > first && version <= last;
                       });
}
