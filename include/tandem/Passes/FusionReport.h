//===- FusionReport.h - What became of each all-reduce -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSIONREPORT_H
#define TANDEM_PASSES_FUSIONREPORT_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace mlir::tandem {

/// Why an all-reduce did not fuse. docs/reasons.md explains each.
enum class MissReason {
#define TANDEM_MISS_REASON(name, meaning, advice) name,
#include "tandem/Passes/MissReasons.def"
};

/// The reason's name, as reports and remarks spell it.
llvm::StringRef getName(MissReason reason);
/// One clause that says what is the matter.
llvm::StringRef getMeaning(MissReason reason);
/// One clause that says what to do about it.
llvm::StringRef getAdvice(MissReason reason);

/// One all-reduce of the source.
struct FusionSite {
  std::string function; ///< symbol of the function it stands in
  std::string location; ///< where the source has it
  std::string group;    ///< name of the group that it reduces over
  /// Last dimension, absent where it is not static.
  std::optional<int64_t> hidden;
  std::string dtype; ///< element type, as MLIR spells it
  /// Ranks in the group, absent where not known.
  std::optional<int64_t> worldSize;

  bool fused = false;

  // If fused:
  std::string pattern;  ///< as all_reduce_add_rms_norm
  bool guarded = false; ///< whether a check was put before the op
  std::string guard;    ///< what is checked, empty where nothing is
  bool merged = false;  ///< first made one with another all-reduce

  // If not:
  MissReason reason = MissReason::NoNormConsumer;
  std::string detail;    ///< what exactly, may be empty
  std::string blockedBy; ///< the op in the way and its place, may be empty
  std::string advice;    ///< for just this case; may be empty

  /// What to do about a miss.
  llvm::StringRef getSuggestion() const {
    return advice.empty() ? getAdvice(reason) : llvm::StringRef(advice);
  }
};

/// An op that reads like an all-reduce, in a spelling that is not known. It is
/// no site: what it does is anyone's guess.
struct AllReduceLookAlike {
  std::string function; ///< symbol of the function it stands in
  std::string location; ///< where the source has it
  std::string op;       ///< its name, as "AllReduce of domain my.ops"
};

/// All sites of a module, in the order in which they execute.
struct FusionReport {
  std::string model; ///< file that the module came from
  std::string file;  ///< where the report is written; empty if nowhere
  std::vector<FusionSite> sites;
  std::vector<AllReduceLookAlike> lookAlikes;

  size_t getNumFused() const;
  size_t getNumGuarded() const;
  size_t getNumMissed() const { return sites.size() - getNumFused(); }

  /// Writes the report as JSON, version 1 (docs/report.md), with a line end.
  void writeJSON(llvm::raw_ostream &os) const;
};

/// `loc` as one line of text: a name in quotes where there is one, then
/// file:line:column. A fused location is that of its last part that says
/// anything; an unknown one is "unknown".
std::string getLocationText(Location loc);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSIONREPORT_H
