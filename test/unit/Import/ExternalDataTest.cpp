//===- ExternalDataTest.cpp - Tests of what may be read beside a model
//---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"

#include "tandem_onnx/onnx.pb.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace mlir::tandem::onnx;
namespace fs = llvm::sys::fs;

namespace {

/// A folder with a model's folder in it, beside a file that is out of bounds.
class ExternalDataTest : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("tandem", root));
    folder = (root + "/model").str();
    ASSERT_FALSE(fs::create_directory(folder));
    write("secret", "0123456789abcdef");
    write("model/data", "0123456789abcdef");
  }
  void TearDown() override { (void)fs::remove_directories(root); }

  void write(llvm::StringRef name, llvm::StringRef text) {
    std::error_code code;
    llvm::raw_fd_ostream((root + "/" + name).str(), code) << text;
    ASSERT_FALSE(code);
  }
  std::string read(llvm::StringRef location, int64_t offset, uint64_t size) {
    ExternalFiles files(folder);
    llvm::SmallVector<char> bytes;
    std::string error;
    if (!files.read({location.str(), offset, -1}, size, bytes, error))
      return "error: " + error;
    return std::string(bytes.begin(), bytes.end());
  }

  llvm::SmallString<128> root;
  std::string folder;
};

TEST_F(ExternalDataTest, Reads) {
  EXPECT_EQ(read("data", 0, 16), "0123456789abcdef");
  EXPECT_EQ(read("data", 10, 3), "abc");
  EXPECT_EQ(read("./data", 15, 1), "f");
  EXPECT_EQ(read("data", 16, 0), "");
}

TEST_F(ExternalDataTest, TooShort) {
  EXPECT_NE(read("data", 15, 2).find("is too short"), std::string::npos);
  EXPECT_NE(read("data", 17, 0).find("is too short"), std::string::npos);
  EXPECT_NE(read("data", 1, UINT64_MAX).find("is too short"),
            std::string::npos);
}

TEST_F(ExternalDataTest, LinksMayNotLeaveTheFolder) {
  ASSERT_FALSE(fs::create_link(root + "/secret", folder + "/out"));
  ASSERT_FALSE(fs::create_link(folder + "/data", folder + "/in"));
  EXPECT_NE(read("out", 0, 4).find("leads out of the model's folder"),
            std::string::npos);
  EXPECT_EQ(read("in", 0, 4), "0123");
  // A folder whose name only begins like the model's is another folder.
  ASSERT_FALSE(fs::create_directory(root + "/model2"));
  write("model2/data", "x");
  ASSERT_FALSE(fs::create_link(root + "/model2/data", folder + "/near"));
  EXPECT_NE(read("near", 0, 1).find("leads out of the model's folder"),
            std::string::npos);
}

TEST_F(ExternalDataTest, LinksAreFollowedWhereAsked) {
  // As in Hugging Face's cache.
  ASSERT_FALSE(fs::create_directory(root + "/blobs"));
  write("blobs/hash", "weights");
  ASSERT_FALSE(fs::create_link("../blobs/hash", folder + "/model.data"));
  ExternalFiles files(folder, /*followsLinks=*/true);
  std::string error;
  EXPECT_TRUE(files.check("model.data", error)) << error;
  llvm::SmallVector<char> bytes;
  ExternalRef ref;
  ref.location = "model.data";
  EXPECT_TRUE(files.read(ref, 7, bytes, error)) << error;
  EXPECT_EQ(llvm::StringRef(bytes.data(), bytes.size()), "weights");
  // The model itself still can't point out of its folder.
  EXPECT_FALSE(files.check("../blobs/hash", error));
  ExternalFiles strict(folder);
  EXPECT_FALSE(strict.check("model.data", error));
  EXPECT_NE(error.find("--external-data-dir"), std::string::npos) << error;
}

TEST_F(ExternalDataTest, CheckOpensNothing) {
  ExternalFiles files(folder);
  std::string error;
  EXPECT_TRUE(files.check("is/not/there", error));
  EXPECT_FALSE(files.check("../secret", error));
  // The answer is kept.
  error.clear();
  EXPECT_FALSE(files.check("../secret", error));
  EXPECT_NE(error.find("'..'"), std::string::npos);
}

TEST_F(ExternalDataTest, ModelFromMemory) {
  ExternalFiles files("");
  llvm::SmallVector<char> bytes;
  std::string error;
  EXPECT_TRUE(files.check("data", error));
  EXPECT_FALSE(files.read({"data", 0, -1}, 1, bytes, error));
  EXPECT_NE(error.find("read from memory"), std::string::npos);
}

TEST(ExternalLocation, Text) {
  std::string error;
  for (llvm::StringRef good :
       {"a", "a/b", "a.b/..c", "...", ".hidden", "ab:c/d"})
    EXPECT_TRUE(checkExternalLocation(good, error)) << good.str() << error;
  for (llvm::StringRef bad : {"", "/", "/a", "..", "a/..", "a/../b", "../a",
                              "\\a", "c:\\a", "C:a", "a\\..\\b"})
    EXPECT_FALSE(checkExternalLocation(bad, error)) << bad.str();
  EXPECT_FALSE(checkExternalLocation(llvm::StringRef("a\0b", 3), error));
}

TEST(ExternalRef, Entries) {
  tandem_onnx::TensorProto tensor;
  auto add = [&](const char *key, const char *value) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  ExternalRef ref;
  std::string error;
  EXPECT_FALSE(parseExternalRef(tensor, ref, error));
  add("location", "w");
  add("checksum", "unknown keys are no concern of ours");
  ASSERT_TRUE(parseExternalRef(tensor, ref, error));
  EXPECT_EQ(ref.location, "w");
  EXPECT_EQ(ref.offset, 0);
  EXPECT_EQ(ref.length, -1);
  add("offset", "9223372036854775807");
  ASSERT_TRUE(parseExternalRef(tensor, ref, error));
  EXPECT_EQ(ref.offset, INT64_MAX);
  add("length", "9223372036854775808");
  EXPECT_FALSE(parseExternalRef(tensor, ref, error));
}

} // namespace
