//===- Policy.cpp - Whether a chain is to be fused ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Policy.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::tandem;

llvm::Expected<FusePolicy>
FusePolicy::create(const TandemFuseOptions &options) {
  auto fail = [](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  if (options.maxTokens == 0 || options.maxTokens < -1)
    return fail("max-tokens must be positive, or -1 for the runtime's limit "
                "alone, not " +
                Twine(options.maxTokens));
  if (options.worldSize < 0)
    return fail("world-size must be positive, or 0 where it is not known, "
                "not " +
                Twine(options.worldSize));
  FusePolicy policy;
  policy.options = options;
  if (options.limits.empty())
    return policy;
  llvm::Expected<TuningProfile> loaded = TuningProfile::load(options.limits);
  if (!loaded)
    return loaded.takeError();
  policy.profile = std::move(*loaded);
  return policy;
}

std::optional<int64_t> FusePolicy::getWorldSize(GroupAttr group) const {
  if (group.getSize() > 0)
    return group.getSize();
  return options.worldSize > 0 ? std::optional<int64_t>(options.worldSize)
                               : std::nullopt;
}

std::optional<Miss> FusePolicy::decide(Chain &chain, FusionSite &site,
                                       LimitKey &limit) const {
  GroupAttr group = chain.allReduce.getReductionGroup();
  limit = {group, chain.hidden, chain.type.getElementType(), std::nullopt};
  std::optional<int64_t> &given = limit.given;
  if (options.maxTokens > 0)
    given = options.maxTokens;
  if (profile) {
    std::optional<int64_t> worldSize = getWorldSize(group);
    std::optional<int64_t> profiled =
        profile->lookup(chain.hidden, site.dtype, worldSize);
    if (!profiled || *profiled <= 0) {
      Miss miss{MissReason::NoLimitInProfile,
                "hidden " + std::to_string(chain.hidden) + ", " + site.dtype +
                    (worldSize ? ", world size " + std::to_string(*worldSize)
                               : ", world size unknown"),
                nullptr};
      if (!worldSize && profile->serves(chain.hidden, site.dtype))
        miss.advice = "give world-size: the limits file has positive limits "
                      "for some";
      return miss;
    }
    given = given ? std::min(*given, *profiled) : *profiled;
  }
  if (given && chain.staticTokens && *chain.staticTokens > *given)
    return Miss{MissReason::StaticTokensExceedLimit,
                std::to_string(*chain.staticTokens) + " tokens, limit " +
                    std::to_string(*given),
                nullptr};
  bool compares = !chain.comparedDims.empty();
  if (options.guard == GuardKind::None && compares)
    return Miss{MissReason::ResidualShapeUnproven, {}, chain.getAdd()};
  site.hidden = chain.hidden;
  site.pattern = chain.getPatternName().str();
  site.guarded = options.guard != GuardKind::None &&
                 (compares || !(given && chain.staticTokens));
  if (site.guarded) {
    site.guard =
        "tokens <= " + (given ? std::to_string(*given) : "token_limit");
    if (compares)
      site.guard += " and the residual has the sum's shape";
  }
  return std::nullopt;
}

void mlir::tandem::describeSite(FusionSite &site, GroupAttr group, Type type,
                                std::optional<int64_t> worldSize) {
  site.group = group.getName().str();
  site.worldSize = worldSize;
  llvm::raw_string_ostream(site.dtype) << getElementTypeOrSelf(type);
  if (auto shaped = dyn_cast<RankedTensorType>(type);
      shaped && shaped.getRank() > 0 &&
      !ShapedType::isDynamic(shaped.getShape().back()))
    site.hidden = shaped.getShape().back();
}
