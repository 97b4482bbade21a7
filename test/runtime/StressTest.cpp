//===-- StressTest.cpp - Many calls, many groups --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <random>
#include <unistd.h>

using namespace tandem::test;

/// Calls of all kinds with random token counts, each rank held up at random.
/// Sums are of small integers, so that every value can be checked exactly.
static std::string manyCalls(const std::string &name, int rank, int world,
                             int calls) {
  constexpr int64_t hidden = 512, mostTokens = 160;
  Member m;
  RANK_CHECK(m.join(name, rank, world, 60000) == 0, m.message());
  RANK_CHECK(m.makeWorkspace(24, hidden, TANDEM_DTYPE_F32) == 0, m.message());
  std::mt19937 shared(99), own(static_cast<unsigned>(1000 + rank));
  std::vector<float> x(mostTokens * hidden), y(x.size()), r(x.size()),
      gamma(hidden, 1.0f);
  for (int i = 0; i < calls; ++i) {
    unsigned draw = shared();
    // Mostly few tokens; sometimes none, sometimes many.
    int64_t tokens = draw % 50 == 0   ? 100 + draw / 64 % 60
                     : draw % 10 == 0 ? 10 + draw / 64 % 30
                                      : draw / 64 % 8;
    unsigned kind = draw >> 28;
    size_t n = static_cast<size_t>(tokens * hidden);
    // A value that no other call and no other element nearby has.
    auto value = [&](size_t at, int who) {
      return float((static_cast<size_t>(i) * 31 + at * 7) % 1009 +
                   static_cast<size_t>(who) * 5);
    };
    for (size_t at = 0; at < n; ++at) {
      x[at] = value(at, rank);
      r[at] = 3.0f;
    }
    unsigned delay = own() % 1000;
    if (delay < 2)
      usleep(static_cast<useconds_t>(own() % 3000));
    else if (delay < 100)
      for (volatile unsigned spin = own() % 20000; spin > 0; spin = spin - 1)
        ;
    bool reduceOnly = kind < 4;
    tandem_status status;
    if (reduceOnly) {
      tandem_all_reduce_args args = TANDEM_ALL_REDUCE_ARGS_INIT;
      args.tokens = tokens;
      args.hidden = hidden;
      args.input.data = x.data();
      args.output.data = x.data();
      status = tandem_all_reduce(m.workspace, &args);
    } else {
      tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
      args.tokens = tokens;
      args.hidden = hidden;
      args.flags = kind < 6 ? TANDEM_CALL_FALLBACK : 0;
      args.input.data = x.data();
      args.residual.data = args.residual_out.data = r.data();
      args.norm.gamma = gamma.data();
      args.norm_out.data = y.data();
      status = tandem_fused_all_reduce_norm(m.workspace, &args);
    }
    RANK_CHECK(status == 0, (m.failure(), m.message()));
    for (size_t at = 0; at < n; ++at) {
      float sum = reduceOnly ? 0.0f : 3.0f;
      for (int who = 0; who < world; ++who)
        sum += value(at, who);
      float got = reduceOnly ? x[at] : r[at];
      RANK_CHECK(got == sum, "call " + std::to_string(i) + " element " +
                                 std::to_string(at) + ": " +
                                 std::to_string(got) + " not " +
                                 std::to_string(sum));
    }
  }
  return "";
}

TEST(Stress, RandomCallsAndDelays) {
  const int calls = fullTests() ? 100000 : 4000;
  for (int world : {2, 3}) {
    std::string name = freshName();
    int64_t start = nowMs();
    for (const std::string &text : runRanks(
             world,
             [&](int rank) { return manyCalls(name, rank, world, calls); },
             3000))
      EXPECT_EQ(text, "");
    printf("world %d: %d calls in %lld ms\n", world, calls,
           static_cast<long long>(nowMs() - start));
  }
}

TEST(Stress, CreateAndDestroyGivesEverythingBack) {
  const int rounds = fullTests() ? 1000 : 100;
  std::string name = freshName();
  auto said = runRanks(
      2,
      [&](int rank) -> std::string {
        int fds = 0;
        long kb = 0;
        for (int i = 0; i < rounds; ++i) {
          if (i == 20) {
            fds = countFds();
            kb = residentKb();
          }
          Member m;
          RANK_CHECK(m.join(name, rank, 2, 20000) == 0, m.message());
          // Two at once, and some that fail.
          RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
          Member other;
          other.comm = m.comm;
          tandem_status status = other.makeWorkspace(
              16, 64, 0, i % 3 == 0 && rank == 1 ? "a" : "b");
          other.comm = nullptr;
          RANK_CHECK(status == (i % 3 == 0 ? TANDEM_STATUS_MISMATCH
                                           : TANDEM_STATUS_OK),
                     other.message());
          PlainCall call(rank, 1 + i % 20, 64);
          RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                     (m.failure(), m.message()));
          RANK_CHECK(call.check(2) == "", call.check(2));
        }
        RANK_CHECK(countFds() == fds,
                   std::to_string(countFds()) + " not " + std::to_string(fds));
        long grown = residentKb() - kb;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        RANK_CHECK(grown < 512, std::to_string(grown) + " KiB more");
#endif
        (void)grown;
        RANK_CHECK(listShm().empty(), listShm()[0]);
        return "";
      },
      1200);
  for (const std::string &text : said)
    EXPECT_EQ(text, "");
}

TEST(Stress, NothingOfAGroupThatWasKilledIsLeft) {
  // What shared memory a system holds shows in Shmem of /proc/meminfo.
  auto shmemKb = [] {
    long kb = -1;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file))
      if (sscanf(line, "Shmem: %ld", &kb) == 1)
        break;
    if (file)
      fclose(file);
    return kb;
  };
  long before = shmemKb();
  long during = 0;
  {
    std::string name = freshName();
    Ranks ranks(2, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(name, rank, 2, 20000) == 0, m.message());
      RANK_CHECK(m.makeWorkspace(16384, 1024, 0) == 0, m.message());
      sleep(30);
      return "";
    });
    for (int i = 0; i < 100 && shmemKb() < before + 200000; ++i)
      usleep(50000);
    during = shmemKb();
    // Nobody else may open what there is, and it has no name.
    EXPECT_TRUE(listShm().empty());
    ranks.signal(0, SIGKILL);
    ranks.signal(1, SIGKILL);
    for (const std::string &text : ranks.join())
      EXPECT_EQ(text, "killed by signal 9");
  }
  // 2 slots x 2 ranks x 64 MiB; other programs of the machine make some noise.
  EXPECT_GT(during - before, 200000);
  long after = shmemKb();
  for (int i = 0; i < 100 && after > before + 60000; ++i) {
    usleep(20000);
    after = shmemKb();
  }
  EXPECT_LT(after - before, 60000);
  EXPECT_TRUE(listShm().empty());
}
