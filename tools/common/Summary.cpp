//===- Summary.cpp - What a tool says of a run of tandem-fuse -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Summary.h"

#include "tandem/Passes/FusionOptions.h"
#include "tandem/Passes/FusionReport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::tandem;

void FusionCount::add(const FusionReport &report) {
  fused = report.getNumFused();
  missed = report.getNumMissed();
  lookAlikes = report.lookAlikes.size();
  isExplained |= !report.file.empty();
}

void mlir::tandem::printSummary(StringRef tool, const FusionCount &count,
                                StringRef advice) {
  size_t total = count.fused + count.missed;
  if (count.missed > 0 && !count.isExplained)
    llvm::errs() << tool << ": note: to see why, " << advice << '\n';
  else if (total == 0 && count.lookAlikes == 0)
    llvm::errs() << tool
                 << ": note: there is no all-reduce in it; is it the graph of "
                    "one rank of a tensor-parallel model? (docs/raise.md lists "
                    "the all-reduces that are known)\n";
  llvm::errs() << "fused " << count.fused << " of " << total << " all-reduces ("
               << count.missed << " missed)\n";
}

std::string mlir::tandem::findFuseOption(ArrayRef<char *> arguments) {
  for (size_t i = 0, e = arguments.size(); i != e; ++i) {
    StringRef argument = arguments[i];
    if (argument == "--")
      break;
    StringRef given = argument.ltrim('-');
    auto [givenName, value] = given.split('=');
    bool hasValue = givenName.size() != given.size();
    std::string name = givenName.str(), bare = given.str();
    // Python's tools spell options so.
    llvm::replace(name, '_', '-');
    std::replace(bare.begin(), bare.begin() + name.size(), '_', '-');
    // A file may have any name.
    if (!isFuseOption(name) || (bare.size() == argument.size() && !hasValue))
      continue;
    if (hasValue || i + 1 == e || arguments[i + 1][0] == '-')
      return bare;
    return bare + "=" + arguments[i + 1];
  }
  return {};
}
