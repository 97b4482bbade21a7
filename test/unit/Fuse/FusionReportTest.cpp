//===- FusionReportTest.cpp - The report and its texts --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/FusionReport.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

std::string toText(const FusionReport &report) {
  std::string text;
  llvm::raw_string_ostream os(text);
  report.writeJSON(os);
  return text;
}

/// Writes the report and reads it back; fails the test if it is no JSON.
llvm::json::Object toJSON(const FusionReport &report) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(toText(report));
  if (!value) {
    ADD_FAILURE() << llvm::toString(value.takeError());
    return {};
  }
  return std::move(*value->getAsObject());
}

FusionSite makeFused() {
  FusionSite site;
  site.function = "main";
  site.location = "model.onnx:1:1";
  site.group = "tp";
  site.hidden = 4096;
  site.dtype = "bf16";
  site.worldSize = 2;
  site.fused = true;
  site.pattern = "all_reduce_add_rms_norm";
  site.guarded = true;
  site.guard = "tokens <= 2048";
  return site;
}

TEST(FusionReport, CountsWhatBecameOfEach) {
  FusionReport report;
  EXPECT_EQ(report.getNumFused(), 0u);
  EXPECT_EQ(report.getNumMissed(), 0u);
  FusionSite unguarded = makeFused();
  unguarded.guarded = false;
  report.sites = {makeFused(), unguarded, FusionSite()};
  EXPECT_EQ(report.getNumFused(), 2u);
  EXPECT_EQ(report.getNumGuarded(), 1u);
  EXPECT_EQ(report.getNumMissed(), 1u);
}

TEST(FusionReport, WritesEachField) {
  FusionReport report;
  report.model = "model.onnx";
  report.sites = {makeFused()};
  EXPECT_EQ(toText(report), R"({
  "version": 1,
  "model": "model.onnx",
  "summary": {
    "all_reduces": 1,
    "fused": 1,
    "guarded": 1,
    "missed": 0
  },
  "sites": [
    {
      "function": "main",
      "location": "model.onnx:1:1",
      "status": "fused",
      "pattern": "all_reduce_add_rms_norm",
      "guard": "tokens <= 2048",
      "group": "tp",
      "hidden": 4096,
      "dtype": "bf16",
      "world_size": 2
    }
  ]
}
)");
}

TEST(FusionReport, WhatIsNotKnownIsNull) {
  FusionReport report;
  FusionSite site;
  site.reason = MissReason::RankUnknown;
  report.sites = {site};
  llvm::json::Object object = toJSON(report);
  const llvm::json::Object &written =
      *object.getArray("sites")->front().getAsObject();
  for (const char *key : {"blocked_by", "hidden", "dtype", "world_size"})
    EXPECT_TRUE(written.get(key) && *written.get(key) == nullptr) << key;
  EXPECT_EQ(written.getString("reason"), "RankUnknown");
  EXPECT_EQ(written.getString("message"), getMeaning(MissReason::RankUnknown));
  EXPECT_EQ(written.getString("suggestion"),
            getAdvice(MissReason::RankUnknown));
  for (const char *key : {"pattern", "guard", "merged"})
    EXPECT_EQ(written.get(key), nullptr) << key;
}

TEST(FusionReport, DetailsFollowTheMeaning) {
  FusionReport report;
  FusionSite site;
  site.reason = MissReason::TypeUnsupported;
  site.detail = "f64";
  site.blockedBy = "onnx.Add at model.onnx:3:1";
  report.sites = {site};
  llvm::json::Object object = toJSON(report);
  const llvm::json::Object &written =
      *object.getArray("sites")->front().getAsObject();
  EXPECT_EQ(written.getString("message"),
            (getMeaning(MissReason::TypeUnsupported) + ": f64").str());
  EXPECT_EQ(written.getString("blocked_by"), "onnx.Add at model.onnx:3:1");
}

TEST(FusionReport, AnyBytesMakeValidJSON) {
  // Names come from the model's file.
  FusionReport report;
  report.model = "\xff\xfe.onnx";
  FusionSite fused = makeFused(), missed;
  fused.function = missed.function = "quote \" backslash \\ line\n";
  fused.location = missed.location = "\x80 at \xc3\x28";
  fused.group = missed.blockedBy = missed.detail = "\xed\xa0\x80";
  report.sites = {fused, missed};
  llvm::json::Object object = toJSON(report);
  EXPECT_EQ(
      object.getArray("sites")->front().getAsObject()->getString("function"),
      "quote \" backslash \\ line\n");
}

TEST(FusionReport, ReasonsHaveDistinctTexts) {
  llvm::StringSet<> names, meanings;
#define TANDEM_MISS_REASON(name, meaning, advice)                              \
  EXPECT_EQ(getName(MissReason::name), #name);                                 \
  EXPECT_TRUE(names.insert(getName(MissReason::name)).second);                 \
  EXPECT_TRUE(meanings.insert(getMeaning(MissReason::name)).second) << #name;  \
  EXPECT_FALSE(getAdvice(MissReason::name).empty()) << #name;                  \
  EXPECT_EQ(StringRef(meaning).find_first_of("|\n"), StringRef::npos);         \
  EXPECT_EQ(StringRef(advice).find_first_of("|\n"), StringRef::npos);
#include "tandem/Passes/MissReasons.def"
  EXPECT_GT(names.size(), 10u);
}

class LocationText : public ::testing::Test {
protected:
  Location file(unsigned line) {
    return FileLineColLoc::get(&context, "model.onnx", line, 1);
  }
  Location named(StringRef name, Location child) {
    return NameLoc::get(StringAttr::get(&context, name), child);
  }
  Location unknown() { return UnknownLoc::get(&context); }

  MLIRContext context;
};

TEST_F(LocationText, Simple) {
  EXPECT_EQ(getLocationText(unknown()), "unknown");
  EXPECT_EQ(getLocationText(file(7)), "model.onnx:7:1");
  EXPECT_EQ(getLocationText(named("/o_proj", file(7))),
            "\"/o_proj\" at model.onnx:7:1");
  EXPECT_EQ(getLocationText(named("/o_proj", unknown())), "\"/o_proj\"");
  EXPECT_EQ(getLocationText(named("outer", named("inner", file(7)))),
            "\"outer\" at \"inner\" at model.onnx:7:1");
}

TEST_F(LocationText, Calls) {
  EXPECT_EQ(getLocationText(CallSiteLoc::get(file(3), named("call", file(9)))),
            "model.onnx:3:1 called from \"call\" at model.onnx:9:1");
}

TEST_F(LocationText, OfSeveralTheLastThatSaysAnything) {
  EXPECT_EQ(getLocationText(FusedLoc::get(&context, {file(3), file(9)})),
            "model.onnx:9:1");
  // With metadata, unknown parts are kept.
  EXPECT_EQ(getLocationText(FusedLoc::get({file(3), unknown()},
                                          UnitAttr::get(&context), &context)),
            "model.onnx:3:1");
  EXPECT_EQ(getLocationText(FusedLoc::get({unknown(), unknown()},
                                          UnitAttr::get(&context), &context)),
            "unknown");
}

TEST_F(LocationText, Opaque) {
  static int underlying;
  EXPECT_EQ(getLocationText(OpaqueLoc::get(&underlying, file(4))),
            "model.onnx:4:1");
}

} // namespace
