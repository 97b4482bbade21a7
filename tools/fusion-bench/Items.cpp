//===-- Items.cpp - What is measured, and where results go ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <sched.h>

using namespace tandem::bench;

const char *tandem::bench::nameOf(Subject subject) {
  switch (subject) {
  case Subject::Fused:
    return "fused";
  case Subject::Fallback:
    return "fallback";
  case Subject::AllReduce:
    return "all_reduce";
  case Subject::Norm:
    return "norm";
  case Subject::Link:
    return "link";
  }
  return "";
}

const char *tandem::bench::nameOf(Timing timing) {
  switch (timing) {
  case Timing::Chain:
    return "chain";
  case Timing::Neighbours:
    return "neighbours";
  case Timing::Cold:
    return "cold";
  case Timing::Skew:
    return "skew";
  }
  return "";
}

std::vector<Item> tandem::bench::itemsOf(const Options &options) {
  std::vector<Item> items;
  for (int64_t hidden : options.hidden)
    for (tandem_dtype dtype : options.dtypes)
      for (Timing timing : options.timings)
        for (int64_t tokens : options.tokens)
          for (Subject subject :
               {Subject::Fused, Subject::Fallback, Subject::AllReduce,
                Subject::Norm, Subject::Link})
            items.push_back({hidden, tokens, dtype, timing, subject});
  return items;
}

size_t tandem::bench::boardBytes(const Options &options) {
  return sizeof(Board) + sizeof(double) * itemsOf(options).size() *
                             static_cast<size_t>(options.samples) *
                             static_cast<size_t>(options.ranks);
}

double &tandem::bench::timeAt(Board &board, const Options &options, size_t item,
                              int sample, int rank) {
  return board.times[(item * static_cast<size_t>(options.samples) +
                      static_cast<size_t>(sample)) *
                         static_cast<size_t>(options.ranks) +
                     static_cast<size_t>(rank)];
}

bool tandem::bench::meet(Board &board, int ranks) {
  uint32_t generation = board.generation.load();
  if (board.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks)) {
    board.arrived.store(0);
    board.generation.fetch_add(1);
  } else {
    while (board.generation.load() == generation && !board.failed.load())
      sched_yield();
  }
  return !board.failed.load();
}
