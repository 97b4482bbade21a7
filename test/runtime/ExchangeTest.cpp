//===-- ExchangeTest.cpp - The flag discipline between threads ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The ranks are threads that share one mapping at one address, so that a thread
// sanitizer sees every access of every rank.
//
//===----------------------------------------------------------------------===//

#include "cpu/Exchange.h"
#include "cpu/Memory.h"
#include "workspace/Signature.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

using namespace tandem;

namespace {
struct Everybody final : Liveness {
  bool isDead(int peer) const override { return peer == dead; }
  std::atomic<int> dead{-1};
};

struct Segment {
  Segment(uint32_t world, uint64_t capacity) {
    EXPECT_FALSE(layOut(world, capacity, layout));
    base = aligned_alloc(4096, layout.bytes);
    memset(base, 0, layout.bytes);
    Exchange::initialize(layout, base);
  }
  ~Segment() { free(base); }
  FailureRecord *record() {
    return &static_cast<SegmentHeader *>(base)->failure;
  }
  Layout layout;
  void *base;
};
} // namespace

TEST(Exchange, RoundsCrossTheWrapWithoutStaleData) {
  const int rounds = 3000;
  for (int world : {2, 3, 5}) {
    Segment segment(static_cast<uint32_t>(world), 64);
    Everybody alive;
    std::vector<std::string> said(static_cast<size_t>(world));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] {
        GroupFailure failure;
        failure.attach(segment.record());
        Exchange exchange(segment.layout, segment.base, rank, 20000, alive,
                          failure);
        std::mt19937 random(static_cast<unsigned>(rank));
        for (int i = 0; i < rounds; ++i) {
          // Plain stores to shared data, as in the backend.
          int *mine = reinterpret_cast<int *>(exchange.outgoing());
          for (int k = 0; k < 16; ++k)
            mine[k] = i * 1000 + rank * 16 + k;
          CallHeader header = {};
          header.call = static_cast<uint64_t>(i);
          if (exchange.advance(header)) {
            said[static_cast<size_t>(rank)] = failure.get().message;
            return;
          }
          if (random() % 64 == 0)
            std::this_thread::yield();
          for (int peer = 0; peer < world; ++peer) {
            const int *theirs =
                reinterpret_cast<const int *>(exchange.incoming(peer));
            for (int k = 0; k < 16; ++k)
              if (theirs[k] != i * 1000 + peer * 16 + k) {
                said[static_cast<size_t>(rank)] =
                    "stale in round " + std::to_string(i);
                return;
              }
          }
        }
      });
    for (std::thread &t : threads)
      t.join();
    for (const std::string &text : said)
      EXPECT_EQ(text, "");
  }
}

TEST(Exchange, TheFirstFailureIsEverybodys) {
  Segment segment(3, 64);
  Everybody alive;
  std::vector<Error> found(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      GroupFailure failure;
      failure.attach(segment.record());
      Exchange exchange(segment.layout, segment.base, rank, 20000, alive,
                        failure);
      CallHeader header = {};
      header.tokens = rank == 1 ? 5 : 6;
      exchange.advance(header);
      found[static_cast<size_t>(rank)] = failure.get();
    });
  for (std::thread &t : threads)
    t.join();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(found[static_cast<size_t>(rank)].status, TANDEM_STATUS_MISMATCH);
    EXPECT_STREQ(found[static_cast<size_t>(rank)].message, found[0].message);
  }
}

TEST(Exchange, ADeadPeerThatHadPublishedCounts) {
  Segment segment(2, 64);
  Everybody alive;
  GroupFailure failures[2];
  for (GroupFailure &f : failures)
    f.attach(segment.record());
  Exchange first(segment.layout, segment.base, 0, 20000, alive, failures[0]);
  Exchange second(segment.layout, segment.base, 1, 1, alive, failures[1]);
  CallHeader header = {};
  // Publishes, and runs into its own deadline of a millisecond.
  EXPECT_EQ(second.advance(header), TANDEM_STATUS_TIMEOUT);
  // A rank that finds a failure only after its peers' data is there keeps it.
  EXPECT_EQ(first.advance(header), TANDEM_STATUS_OK);
  EXPECT_EQ(failures[0].check(), TANDEM_STATUS_TIMEOUT);

  Segment other(2, 64);
  GroupFailure failure;
  failure.attach(other.record());
  Exchange survivor(other.layout, other.base, 0, 20000, alive, failure);
  alive.dead = 1;
  EXPECT_EQ(survivor.advance(header), TANDEM_STATUS_PEER_DIED);
  EXPECT_EQ(failure.get().peer, 1);
}

TEST(Exchange, AClaimedButUnwrittenFailureDoesNotHang) {
  // Whoever claimed the record died over it.
  Segment segment(2, 64);
  segment.record()->state.store(1);
  GroupFailure failure;
  failure.attach(segment.record());
  EXPECT_EQ(failure.check(), TANDEM_STATUS_OK);
  EXPECT_EQ(failure.fail(makeError(TANDEM_STATUS_TIMEOUT, 1, "mine")),
            TANDEM_STATUS_TIMEOUT);
  EXPECT_STREQ(failure.get().message, "mine");
}

TEST(Memory, SharedFilesHaveNoNameAndKeepTheirSize) {
  for (SharedFileKind kind :
       {SharedFileKind::Memfd, SharedFileKind::UnnamedFile}) {
    UniqueFd fd;
    ASSERT_FALSE(makeSharedFile(kind, 8192, fd));
    struct stat st;
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
    if (kind == SharedFileKind::UnnamedFile) {
      EXPECT_EQ(st.st_nlink, 0u);
    }
    SharedMapping a, b, wrong;
    ASSERT_FALSE(a.map(fd.get(), 8192));
    ASSERT_FALSE(b.map(fd.get(), 8192));
    EXPECT_TRUE(wrong.map(fd.get(), 4096));
    strcpy(static_cast<char *>(a.get()), "shared");
    EXPECT_STREQ(static_cast<char *>(b.get()), "shared");
    if (kind == SharedFileKind::Memfd) {
      // A peer can't take the pages away: that would be a SIGBUS here.
      EXPECT_NE(ftruncate(fd.get(), 0), 0);
    }
  }
  // More than there is: an error, not a kill.
  UniqueFd fd;
  Error error = makeSharedFile(uint64_t(1) << 60, fd);
  EXPECT_TRUE(error);
  EXPECT_FALSE(fd);
}

TEST(Memory, TheLimitBounds) {
  const char *why = nullptr;
  EXPECT_EQ(availableMemory(1234, why), 1234u);
  EXPECT_STREQ(why, "allowed by TANDEM_MEMORY_LIMIT");
  uint64_t all = availableMemory(0, why);
  EXPECT_GT(all, uint64_t(1) << 20);
  EXPECT_LT(all, uint64_t(1) << 50);
}

TEST(Signature, FindsTheFirstLineThatDiffers) {
  auto said = [](const char *first, const char *other) {
    Error e = compareSignatures(first, other, 3);
    EXPECT_EQ(e.status == TANDEM_STATUS_MISMATCH, std::string(first) != other);
    return std::string(e.message);
  };
  EXPECT_EQ(said("a\nb", "a\nb"), "");
  EXPECT_EQ(said("a\nb", "a\nc"),
            "signature line 2 differs: rank 3 has 'c', rank 0 has 'b'");
  EXPECT_EQ(said("x", "y"),
            "signature line 1 differs: rank 3 has 'y', rank 0 has 'x'");
  EXPECT_EQ(said("a", "a\nb"),
            "signature line 2 differs: rank 3 has 'b', rank 0 has '(no more "
            "lines)'");
  EXPECT_EQ(said("a\nb", "a"),
            "signature line 2 differs: rank 3 has '(no more lines)', rank 0 "
            "has 'b'");
  EXPECT_EQ(said("", "a"),
            "signature line 1 differs: rank 3 has 'a', rank 0 has '(no more "
            "lines)'");
  EXPECT_EQ(said("aa\nbcd\ne", "aa\nbce\ne"),
            "signature line 2 differs: rank 3 has 'bce', rank 0 has 'bcd'");
}
