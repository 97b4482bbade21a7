//===- Policy.h - Whether a chain is to be fused -------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_POLICY_H
#define TANDEM_PASSES_FUSE_POLICY_H

#include "Chain.h"
#include "Guard.h"
#include "Limits.h"

#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"

namespace mlir::tandem {

/// The options of fusion as they apply to one chain.
class FusePolicy {
public:
  /// Checks the options and reads the profile that they name.
  static llvm::Expected<FusePolicy> create(const TandemFuseOptions &options);

  /// Ranks in the group; std::nullopt if not known.
  std::optional<int64_t> getWorldSize(GroupAttr group) const;

  /// Why the chain must not fuse, if so. Else sets what `site` says of it and
  /// `limit`. `site` has the element type already.
  std::optional<Miss> decide(Chain &chain, FusionSite &site,
                             LimitKey &limit) const;

private:
  TandemFuseOptions options;
  std::optional<TuningProfile> profile;
};

/// Sets in `site` what is known of an all-reduce, or of an op in its place.
void describeSite(FusionSite &site, GroupAttr group, Type type,
                  std::optional<int64_t> worldSize);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_POLICY_H
