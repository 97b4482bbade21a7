//===- Limits.h - Token limits given to the pass -------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_LIMITS_H
#define TANDEM_PASSES_FUSE_LIMITS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace mlir::tandem {

/// Up to how many tokens fusion pays off, by case, as `fusion-bench --tune`
/// writes it (docs/limits.md).
class TuningProfile {
public:
  /// Reads a profile. The error names the file and the entry.
  static llvm::Expected<TuningProfile> load(llvm::StringRef path);
  /// Reads a profile from `text`; `name` is for messages.
  static llvm::Expected<TuningProfile> parse(llvm::StringRef text,
                                             llvm::StringRef name);

  /// The limit of the entry that says most about the case; of several such
  /// the smallest. Where the world size is not known, the smallest over all
  /// that it may be. std::nullopt where no entry fits.
  std::optional<int64_t> lookup(int64_t hidden, llvm::StringRef dtype,
                                std::optional<int64_t> worldSize) const;

  /// Whether there is a positive limit for some world size.
  bool serves(int64_t hidden, llvm::StringRef dtype) const;

private:
  /// As lookup; std::nullopt is a world size that no entry names.
  std::optional<int64_t> lookupWorld(int64_t hidden, llvm::StringRef dtype,
                                     std::optional<int64_t> worldSize) const;

  struct Entry {
    std::optional<int64_t> worldSize, hidden; ///< absent: any
    std::string dtype;                        ///< empty: any
    int64_t maxTokens;
  };
  std::vector<Entry> entries;
};

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_LIMITS_H
