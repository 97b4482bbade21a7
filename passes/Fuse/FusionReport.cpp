//===- FusionReport.cpp - What became of each all-reduce ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/FusionReport.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

StringRef mlir::tandem::getName(MissReason reason) {
  switch (reason) {
#define TANDEM_MISS_REASON(name, meaning, advice)                              \
  case MissReason::name:                                                       \
    return #name;
#include "tandem/Passes/MissReasons.def"
  }
  return {};
}

StringRef mlir::tandem::getMeaning(MissReason reason) {
  switch (reason) {
#define TANDEM_MISS_REASON(name, meaning, advice)                              \
  case MissReason::name:                                                       \
    return meaning;
#include "tandem/Passes/MissReasons.def"
  }
  return {};
}

StringRef mlir::tandem::getAdvice(MissReason reason) {
  switch (reason) {
#define TANDEM_MISS_REASON(name, meaning, advice)                              \
  case MissReason::name:                                                       \
    return advice;
#include "tandem/Passes/MissReasons.def"
  }
  return {};
}

size_t FusionReport::getNumFused() const {
  return llvm::count_if(sites,
                        [](const FusionSite &site) { return site.fused; });
}

size_t FusionReport::getNumGuarded() const {
  return llvm::count_if(
      sites, [](const FusionSite &site) { return site.fused && site.guarded; });
}

static void writeSite(llvm::json::OStream &json, const FusionSite &site) {
  auto orNull = [&](StringRef key, const std::string &text) {
    if (text.empty())
      json.attribute(key, nullptr);
    else
      json.attribute(key, llvm::json::fixUTF8(text));
  };
  auto numberOrNull = [&](StringRef key, std::optional<int64_t> number) {
    if (number)
      json.attribute(key, *number);
    else
      json.attribute(key, nullptr);
  };
  json.object([&] {
    json.attribute("function", llvm::json::fixUTF8(site.function));
    json.attribute("location", llvm::json::fixUTF8(site.location));
    json.attribute("status", site.fused ? "fused" : "missed");
    if (site.fused) {
      json.attribute("pattern", site.pattern);
      orNull("guard", site.guard);
      if (site.merged)
        json.attribute("merged", true);
    } else {
      json.attribute("reason", getName(site.reason));
      std::string message = getMeaning(site.reason).str();
      if (!site.detail.empty())
        message += ": " + site.detail;
      json.attribute("message", llvm::json::fixUTF8(message));
      orNull("blocked_by", site.blockedBy);
      json.attribute("suggestion", site.getSuggestion());
    }
    json.attribute("group", llvm::json::fixUTF8(site.group));
    numberOrNull("hidden", site.hidden);
    orNull("dtype", site.dtype);
    numberOrNull("world_size", site.worldSize);
  });
}

void FusionReport::writeJSON(llvm::raw_ostream &os) const {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("version", 1);
    json.attribute("model", llvm::json::fixUTF8(model));
    json.attributeObject("summary", [&] {
      json.attribute("all_reduces", static_cast<int64_t>(sites.size()));
      json.attribute("fused", static_cast<int64_t>(getNumFused()));
      json.attribute("guarded", static_cast<int64_t>(getNumGuarded()));
      json.attribute("missed", static_cast<int64_t>(getNumMissed()));
    });
    json.attributeArray("sites", [&] {
      for (const FusionSite &site : sites)
        writeSite(json, site);
    });
    if (lookAlikes.empty())
      return;
    json.attributeArray("look_alikes", [&] {
      for (const AllReduceLookAlike &lookAlike : lookAlikes)
        json.object([&] {
          json.attribute("function", llvm::json::fixUTF8(lookAlike.function));
          json.attribute("location", llvm::json::fixUTF8(lookAlike.location));
          json.attribute("op", llvm::json::fixUTF8(lookAlike.op));
        });
    });
  });
  os << '\n';
}

std::string mlir::tandem::getLocationText(Location loc) {
  return llvm::TypeSwitch<LocationAttr, std::string>(loc)
      .Case([](NameLoc name) {
        std::string text = "\"" + name.getName().str() + "\"";
        if (!isa<UnknownLoc>(name.getChildLoc()))
          text += " at " + getLocationText(name.getChildLoc());
        return text;
      })
      .Case([](FileLineColLoc file) {
        return file.getFilename().str() + ":" + std::to_string(file.getLine()) +
               ":" + std::to_string(file.getColumn());
      })
      .Case([](CallSiteLoc call) {
        return getLocationText(call.getCallee()) + " called from " +
               getLocationText(call.getCaller());
      })
      .Case([](FusedLoc fused) {
        for (Location part : llvm::reverse(fused.getLocations())) {
          std::string text = getLocationText(part);
          if (text != "unknown")
            return text;
        }
        return std::string("unknown");
      })
      .Case([](OpaqueLoc opaque) {
        return getLocationText(opaque.getFallbackLocation());
      })
      .Default([](LocationAttr) { return std::string("unknown"); });
}
