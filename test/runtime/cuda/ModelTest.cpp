//===-- ModelTest.cpp - Exhaustive search of the flag disciplines ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Models of the CUDA protocols (docs/cuda.md), small enough to try every order
// of their steps. A rank is a stream of kernels, a kernel two blocks that run
// side by side: one pushes, one takes. Stores become visible in any order, each
// at any time, except that a fence waits for those of its block before it; a
// line becomes visible at once, with its flag. Epochs are kept modulo 4, as the
// real ones modulo 2^48, so that the search crosses the wrap. What a taker
// reads must be of its own call; and nobody may be stuck.
//
//===----------------------------------------------------------------------===//

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

namespace {
/// LinesByRow: a block has two rows (the two sets) and pushes the second when
/// the first is done.
enum class Protocol { Lines, LinesByRow, Rows, TwoStep };

struct Discipline {
  Protocol protocol = Protocol::Lines;
  int slots = 2;
  /// A fence between data and flag.
  bool fence = true;
  /// A kernel begins when the one before it is complete.
  bool waitsForKernel = true;
  /// A taker waits for every peer, and not just for one.
  bool waitsForAll = true;
  /// A line's flag is stored with its data.
  bool wholeLines = true;
  /// The flag is stored after the data.
  bool flagLast = true;
  /// LinesByRow: a row is pushed before it is waited for.
  bool pushesFirst = true;
};

constexpr int maxRanks = 3;
constexpr int modulus = 4;

/// What memory shows of one rank's stores to another.
struct Inbox {
  /// Call that the data is of, by slot; 0: none. Inputs, then sums.
  uint8_t data[2][2];
  /// Epoch modulo 4, plus 1; 0: zeroed memory.
  uint8_t flag[2][2];
};

/// A store on its way: to the peer's inbox of ours.
struct Store {
  uint8_t peer, set, slot, isFlag, value, isLine;
};
constexpr int maxStores = 5;

struct Block {
  uint8_t call;
  uint8_t step;
  uint8_t count;
  Store stores[maxStores];
};

struct State {
  Block blocks[maxRanks][2];
  /// [reader][writer]
  Inbox inboxes[maxRanks][maxRanks];

  std::string key() const {
    return std::string(reinterpret_cast<const char *>(this), sizeof(*this));
  }
};

class Search {
public:
  Search(const Discipline &d, int world, int calls)
      : d(d), world(world), calls(calls) {}

  std::string run() {
    State first;
    memset(&first, 0, sizeof(first));
    for (auto &rank : first.blocks)
      for (Block &block : rank)
        block.call = 1;
    visit(first);
    while (!stack.empty() && problem.empty()) {
      State state = stack.back();
      stack.pop_back();
      moved = false;
      for (int r = 0; r < world && problem.empty(); ++r)
        for (int b = 0; b < 2 && problem.empty(); ++b) {
          for (int i = 0; i < state.blocks[r][b].count; ++i)
            land(state, r, b, i);
          advance(state, r, b);
        }
      if (!moved && problem.empty() && !isDone(state))
        problem = "stuck";
    }
    return problem;
  }
  size_t states() const { return seen.size(); }

private:
  void visit(const State &state) {
    moved = true;
    if (seen.insert(state.key()).second)
      stack.push_back(state);
  }
  bool isDone(const State &state) const {
    for (int r = 0; r < world; ++r)
      for (const Block &block : state.blocks[r])
        if (block.call <= calls || block.count)
          return false;
    return true;
  }
  int slotOf(int call) const { return call % d.slots; }
  static uint8_t flagOf(int call) {
    return static_cast<uint8_t>(call % modulus + 1);
  }
  int peerOf(int r, int i) const { return (r + 1 + i) % world; }

  static void show(State &state, int r, const Store &s) {
    Inbox &inbox = state.inboxes[s.peer][r];
    if (s.isLine || !s.isFlag)
      inbox.data[s.set][s.slot] = s.value;
    if (s.isLine || s.isFlag)
      inbox.flag[s.set][s.slot] = flagOf(s.value);
  }

  /// A store on its way becomes visible.
  void land(State state, int r, int b, int i) {
    Block &block = state.blocks[r][b];
    show(state, r, block.stores[i]);
    for (int k = i; k + 1 < block.count; ++k)
      block.stores[k] = block.stores[k + 1];
    memset(&block.stores[--block.count], 0, sizeof(Store));
    visit(state);
  }

  bool send(Block &block, int peer, int set, bool isFlag, bool isLine = false) {
    if (block.count == maxStores)
      return false;
    block.stores[block.count++] = {static_cast<uint8_t>(peer),
                                   static_cast<uint8_t>(set),
                                   static_cast<uint8_t>(slotOf(block.call)),
                                   static_cast<uint8_t>(isFlag),
                                   block.call,
                                   static_cast<uint8_t>(isLine)};
    return true;
  }

  /// Data, fence and flag to `peer` in three steps, or a line in one. False:
  /// can't go on yet. `part` counts from 0; sets `done` with the last.
  bool push(Block &block, int peer, int set, int part, bool &done) {
    if (d.protocol <= Protocol::LinesByRow && d.wholeLines) {
      done = true;
      return send(block, peer, set, false, true);
    }
    done = part == 2;
    if (part == 1)
      return !d.fence || d.protocol == Protocol::Lines || block.count == 0;
    return send(block, peer, set, (part == 2) == d.flagLast);
  }

  bool hasFlag(const State &state, int r, int from, int set, int call) const {
    return state.inboxes[r][from].flag[set][slotOf(call)] == flagOf(call);
  }
  void read(const State &state, int r, int from, int set, int call) {
    int found = state.inboxes[r][from].data[set][slotOf(call)];
    if (found != call)
      problem = "rank " + std::to_string(r) + " in call " +
                std::to_string(call) + " read call " + std::to_string(found) +
                " of rank " + std::to_string(from);
  }

  void advance(State state, int r, int b) {
    Block &block = state.blocks[r][b];
    int call = block.call;
    if (call > calls)
      return;
    // A kernel begins when both blocks of the one before have ended and their
    // stores are visible.
    Block &other = state.blocks[r][1 - b];
    if (block.step == 0) {
      if (d.waitsForKernel &&
          (other.call < call || block.count ||
           (other.call == call && other.step == 0 && other.count)))
        return;
      block.step = 1;
      visit(state);
      return;
    }
    int step = block.step - 1;
    bool ended = false;
    int peers = world - 1;
    bool two = d.protocol == Protocol::TwoStep;
    if (d.protocol == Protocol::LinesByRow) {
      int each = 2 * peers + 1, set = step / each, at = step % each;
      int pushes = d.pushesFirst ? at : at - 1;
      if (b != 0) {
        ended = true;
      } else if (pushes >= 0 && pushes < peers) {
        bool done = false;
        if (!push(block, peerOf(r, pushes), set, 0, done))
          return;
      } else if (at == (d.pushesFirst ? peers : 0)) {
        for (int i = 0; i < (d.waitsForAll ? peers : 1); ++i)
          if (!hasFlag(state, r, peerOf(r, i), set, call))
            return;
      } else {
        read(state, r, peerOf(r, at - peers - 1), set, call);
      }
      ++step;
      ended |= step == 2 * each;
      finish(state, block, step, ended);
      return;
    }
    // One unit, of rank 0: the hardest case of two steps, since the others
    // neither send to nor hear from each other.
    if (b == 0) {
      int receivers = two ? (r == 0 ? 0 : 1) : peers;
      if (step < 3 * receivers) {
        bool done = false;
        int peer = two ? 0 : peerOf(r, step / 3);
        if (!push(block, peer, 0, step % 3, done))
          return;
        step += done ? 3 - step % 3 : 1;
      }
      ended = step >= 3 * receivers;
    } else if (!two || r == 0) {
      // Waits for all, then reads one by one.
      if (step == 0) {
        for (int i = 0; i < (d.waitsForAll ? peers : 1); ++i)
          if (!hasFlag(state, r, peerOf(r, i), 0, call))
            return;
        step = 1;
      } else if (step <= peers) {
        read(state, r, peerOf(r, step - 1), 0, call);
        ++step;
      } else if (two) {
        int sent = step - peers - 1;
        bool done = false;
        if (!push(block, peerOf(r, sent / 3), 1, sent % 3, done))
          return;
        ++step;
      }
      ended = step == 1 + peers + (two ? 3 * peers : 0);
    } else {
      if (step == 0) {
        if (!hasFlag(state, r, 0, 1, call))
          return;
        step = 1;
      } else {
        read(state, r, 0, 1, call);
        ended = true;
      }
    }
    finish(state, block, step, ended);
  }

  void finish(const State &state, Block &block, int step, bool ended) {
    if (ended) {
      block.step = 0;
      ++block.call;
    } else {
      block.step = static_cast<uint8_t>(step + 1);
    }
    visit(state);
  }

  const Discipline d;
  const int world;
  const int calls;
  std::unordered_set<std::string> seen;
  std::vector<State> stack;
  bool moved = false;
  std::string problem;
};

const char *nameOf(Protocol protocol) {
  switch (protocol) {
  case Protocol::Lines:
    return "lines";
  case Protocol::LinesByRow:
    return "lines by row";
  case Protocol::Rows:
    return "rows";
  case Protocol::TwoStep:
    break;
  }
  return "two-step";
}
} // namespace

TEST(CudaModel, TheDisciplinesAreSafeAndLive) {
  for (Protocol protocol : {Protocol::Lines, Protocol::LinesByRow,
                            Protocol::Rows, Protocol::TwoStep})
    for (int world : {2, 3}) {
      Discipline d;
      d.protocol = protocol;
      if (protocol == Protocol::LinesByRow && world != 2)
        continue;
      Search search(d, world, world == 2 ? 7 : 3);
      EXPECT_EQ(search.run(), "") << nameOf(protocol) << " " << world;
      EXPECT_GT(search.states(), 100u);
      printf("%s, world %d: %zu states\n", nameOf(protocol), world,
             search.states());
    }
}

TEST(CudaModel, EveryMutantIsCaught) {
  auto caught = [](const char *name, Protocol protocol, int world,
                   auto change) {
    Discipline d;
    d.protocol = protocol;
    change(d);
    Search search(d, world, 3);
    std::string found = search.run();
    EXPECT_NE(found.find("read call"), std::string::npos)
        << name << ", " << nameOf(protocol) << ": '" << found << "'";
  };
  for (Protocol protocol :
       {Protocol::Lines, Protocol::Rows, Protocol::TwoStep}) {
    // Two steps alone would do with one slot: nobody sends anew before it has
    // the sums, which are made after the last read. Calls of the other
    // protocols on the same workspace would not.
    if (protocol != Protocol::TwoStep)
      caught("one slot", protocol, 2, [](Discipline &d) { d.slots = 1; });
    caught("waits for one", protocol, 3,
           [](Discipline &d) { d.waitsForAll = false; });
  }
  for (Protocol protocol : {Protocol::Rows, Protocol::TwoStep}) {
    caught("no fence", protocol, 2, [](Discipline &d) { d.fence = false; });
    caught("flag first", protocol, 2,
           [](Discipline &d) { d.flagLast = false; });
  }
  // A kernel that begins before the one ahead of it is complete stores over
  // what that still waits for or reads.
  for (Protocol protocol : {Protocol::Lines, Protocol::Rows, Protocol::TwoStep})
    for (int world : {2, 3}) {
      Discipline d;
      d.protocol = protocol;
      d.waitsForKernel = false;
      Search search(d, world, 3);
      EXPECT_NE(search.run(), "") << "early trigger, " << nameOf(protocol);
    }
  caught("lines that come apart", Protocol::Lines, 2,
         [](Discipline &d) { d.wholeLines = false; });
  Discipline d;
  d.protocol = Protocol::LinesByRow;
  d.pushesFirst = false;
  EXPECT_EQ(Search(d, 2, 3).run(), "stuck") << "waits before it pushes";
}
