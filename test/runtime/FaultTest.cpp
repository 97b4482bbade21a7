//===-- FaultTest.cpp - Ranks that die, stop, come late or differ ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include "comm/Rendezvous.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace tandem::test;

static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// "STATUS|peer|milliseconds of the clock|message" of a failed rank.
static std::string report(const tandem_error &error) {
  return std::string(tandem_status_name(error.status)) + "|" +
         std::to_string(error.peer) + "|" + std::to_string(nowMs()) + "|" +
         error.message;
}

static int64_t timeOf(const std::string &text) {
  size_t at = text.find('|', text.find('|') + 1);
  return at == std::string::npos ? 0 : atoll(text.c_str() + at + 1);
}

/// Joins, makes a workspace and runs calls until one fails.
static std::string callUntilFailure(Member &m, const std::string &name,
                                    int rank, int world, int64_t timeoutMs) {
  if (m.join(name, rank, world, timeoutMs) ||
      m.makeWorkspace(16, 1024, TANDEM_DTYPE_F32))
    return report(m.error);
  std::mt19937 random(77);
  for (;;) {
    // The same on all ranks: one step, two steps, and several rounds.
    int64_t tokens = 1 + static_cast<int64_t>(random() % 100);
    PlainCall call(rank, tokens, 1024);
    if (tandem_fused_all_reduce_norm(m.workspace, &call.args)) {
      m.failure();
      return report(m.error);
    }
    std::string wrong = call.check(world);
    if (!wrong.empty())
      return "WRONG: " + wrong;
  }
}

TEST(Fault, KillAtRandomMoments) {
  const int rounds = fullTests() ? 200 : 20;
  std::mt19937 random(12345);
  int64_t slowest = 0;
  int duringSetUp = 0;
  for (int i = 0; i < rounds; ++i) {
    int world = 2 + static_cast<int>(random() % 3);
    int victim = static_cast<int>(random() % static_cast<unsigned>(world));
    // From before the group is made to well into the calls.
    useconds_t delay = static_cast<useconds_t>(random() % 30000);
    std::string name = freshName(), second = freshName();
    Ranks ranks(world, [&](int rank) -> std::string {
      Member m;
      std::string said = callUntilFailure(m, name, rank, world, 4000);
      m.reset();
      // The survivors go on in a new group.
      Member n;
      int newRank = rank > victim ? rank - 1 : rank;
      if (n.join(second, newRank, world - 1, 8000) ||
          n.makeWorkspace(16, 64, TANDEM_DTYPE_F32))
        return "no new group: " + n.message();
      PlainCall call(newRank, 20, 64);
      if (tandem_fused_all_reduce_norm(n.workspace, &call.args))
        return "no new call: " + (n.failure(), n.message());
      std::string wrong = call.check(world - 1);
      return wrong.empty() ? said : "WRONG afterwards: " + wrong;
    });
    usleep(delay);
    int64_t killed = nowMs();
    ranks.signal(victim, SIGKILL);
    std::vector<std::string> said = ranks.join(30);
    for (int rank = 0; rank < world; ++rank) {
      const std::string &text = said[rank];
      if (rank == victim) {
        EXPECT_EQ(text, "killed by signal 9");
        continue;
      }
      // One that died before it came at all can only be missed.
      bool neverCame = contains(text, "did not come to");
      bool died = text.rfind("TANDEM_STATUS_PEER_DIED|", 0) == 0;
      EXPECT_TRUE(died || neverCame)
          << "round " << i << " rank " << rank << " " << text;
      EXPECT_TRUE(contains(text, "|" + std::to_string(victim) + "|"))
          << "victim " << victim << ": " << text;
      if (died)
        slowest = std::max(slowest, timeOf(text) - killed);
      duringSetUp += contains(text, "being made") || neverCame;
    }
  }
  EXPECT_LT(slowest, 3000);
  RecordProperty("slowest_ms", static_cast<int>(slowest));
  printf("%d kills; slowest survivor returned after %lld ms; %d returns were "
         "from making the group\n",
         rounds, static_cast<long long>(slowest), duringSetUp);
}

TEST(Fault, AStoppedRankGoesOnIfItIsBackInTime) {
  std::string name = freshName();
  Ranks ranks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3, 10000) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, m.message());
    int64_t until = nowMs() + 1500;
    // All leave at the same call: rank 0 says when, by way of the sum.
    for (;;) {
      float last = rank == 0 && nowMs() > until ? 1.0f : 0.0f;
      tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
      reduce.tokens = reduce.hidden = 1;
      reduce.input.data = reduce.output.data = &last;
      RANK_CHECK(tandem_all_reduce(m.workspace, &reduce) == 0,
                 (m.failure(), m.message()));
      if (last != 0.0f)
        return "";
    }
  });
  for (int i = 0; i < 3; ++i) {
    usleep(200000);
    ranks.signal(i, SIGSTOP);
    usleep(200000);
    ranks.signal(i, SIGCONT);
  }
  for (const std::string &text : ranks.join(30))
    EXPECT_EQ(text, "");
}

TEST(Fault, AStoppedRankThatIsTooLateFailsEverybody) {
  std::string name = freshName();
  Ranks ranks(3, [&](int rank) -> std::string {
    Member m;
    return callUntilFailure(m, name, rank, 3, 700);
  });
  usleep(300000);
  ranks.signal(1, SIGSTOP);
  usleep(1500000);
  ranks.signal(1, SIGCONT);
  int64_t now = nowMs();
  std::vector<std::string> said = ranks.join(30);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(said[rank].rfind("TANDEM_STATUS_TIMEOUT|1|", 0), 0u)
        << said[rank];
    EXPECT_TRUE(contains(said[rank], "rank 1 did not come within 700 ms"))
        << said[rank];
    if (rank != 1) {
      // While the other was still stopped.
      EXPECT_LT(timeOf(said[rank]), now);
    }
  }
}

TEST(Fault, AWaitingRankDoesNotBurnACore) {
  std::string name = freshName();
  for (const std::string &text : runRanks(2, [&](int rank) -> std::string {
         Member m;
         RANK_CHECK(m.join(name, rank, 2, 10000) == 0, m.message());
         RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
         if (rank == 1)
           usleep(1000000);
         clock_t before = clock();
         int64_t start = nowMs();
         PlainCall call(rank, 3, 64);
         RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                    (m.failure(), m.message()));
         if (rank == 1)
           return "";
         double busy = double(clock() - before) / CLOCKS_PER_SEC;
         RANK_CHECK(nowMs() - start > 500, "did not wait");
         RANK_CHECK(busy < 0.1, std::to_string(busy) + " s of processor time");
         return "";
       }))
    EXPECT_EQ(text, "");
}

TEST(Fault, WaitsForEverWhereItIsTold) {
  std::string name = freshName();
  for (const std::string &text : runRanks(2, [&](int rank) -> std::string {
         setenv("TANDEM_TIMEOUT_MS", "100", 1);
         Member m;
         if (rank == 1)
           usleep(400000);
         RANK_CHECK(m.join(name, rank, 2, TANDEM_TIMEOUT_NEVER) == 0,
                    m.message());
         if (rank == 0)
           usleep(400000);
         RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
         if (rank == 1)
           usleep(400000);
         PlainCall call(rank, 3, 64);
         RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                    (m.failure(), m.message()));
         return "";
       }))
    EXPECT_EQ(text, "");
}

TEST(Fault, ALateRankIsNamed) {
  std::string name = freshName();
  auto said = runRanks(4, [&](int rank) -> std::string {
    if (rank == 2)
      usleep(1200000);
    Member m;
    int64_t start = nowMs();
    tandem_status status = m.join(name, rank, 4, 500);
    RANK_CHECK(status == TANDEM_STATUS_TIMEOUT, m.message());
    RANK_CHECK(nowMs() - start < 3000, "took too long");
    return m.message();
  });
  for (int rank : {0, 1, 3})
    EXPECT_EQ(said[rank],
              "rank 2 of world size 4 did not come to the rendezvous in time");
  EXPECT_TRUE(contains(said[2], "rank 0 did not come")) << said[2];
  // Late, but not too late.
  name = freshName();
  for (const std::string &text : runRanks(3, [&](int rank) -> std::string {
         usleep(static_cast<useconds_t>((3 - rank) * 150000));
         Member m;
         RANK_CHECK(m.join(name, rank, 3, 5000) == 0, m.message());
         return "";
       }))
    EXPECT_EQ(text, "");
}

TEST(Fault, ALateRankIsToldThatItIsLate) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3, 500) == 0, m.message());
    if (rank == 1)
      usleep(700000);
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == TANDEM_STATUS_TIMEOUT,
               m.message());
    RANK_CHECK(m.error.peer == 1, m.message());
    // The word of rank 0 is there still.
    if (rank != 1)
      usleep(500000);
    return m.message();
  });
  for (int rank : {0, 2})
    EXPECT_EQ(said[rank],
              "rank 1 did not come to tandem_workspace_create in time");
  EXPECT_EQ(said[1], "rank 1, this one, came to tandem_workspace_create when "
                     "rank 0 had stopped waiting for it");
}

TEST(Fault, ARankThatGivesUpIsNamedAtOnce) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3, 20000) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    // What is no failure fails nothing.
    for (int32_t status : {0, -1, 99})
      RANK_CHECK(tandem_workspace_fail(m.workspace, status, "") ==
                     TANDEM_STATUS_INVALID_ARGUMENT,
                 "");
    RANK_CHECK(tandem_workspace_fail(nullptr, TANDEM_STATUS_SYSTEM, "") ==
                   TANDEM_STATUS_INVALID_ARGUMENT,
               "");
    int64_t start = nowMs();
    for (int i = 0; i < 4; ++i) {
      if (rank == 1 && i == 2) {
        usleep(200000);
        std::string text = "no room for the cache" + std::string(1000, '!');
        RANK_CHECK(
            tandem_workspace_fail(m.workspace, TANDEM_STATUS_OUT_OF_MEMORY,
                                  text.c_str()) == TANDEM_STATUS_OUT_OF_MEMORY,
            "");
        tandem_counters counters = TANDEM_COUNTERS_INIT;
        tandem_workspace_get_counters(m.workspace, &counters);
        RANK_CHECK(counters.failed == 0, "it was no call");
        // The first failure stays.
        RANK_CHECK(
            tandem_workspace_fail(m.workspace, TANDEM_STATUS_SYSTEM, nullptr) ==
                TANDEM_STATUS_OUT_OF_MEMORY,
            "");
      }
      PlainCall call(rank, 3, 64);
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &call.args);
      RANK_CHECK(status ==
                     (i < 2 ? TANDEM_STATUS_OK : TANDEM_STATUS_OUT_OF_MEMORY),
                 (m.failure(), m.message()));
    }
    RANK_CHECK(nowMs() - start < 3000, "waited for a rank that had given up");
    m.failure();
    RANK_CHECK(m.error.peer == 1 && m.error.reporter == 1, m.message());
    return m.message();
  });
  for (const std::string &text : said)
    EXPECT_EQ(text.rfind("rank 1: no room for the cache!!", 0), 0u) << text;
}

TEST(Fault, AnotherWorldSizeIsNamed) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int rank) -> std::string {
    Member m;
    tandem_status status = m.join(name, rank, rank == 2 ? 4 : 3, 5000);
    RANK_CHECK(status == TANDEM_STATUS_MISMATCH, m.message());
    RANK_CHECK(m.error.peer == 2, "");
    return m.message();
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "rank 2 was started with world size 4, rank 0 with 3");
}

TEST(Fault, ARankThatComesTwiceIsNamed) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int process) -> std::string {
    Member m;
    tandem_status status = m.join(name, process == 0 ? 0 : 1, 3, 5000);
    RANK_CHECK(status == TANDEM_STATUS_MISMATCH, m.message());
    return m.message();
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "two processes came as rank 1");
}

// As where nobody set the ranks. The name is free again at once.
TEST(Fault, AllRanksThatComeAsRankZeroHearOfIt) {
  std::string name = freshName();
  for (int round = 0; round < 2; ++round) {
    auto said = runRanks(4, [&](int) -> std::string {
      Member m;
      int64_t start = nowMs();
      tandem_status status = m.join(name, 0, 4, 20000);
      RANK_CHECK(status == TANDEM_STATUS_MISMATCH, m.message());
      RANK_CHECK(nowMs() - start < 5000, "waited for ranks of its own kind");
      return m.message();
    });
    for (const std::string &text : said)
      EXPECT_EQ(text, "two processes came as rank 0");
  }
}

TEST(Fault, TwoRankZerosOfAUniqueIdAreNamed) {
  Member maker;
  tandem_unique_id id;
  ASSERT_EQ(tandem_context_create(nullptr, &maker.context, nullptr),
            TANDEM_STATUS_OK);
  ASSERT_EQ(tandem_unique_id_create(maker.context, &id, nullptr),
            TANDEM_STATUS_OK);
  maker.reset();
  auto said = runRanks(2, [&](int) -> std::string {
    Member m;
    tandem_context_create(nullptr, &m.context, nullptr);
    tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
    desc.kind = TANDEM_COMM_UNIQUE_ID;
    desc.unique_id = &id;
    desc.rank = 0;
    desc.world = 2;
    desc.timeout_ms = 20000;
    RANK_CHECK(tandem_comm_create(m.context, &desc, &m.comm, &m.error) ==
                   TANDEM_STATUS_MISMATCH,
               m.message());
    return m.message();
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "two processes came as rank 0");
}

/// Connects to a rendezvous by hand.
static int connectTo(const std::string &name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string path = "/tmp/tandem-" + std::to_string(geteuid()) + "/" + name;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  for (int i = 0; i < 500; ++i) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) ==
        0)
      return fd;
    close(fd);
    usleep(10000);
  }
  return -1;
}

TEST(Fault, AnotherVersionIsNamedOnBothSides) {
  std::string name = freshName();
  auto said = runRanks(2, [&](int rank) -> std::string {
    if (rank == 0) {
      Member m;
      RANK_CHECK(m.join(name, 0, 2, 5000) == TANDEM_STATUS_MISMATCH,
                 m.message());
      return m.message();
    }
    int fd = connectTo(name);
    tandem::Hello hello = {};
    hello.magic = tandem::helloMagic;
    hello.protocol = tandem::wireProtocol + 7;
    hello.abi = (3 << 16) | 2;
    RANK_CHECK(write(fd, &hello, sizeof(hello)) == sizeof(hello), "");
    tandem::Reply reply = {};
    RANK_CHECK(recv(fd, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply),
               "");
    RANK_CHECK(reply.status == TANDEM_STATUS_MISMATCH, "");
    return reply.message;
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], "a rank runs protocol 9 (ABI 3.2), rank 0 protocol 2 (ABI "
                     "1.1)");
}

TEST(Fault, StrangersAtTheRendezvousAreIgnored) {
  std::string name = freshName();
  auto said = runRanks(5, [&](int process) -> std::string {
    if (process >= 2) {
      // Says nothing; says noise; leaves at once.
      int fd = connectTo(name);
      char noise[300];
      memset(noise, 'x', sizeof(noise));
      if (process == 3)
        (void)!write(fd, noise, sizeof(noise));
      if (process == 4)
        close(fd);
      usleep(500000);
      return "";
    }
    if (process == 1)
      usleep(300000);
    Member m;
    RANK_CHECK(m.join(name, process, 2, 5000) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    return "";
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "");
}

/// Ranks that heard of a failure and are back while rank 0 still waits for one
/// that hasn't belong to the next attempt. All on one processor, where whom
/// rank 0 wakes goes first.
TEST(Fault, RanksThatAreBackEarlyMeetTheNextAttempt) {
  std::string name = freshName();
  constexpr int world = 8;
  auto said = runRanks(world, [&](int rank) -> std::string {
    cpu_set_t all, one;
    RANK_CHECK(sched_getaffinity(0, sizeof(all), &all) == 0, "");
    int first = 0;
    while (!CPU_ISSET(first, &all))
      ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    RANK_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "");
    if (rank == 0)
      (void)!nice(19);
    Member m;
    if (rank == world - 1) {
      usleep(1300000);
    } else {
      bool wrong = rank == world - 2;
      if (wrong)
        usleep(100000);
      RANK_CHECK(m.join(name, rank, wrong ? world + 1 : world) ==
                     TANDEM_STATUS_MISMATCH,
                 m.message());
    }
    RANK_CHECK(m.join(name, rank, world, 8000) == 0, m.message());
    return "";
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "");
}

/// A directory of a test's own, which goes with what is in it.
struct OwnDirectory {
  std::string path = "/tmp/tandem-test-" + std::to_string(getpid());
  OwnDirectory() { mkdir(path.c_str(), 0700); }
  ~OwnDirectory() {
    (void)unlink((path + "/here").c_str());
    (void)rmdir(path.c_str());
  }
};

/// As by a process that was stopped, or by a program that isn't ours.
TEST(Fault, ALockOnTheDirectoryIsWaitedForForAWhileOnly) {
  OwnDirectory directory;
  int lock = open(directory.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  auto said = runRanks(2, [&](int rank) -> std::string {
    Member m;
    int64_t start = nowMs();
    RANK_CHECK(m.join(directory.path + "/here", rank, 2, 8000) == 0,
               m.message());
    RANK_CHECK(nowMs() - start < 4000, "took too long");
    return "";
  });
  close(lock);
  for (const std::string &text : said)
    EXPECT_EQ(text, "");
}

/// Connections that can't be accepted don't keep rank 0 from its deadline.
TEST(Fault, RankZeroWithoutDescriptorsGivesUpInTime) {
  std::string name = freshName();
  auto said = runRanks(
      2,
      [&](int process) -> std::string {
        if (process == 1) {
          for (int i = 0; i < 40; ++i)
            RANK_CHECK(connectTo(name) >= 0, "nobody listens");
          usleep(3000000);
          return "";
        }
        Member m;
        rlimit few = {24, 24};
        RANK_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0, "");
        int64_t start = nowMs();
        RANK_CHECK(m.join(name, 0, 2, 1000) == TANDEM_STATUS_TIMEOUT,
                   m.message());
        RANK_CHECK(nowMs() - start < 2500, "waited beyond its deadline");
        return "";
      },
      /*patienceSeconds=*/10);
  for (const std::string &text : said)
    EXPECT_EQ(text, "");
}

TEST(Fault, AFileAtTheRendezvousIsLeftThere) {
  OwnDirectory directory;
  std::string path = directory.path + "/here";
  close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  auto said = runRanks(1, [&](int) -> std::string {
    Member m;
    RANK_CHECK(m.join(path, 0, 2, 2000) == TANDEM_STATUS_INVALID_ARGUMENT,
               m.message());
    return m.message();
  });
  EXPECT_EQ(said[0],
            "rendezvous '" + path + "' is there and isn't a rendezvous");
  struct stat st;
  EXPECT_TRUE(lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode));
}

TEST(Fault, WhoAnswersButIsNoRuntimeIsNamed) {
  OwnDirectory directory;
  std::string path = directory.path + "/here";
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(
      bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
      0);
  ASSERT_EQ(listen(listener, 16), 0);
  Ranks ranks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(path, rank, 2, 8000) == TANDEM_STATUS_MISMATCH,
               m.message());
    return m.message();
  });
  for (int i = 0; i < 2; ++i) {
    pollfd p = {listener, POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 5000), 1);
    int fd = accept(listener, nullptr, nullptr);
    char noise[sizeof(tandem::Reply)];
    memset(noise, 'x', sizeof(noise));
    EXPECT_EQ(write(fd, noise, sizeof(noise)), ssize_t(sizeof(noise)));
    close(fd);
  }
  for (const std::string &text : ranks.join())
    EXPECT_EQ(text,
              "what answers at rendezvous 'here' is not a Tandem runtime");
  close(listener);
}

TEST(Fault, CallsThatDifferAreNamed) {
  struct {
    const char *what;
    std::function<void(PlainCall &)> change;
  } cases[] = {
      {"tokens 4, rank 1 has 3", [](PlainCall &c) { c.args.tokens = 4; }},
      {"tokens 64, rank 1 has 3", [](PlainCall &c) { c.args.tokens = 64; }},
      {"hidden 32, rank 1 has 64", [](PlainCall &c) { c.args.hidden = 32; }},
      {"dtype f16, rank 1 has f32",
       [](PlainCall &c) { c.args.dtype = TANDEM_DTYPE_F16; }},
      {"residual (0 no, 1 yes) 0, rank 1 has 1",
       [](PlainCall &c) { c.args.residual.data = nullptr; }},
      {"bias (0 no, 1 yes) 1, rank 1 has 0",
       [](PlainCall &c) { c.args.bias = c.gamma.data(); }},
      {"pre_norm (0 no, 1 yes) 1, rank 1 has 0",
       [](PlainCall &c) { c.args.pre_norm = c.args.norm; }},
      {"norm.rounding 1, rank 1 has 0",
       [](PlainCall &c) {
         c.args.norm.rounding = TANDEM_ROUNDING_AFTER_GAMMA;
       }},
      {"norm.gamma_dtype 2, rank 1 has 0",
       [](PlainCall &c) { c.args.norm.gamma_dtype = TANDEM_DTYPE_BF16; }},
      {"epsilon 0.5, rank 1 has 0",
       [](PlainCall &c) { c.args.norm.epsilon = 0.5; }},
  };
  for (auto &c : cases) {
    std::string name = freshName();
    auto said = runRanks(3, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(name, rank, 3, 5000) == 0, m.message());
      RANK_CHECK(m.makeWorkspace(256, 64, 0) == 0, m.message());
      PlainCall first(rank, 7, 64);
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &first.args) == 0,
                 "");
      PlainCall call(rank, 64, 64);
      call.args.tokens = 3;
      if (rank == 2)
        c.change(call);
      int64_t start = nowMs();
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &call.args);
      RANK_CHECK(status == TANDEM_STATUS_MISMATCH, "no mismatch");
      RANK_CHECK(nowMs() - start < 4000, "took too long");
      RANK_CHECK(m.failure() == status, "");
      RANK_CHECK(m.error.call == 2, m.message());
      // The first failure is the one that all know.
      tandem_counters counters = TANDEM_COUNTERS_INIT;
      tandem_workspace_get_counters(m.workspace, &counters);
      RANK_CHECK(counters.failed == 1 && counters.fused == 1, "");
      return m.message();
    });
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
    EXPECT_TRUE(contains(said[0], "call 2: rank ")) << said[0];
    // Whoever looked first, both values are there, with their ranks.
    std::string value = c.what;
    size_t comma = value.find(", rank 1 has ");
    size_t blank = value.rfind(' ', comma - 1);
    std::string theirs = value.substr(blank + 1, comma - blank - 1);
    std::string ours = value.substr(comma + strlen(", rank 1 has "));
    std::string noun = value.substr(0, blank);
    EXPECT_TRUE(
        contains(said[0], "rank 2 has " + noun + " " + theirs + ", rank") ||
        (contains(said[0], " has " + noun + " " + ours + ",") &&
         contains(said[0], "rank 2 has " + theirs)))
        << said[0] << " for " << c.what;
  }
}

TEST(Fault, AnotherOperationIsNamed) {
  std::string name = freshName();
  auto said = runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2, 5000) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    PlainCall call(rank, 3, 64);
    tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
    reduce.tokens = 3;
    reduce.hidden = 64;
    reduce.input = reduce.output = call.args.input;
    tandem_status status =
        rank == 0 ? tandem_fused_all_reduce_norm(m.workspace, &call.args)
                  : tandem_all_reduce(m.workspace, &reduce);
    RANK_CHECK(status == TANDEM_STATUS_MISMATCH, "");
    m.failure();
    return m.message();
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_TRUE(contains(said[0], "the operation")) << said[0];
  EXPECT_TRUE(contains(said[0], "fused_all_reduce_norm")) << said[0];
}

TEST(Fault, ARankThatLeavesIsNamedAndOneThatEndsToo) {
  for (bool destroys : {true, false}) {
    std::string name = freshName();
    auto said = runRanks(2, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(name, rank, 2, 10000) == 0, m.message());
      RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
      PlainCall call(rank, 3, 64);
      // The call that both made is whole, even if the peer goes right after.
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                 (m.failure(), m.message()));
      RANK_CHECK(call.check(2) == "", call.check(2));
      if (rank == 1 && destroys) {
        tandem_workspace_destroy(m.workspace);
        m.workspace = nullptr;
        usleep(500000);
        return "";
      }
      if (rank == 1)
        _exit(0);
      int64_t start = nowMs();
      PlainCall next(rank, 3, 64);
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &next.args);
      RANK_CHECK(status == (destroys ? TANDEM_STATUS_PEER_LEFT
                                     : TANDEM_STATUS_PEER_DIED),
                 (m.failure(), m.message()));
      RANK_CHECK(nowMs() - start < 4000, "took too long");
      m.failure();
      RANK_CHECK(m.error.peer == 1, "");
      // Nothing more can be made of this group, but the reason is there.
      tandem_workspace_destroy(m.workspace);
      m.workspace = nullptr;
      RANK_CHECK(m.makeWorkspace(16, 64, 0) == status, m.message());
      return "";
    });
    EXPECT_EQ(said[0], "");
    EXPECT_EQ(said[1], "");
  }
}

TEST(Fault, ADeathDuringACollectiveIsNamed) {
  for (int victim : {0, 1, 2}) {
    for (bool barrier : {true, false}) {
      std::string name = freshName();
      auto said = runRanks(3, [&](int rank) -> std::string {
        Member m;
        RANK_CHECK(m.join(name, rank, 3, 10000) == 0, m.message());
        if (rank == victim) {
          usleep(100000);
          kill(getpid(), SIGKILL);
        }
        int64_t start = nowMs();
        tandem_status status = barrier ? tandem_comm_barrier(m.comm, &m.error)
                                       : m.makeWorkspace(16, 64, 0);
        RANK_CHECK(status == TANDEM_STATUS_PEER_DIED, m.message());
        RANK_CHECK(m.error.peer == victim, m.message());
        RANK_CHECK(nowMs() - start < 4000, "took too long");
        // Sticky.
        RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == status,
                   m.message());
        return "";
      });
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(said[rank], rank == victim ? "killed by signal 9" : "")
            << "victim " << victim;
    }
  }
}

TEST(Fault, ARankThatDoesNotComeToACollectiveIsNamed) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3, 600) == 0, m.message());
    if (rank == 2) {
      usleep(1500000);
      return "";
    }
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == TANDEM_STATUS_TIMEOUT,
               m.message());
    return m.message();
  });
  EXPECT_EQ(said[0], "rank 2 did not come to tandem_workspace_create in time");
  EXPECT_EQ(said[1], said[0]);
}

TEST(Fault, TheSameNameServesAgainAfterAFailure) {
  std::string name = freshName();
  for (const std::string &text : runRanks(2, [&](int rank) -> std::string {
         for (int i = 0; i < 5; ++i) {
           Member m;
           RANK_CHECK(m.join(name, rank, 2, 5000) == 0, m.message());
           RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
           PlainCall good(rank, 3, 64);
           RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &good.args) ==
                          0,
                      (m.failure(), m.message()));
           RANK_CHECK(good.check(2) == "", good.check(2));
           PlainCall bad(rank, 3 + rank, 64);
           RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &bad.args) ==
                          TANDEM_STATUS_MISMATCH,
                      "");
         }
         return "";
       }))
    EXPECT_EQ(text, "");
}
