//===-- Overhead.cpp - Host overhead of a call, in nanoseconds ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Not a test: prints what docs/runtime.md records. With one rank there is
// nobody to wait for, so that what is left is guard, dispatch, checks and
// status.
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

using namespace tandem::test;

/// With one rank the time of its thread, so that other programs don't count;
/// with more, theirs is waiting for each other.
static clockid_t clockOfWorld = CLOCK_MONOTONIC;

static double nowNs() {
  timespec t;
  clock_gettime(clockOfWorld, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/// Median over batches of the time of one call.
template <typename Body>
static double timeOf(Body body) {
  constexpr int batches = 51, calls = 1000;
  std::vector<double> times;
  for (int b = 0; b < batches; ++b) {
    double start = nowNs();
    for (int i = 0; i < calls; ++i)
      body();
    times.push_back((nowNs() - start) / calls);
  }
  std::sort(times.begin(), times.end());
  return times[batches / 2];
}

static std::string runWorld(const std::string &name, int rank, int world) {
  clockOfWorld = world == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  Member m;
  RANK_CHECK(m.join(name, rank, world) == 0, m.message());
  RANK_CHECK(m.makeWorkspace(2048, 4096, TANDEM_DTYPE_F32) == 0, m.message());
  auto print = [&](const char *what, double ns) {
    if (rank == 0)
      printf("world %d  %-52s %9.0f ns\n", world, what, ns), fflush(stdout);
  };
  volatile int64_t sink = 0;
  if (world == 1) {
    print("tandem_token_limit", timeOf([&] {
            sink = tandem_token_limit(m.workspace, 4096, TANDEM_DTYPE_F32);
          }));
    PlainCall none(rank, 1, 1);
    none.args.tokens = 0;
    print("fused call, zero tokens", timeOf([&] {
            sink = tandem_fused_all_reduce_norm(m.workspace, &none.args);
          }));
    // A row of one element: the arithmetic is as good as nothing.
    PlainCall one(rank, 1, 1);
    print("guard + fused call, 1 token, hidden 1", timeOf([&] {
            if (1 <= tandem_token_limit(m.workspace, 1, TANDEM_DTYPE_F32))
              sink = tandem_fused_all_reduce_norm(m.workspace, &one.args);
          }));
    tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
    reduce.tokens = reduce.hidden = 1;
    reduce.input = reduce.output = one.args.input;
    print("all_reduce + add_rms_norm, 1 token, hidden 1", timeOf([&] {
            sink = tandem_all_reduce(m.workspace, &reduce);
            sink = tandem_add_rms_norm(m.workspace, &one.args);
          }));
  }
  for (int64_t hidden : {64, 4096})
    for (int64_t tokens : {1, 16}) {
      PlainCall call(rank, tokens, hidden);
      char what[64];
      snprintf(what, sizeof(what), "fused call, %lld tokens, hidden %lld",
               static_cast<long long>(tokens), static_cast<long long>(hidden));
      print(what, timeOf([&] {
              sink = tandem_fused_all_reduce_norm(m.workspace, &call.args);
            }));
    }
  (void)sink;
  return m.failure() ? m.message() : "";
}

int main() {
  int failed = 0;
  for (int world : {1, 2}) {
    std::string name = freshName();
    for (const std::string &text : runRanks(
             world, [&](int rank) { return runWorld(name, rank, world); }, 600))
      if (!text.empty()) {
        fprintf(stderr, "%s\n", text.c_str());
        failed = 1;
      }
    fflush(stdout);
  }
  return failed;
}
