//===- NpzTest.cpp - Tests of the npz reader and writer -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Npz.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace tandem::run;

namespace {
/// A folder of its own, removed at the end.
class NpzTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/tandem-npz.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override {
    remove((folder + "/a.npz").c_str());
    rmdir(folder.c_str());
  }

  std::string path() const { return folder + "/a.npz"; }

  /// Writes `arrays` and returns the file's bytes.
  std::string
  write(const std::vector<std::pair<std::string, const Array *>> &arrays) {
    std::string error;
    EXPECT_TRUE(writeNpz(path(), arrays, error)) << error;
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder;
};

Array makeArray(const std::string &type, std::vector<int64_t> shape) {
  Array array;
  array.type = type;
  array.shape = std::move(shape);
  std::string error;
  EXPECT_TRUE(array.allocate(error)) << error;
  auto *bytes = static_cast<unsigned char *>(array.data.get());
  for (uint64_t i = 0; i < array.bytes; ++i)
    bytes[i] = static_cast<unsigned char>(type == "i1" ? i % 2 : i * 7 + 3);
  return array;
}

/// Reads all arrays; false if any can't be read. Never more than that.
bool readAll(const std::string &bytes, std::string &error) {
  NpzReader reader;
  if (!reader.open(openMemory(bytes.data(), bytes.size()), error))
    return false;
  for (const std::string &name : reader.getNames()) {
    Array array;
    if (!reader.load(name, array, error))
      return false;
    for (uint64_t i = 0, e = std::min<uint64_t>(array.getNumElements(), 64);
         i < e; ++i)
      (void)getElement(array, i);
  }
  return true;
}
} // namespace

TEST_F(NpzTest, WritesWhatItReads) {
  for (const char *type : {"f16", "bf16", "f32", "f64", "i1", "i8", "i16",
                           "i32", "i64", "ui8", "ui16", "ui32", "ui64"}) {
    Array cube = makeArray(type, {2, 3, 4}), scalar = makeArray(type, {}),
          empty = makeArray(type, {0, 5});
    std::string bytes =
        write({{"cube", &cube}, {"scalar", &scalar}, {"empty", &empty}});
    std::string error;
    NpzReader reader;
    ASSERT_TRUE(reader.open(openMemory(bytes.data(), bytes.size()), error))
        << error;
    EXPECT_EQ(reader.getNames(),
              (std::vector<std::string>{"cube", "empty", "scalar"}));
    for (auto [name, written] :
         {std::pair("cube", &cube), {"scalar", &scalar}, {"empty", &empty}}) {
      Array read;
      ASSERT_TRUE(reader.load(name, read, error)) << error;
      EXPECT_EQ(read.type, type);
      EXPECT_EQ(read.shape, written->shape);
      ASSERT_EQ(read.bytes, written->bytes);
      EXPECT_EQ(memcmp(read.data.get(), written->data.get(), read.bytes), 0);
    }
  }
}

TEST_F(NpzTest, LeavesNothingWhereItCannotWrite) {
  Array array = makeArray("f32", {2});
  std::string error;
  EXPECT_FALSE(writeNpz(folder + "/none/a.npz", {{"a", &array}}, error));
  EXPECT_NE(error.find("/none/a.npz': No such file or directory"),
            std::string::npos)
      << error;
}

TEST_F(NpzTest, ChangedDataIsFound) {
  Array array = makeArray("f32", {16});
  std::string bytes = write({{"a", &array}});
  // The last byte of the elements lies before the directory.
  size_t directory = bytes.find("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  bytes[directory - 1] ^= 1;
  std::string error;
  EXPECT_FALSE(readAll(bytes, error));
  EXPECT_EQ(error, "has a 'a' that is damaged: its checksum is wrong");
}

TEST_F(NpzTest, AnEncryptedOrOddlyCompressedMemberIsRefused) {
  Array array = makeArray("f32", {16});
  const std::string bytes = write({{"a", &array}});
  size_t directory = bytes.find("PK\x01\x02");
  std::string changed = bytes, error;
  changed[directory + 8] |= 1;
  EXPECT_FALSE(readAll(changed, error));
  EXPECT_EQ(error, "has 'a' encrypted");
  changed = bytes;
  changed[directory + 10] = 12;
  EXPECT_FALSE(readAll(changed, error));
  EXPECT_EQ(error, "has 'a' compressed in a way other than deflate");
}

TEST_F(NpzTest, AnImpossibleSizeTakesNoMemory) {
  Array array = makeArray("f32", {16});
  std::string bytes = write({{"a", &array}});
  size_t directory = bytes.find("PK\x01\x02");
  // Deflated, of 4 GiB.
  bytes[directory + 10] = 8;
  memset(&bytes[directory + 24], 0xf0, 4);
  std::string error;
  EXPECT_FALSE(readAll(bytes, error));
  EXPECT_EQ(error, "has a 'a' that is damaged: its size can't be what the zip "
                   "directory says");
}

TEST_F(NpzTest, EveryTruncationIsAnError) {
  Array array = makeArray("f32", {3, 5}), other = makeArray("bf16", {4});
  std::string bytes = write({{"a", &array}, {"b", &other}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string error;
    EXPECT_FALSE(readAll(bytes.substr(0, size), error)) << size;
    EXPECT_FALSE(error.empty());
  }
}

TEST_F(NpzTest, RandomChangesAreReadOrRefused) {
  Array array = makeArray("f32", {3, 5}), other = makeArray("bf16", {4});
  const std::string bytes = write({{"a", &array}, {"b", &other}});
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = bytes;
    for (int i = 0, e = 1 + static_cast<int>(random() % 4); i < e; ++i)
      changed[random() % changed.size()] = static_cast<char>(
          random() % 3 ? random() : (random() % 2 ? 0xff : 0));
    std::string error;
    bool isRead = readAll(changed, error);
    EXPECT_EQ(error.empty(), isRead);
    refused += !isRead;
  }
  EXPECT_GT(refused, 10000);
}

TEST(ArrayTest, ElementsAreExact) {
  Array half = makeArray("f16", {4});
  uint16_t halves[] = {0x3c00, 0x0001, 0xfbff, 0x7c00};
  memcpy(half.data.get(), halves, sizeof(halves));
  EXPECT_EQ(getElement(half, 0), 1.0);
  EXPECT_EQ(getElement(half, 1), std::ldexp(1.0, -24));
  EXPECT_EQ(getElement(half, 2), -65504.0);
  EXPECT_TRUE(std::isinf(getElement(half, 3)));
  Array brain = makeArray("bf16", {2});
  uint16_t brains[] = {0x3f80, 0xc040};
  memcpy(brain.data.get(), brains, sizeof(brains));
  EXPECT_EQ(getElement(brain, 0), 1.0);
  EXPECT_EQ(getElement(brain, 1), -3.0);
}

TEST(ArrayTest, SizesAreCheckedInSixtyThreeBits) {
  uint64_t bytes = 0;
  EXPECT_TRUE(computeBytes({3, 5}, 4, bytes));
  EXPECT_EQ(bytes, 60u);
  EXPECT_TRUE(computeBytes({1 << 30, 0}, 4, bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_FALSE(computeBytes({1LL << 31, 1LL << 31}, 4, bytes));
  EXPECT_FALSE(computeBytes({1LL << 40, 1LL << 40, 0}, 4, bytes));
  EXPECT_FALSE(computeBytes({-1}, 4, bytes));
}
