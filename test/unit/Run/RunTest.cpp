//===- RunTest.cpp - fusion-run, without a compiler -----------------------===//
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
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::run;

namespace {
class RunTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/tandem-run.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override {
    for (const char *file : {"in0.npz", "in1.npz", "out0.npz", "out1.npz"})
      remove((folder + "/" + file).c_str());
    // Not empty if anything else was left.
    EXPECT_EQ(rmdir(folder.c_str()), 0);
  }

  /// Writes a rank's input: x[i] = i + rank, r = 1, g = 2.
  void write(int rank, int64_t tokens) {
    Array x = make({tokens, 8}), r = make({tokens, 8}), g = make({8});
    for (int64_t i = 0; i < tokens * 8; ++i) {
      at(x, i) = static_cast<float>(i + rank);
      at(r, i) = 1;
    }
    for (int64_t i = 0; i < 8; ++i)
      at(g, i) = 2;
    std::string error;
    EXPECT_TRUE(writeNpz(folder + "/in" + std::to_string(rank) + ".npz",
                         {{"x", &x}, {"r", &r}, {"g", &g}}, error))
        << error;
  }

  /// Runs fusion-run on the module; returns its exit status, and what it says
  /// in `text`.
  int run(const std::string &flags) {
    std::string command = std::string("exec '") + FUSION_RUN + "' '" + MODULE +
                          "' --input='" + folder + "/in{rank}.npz' " + flags +
                          " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    text.clear();
    char buffer[512];
    while (size_t count = fread(buffer, 1, sizeof(buffer), pipe))
      text.append(buffer, count);
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static Array make(std::vector<int64_t> shape) {
    Array array;
    array.type = "f32";
    array.shape = std::move(shape);
    std::string error;
    EXPECT_TRUE(array.allocate(error));
    return array;
  }
  static float &at(Array &array, int64_t index) {
    return static_cast<float *>(array.data.get())[index];
  }

  std::string folder, text;
};
} // namespace

TEST_F(RunTest, TwoRanksAddUp) {
  write(0, 3);
  write(1, 3);
  ASSERT_EQ(run("--ranks=2 --counters --output='" + folder + "/out{rank}.npz'"),
            0)
      << text;
  EXPECT_NE(text.find("rank 1: group world: 1 fused"), std::string::npos)
      << text;
  for (int rank = 0; rank < 2; ++rank) {
    std::string error;
    NpzReader reader;
    Array y, s;
    ASSERT_TRUE(reader.open(
        openFile(folder + "/out" + std::to_string(rank) + ".npz", error),
        error))
        << error;
    ASSERT_TRUE(reader.load("y", y, error) && reader.load("s", s, error))
        << error;
    for (int64_t token = 0; token < 3; ++token) {
      double squares = 0;
      for (int64_t i = 0; i < 8; ++i) {
        double sum = 2.0 * static_cast<double>(token * 8 + i) + 2;
        EXPECT_EQ(getElement(s, token * 8 + i), sum);
        squares += sum * sum / 8;
      }
      for (int64_t i = 0; i < 8; ++i)
        EXPECT_NEAR(
            getElement(y, token * 8 + i),
            getElement(s, token * 8 + i) / std::sqrt(squares + 1e-5) * 2, 1e-5);
    }
  }
  // And compared with themselves they are equal.
  EXPECT_EQ(
      run("--ranks=2 --tolerance=0 --expect='" + folder + "/out{rank}.npz'"), 0)
      << text;
}

TEST_F(RunTest, AFailedCheckIsTold) {
  write(0, 13);
  EXPECT_EQ(run("--ranks=1"), 1);
  EXPECT_EQ(text, "fusion-run: error: rank 0: 'main' failed: "
                  "TANDEM_STATUS_INVALID_ARGUMENT: said by the module\n");
}

TEST_F(RunTest, ModelsThatNeedACompilerSaySo) {
  write(0, 1);
  std::string command = std::string("cd '") + folder + "' && PATH= exec '" +
                        FUSION_RUN + "' none.mlir 2>&1";
  if (access((std::string(FUSION_RUN)
                  .substr(0, std::string(FUSION_RUN).rfind('/')) +
              "/fusion-translate")
                 .c_str(),
             X_OK) == 0)
    GTEST_SKIP() << "there is a fusion-translate beside fusion-run";
  FILE *pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char buffer[512] = {};
  EXPECT_GT(fread(buffer, 1, sizeof(buffer) - 1, pipe), 0u);
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_NE(strstr(buffer, "there is no fusion-translate beside this program"),
            nullptr)
      << buffer;
}
