//===-- Exchange.h - Rounds of data in shared memory ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_EXCHANGE_H
#define TANDEM_RUNTIME_CPU_EXCHANGE_H

#include "Layout.h"
#include "workspace/GroupFailure.h"

namespace tandem {

/// Tells whether a rank's process has ended. For tests, too.
class Liveness {
public:
  virtual ~Liveness() = default;
  virtual bool isDead(int peer) const = 0;
};

/// What CallHeader::variant says of checked arguments.
uint32_t variantOf(const tandem_norm_args &args);

/// The data plane of one workspace. In each round every rank writes its part
/// into the slot of the round, publishes, and waits until all peers have
/// published theirs; then it may read all parts until it publishes the next
/// round. docs/runtime.md shows why two slots are enough. One thread at a time.
class Exchange {
public:
  /// Writes the group's part of a fresh segment.
  static void initialize(const Layout &layout, void *base);

  /// `base` is null for a world of one, which needs no rounds.
  Exchange(const Layout &layout, void *base, int rank, int64_t timeoutMs,
           const Liveness &liveness, GroupFailure &failure);

  /// This rank's part of the next round.
  char *outgoing() const {
    return layout.data(base, (round + 1) % numSlots, rank);
  }
  /// A rank's part of the round that was waited for last.
  const char *incoming(int peer) const {
    return layout.data(base, round % numSlots, peer);
  }

  /// Publishes this rank's part and waits for the peers'. Compares what they
  /// say about the call with `header`, whose `round` is filled in here. A
  /// failure is the group's and sticky.
  tandem_status advance(CallHeader &header);

  /// Fails the group, wherever its ranks are.
  tandem_status fail(Error error, uint64_t call);

  /// Tells the peers that this rank makes no more calls.
  void leave();

  uint64_t rounds() const { return numRounds.load(std::memory_order_relaxed); }
  uint64_t sleeps() const { return numSleeps.load(std::memory_order_relaxed); }

private:
  bool hasPublished(int peer) const;
  /// `deadline` is set when this has to sleep and it is still 0.
  tandem_status waitFor(int peer, const CallHeader &header, int64_t &deadline);
  /// Looks for a reason to stop waiting.
  tandem_status findFailure(const CallHeader &header, int64_t deadline);
  tandem_status compare(int peer, const CallHeader &mine);
  void wakeAll();

  const Layout layout;
  void *const base;
  const int rank;
  const int64_t timeoutMs;
  const Liveness &liveness;
  GroupFailure &failure;
  uint32_t round = firstRound;
  int spins = 0;
  std::atomic<uint64_t> numRounds{0};
  std::atomic<uint64_t> numSleeps{0};
};

} // namespace tandem

#endif
