//===-- CreateTest.cpp - How ranks agree on a workspace -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A device of several steps, as GPUs are, that does and fails as it is told.
// All ranks are threads of one process, on sockets or on what stands for them
// between hosts.
//
//===----------------------------------------------------------------------===//

#include "workspace/Workspace.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>

using namespace tandem;

namespace {

/// An all-gather between threads.
struct Hall {
  explicit Hall(int world) : said(static_cast<size_t>(world)), world(world) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> said, last;
  const int world;
  int present = 0;
  int round = 0;
};

class ThreadRemote final : public Remote {
public:
  ThreadRemote(std::shared_ptr<Hall> hall, int rank)
      : hall(std::move(hall)), rank(rank) {}
  Error allGather(const std::string &mine, std::vector<std::string> &all,
                  Deadline deadline) override {
    std::unique_lock<std::mutex> lock(hall->mutex);
    hall->said[static_cast<size_t>(rank)] = mine;
    int round = hall->round;
    if (++hall->present == hall->world) {
      hall->last = hall->said;
      hall->present = 0;
      ++hall->round;
      hall->changed.notify_all();
    }
    while (hall->round == round) {
      hall->changed.wait_for(lock, std::chrono::milliseconds(5));
      if (deadline.passed())
        return makeError(TANDEM_STATUS_TIMEOUT, -1,
                         "the ranks did not all come in time");
    }
    all = hall->last;
    return Error();
  }

private:
  std::shared_ptr<Hall> hall;
  const int rank;
};

/// What a rank's device is to do.
struct Script {
  int numSteps = 3;
  /// The step that fails, in the attempts up to `failures`.
  int failingStep = 100;
  int failures = 0;
  bool fatal = false;
  uint64_t result = 7;
  /// Rank 0: how often there is something left to do without.
  int retreats = 1;
};

/// What a rank's device saw.
struct Seen {
  int attempts = 0;
  std::vector<std::string> bodies;
  std::vector<ino_t> files;
  std::vector<uint64_t> results;
  std::vector<int> steps;
};

ino_t fileOf(int fd) {
  struct stat st = {};
  return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

class StubBackend final : public Backend {
public:
  tandem_status fused(const tandem_norm_args &, bool, uint64_t) override {
    return TANDEM_STATUS_OK;
  }
  tandem_status allReduce(const tandem_all_reduce_args &, bool,
                          uint64_t) override {
    return TANDEM_STATUS_OK;
  }
  tandem_status addRmsNorm(const tandem_norm_args &) override {
    return TANDEM_STATUS_OK;
  }
  Error accept(const tandem_norm_args &, bool) override { return Error(); }
  tandem_status check() override { return TANDEM_STATUS_OK; }
  tandem_status fail(const Error &, uint64_t) override {
    return TANDEM_STATUS_OK;
  }
  void leave() override {}
  void forget() override {}
  uint64_t rounds() const override { return 0; }
  uint64_t sleeps() const override { return 0; }
};

class StubMaker final : public WorkspaceMaker {
public:
  StubMaker(int rank, const Script &script, Seen &seen)
      : rank(rank), script(script), seen(seen) {
    ++seen.attempts;
  }
  Error fails(int step) {
    if (step == script.failingStep && seen.attempts <= script.failures)
      return makeError(TANDEM_STATUS_SYSTEM, -1, "step %d failed", step);
    return Error();
  }
  Error offer(std::string &body, std::vector<UniqueFd> &fds) override {
    if (Error e = fails(offerStep))
      return e;
    body = "rank " + std::to_string(rank) + std::string(size_t(rank) * 9, '.');
    // As many files as its rank, and one.
    for (int i = 0; i <= rank; ++i) {
      UniqueFd fd(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
      own.push_back(fileOf(fd.get()));
      fds.push_back(std::move(fd));
    }
    return Error();
  }
  int numSteps() const override { return script.numSteps; }
  Error build(int step, Offers &offers, tandem_workspace &workspace, Deadline,
              uint64_t &result) override {
    seen.steps.push_back(step);
    seen.results.push_back(result);
    if (step == 0) {
      seen.bodies = offers.bodies;
      seen.files.clear();
      for (std::vector<UniqueFd> &fds : offers.fds)
        for (UniqueFd &fd : fds)
          seen.files.push_back(fileOf(fd.get()));
    }
    if (Error e = fails(step))
      return e;
    result = script.result + static_cast<uint64_t>(step);
    if (step + 1 == script.numSteps)
      workspace.backend = std::make_unique<StubBackend>();
    return Error();
  }

private:
  const int rank;
  const Script &script;
  Seen &seen;
  std::vector<ino_t> own;
};

class StubGroup final : public DeviceGroup {
public:
  StubGroup(int rank, const Script &script, Seen &seen)
      : rank(rank), script(script), seen(seen), left(script.retreats) {}
  Error vote(const tandem_workspace_desc &, DeviceVote &vote) override {
    if (script.fatal)
      return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1, "no memory at all");
    vote.words[0] = static_cast<uint8_t>(rank + 1);
    return Error();
  }
  Error decide(const std::vector<DeviceVote> &votes,
               const tandem_workspace_desc &, Terms &terms) override {
    for (size_t r = 0; r < votes.size(); ++r)
      terms.words[r] = votes[r].words[0];
    return Error();
  }
  bool retreat(int, const Error &cause, Terms &terms) override {
    if (left == 0)
      return false;
    --left;
    terms.words[100] = static_cast<uint8_t>(left + 1);
    return retreatFromFused(cause, terms) || left > 0;
  }
  std::unique_ptr<WorkspaceMaker>
  begin(const Terms &terms, const tandem_workspace_desc &) override {
    for (size_t r = 0; r < 2; ++r)
      if (terms.words[r] != r + 1)
        ADD_FAILURE() << "the terms lack rank " << r << "'s word";
    return std::make_unique<StubMaker>(rank, script, seen);
  }

private:
  const int rank;
  const Script &script;
  Seen &seen;
  int left;
};

/// Communicators of `world` ranks in this process.
std::vector<std::shared_ptr<Communicator>> makeComms(int world, bool apart) {
  std::vector<Meeting> meetings(static_cast<size_t>(world));
  auto hall = std::make_shared<Hall>(world);
  for (int r = 0; r < world; ++r) {
    Meeting &mine = meetings[static_cast<size_t>(r)];
    if (apart) {
      mine.remote = std::make_unique<ThreadRemote>(hall, r);
      continue;
    }
    mine.pidfds.resize(static_cast<size_t>(world));
    mine.channels.resize(r == 0 ? static_cast<size_t>(world) : 1);
    int ends[2];
    if (r == 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                   ends) != 0)
      continue;
    meetings[0].channels[static_cast<size_t>(r)] = Channel(UniqueFd(ends[0]));
    mine.channels[0] = Channel(UniqueFd(ends[1]));
  }
  std::vector<std::shared_ptr<Communicator>> comms;
  for (int r = 0; r < world; ++r)
    comms.push_back(std::make_shared<Communicator>(
        r, world, 5000, std::move(meetings[static_cast<size_t>(r)])));
  return comms;
}

struct Outcome {
  Error error;
  Seen seen;
  std::unique_ptr<tandem_workspace> workspace;
};

class CreateTest : public testing::TestWithParam<bool> {
protected:
  /// Makes a workspace between the ranks of `scripts`.
  std::vector<Outcome> run(const std::vector<Script> &scripts,
                           uint32_t flags = 0) {
    const int world = static_cast<int>(scripts.size());
    std::vector<std::shared_ptr<Communicator>> comms =
        makeComms(world, GetParam());
    std::vector<Outcome> outcomes(scripts.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < world; ++r)
      threads.emplace_back([&, r] {
        size_t at = static_cast<size_t>(r);
        auto group =
            std::make_shared<StubGroup>(r, scripts[at], outcomes[at].seen);
        tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
        desc.max_tokens = 4;
        desc.hidden = 8;
        desc.flags = flags;
        desc.timeout_ms = 5000;
        outcomes[at].error =
            createWorkspace(comms[at], group, TANDEM_DEVICE_CPU, Settings(),
                            desc, outcomes[at].workspace);
      });
    for (std::thread &thread : threads)
      thread.join();
    return outcomes;
  }
};

TEST_P(CreateTest, AllRanksSeeAllOffers) {
  std::vector<Outcome> all = run(std::vector<Script>(3));
  for (Outcome &one : all) {
    ASSERT_FALSE(one.error) << one.error.message;
    ASSERT_TRUE(one.workspace);
    EXPECT_TRUE(one.workspace->agreed.fused);
    EXPECT_EQ(one.seen.attempts, 1);
    EXPECT_EQ(one.seen.bodies,
              (std::vector<std::string>{"rank 0", "rank 1.........",
                                        "rank 2.................."}));
    EXPECT_EQ(one.seen.steps, (std::vector<int>{0, 1, 2}));
    // The least of the step before.
    EXPECT_EQ(one.seen.results, (std::vector<uint64_t>{0, 7, 8}));
  }
  if (GetParam())
    return;
  // The very files, in the order of ranks.
  EXPECT_EQ(all[0].seen.files.size(), 6u);
  for (Outcome &one : all) {
    EXPECT_EQ(one.seen.files, all[0].seen.files);
    for (ino_t file : one.seen.files)
      EXPECT_NE(file, 0u);
  }
}

TEST_P(CreateTest, TheLeastResultHolds) {
  std::vector<Script> scripts(3);
  scripts[2].result = 3;
  for (Outcome &one : run(scripts)) {
    ASSERT_FALSE(one.error) << one.error.message;
    EXPECT_EQ(one.seen.results, (std::vector<uint64_t>{0, 3, 4}));
  }
}

/// A failure of any rank in any step takes the fused path from all, with the
/// reason, and all begin again.
TEST_P(CreateTest, AFailureLeadsToOtherTerms) {
  for (int rank = 0; rank < 3; ++rank)
    for (int step = offerStep; step < 3; ++step) {
      std::vector<Script> scripts(3);
      scripts[static_cast<size_t>(rank)].failingStep = step;
      scripts[static_cast<size_t>(rank)].failures = 1;
      for (Outcome &one : run(scripts)) {
        ASSERT_FALSE(one.error) << one.error.message;
        EXPECT_EQ(one.seen.attempts, 2);
        EXPECT_FALSE(one.workspace->agreed.fused);
        EXPECT_EQ(std::string(one.workspace->agreed.reason),
                  "rank " + std::to_string(rank) + ": step " +
                      std::to_string(step) + " failed");
      }
    }
}

TEST_P(CreateTest, WithNothingLeftAFailureIsEverybodysError) {
  std::vector<Script> scripts(2);
  scripts[1].failingStep = 1;
  scripts[1].failures = 9;
  scripts[0].retreats = 3;
  for (Outcome &one : run(scripts)) {
    EXPECT_EQ(one.error.status, TANDEM_STATUS_SYSTEM);
    EXPECT_EQ(one.error.reporter, 1);
    EXPECT_STREQ(one.error.message, "rank 1: step 1 failed");
    EXPECT_FALSE(one.workspace);
    EXPECT_EQ(one.seen.attempts, 3);
  }
}

TEST_P(CreateTest, ARequiredFusedPathIsNotTakenAway) {
  std::vector<Script> scripts(2);
  scripts[1].failingStep = 0;
  scripts[1].failures = 1;
  for (Outcome &one : run(scripts, TANDEM_WORKSPACE_REQUIRE_FUSED)) {
    EXPECT_EQ(one.error.status, TANDEM_STATUS_SYSTEM);
    EXPECT_STREQ(one.error.message, "no fused path, which was required: rank "
                                    "1: step 0 failed");
    EXPECT_FALSE(one.workspace);
  }
}

TEST_P(CreateTest, ARankThatCannotFailsItForAll) {
  std::vector<Script> scripts(3);
  scripts[2].fatal = true;
  for (Outcome &one : run(scripts)) {
    EXPECT_EQ(one.error.status, TANDEM_STATUS_OUT_OF_MEMORY);
    EXPECT_STREQ(one.error.message, "rank 2: no memory at all");
    EXPECT_EQ(one.seen.attempts, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Planes, CreateTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool> &info) {
                           return info.param ? "AcrossHosts" : "Sockets";
                         });

/// Ranks in different collectives find that out without sockets, too.
TEST(RemotePlane, DifferentCollectivesAreNamed) {
  std::vector<std::shared_ptr<Communicator>> comms = makeComms(2, true);
  std::vector<Error> errors(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      auto lock = comms[r]->begin();
      Frame answer;
      errors[r] = comms[r]->agree(
          lock, r ? ControlOp::Barrier : ControlOp::SetFusion, "x", {},
          [](std::vector<Communicator::Said> &, std::string &,
             std::vector<int> &) { return Error(); },
          answer, Deadline::in(5000));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Error &error : errors) {
    EXPECT_EQ(error.status, TANDEM_STATUS_MISMATCH) << error.message;
    EXPECT_TRUE(strstr(error.message, "tandem_comm_barrier")) << error.message;
  }
  EXPECT_TRUE(comms[0]->spoiltBy());
}

TEST(RemotePlane, ARankThatDoesNotComeIsATimeout) {
  std::vector<std::shared_ptr<Communicator>> comms = makeComms(2, true);
  auto lock = comms[0]->begin();
  Frame answer;
  Error error = comms[0]->agree(
      lock, ControlOp::Barrier, "x", {},
      [](std::vector<Communicator::Said> &, std::string &, std::vector<int> &) {
        return Error();
      },
      answer, Deadline::in(50));
  EXPECT_EQ(error.status, TANDEM_STATUS_TIMEOUT);
  EXPECT_TRUE(comms[0]->spoiltBy());
}

} // namespace
