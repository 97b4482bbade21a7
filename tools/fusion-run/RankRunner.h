//===- RankRunner.h - One rank's run -------------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_RANKRUNNER_H
#define TANDEM_TOOLS_FUSIONRUN_RANKRUNNER_H

#include "Options.h"
#include "tandem/Runtime/tandem.h"

#include <functional>

namespace tandem::run {

/// Where a rank stands among the others, and how they find each other.
struct Placement {
  int rank = 0, world = 1;
  /// Index among the ranks of this host, which is that of its device.
  int localRank = 0;
  /// One id a group, made by the process that started the ranks; empty: they
  /// meet by `rendezvous`.
  std::vector<tandem_unique_id> ids;
  std::string rendezvous;
};

/// What came of a rank.
struct RankOutcome {
  bool isOk = false;
  tandem_status status = TANDEM_STATUS_OK; ///< of the runtime, if it failed
  bool isOfPeer = false;                   ///< another rank is the cause
  std::string error;                       ///< one sentence, if not ok
  std::string report;                      ///< lines for standard output
};

/// Loads `model` (a shared object), reads the arguments, runs, writes and
/// compares as `options` say. `progress` is called between steps with what
/// comes next.
RankOutcome runRank(const Options &options, const std::string &model,
                    const Placement &placement,
                    const std::function<void(const std::string &)> &progress);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_RANKRUNNER_H
