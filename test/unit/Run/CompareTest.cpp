//===- CompareTest.cpp - Tests of comparison and JSON ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compare.h"
#include "Json.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace tandem::run;

static Array makeFloats(std::vector<float> values) {
  Array array;
  array.type = "f32";
  array.shape = {static_cast<int64_t>(values.size())};
  std::string error;
  EXPECT_TRUE(array.allocate(error));
  memcpy(array.data.get(), values.data(), array.bytes);
  return array;
}

TEST(CompareTest, ToleranceIsAbsoluteAndRelative) {
  Array expected = makeFloats({0, 100});
  EXPECT_EQ(compare(makeFloats({0.01f, 100}), expected, 0.011).numBad, 0u);
  EXPECT_EQ(compare(makeFloats({0, 101}), expected, 0.01).numBad, 0u);
  Difference difference = compare(makeFloats({0.02f, 102}), expected, 0.01);
  EXPECT_EQ(difference.numBad, 2u);
  EXPECT_EQ(difference.worst, 1u);
  EXPECT_FLOAT_EQ(difference.maxAbs, 2);
  EXPECT_FLOAT_EQ(difference.maxRel, 0.02);
}

TEST(CompareTest, NaNsAndInfinitiesEqualThemselvesOnly) {
  const float nan = NAN, inf = INFINITY;
  Array expected = makeFloats({nan, inf, -inf, 1});
  EXPECT_EQ(compare(makeFloats({nan, inf, -inf, 1}), expected, 0).numBad, 0u);
  EXPECT_EQ(compare(makeFloats({1, 1, inf, nan}), expected, 1e30).numBad, 4u);
}

TEST(CompareTest, LargeIntegersAreCompared) {
  Array a, b;
  std::string error;
  for (Array *array : {&a, &b}) {
    array->type = "i64";
    array->shape = {1};
    ASSERT_TRUE(array->allocate(error));
  }
  int64_t x = (1LL << 60) + 1, y = 1LL << 60;
  memcpy(a.data.get(), &x, 8);
  memcpy(b.data.get(), &y, 8);
  EXPECT_EQ(compare(a, b, 0).numBad, 1u);
  EXPECT_EQ(compare(a, a, 0).numBad, 0u);
}

TEST(CompareTest, IndicesCountFromTheLeft) {
  EXPECT_EQ(formatIndex({2, 3, 4}, 17), "[1, 1, 1]");
  EXPECT_EQ(formatIndex({}, 0), "[]");
}

TEST(JsonTest, Reads) {
  Json json;
  ASSERT_TRUE(Json::parse(
      R"({"a": [1, -2, null, true], "b": {"c": "x\n\u00e9\"y"}, "d": 1.5e3})",
      json));
  EXPECT_EQ(json["a"].list.size(), 4u);
  EXPECT_EQ(json["a"].list[1].number, -2);
  EXPECT_TRUE(json["a"].list[2].isNull());
  EXPECT_TRUE(json["a"].list[3].boolean);
  EXPECT_EQ(json["b"]["c"].string, "x\n\xc3\xa9\"y");
  EXPECT_TRUE(json["none"]["of"]["these"].isNull());
}

TEST(JsonTest, RefusesWhatIsNone) {
  Json json;
  for (const char *text :
       {"", "{", "{\"a\"}", "[1,]", "\"x", "{} {}", "nul", "\"\\u12", "[1 2]"})
    EXPECT_FALSE(Json::parse(text, json)) << text;
  EXPECT_FALSE(Json::parse(std::string(100000, '['), json));
}
