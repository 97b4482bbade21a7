//===-- ModelTest.cpp - An exhaustive search of the flag discipline -------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A model of Exchange::advance, small enough to explore every order in which
// its steps, and the stores they make, can happen. Stores to data become
// visible to the other ranks in any order, at any time, until the publication
// that releases them; mutants that leave a part of the discipline out must be
// caught reading what isn't there. docs/runtime.md has the proof in words.
//
//===----------------------------------------------------------------------===//

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {
/// Numbers are kept modulo 4, as the 32-bit round is kept modulo 2^32, so that
/// the search crosses the wrap.
constexpr int modulus = 4;

struct Discipline {
  int slots = 2;
  /// Data is visible before the publication that follows it.
  bool releases = true;
  /// Waits for every peer, and not just for the next one.
  bool waitsForAll = true;
  /// Publishes after writing, not before.
  bool publishesAfter = true;
  /// Reads the slot of its own round.
  bool readsOwnRound = true;
};

constexpr int maxRanks = 3;
constexpr int maxSlots = 2;

struct RankState {
  /// 0: write data; 1: publish; 2: wait and read, peer by peer.
  uint8_t step = 0;
  /// Peers read so far in this round.
  uint8_t peers = 0;
  /// Rounds begun, from 1.
  uint8_t round = 1;
  /// What memory shows of this rank: data per slot (the round it is of; 0:
  /// none), and the flag.
  uint8_t data[maxSlots] = {0, 0};
  uint8_t flag = 0;
  /// A store on its way: slot + 1, or 0; and its value.
  uint8_t pendingSlot = 0;
  uint8_t pendingValue = 0;
};

struct State {
  RankState ranks[maxRanks];
  bool operator<(const State &other) const { return key() < other.key(); }
  std::string key() const {
    return std::string(reinterpret_cast<const char *>(ranks), sizeof(ranks));
  }
};

class Search {
public:
  Search(const Discipline &discipline, int world, int rounds)
      : d(discipline), world(world), rounds(rounds) {}

  /// Explores everything; returns what went wrong first, or nothing.
  std::string run() {
    std::vector<State> stack{State()};
    seen.insert(stack.back());
    while (!stack.empty() && problem.empty()) {
      State state = stack.back();
      stack.pop_back();
      bool moved = false;
      for (int r = 0; r < world && problem.empty(); ++r) {
        for (State next : {landed(state, r), advanced(state, r)}) {
          if (!(next < state) && !(state < next))
            continue;
          moved = true;
          if (seen.insert(next).second)
            stack.push_back(next);
        }
      }
      if (!moved && problem.empty())
        for (int r = 0; r < world; ++r)
          if (state.ranks[r].round <= rounds)
            problem = "stuck";
    }
    return problem;
  }
  size_t states() const { return seen.size(); }

private:
  /// A store on its way arrives.
  State landed(State state, int r) {
    RankState &rank = state.ranks[r];
    if (rank.pendingSlot) {
      rank.data[rank.pendingSlot - 1] = rank.pendingValue;
      rank.pendingSlot = 0;
    }
    return state;
  }

  /// `flag` is at `round` or after it, by the sign of their difference.
  static bool reached(int flag, int round) {
    int difference = (flag - round + 2 * modulus) % modulus;
    return difference < modulus / 2;
  }

  State advanced(State state, int r) {
    RankState &rank = state.ranks[r];
    if (rank.round > rounds)
      return state;
    int slot = rank.round % d.slots;
    auto write = [&] {
      if (rank.pendingSlot)
        return false;
      rank.pendingSlot = static_cast<uint8_t>(slot + 1);
      rank.pendingValue = rank.round;
      return true;
    };
    auto publish = [&] {
      if (d.releases && rank.pendingSlot)
        return false;
      rank.flag = rank.round % modulus;
      return true;
    };
    if (rank.step < 2) {
      bool writes = (rank.step == 0) == d.publishesAfter;
      if (writes ? write() : publish())
        ++rank.step;
      return state;
    }
    // Waiting comes first for all, as reading needs every peer's data.
    int peer = (r + 1 + rank.peers % (world - 1)) % world;
    bool waiting = rank.peers < world - 1;
    if (waiting) {
      if ((d.waitsForAll || rank.peers == 0) &&
          !reached(state.ranks[peer].flag, rank.round % modulus))
        return state;
    } else {
      int from = d.readsOwnRound ? slot : (rank.round + 1) % d.slots;
      // A peer's store may sit in between: what memory shows is what counts.
      if (state.ranks[peer].data[from] != rank.round)
        problem = "rank " + std::to_string(r) + " in round " +
                  std::to_string(rank.round) + " read data of round " +
                  std::to_string(state.ranks[peer].data[from]) + " of rank " +
                  std::to_string(peer);
    }
    if (++rank.peers == 2 * (world - 1)) {
      rank.peers = 0;
      rank.step = 0;
      ++rank.round;
    }
    return state;
  }

  const Discipline d;
  const int world;
  const int rounds;
  std::set<State> seen;
  std::string problem;
};
} // namespace

TEST(Model, TheDisciplineIsSafeAndLive) {
  for (int world : {2, 3}) {
    Search search(Discipline(), world, world == 2 ? 9 : 6);
    EXPECT_EQ(search.run(), "") << "world " << world;
    // Big enough to mean something.
    EXPECT_GT(search.states(), world == 2 ? 100u : 1000u);
    printf("world %d: %zu states\n", world, search.states());
  }
}

TEST(Model, EveryMutantIsCaught) {
  auto caught = [](const char *name, int world, auto change) {
    Discipline d;
    change(d);
    Search search(d, world, 5);
    std::string problem = search.run();
    EXPECT_NE(problem, "") << name;
    EXPECT_NE(problem, "stuck") << name;
  };
  caught("one slot", 2, [](Discipline &d) { d.slots = 1; });
  caught("no release", 2, [](Discipline &d) { d.releases = false; });
  caught("waits for one peer", 3, [](Discipline &d) { d.waitsForAll = false; });
  caught("early publication", 2,
         [](Discipline &d) { d.publishesAfter = false; });
  caught("the other slot", 2, [](Discipline &d) { d.readsOwnRound = false; });
}
