//===- Launcher.h - Processes, one a rank --------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_LAUNCHER_H
#define TANDEM_TOOLS_FUSIONRUN_LAUNCHER_H

#include "Options.h"

namespace tandem::run {

/// What mpirun, torchrun or the like says of this process.
struct JoinedRank {
  int rank = 0, world = 1, localRank = 0;
  std::string job; ///< the same for all ranks of the job
};

/// Whether this process is a rank that another launcher started. False and
/// `error` if what the environment says makes no sense.
bool findJoinedRank(JoinedRank &joined, bool &isJoined, std::string &error);

/// Runs this process as one rank of the job. Returns the exit status.
int runJoined(const Options &options, const JoinedRank &joined);

/// Starts the ranks, waits for all, and prints what came of them. A rank that
/// fails or dies ends the others: they have two seconds to say why they can't
/// go on. Returns the exit status.
int runRanks(const Options &options);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_LAUNCHER_H
