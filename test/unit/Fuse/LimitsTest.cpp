//===- LimitsTest.cpp - Tuning profiles -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Limits.h"

#include "mlir/Support/LLVM.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

/// A profile with these entries; fails the test where they are refused.
TuningProfile parse(const std::string &limits) {
  llvm::Expected<TuningProfile> profile = TuningProfile::parse(
      R"({"version": 1, "limits": [)" + limits + "]}", "p.json");
  if (profile)
    return std::move(*profile);
  ADD_FAILURE() << llvm::toString(profile.takeError());
  return {};
}

/// The message that a profile's text is refused with.
std::string getError(StringRef text) {
  llvm::Expected<TuningProfile> profile = TuningProfile::parse(text, "p.json");
  if (profile)
    return "no error";
  return llvm::toString(profile.takeError());
}

/// The same of one entry.
std::string getEntryError(const std::string &entry) {
  return getError(R"({"version": 1, "limits": [{"max_tokens": 1}, )" + entry +
                  "]}");
}

TEST(Limits, NoEntryFitsAnEmptyProfile) {
  EXPECT_EQ(parse("").lookup(8, "f32", 2), std::nullopt);
}

TEST(Limits, AnEntryThatSaysNothingFitsAll) {
  TuningProfile profile = parse(R"({"max_tokens": 7})");
  EXPECT_EQ(profile.lookup(8, "f32", 2), 7);
  EXPECT_EQ(profile.lookup(4096, "bf16", std::nullopt), 7);
}

TEST(Limits, EachFieldMustFit) {
  TuningProfile profile = parse(
      R"({"hidden": 8, "dtype": "f16", "world_size": 2, "max_tokens": 7})");
  EXPECT_EQ(profile.lookup(8, "f16", 2), 7);
  EXPECT_EQ(profile.lookup(9, "f16", 2), std::nullopt);
  EXPECT_EQ(profile.lookup(8, "bf16", 2), std::nullopt);
  EXPECT_EQ(profile.lookup(8, "f16", 4), std::nullopt);
}

TEST(Limits, TheEntryThatSaysMostCounts) {
  // In both orders, and though it is not the smallest.
  for (const char *limits :
       {R"({"max_tokens": 1}, {"hidden": 8, "max_tokens": 2},
           {"hidden": 8, "dtype": "f16", "max_tokens": 3},
           {"hidden": 8, "dtype": "f16", "world_size": 2, "max_tokens": 4})",
        R"({"hidden": 8, "dtype": "f16", "world_size": 2, "max_tokens": 4},
           {"hidden": 8, "dtype": "f16", "max_tokens": 3},
           {"hidden": 8, "max_tokens": 2}, {"max_tokens": 1})"}) {
    TuningProfile profile = parse(limits);
    EXPECT_EQ(profile.lookup(8, "f16", 2), 4);
    EXPECT_EQ(profile.lookup(8, "f16", 4), 3);
    EXPECT_EQ(profile.lookup(8, "f32", 4), 2);
    EXPECT_EQ(profile.lookup(9, "f16", 2), 1);
  }
}

TEST(Limits, OfEquallySpecificEntriesTheSmallestCounts) {
  EXPECT_EQ(parse(R"({"hidden": 8, "max_tokens": 5},
                     {"dtype": "f16", "max_tokens": 3},
                     {"world_size": 2, "max_tokens": 4})")
                .lookup(8, "f16", 2),
            3);
}

TEST(Limits, WithoutAWorldSizeAnyEntryMayBeTheOne) {
  TuningProfile profile = parse(R"({"world_size": 2, "max_tokens": 64},
                                   {"world_size": 4, "max_tokens": 16})");
  EXPECT_EQ(profile.lookup(8, "f16", std::nullopt), 16);
  EXPECT_EQ(profile.lookup(8, "f16", 2), 64);
  EXPECT_EQ(profile.lookup(8, "f16", 8), std::nullopt);
  // An entry that says more of another case doesn't hide the smaller limit.
  profile = parse(R"({"hidden": 8, "dtype": "f16", "max_tokens": 64},
                     {"world_size": 8, "hidden": 8, "max_tokens": 5})");
  EXPECT_EQ(profile.lookup(8, "f16", std::nullopt), 5);
  EXPECT_EQ(profile.lookup(8, "f16", 2), 64);
}

TEST(Limits, MinusOneAndZeroAreLimits) {
  EXPECT_EQ(parse(R"({"max_tokens": -1})").lookup(8, "f32", 2), -1);
  EXPECT_EQ(parse(R"({"max_tokens": 0})").lookup(8, "f32", 2), 0);
}

TEST(Limits, LargeNumbersAreExact) {
  EXPECT_EQ(parse(R"({"max_tokens": 9223372036854775807})").lookup(8, "f32", 2),
            INT64_MAX);
}

TEST(Limits, OtherFieldsAreLeftToOthers) {
  // As a newer fusion-bench may write.
  EXPECT_EQ(
      parse(R"({"max_tokens": 3, "measured_us": 4.5})").lookup(8, "f32", 2), 3);
  EXPECT_EQ(getError(R"({"version": 1, "device": "H200", "limits": []})"),
            "no error");
}

TEST(Limits, WhatIsNoProfile) {
  EXPECT_EQ(getError(""),
            "limits file 'p.json': [1:0, byte=0]: Unexpected EOF");
  EXPECT_EQ(getError("[]"), "limits file 'p.json': is not a JSON object");
  EXPECT_EQ(getError("{}"), "limits file 'p.json': has no integer 'version'");
  EXPECT_EQ(getError(R"({"version": "1"})"),
            "limits file 'p.json': has no integer 'version'");
  EXPECT_EQ(
      getError(R"({"version": 2, "limits": []})"),
      "limits file 'p.json': has version 2, this program reads version 1");
  EXPECT_EQ(getError(R"({"version": 1})"),
            "limits file 'p.json': has no array 'limits'");
  EXPECT_EQ(getError(R"({"version": 1, "limits": {}})"),
            "limits file 'p.json': has no array 'limits'");
  // Cut off.
  EXPECT_NE(getError(R"({"version": 1, "limits": [{"max_)").find("p.json"),
            std::string::npos);
}

TEST(Limits, NestingIsBounded) {
  // The parser of JSON would run out of stack.
  std::string deep(1 << 20, '[');
  EXPECT_EQ(getError(deep), "limits file 'p.json': is nested too deeply");
}

TEST(Limits, WhatIsNoEntry) {
  auto message = [](StringRef text) {
    return ("limits file 'p.json': limits[1]: " + text).str();
  };
  EXPECT_EQ(getEntryError("3"), message("is not an object"));
  EXPECT_EQ(getEntryError("{}"),
            message("'max_tokens' is not an integer of -1 or more"));
  for (const char *tokens : {"-2", "1.5", "\"many\"", "null", "1e300"})
    EXPECT_EQ(getEntryError(std::string("{\"max_tokens\": ") + tokens + "}"),
              message("'max_tokens' is not an integer of -1 or more"))
        << tokens;
  for (const char *key : {"hidden", "world_size"})
    for (const char *size : {"0", "-8", "8.5", "\"8\"", "null"})
      EXPECT_EQ(getEntryError("{\"max_tokens\": 1, \"" + std::string(key) +
                              "\": " + size + "}"),
                message("'" + std::string(key) + "' is not a positive integer"))
          << size;
  for (const char *dtype : {"\"f64\"", "\"float32\"", "\"\"", "32"})
    EXPECT_EQ(getEntryError(std::string("{\"max_tokens\": 1, \"dtype\": ") +
                            dtype + "}"),
              message("'dtype' is not one of f32, f16, bf16"))
        << dtype;
}

TEST(Limits, FilesThatCannotBeRead) {
  llvm::Expected<TuningProfile> profile =
      TuningProfile::load("/nonexistent/p.json");
  ASSERT_FALSE(static_cast<bool>(profile));
  EXPECT_EQ(llvm::toString(profile.takeError()),
            "limits file '/nonexistent/p.json': No such file or directory");
}

TEST(Limits, FilesAreRead) {
  SmallString<64> path;
  int fd;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("limits", "json", fd, path));
  {
    llvm::raw_fd_ostream file(fd, /*shouldClose=*/true);
    file << R"({"version": 1, "limits": [{"max_tokens": 12}]})";
  }
  llvm::Expected<TuningProfile> profile = TuningProfile::load(path);
  (void)llvm::sys::fs::remove(path);
  ASSERT_TRUE(static_cast<bool>(profile));
  EXPECT_EQ(profile->lookup(8, "f32", 2), 12);
}

} // namespace
