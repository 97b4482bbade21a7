//===-- Harness.h - Groups of real processes for tests -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_HARNESS_H
#define TANDEM_TEST_RUNTIME_HARNESS_H

#include "tandem/Runtime/tandem.h"

#include <functional>
#include <string>
#include <vector>

namespace tandem::test {

/// True with TANDEM_TEST_FULL=1: the long forms of the tests.
bool fullTests();

/// A rendezvous name that no other test of this machine uses.
std::string freshName();

/// What a rank of a test runs: returns what went wrong, or nothing.
using RankBody = std::function<std::string(int rank)>;

/// Runs `body` in `world` processes and returns what each of them said, by
/// rank: also "killed by signal N", and "still running after N s" for one that
/// had to be killed.
std::vector<std::string> runRanks(int world, const RankBody &body,
                                  int patienceSeconds = 60);

/// The same, with control over the processes while they run.
class Ranks {
public:
  Ranks(int world, const RankBody &body);
  ~Ranks();
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;

  void signal(int rank, int number);
  /// Waits for all; see runRanks.
  std::vector<std::string> join(int patienceSeconds = 60);
  int pid(int rank) const { return children[rank].pid; }

private:
  struct Child {
    int pid;
    int out;
    std::string said;
  };
  std::vector<Child> children;
};

/// In a rank: "line N: 'condition' is false, MESSAGE" unless it holds.
#define RANK_CHECK(condition, message)                                         \
  do {                                                                         \
    if (!(condition))                                                          \
      return std::string(__FILE__ ":") + std::to_string(__LINE__) +            \
             ": '" #condition "' is false: " + (message);                      \
  } while (false)

/// A rank's handles, destroyed in the right order.
struct Member {
  tandem_context *context = nullptr;
  tandem_comm *comm = nullptr;
  tandem_workspace *workspace = nullptr;
  tandem_error error = TANDEM_ERROR_INIT;

  Member() = default;
  Member(const Member &) = delete;
  Member &operator=(const Member &) = delete;
  ~Member() { reset(); }
  void reset();

  /// Joins the group of that name.
  tandem_status join(const std::string &name, int rank, int world,
                     int64_t timeoutMs = 20000);
  tandem_status makeWorkspace(int64_t maxTokens, int64_t hidden,
                              tandem_dtype dtype,
                              const char *signature = nullptr,
                              uint32_t flags = 0, int64_t tokenLimit = -1);
  /// The sticky failure.
  tandem_status failure();
  std::string message() const { return error.message; }
};

/// A fused call on f32 rows with a residual, all of whose values are known:
/// input of rank r is r + 1 everywhere, residual and gamma are 1.
struct PlainCall {
  PlainCall(int rank, int64_t tokens, int64_t hidden);
  tandem_norm_args args;
  std::vector<float> input, residual, gamma, normOut, residualOut;
  /// What is wrong with the results, if anything.
  std::string check(int world) const;
};

int64_t nowMs();
/// Open descriptors, mapped files and entries of /dev/shm that are ours.
int countFds();
std::vector<std::string> listShm();
long residentKb();

} // namespace tandem::test

#endif
