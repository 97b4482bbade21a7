//===- fusion-run.cpp - Run a compiled model on several ranks -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Needs neither LLVM nor MLIR: a part of the runtime's build. What is not
// compiled yet is handed to fusion-translate (Compile.h).
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"
#include "tandem/OnnxOps/PrintableText.h"

#include <cstdio>

using namespace tandem::run;
using mlir::tandem::makePrintable;

int main(int argc, char **argv) {
  Options options;
  switch (parseOptions(argc, argv, options)) {
  case Parsed::Exit:
    return 0;
  case Parsed::Error:
    return 1;
  case Parsed::Run:
    break;
  }
  JoinedRank joined;
  bool isJoined = false;
  std::string error;
  if (findJoinedRank(joined, isJoined, error) && isJoined && options.ranks &&
      options.ranks != joined.world)
    error = "--ranks is " + std::to_string(options.ranks) +
            ", but this is one of " + std::to_string(joined.world) +
            " ranks that another launcher started";
  // One rank of a name for many would be run in silence.
  if (error.empty() && !isJoined && !options.ranks)
    for (const std::string *name :
         {&options.model, &options.input, &options.output, &options.expect})
      if (error.empty() && hasRank(*name))
        error = "'" + *name +
                "' names a file for each rank, and how many ranks there are is "
                "not said: --ranks=N";
  if (!error.empty()) {
    fprintf(stderr, "fusion-run: error: %s\n", makePrintable(error).c_str());
    return 1;
  }
  return isJoined ? runJoined(options, joined) : runRanks(options);
}
