//===-- Exchange.cpp - Rounds of data in shared memory --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"

#include "comm/Rendezvous.h"
#include "support/Clock.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <linux/futex.h>
#include <new>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace tandem;

/// How long a rank sleeps before it looks whether its peers still live.
static constexpr int64_t sliceNs = int64_t(20) * 1000000;

/// Sleeps while `word` is `value`, at most `ns`. Not the private kind: the word
/// lies at different addresses in different processes.
static void futexWait(std::atomic<uint32_t> &word, uint32_t value, int64_t ns) {
  timespec timeout = {static_cast<time_t>(ns / 1000000000),
                      static_cast<long>(ns % 1000000000)};
  // Early returns are the caller's loop's.
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT,
                value, &timeout, nullptr, 0);
}

static void futexWakeAll(std::atomic<uint32_t> &word) {
  (void)syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE,
                INT_MAX, nullptr, nullptr, 0);
}

static inline void pauseBriefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Number of cores that this thread may run on.
static int usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return CPU_COUNT(&set);
}

void Exchange::initialize(const Layout &layout, void *base) {
  // The pages come as zeros; headers and data need nothing else.
  auto *header = new (base) SegmentHeader();
  header->magic = segmentMagic;
  header->protocol = wireProtocol;
  header->world = layout.world;
  header->capacity = layout.capacity;
  header->bytes = layout.bytes;
  for (uint32_t r = 0; r < layout.world; ++r) {
    auto *line = new (layout.line(base, static_cast<int>(r))) RankLine();
    line->published.store(firstRound);
  }
}

Exchange::Exchange(const Layout &layout, void *base, int rank,
                   int64_t timeoutMs, const Liveness &liveness,
                   GroupFailure &failure)
    : layout(layout), base(base), rank(rank), timeoutMs(timeoutMs),
      liveness(liveness), failure(failure) {
  // A rank that spins while its peers have no core to run on is in their way.
  spins = static_cast<int>(layout.world) <= usableCores() ? 2000 : 20;
}

bool Exchange::hasPublished(int peer) const {
  // Peers are at most one round apart, so that the sign of the difference is
  // right across the wrap.
  uint32_t published =
      layout.line(base, peer)->published.load(std::memory_order_acquire);
  return static_cast<int32_t>(published - round) >= 0;
}

void Exchange::wakeAll() {
  for (uint32_t r = 0; r < layout.world; ++r)
    futexWakeAll(layout.line(base, static_cast<int>(r))->published);
}

tandem_status Exchange::fail(Error error, uint64_t call) {
  error.call = call;
  if (error.reporter < 0)
    error.reporter = rank;
  tandem_status status = failure.fail(error);
  if (base)
    wakeAll();
  return status;
}

void Exchange::leave() {
  if (!base)
    return;
  layout.line(base, rank)->left.store(1);
  wakeAll();
}

tandem_status Exchange::findFailure(const CallHeader &header,
                                    int64_t deadlineNs) {
  int behind = -1;
  for (uint32_t r = 0; r < layout.world; ++r) {
    int peer = static_cast<int>(r);
    if (peer == rank || hasPublished(peer))
      continue;
    bool left = layout.line(base, peer)->left.load() != 0;
    bool dead = !left && liveness.isDead(peer);
    // What it did before it went counts, so look once more.
    if ((left || dead) && !hasPublished(peer))
      return fail(
          left ? makeError(TANDEM_STATUS_PEER_LEFT, peer,
                           "call %llu: rank %d has destroyed its "
                           "workspace",
                           static_cast<unsigned long long>(header.call), peer)
               : makeError(TANDEM_STATUS_PEER_DIED, peer,
                           "call %llu: the process of rank %d ended",
                           static_cast<unsigned long long>(header.call), peer),
          header.call);
    // The one furthest behind is the one that the others wait for.
    if (behind < 0 ||
        static_cast<int32_t>(layout.line(base, peer)->published.load() -
                             layout.line(base, behind)->published.load()) < 0)
      behind = peer;
  }
  if (tandem_status status = failure.check())
    return status;
  if (behind >= 0 && deadlineNs != 0 && nowNs() >= deadlineNs &&
      !hasPublished(behind))
    return fail(makeError(TANDEM_STATUS_TIMEOUT, behind,
                          "call %llu: rank %d did not come within %lld ms",
                          static_cast<unsigned long long>(header.call), behind,
                          static_cast<long long>(timeoutMs)),
                header.call);
  return TANDEM_STATUS_OK;
}

tandem_status Exchange::waitFor(int peer, const CallHeader &header,
                                int64_t &deadline) {
  for (int i = 0; i < spins; ++i) {
    if (hasPublished(peer))
      return TANDEM_STATUS_OK;
    pauseBriefly();
  }
  numSleeps.store(numSleeps.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
  if (timeoutMs > 0 && deadline == 0 &&
      (__builtin_mul_overflow(timeoutMs, int64_t(1000000), &deadline) ||
       __builtin_add_overflow(deadline, nowNs(), &deadline)))
    deadline = 0;
  RankLine *line = layout.line(base, peer);
  while (!hasPublished(peer)) {
    if (tandem_status status = findFailure(header, deadline))
      return status;
    int64_t sleep = sliceNs;
    if (deadline != 0) {
      int64_t left = deadline - nowNs();
      sleep = left < sleep ? (left > 0 ? left : 1) : sleep;
    }
    // Announced first, looked at again second: the publisher does the opposite,
    // so that one of the two sees the other (both in the one order of
    // sequentially consistent operations).
    line->sleepers.fetch_add(1);
    uint32_t seen = line->published.load();
    if (static_cast<int32_t>(seen - round) < 0)
      futexWait(line->published, seen, sleep);
    line->sleepers.fetch_sub(1);
  }
  return TANDEM_STATUS_OK;
}

static const char *kindName(uint32_t kind) {
  switch (kind) {
  case CallFused:
    return "fused_all_reduce_norm";
  case CallAllReduce:
    return "all_reduce";
  case CallFallbackReduce:
    return "all_reduce (fallback)";
  default:
    return "unknown";
  }
}

static const char *dtypeName(uint32_t dtype) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return dtype < 3 ? names[dtype] : "unknown";
}

/// What CallHeader::variant is made of.
static constexpr struct {
  const char *name;
  uint32_t shift;
  uint32_t mask;
} variantParts[] = {
    {"residual (0 no, 1 yes)", 0, 1}, {"bias (0 no, 1 yes)", 1, 1},
    {"pre_norm (0 no, 1 yes)", 2, 1}, {"norm.rounding", 3, 1},
    {"pre_norm.rounding", 4, 1},      {"norm.gamma_dtype", 8, 3},
    {"pre_norm.gamma_dtype", 10, 3}};

uint32_t tandem::variantOf(const tandem_norm_args &args) {
  uint32_t variant = (args.residual.data ? 1u : 0) | (args.bias ? 2u : 0) |
                     uint32_t(args.norm.rounding) << 3 |
                     uint32_t(args.norm.gamma_dtype) << 8;
  if (args.pre_norm.gamma)
    variant |= 4u | uint32_t(args.pre_norm.rounding) << 4 |
               uint32_t(args.pre_norm.gamma_dtype) << 10;
  return variant;
}

tandem_status Exchange::compare(int peer, const CallHeader &mine) {
  const CallHeader &theirs = *layout.header(base, round % numSlots, peer);
  if (memcmp(&theirs, &mine, sizeof(mine)) == 0)
    return TANDEM_STATUS_OK;

  char a[64], b[64];
  const char *what = nullptr;
  auto differ = [&](const char *name, long long theirValue, long long myValue) {
    if (what || theirValue == myValue)
      return;
    what = name;
    snprintf(a, sizeof(a), "%lld", theirValue);
    snprintf(b, sizeof(b), "%lld", myValue);
  };
  auto differNames = [&](const char *name, const char *theirName,
                         const char *myName) {
    if (what || theirName == myName)
      return;
    what = name;
    snprintf(a, sizeof(a), "%s", theirName);
    snprintf(b, sizeof(b), "%s", myName);
  };
  auto differDoubles = [&](const char *name, uint64_t theirBits,
                           uint64_t myBits) {
    if (what || theirBits == myBits)
      return;
    double x, y;
    memcpy(&x, &theirBits, sizeof(x));
    memcpy(&y, &myBits, sizeof(y));
    what = name;
    snprintf(a, sizeof(a), "%.17g", x);
    snprintf(b, sizeof(b), "%.17g", y);
  };
  differ("call number", static_cast<long long>(theirs.call),
         static_cast<long long>(mine.call));
  // The two branches of a guard exchange the same bytes, so that they may meet.
  bool branches =
      (theirs.kind == CallFused && mine.kind == CallFallbackReduce) ||
      (mine.kind == CallFused && theirs.kind == CallFallbackReduce);
  if (!branches)
    differNames("the operation", kindName(theirs.kind), kindName(mine.kind));
  differ("tokens", theirs.tokens, mine.tokens);
  differ("hidden", theirs.hidden, mine.hidden);
  differNames("dtype", dtypeName(theirs.dtype), dtypeName(mine.dtype));
  differ("reduction", theirs.reduction, mine.reduction);
  differ("batch_invariant", theirs.batchInvariant, mine.batchInvariant);
  if (!branches) {
    for (const auto &part : variantParts)
      differ(part.name, (theirs.variant >> part.shift) & part.mask,
             (mine.variant >> part.shift) & part.mask);
    differDoubles("epsilon", theirs.epsilon, mine.epsilon);
    differDoubles("pre_norm.epsilon", theirs.preEpsilon, mine.preEpsilon);
  }
  differ("round", theirs.round, mine.round);
  if (!what)
    return TANDEM_STATUS_OK;
  return fail(makeError(TANDEM_STATUS_MISMATCH, peer,
                        "call %llu: rank %d has %s %s, rank %d has %s",
                        static_cast<unsigned long long>(mine.call), peer, what,
                        a, rank, b),
              mine.call);
}

tandem_status Exchange::advance(CallHeader &header) {
  ++round;
  numRounds.store(numRounds.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
  header.round = round;
  memcpy(layout.header(base, round % numSlots, rank), &header, sizeof(header));
  RankLine *line = layout.line(base, rank);
  // Releases data and header; sequentially consistent for the sleepers' sake.
  line->published.store(round);
  if (line->sleepers.load() != 0)
    futexWakeAll(line->published);

  // One for the round, from when this rank first had to sleep in it; 0: not
  // yet.
  int64_t deadline = 0;
  const int world = static_cast<int>(layout.world);
  for (int i = 1; i < world; ++i) {
    int peer = rank + i < world ? rank + i : rank + i - world;
    if (!hasPublished(peer))
      if (tandem_status status = waitFor(peer, header, deadline))
        return status;
    if (tandem_status status = compare(peer, header))
      return status;
  }
  return TANDEM_STATUS_OK;
}
