//===- Options.h - The command line of fusion-run ------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_OPTIONS_H
#define TANDEM_TOOLS_FUSIONRUN_OPTIONS_H

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::run {

struct Options {
  std::string model, entry = "main";
  std::string input, output, expect; ///< paths; "{rank}" stands for the rank
  int ranks = 0; ///< 0: not given; 1, or what mpirun or torchrun says
  bool isCuda = false;
  double tolerance = -1;  ///< below 0: by the type
  int64_t maxTokens = -1; ///< of the workspaces; below 0: by the arguments
  int64_t timeoutMs = -1; ///< -1: the runtime's
  int repeat = 0;         ///< timed runs; 0: none
  bool showsCounters = false;
  std::string rendezvous; ///< name under which joined ranks meet
  std::vector<std::string> compileFlags;
};

/// What to do after the command line has been read.
enum class Parsed { Run, Exit, Error };

/// Reads the command line; prints help, version or an error itself.
Parsed parseOptions(int argc, char **argv, Options &options);

/// `path` with "{rank}" replaced.
std::string forRank(const std::string &path, int rank);

/// Whether `path` has a place for the rank.
bool hasRank(const std::string &path);

/// The names in `options` that are those of one rank's file, such as
/// 'block.rank0.so', quoted and separated by commas; empty: none is.
std::string listFilesOfOneRank(const Options &options);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_OPTIONS_H
