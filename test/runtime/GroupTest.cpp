//===-- GroupTest.cpp - Groups, workspaces and calls ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace tandem::test;

/// Expects that every rank was content.
static void expectContent(const std::vector<std::string> &said) {
  for (size_t rank = 0; rank < said.size(); ++rank)
    EXPECT_EQ(said[rank], "") << "rank " << rank;
}

static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

TEST(Comm, EveryWorldMeetsByName) {
  std::vector<int> worlds{1, 2, 3, 4, 5, 8, 16};
  if (fullTests())
    worlds.push_back(TANDEM_MAX_WORLD);
  for (int world : worlds) {
    std::string name = freshName();
    expectContent(runRanks(world, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(name, rank, world) == TANDEM_STATUS_OK, m.message());
      RANK_CHECK(tandem_comm_rank(m.comm) == rank, "");
      RANK_CHECK(tandem_comm_world(m.comm) == world, "");
      for (int i = 0; i < 3; ++i)
        RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == TANDEM_STATUS_OK,
                   m.message());
      RANK_CHECK(m.makeWorkspace(8, 64, TANDEM_DTYPE_F32) == TANDEM_STATUS_OK,
                 m.message());
      PlainCall call(rank, 5, 64);
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) ==
                     TANDEM_STATUS_OK,
                 (m.failure(), m.message()));
      return call.check(world);
    }));
  }
}

TEST(Comm, MeetsByUniqueId) {
  tandem_context *context = nullptr;
  tandem_unique_id id;
  ASSERT_EQ(tandem_context_create(nullptr, &context, nullptr),
            TANDEM_STATUS_OK);
  ASSERT_EQ(tandem_unique_id_create(context, &id, nullptr), TANDEM_STATUS_OK);
  tandem_context_destroy(context);
  expectContent(runRanks(3, [&](int rank) -> std::string {
    Member m;
    tandem_context_create(nullptr, &m.context, nullptr);
    tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
    desc.kind = TANDEM_COMM_UNIQUE_ID;
    desc.unique_id = &id;
    desc.rank = rank;
    desc.world = 3;
    RANK_CHECK(tandem_comm_create(m.context, &desc, &m.comm, &m.error) ==
                   TANDEM_STATUS_OK,
               m.message());
    RANK_CHECK(m.makeWorkspace(8, 64, TANDEM_DTYPE_F32) == TANDEM_STATUS_OK,
               m.message());
    PlainCall call(rank, 3, 64);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
               (m.failure(), m.message()));
    return call.check(3);
  }));
}

TEST(Comm, MeetsByPathAndReplacesAStaleSocket) {
  char directory[] = "/tmp/tandem-path-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  // Long enough that it can't be a socket address itself.
  std::string deep = std::string(directory) + "/" + std::string(90, 'd');
  ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
  for (const std::string &path : {std::string(directory) + "/s", deep + "/s"}) {
    // Rank 0 dies while it waits, and leaves its socket behind.
    auto said = runRanks(1, [&](int) -> std::string {
      Member m;
      std::thread([] {
        usleep(100000);
        kill(getpid(), SIGKILL);
      }).detach();
      m.join(path, 0, 2);
      return "came back";
    });
    EXPECT_EQ(said[0], "killed by signal 9");
    struct stat st;
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0077, 0u);
    expectContent(runRanks(2, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(path, rank, 2) == TANDEM_STATUS_OK, m.message());
      return "";
    }));
    // Nothing is left once the group is there.
    EXPECT_NE(stat(path.c_str(), &st), 0);
  }
  rmdir(deep.c_str());
  rmdir(directory);
}

TEST(Comm, RefusesADirectoryThatOthersMayWrite) {
  char directory[] = "/tmp/tandem-open-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  chmod(directory, 0777);
  Member m;
  EXPECT_EQ(m.join(std::string(directory) + "/s", 0, 2, 500),
            TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(m.message(), "not private")) << m.message();
  rmdir(directory);
}

TEST(Comm, RefusesBadArguments) {
  Member m;
  EXPECT_EQ(m.join("no spaces", 0, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(m.join("n", 2, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(m.join("n", -1, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(m.join("n", 0, 0), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(m.join("n", 0, TANDEM_MAX_WORLD + 1),
            TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(m.message(), "129")) << m.message();
  tandem_unique_id id = {};
  tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
  desc.world = 2;
  desc.kind = TANDEM_COMM_UNIQUE_ID;
  desc.unique_id = &id;
  EXPECT_EQ(tandem_comm_create(m.context, &desc, &m.comm, &m.error),
            TANDEM_STATUS_INVALID_ARGUMENT);
  desc.kind = TANDEM_COMM_NCCL;
  EXPECT_EQ(tandem_comm_create(m.context, &desc, &m.comm, &m.error),
            TANDEM_STATUS_UNSUPPORTED);
  EXPECT_TRUE(contains(m.message(), "CUDA")) << m.message();
  desc = TANDEM_COMM_DESC_INIT;
  desc.struct_size = 8;
  EXPECT_EQ(tandem_comm_create(m.context, &desc, &m.comm, &m.error),
            TANDEM_STATUS_INVALID_ARGUMENT);
  tandem_context_desc context = TANDEM_CONTEXT_DESC_INIT;
  context.device = TANDEM_DEVICE_CUDA;
  tandem_context *none = nullptr;
  EXPECT_EQ(tandem_context_create(&context, &none, nullptr),
            TANDEM_STATUS_UNSUPPORTED);
}

TEST(Comm, ANewerStructMayOnlyHaveZerosBehind) {
  struct {
    tandem_comm_desc known = TANDEM_COMM_DESC_INIT;
    uint64_t later = 0;
  } desc;
  desc.known.struct_size = sizeof(desc);
  Member m;
  tandem_context_create(nullptr, &m.context, nullptr);
  EXPECT_EQ(tandem_comm_create(m.context, &desc.known, &m.comm, &m.error),
            TANDEM_STATUS_OK);
  tandem_comm_destroy(m.comm);
  m.comm = nullptr;
  desc.later = 1;
  EXPECT_EQ(tandem_comm_create(m.context, &desc.known, &m.comm, &m.error),
            TANDEM_STATUS_UNSUPPORTED);
}

TEST(Comm, ReadsTheEnvironmentAtCreation) {
  auto with = [](const char *name, const char *value) {
    setenv(name, value, 1);
    tandem_context *context = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    tandem_status status = tandem_context_create(nullptr, &context, &error);
    tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
    desc.flags = TANDEM_CONTEXT_IGNORE_ENVIRONMENT;
    tandem_context *second = nullptr;
    EXPECT_EQ(tandem_context_create(&desc, &second, nullptr), TANDEM_STATUS_OK);
    unsetenv(name);
    tandem_context_destroy(context);
    tandem_context_destroy(second);
    return std::make_pair(status, std::string(error.message));
  };
  EXPECT_EQ(with("TANDEM_TIMEOUT_MS", "250").first, TANDEM_STATUS_OK);
  auto bad = with("TANDEM_TIMEOUT_MS", "soon");
  EXPECT_EQ(bad.first, TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(bad.second, "TANDEM_TIMEOUT_MS is 'soon'"))
      << bad.second;
  for (const char *text : {" 5", "5 ", "\t5", "0x5", "+"})
    EXPECT_EQ(with("TANDEM_TIMEOUT_MS", text).first,
              TANDEM_STATUS_INVALID_ARGUMENT)
        << text;
  EXPECT_EQ(with("TANDEM_MEMORY_LIMIT", "-1").first,
            TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(with("TANDEM_DISABLE_FUSION", "yes").first,
            TANDEM_STATUS_INVALID_ARGUMENT);
}

TEST(Comm, SubGroupsAndSeveralGroupsAtOnce) {
  // Four processes; pairs {0,1}, {2,3} and {0,2}, {1,3}, and all of them in
  // reverse order: a rank in a group is never the global one.
  std::string name = freshName();
  expectContent(runRanks(4, [&](int global) -> std::string {
    Member rows, columns, all;
    int row = global / 2, column = global % 2;
    std::string rowName = name + "-row" + std::to_string(row);
    std::string columnName = name + "-column" + std::to_string(column);
    RANK_CHECK(rows.join(rowName, 1 - column, 2) == 0, rows.message());
    RANK_CHECK(columns.join(columnName, row, 2) == 0, columns.message());
    RANK_CHECK(all.join(name, 3 - global, 4) == 0, all.message());
    for (Member *m : {&rows, &columns, &all})
      RANK_CHECK(m->makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, m->message());
    for (int i = 0; i < 50; ++i) {
      PlainCall a(1 - column, 1 + i % 16, 64), b(row, 1 + i % 7, 64),
          c(3 - global, 1 + i % 20, 64);
      RANK_CHECK(tandem_fused_all_reduce_norm(rows.workspace, &a.args) == 0,
                 "");
      RANK_CHECK(tandem_fused_all_reduce_norm(columns.workspace, &b.args) == 0,
                 "");
      RANK_CHECK(tandem_fused_all_reduce_norm(all.workspace, &c.args) == 0, "");
      RANK_CHECK(a.check(2) + b.check(2) + c.check(4) == "",
                 a.check(2) + b.check(2) + c.check(4));
    }
    return "";
  }));
}

TEST(Comm, GroupsOnThreadsOfOneProcess) {
  // Two workspaces of one communicator and a second communicator, each driven
  // by its own thread.
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member a, c;
    RANK_CHECK(a.join(name + "a", rank, 2) == 0, a.message());
    RANK_CHECK(c.join(name + "c", rank, 2) == 0, c.message());
    RANK_CHECK(a.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, a.message());
    RANK_CHECK(c.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, c.message());
    tandem_workspace *first = a.workspace, *second = nullptr;
    a.workspace = nullptr;
    RANK_CHECK(a.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, a.message());
    second = a.workspace;
    a.workspace = nullptr;
    std::string said[3];
    tandem_workspace *workspaces[3] = {first, second, c.workspace};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200 && said[t].empty(); ++i) {
          PlainCall call(rank, 1 + (i + t) % 20, 64);
          if (tandem_fused_all_reduce_norm(workspaces[t], &call.args))
            said[t] = "failed";
          else
            said[t] = call.check(2);
          // Queries from any thread.
          if (tandem_token_limit(workspaces[(t + 1) % 3], 64, 0) != 16)
            said[t] = "limit";
          tandem_counters counters = TANDEM_COUNTERS_INIT;
          tandem_workspace_get_counters(workspaces[(t + 2) % 3], &counters);
        }
      });
    for (std::thread &t : threads)
      t.join();
    tandem_workspace_destroy(first);
    tandem_workspace_destroy(second);
    return said[0] + said[1] + said[2];
  }));
}

TEST(Comm, ACallThatArrivesDuringAnotherIsBusy) {
  std::string name = freshName();
  auto said = runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2, 10000) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, m.message());
    PlainCall call(rank, 1, 64);
    if (rank == 1) {
      // Comes late, so that rank 0's first call waits.
      usleep(400000);
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &call.args);
      m.failure();
      RANK_CHECK(status == TANDEM_STATUS_BUSY, m.message());
      RANK_CHECK(m.error.peer == 0, m.message());
      return "";
    }
    tandem_status first = TANDEM_STATUS_OK;
    std::thread thread(
        [&] { first = tandem_fused_all_reduce_norm(m.workspace, &call.args); });
    usleep(100000);
    PlainCall other(rank, 1, 64);
    int64_t start = nowMs();
    tandem_status second =
        tandem_fused_all_reduce_norm(m.workspace, &other.args);
    int64_t took = nowMs() - start;
    thread.join();
    RANK_CHECK(second == TANDEM_STATUS_BUSY, "");
    RANK_CHECK(first == TANDEM_STATUS_BUSY, "the first call must learn of it");
    RANK_CHECK(took < 200, "busy must not wait");
    return "";
  });
  expectContent(said);
}

TEST(Comm, DestroyedHandlesAreRefused) {
  std::string name = freshName();
  expectContent(runRanks(1, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 1) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, m.message());
    tandem_context *context = std::exchange(m.context, nullptr);
    tandem_comm *comm = std::exchange(m.comm, nullptr);
    tandem_workspace *workspace = std::exchange(m.workspace, nullptr);
    for (int twice = 0; twice < 2; ++twice) {
      tandem_workspace_destroy(workspace);
      tandem_comm_destroy(comm);
      tandem_context_destroy(context);
    }
    // What is made now doesn't bring them back to life.
    Member other;
    RANK_CHECK(other.join(name, rank, 1) == 0, other.message());
    RANK_CHECK(other.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0,
               other.message());
    PlainCall call(rank, 1, 64);
    const tandem_status bad = TANDEM_STATUS_INVALID_ARGUMENT;
    RANK_CHECK(tandem_fused_all_reduce_norm(workspace, &call.args) == bad, "");
    RANK_CHECK(tandem_token_limit(workspace, 64, TANDEM_DTYPE_F32) == -1, "");
    RANK_CHECK(tandem_workspace_get_failure(workspace, &m.error) == bad, "");
    tandem_workspace_info info = {};
    info.struct_size = sizeof(info);
    RANK_CHECK(tandem_workspace_get_info(workspace, &info) == bad, "");
    RANK_CHECK(tandem_workspace_set_fusion(workspace, 1, &m.error) == bad, "");
    RANK_CHECK(tandem_comm_barrier(comm, &m.error) == bad, "");
    RANK_CHECK(contains(m.message(), "comm is not a handle of its kind, or "
                                     "destroyed"),
               m.message());
    RANK_CHECK(tandem_comm_rank(comm) == -1, "");
    tandem_unique_id id;
    RANK_CHECK(tandem_unique_id_create(context, &id, &m.error) == bad, "");
    // Of another kind.
    RANK_CHECK(
        tandem_comm_barrier(reinterpret_cast<tandem_comm *>(other.workspace),
                            &m.error) == bad,
        "");
    return "";
  }));
}

TEST(Comm, AForkedChildIsTurnedAway) {
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, TANDEM_DTYPE_F32) == 0, m.message());
    auto child = runRanks(1, [&](int) -> std::string {
      PlainCall call(rank, 1, 64);
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) ==
                     TANDEM_STATUS_INVALID_ARGUMENT,
                 "");
      RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) ==
                     TANDEM_STATUS_INVALID_ARGUMENT,
                 "");
      RANK_CHECK(contains(m.message(), "forked"), m.message());
      m.reset();
      return "";
    });
    RANK_CHECK(child[0] == "", child[0]);
    // The group didn't notice.
    PlainCall call(rank, 3, 64);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
               (m.failure(), m.message()));
    return call.check(2);
  }));
}

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

TEST(Workspace, BytesAreKnownBeforehandAndExact) {
  tandem_context *context = nullptr;
  ASSERT_EQ(tandem_context_create(nullptr, &context, nullptr), 0);
  tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
  desc.max_tokens = 2048;
  desc.hidden = 7168;
  desc.dtype = TANDEM_DTYPE_BF16;
  tandem_workspace_bytes bytes = TANDEM_WORKSPACE_BYTES_INIT;
  ASSERT_EQ(tandem_workspace_query_bytes(context, 8, &desc, &bytes, nullptr),
            0);
  uint64_t data = uint64_t(2) * 8 * 2048 * 7168 * 2;
  EXPECT_GE(bytes.shared_bytes, data);
  EXPECT_LE(bytes.shared_bytes, data + 16384);
  EXPECT_EQ(bytes.private_bytes, uint64_t(256) << 10);

  tandem_error error = TANDEM_ERROR_INIT;
  auto refused = [&](int64_t maxTokens, int64_t hidden, int world) {
    desc.max_tokens = maxTokens;
    desc.hidden = hidden;
    return tandem_workspace_query_bytes(context, world, &desc, &bytes, &error);
  };
  EXPECT_EQ(refused(INT64_MAX, 2, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(error.message, "64 bits")) << error.message;
  // Fits by itself, not 16 times.
  EXPECT_EQ(refused(INT64_MAX / 4, 1, 8), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(error.message, "64 bits")) << error.message;
  EXPECT_EQ(refused(-1, 64, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(refused(1, 0, 2), TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(refused(1, 64, 0), TANDEM_STATUS_INVALID_ARGUMENT);
  // Above 2^31 and 2^32 bytes nothing wraps.
  EXPECT_EQ(refused(int64_t(1) << 24, 8192, 8), 0);
  EXPECT_GE(bytes.shared_bytes, uint64_t(16) << 38);
  tandem_context_destroy(context);

  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    tandem_workspace_desc d = TANDEM_WORKSPACE_DESC_INIT;
    d.max_tokens = 300;
    d.hidden = 1000;
    tandem_workspace_bytes b = TANDEM_WORKSPACE_BYTES_INIT;
    RANK_CHECK(
        tandem_workspace_query_bytes(m.context, 2, &d, &b, &m.error) == 0, "");
    RANK_CHECK(m.makeWorkspace(300, 1000, TANDEM_DTYPE_F32) == 0, m.message());
    tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
    RANK_CHECK(tandem_workspace_get_info(m.workspace, &info) == 0, "");
    RANK_CHECK(info.shared_bytes == b.shared_bytes, "");
    RANK_CHECK(info.capacity_bytes == 300 * 1000 * 4, "");
    RANK_CHECK(info.fused == 1 && info.rank == rank && info.world == 2, "");
    char text[128];
    RANK_CHECK(tandem_workspace_get_defaults(m.workspace, text, 128) == 0, "");
    RANK_CHECK(std::string(text) ==
                   "limit: what fits; defaults: there is one way alone",
               text);
    RANK_CHECK(tandem_workspace_get_defaults(m.workspace, text, 6) == 0, "");
    RANK_CHECK(std::string(text) == "limit", text);
    RANK_CHECK(tandem_workspace_get_defaults(m.workspace, text, 0) != 0, "");
    RANK_CHECK(tandem_workspace_get_defaults(m.workspace, nullptr, 9) != 0, "");
    RANK_CHECK(tandem_workspace_get_defaults(nullptr, text, 128) != 0, "");
    // Bytes are shared by all shapes and types.
    RANK_CHECK(tandem_token_limit(m.workspace, 1000, TANDEM_DTYPE_F32) == 300,
               "");
    RANK_CHECK(tandem_token_limit(m.workspace, 1000, TANDEM_DTYPE_BF16) == 600,
               "");
    RANK_CHECK(tandem_token_limit(m.workspace, 999999, TANDEM_DTYPE_F32) == -1,
               "");
    RANK_CHECK(tandem_token_limit(m.workspace, 0, TANDEM_DTYPE_F32) == -1, "");
    RANK_CHECK(tandem_token_limit(m.workspace, 64, 7) == -1, "");
    RANK_CHECK(tandem_token_limit(nullptr, 64, 0) == -1, "");
    return "";
  }));
}

TEST(Workspace, AgreesOnTheSmallestLimit) {
  std::string name = freshName();
  expectContent(runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3) == 0, m.message());
    int64_t limits[3] = {-1, 40, 70}, tokens[3] = {100, 90, 80};
    RANK_CHECK(m.makeWorkspace(tokens[rank], 64, TANDEM_DTYPE_F32, nullptr, 0,
                               limits[rank]) == 0,
               m.message());
    RANK_CHECK(tandem_token_limit(m.workspace, 64, TANDEM_DTYPE_F32) == 40, "");
    tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
    tandem_workspace_get_info(m.workspace, &info);
    RANK_CHECK(info.capacity_bytes == 80 * 64 * 4, "");
    RANK_CHECK(info.token_limit == 40, "");
    char text[128];
    tandem_workspace_get_defaults(m.workspace, text, sizeof(text));
    RANK_CHECK(std::string(text).find("limit: 40 tokens, given with") == 0,
               text);
    // Both sides of the limit, and the paths are counted.
    for (int64_t n : {40, 41, 80, 81, 200}) {
      PlainCall call(rank, n, 64);
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                 "");
      RANK_CHECK(call.check(3) == "", call.check(3));
    }
    tandem_counters counters = TANDEM_COUNTERS_INIT;
    tandem_workspace_get_counters(m.workspace, &counters);
    RANK_CHECK(counters.fused == 1 && counters.fallback == 4, "");
    return "";
  }));
}

TEST(Workspace, NamesTheSignatureLineThatDiffers) {
  std::string name = freshName();
  auto said = runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3) == 0, m.message());
    const char *signature = rank == 2
                                ? "site 0 hidden 64\nsite 1 hidden 128\nsite 2"
                                : "site 0 hidden 64\nsite 1 hidden 64\nsite 2";
    RANK_CHECK(m.makeWorkspace(8, 64, 0, signature) == TANDEM_STATUS_MISMATCH,
               m.message());
    RANK_CHECK(m.error.peer == 2, m.message());
    std::string first = m.message();
    // The communicator still works: all ranks got the same answer.
    RANK_CHECK(m.makeWorkspace(8, 64, 0, "same") == TANDEM_STATUS_OK,
               m.message());
    PlainCall call(rank, 3, 64);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0, "");
    return first;
  });
  for (const std::string &text : said)
    EXPECT_EQ(text, "signature line 2 differs: rank 2 has 'site 1 hidden 128', "
                    "rank 0 has 'site 1 hidden 64'");
  // One that ends early, and one that isn't there.
  for (const char *other : {"site 0", (const char *)nullptr}) {
    std::string again = freshName();
    said = runRanks(2, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(again, rank, 2) == 0, m.message());
      m.makeWorkspace(8, 64, 0, rank == 0 ? "site 0\nsite 1" : other);
      RANK_CHECK(m.error.status == TANDEM_STATUS_MISMATCH, m.message());
      return m.message();
    });
    EXPECT_EQ(said[0], said[1]);
    EXPECT_TRUE(contains(said[0], other ? "rank 1 has '(no more lines)'"
                                        : "rank 1 has no signature"))
        << said[0];
  }
}

/// Makes a workspace that differs on rank 1 and returns what the ranks said.
static std::vector<std::string>
mismatched(const std::function<tandem_status(Member &, int)> &make) {
  std::string name = freshName();
  return runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    tandem_status status = make(m, rank);
    RANK_CHECK(status != TANDEM_STATUS_OK, "made");
    return std::string(tandem_status_name(status)) + ": " + m.message();
  });
}

TEST(Workspace, NamesEveryDifferenceOnAllRanks) {
  auto said = mismatched([](Member &m, int rank) {
    return m.makeWorkspace(8, rank ? 128 : 64, 0);
  });
  EXPECT_EQ(said[0], "TANDEM_STATUS_MISMATCH: workspace: rank 1 has hidden "
                     "128, rank 0 has 64");
  EXPECT_EQ(said[1], said[0]);
  said = mismatched(
      [](Member &m, int rank) { return m.makeWorkspace(8, 64, rank); });
  EXPECT_EQ(said[0], "TANDEM_STATUS_MISMATCH: workspace: rank 1 has dtype f16, "
                     "rank 0 has f32");
  EXPECT_EQ(said[1], said[0]);
  said = mismatched([](Member &m, int rank) {
    return m.makeWorkspace(8, 64, 0, nullptr,
                           rank ? TANDEM_WORKSPACE_BATCH_INVARIANT : 0);
  });
  EXPECT_EQ(said[0], "TANDEM_STATUS_MISMATCH: workspace: rank 1 is "
                     "batch-invariant, rank 0 isn't");
  EXPECT_EQ(said[1], said[0]);
  // A rank whose own arguments are wrong takes the others with it.
  said = mismatched([](Member &m, int rank) {
    return m.makeWorkspace(rank ? -5 : 8, 64, 0);
  });
  EXPECT_EQ(said[0], "TANDEM_STATUS_INVALID_ARGUMENT: rank 1: max_tokens is "
                     "-5, less than 0");
  EXPECT_EQ(said[1], said[0]);
  // Another collective altogether.
  said = mismatched([](Member &m, int rank) {
    return rank ? tandem_comm_barrier(m.comm, &m.error)
                : m.makeWorkspace(8, 64, 0);
  });
  EXPECT_TRUE(contains(said[0], "rank 1 is in tandem_comm_barrier")) << said[0];
  EXPECT_EQ(said[1], said[0]);
}

TEST(Workspace, AllOrNoneWithTheReasonOnEveryRank) {
  struct {
    const char *name;
    const char *value;
    const char *reason;
  } cases[] = {
      {"TANDEM_MEMORY_LIMIT", "3000000", "allowed by TANDEM_MEMORY_LIMIT"},
      {"TANDEM_DISABLE_FUSION", "1",
       "rank 2: fusion is switched off by TANDEM_DISABLE_FUSION"}};
  for (auto &c : cases) {
    for (bool required : {false, true}) {
      std::string name = freshName();
      expectContent(runRanks(3, [&](int rank) -> std::string {
        if (rank == 2)
          setenv(c.name, c.value, 1);
        Member m;
        RANK_CHECK(m.join(name, rank, 3) == 0, m.message());
        tandem_status status = m.makeWorkspace(
            4096, 1024, TANDEM_DTYPE_F32, nullptr,
            required && rank == 1 ? TANDEM_WORKSPACE_REQUIRE_FUSED : 0);
        if (required) {
          RANK_CHECK(status == (c.name[7] == 'M' ? TANDEM_STATUS_OUT_OF_MEMORY
                                                 : TANDEM_STATUS_UNSUPPORTED),
                     m.message());
          RANK_CHECK(contains(m.message(), c.reason), m.message());
          return "";
        }
        RANK_CHECK(status == 0, m.message());
        tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
        tandem_workspace_get_info(m.workspace, &info);
        RANK_CHECK(info.fused == 0, "");
        RANK_CHECK(contains(info.reason, "rank 2: ") &&
                       contains(info.reason, c.reason),
                   info.reason);
        RANK_CHECK(info.shared_bytes < 2000000, "the small workspace");
        RANK_CHECK(tandem_token_limit(m.workspace, 1024, 0) == -1, "");
        // It still serves.
        PlainCall call(rank, 300, 1024);
        RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                   "");
        tandem_counters counters = TANDEM_COUNTERS_INIT;
        tandem_workspace_get_counters(m.workspace, &counters);
        RANK_CHECK(counters.fallback == 1 && counters.fused == 0, "");
        return call.check(3);
      }));
    }
  }
}

TEST(Workspace, FailsEverywhereWhereNotEvenTheFallbackFits) {
  std::string name = freshName();
  auto said = runRanks(2, [&](int rank) -> std::string {
    if (rank == 1)
      setenv("TANDEM_MEMORY_LIMIT", "1000", 1);
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == TANDEM_STATUS_OUT_OF_MEMORY, "");
    RANK_CHECK(m.workspace == nullptr, "");
    return m.message();
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_TRUE(contains(said[0], "rank 1: a workspace needs")) << said[0];
}

TEST(Workspace, AMappingThatFailsOnOneRankTakesFusionFromAll) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the limit on address space leaves sanitizers none";
#endif
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    if (rank == 1) {
      // The vote sees enough memory; the address space isn't there.
      rlimit limit = {uint64_t(120) << 20, uint64_t(120) << 20};
      setrlimit(RLIMIT_AS, &limit);
    }
    RANK_CHECK(m.makeWorkspace(16 * 1024, 1024, TANDEM_DTYPE_F16) == 0,
               m.message());
    tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
    tandem_workspace_get_info(m.workspace, &info);
    RANK_CHECK(info.fused == 0, "");
    RANK_CHECK(contains(info.reason, "rank 1: mapping"), info.reason);
    PlainCall call(rank, 7, 1024);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0, "");
    return call.check(2);
  }));
}

TEST(Workspace, TheSwitchChangesAllRanksTogether) {
  std::string name = freshName();
  expectContent(runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    auto counted = [&] {
      tandem_counters counters = TANDEM_COUNTERS_INIT;
      tandem_workspace_get_counters(m.workspace, &counters);
      return std::make_pair(counters.fused, counters.fallback);
    };
    auto run = [&] {
      PlainCall call(rank, 4, 64);
      if (tandem_fused_all_reduce_norm(m.workspace, &call.args))
        return std::string("failed");
      return call.check(3);
    };
    RANK_CHECK(run() == "", run());
    // One rank asks for off: off on all.
    RANK_CHECK(tandem_workspace_set_fusion(m.workspace, rank != 1, &m.error) ==
                   0,
               m.message());
    RANK_CHECK(tandem_token_limit(m.workspace, 64, 0) == -1, "");
    RANK_CHECK(run() == "", "");
    RANK_CHECK(counted() == std::make_pair(uint64_t(1), uint64_t(1)), "");
    tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
    tandem_workspace_get_info(m.workspace, &info);
    RANK_CHECK(contains(info.reason, "switched off"), info.reason);
    RANK_CHECK(tandem_workspace_set_fusion(m.workspace, 1, &m.error) == 0, "");
    RANK_CHECK(tandem_token_limit(m.workspace, 64, 0) == 16, "");
    RANK_CHECK(run() == "", "");
    RANK_CHECK(counted() == std::make_pair(uint64_t(2), uint64_t(1)), "");
    return "";
  }));
}

TEST(Workspace, OutlivesItsCommunicatorAndContext) {
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    tandem_comm_destroy(m.comm);
    tandem_context_destroy(m.context);
    m.comm = nullptr;
    m.context = nullptr;
    PlainCall call(rank, 9, 64);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0, "");
    return call.check(2);
  }));
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

TEST(Call, ZeroTokensTouchNothing) {
  PlainCall call(0, 1, 64);
  call.args.tokens = 0;
  auto *noise = reinterpret_cast<tandem_workspace *>(uintptr_t(8));
  EXPECT_EQ(tandem_fused_all_reduce_norm(noise, &call.args), 0);
  EXPECT_EQ(tandem_add_rms_norm(noise, &call.args), 0);
  EXPECT_EQ(tandem_rms_norm(noise, &call.args), 0);
  tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
  EXPECT_EQ(tandem_all_reduce(noise, &reduce), 0);
  // NULL handles and arguments are errors, not crashes.
  call.args.tokens = 1;
  EXPECT_EQ(tandem_fused_all_reduce_norm(nullptr, &call.args),
            TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_fused_all_reduce_norm(nullptr, nullptr),
            TANDEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_rms_norm(nullptr, nullptr), TANDEM_STATUS_INVALID_ARGUMENT);
}

TEST(Call, BranchesOfAGuardMayMeet) {
  // Rank 0's guard took the fused branch, rank 1's the other: same results.
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    for (int64_t tokens : {3, 16, 17, 3000}) {
      PlainCall call(rank, tokens, 64);
      if (rank == 0) {
        RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                   "");
      } else {
        tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
        reduce.tokens = tokens;
        reduce.hidden = 64;
        reduce.flags = TANDEM_CALL_FALLBACK;
        reduce.input = reduce.output = call.args.input;
        RANK_CHECK(tandem_all_reduce(m.workspace, &reduce) == 0,
                   (m.failure(), m.message()));
        RANK_CHECK(tandem_add_rms_norm(m.workspace, &call.args) == 0, "");
      }
      RANK_CHECK(call.check(2) == "", call.check(2));
    }
    return "";
  }));
}

TEST(Call, RowsLongerThanTheBuffersGoInPieces) {
  std::string name = freshName();
  expectContent(runRanks(3, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 3) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(4, 64, 0) == 0, m.message());
    std::vector<float> x(1000003, float(rank + 1)), y(x.size());
    tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
    reduce.tokens = 1;
    reduce.hidden = static_cast<int64_t>(x.size());
    reduce.input.data = x.data();
    reduce.output.data = y.data();
    RANK_CHECK(tandem_all_reduce(m.workspace, &reduce) == 0,
               (m.failure(), m.message()));
    for (float v : y)
      RANK_CHECK(v == 6.0f, std::to_string(v));
    // A norm needs its row whole.
    PlainCall call(rank, 1, 1000003);
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) ==
                   TANDEM_STATUS_INVALID_ARGUMENT,
               "");
    m.failure();
    RANK_CHECK(contains(m.message(), "hidden is 1000003"), m.message());
    return "";
  }));
}

namespace {
struct BadArgs {
  const char *message;
  std::function<void(PlainCall &)> spoil;
};
} // namespace

TEST(Call, RefusesBadArgumentsAndFailsTheGroup) {
  const BadArgs cases[] = {
      {"tokens is -1, less than 0", [](PlainCall &c) { c.args.tokens = -1; }},
      {"hidden is 0, not positive", [](PlainCall &c) { c.args.hidden = 0; }},
      {"dtype is 9", [](PlainCall &c) { c.args.dtype = 9; }},
      {"flags has bits 0x80", [](PlainCall &c) { c.args.flags = 0x80; }},
      {"input.data is NULL", [](PlainCall &c) { c.args.input.data = nullptr; }},
      {"norm_out.data is NULL",
       [](PlainCall &c) { c.args.norm_out.data = nullptr; }},
      {"norm.gamma is NULL", [](PlainCall &c) { c.args.norm.gamma = nullptr; }},
      {"input.row_stride is 63, less than hidden 64",
       [](PlainCall &c) { c.args.input.row_stride = 63; }},
      {"residual.data is not aligned",
       [](PlainCall &c) {
         c.args.residual.data = reinterpret_cast<char *>(c.residual.data()) + 2;
       }},
      {"norm.gamma_dtype is -1",
       [](PlainCall &c) { c.args.norm.gamma_dtype = -1; }},
      {"norm.rounding is 2", [](PlainCall &c) { c.args.norm.rounding = 2; }},
      {"norm.epsilon is -1", [](PlainCall &c) { c.args.norm.epsilon = -1; }},
      {"norm.epsilon is nan",
       [](PlainCall &c) { c.args.norm.epsilon = std::stod("nan"); }},
      {"norm_out overlaps input",
       [](PlainCall &c) { c.args.norm_out.data = c.input.data() + 64; }},
      {"norm_out overlaps norm",
       [](PlainCall &c) {
         c.args.norm_out.data = c.gamma.data();
         c.args.tokens = 1;
       }},
      {"residual_out overlaps norm_out",
       [](PlainCall &c) { c.args.residual_out = c.args.norm_out; }},
      {"reserved must be zero", [](PlainCall &c) { c.args.reserved[3] = 1; }},
      {"struct_size 16", [](PlainCall &c) { c.args.struct_size = 16; }},
      {"don't fit in the address space",
       [](PlainCall &c) { c.args.input.row_stride = INT64_MAX; }},
      {"BATCH_INVARIANT",
       [](PlainCall &c) { c.args.flags = TANDEM_CALL_BATCH_INVARIANT; }},
  };
  for (const BadArgs &bad : cases) {
    std::string name = freshName();
    auto said = runRanks(2, [&](int rank) -> std::string {
      Member m;
      RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
      PlainCall call(rank, 3, 64);
      if (rank == 1)
        bad.spoil(call);
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &call.args);
      RANK_CHECK(status != 0, "no error");
      RANK_CHECK(m.failure() == status, "");
      RANK_CHECK(m.error.peer == 1 && m.error.call == 1, m.message());
      // Sticky.
      PlainCall good(rank, 3, 64);
      RANK_CHECK(
          tandem_fused_all_reduce_norm(m.workspace, &good.args) == status, "");
      return m.message();
    });
    for (const std::string &text : said) {
      EXPECT_TRUE(contains(text, bad.message)) << text;
      EXPECT_TRUE(contains(text, "rank 1: ")) << text;
    }
  }
}

TEST(Call, TakesStridedAndAliasedViews) {
  std::string name = freshName();
  expectContent(runRanks(2, [&](int rank) -> std::string {
    Member m;
    RANK_CHECK(m.join(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeWorkspace(16, 64, 0) == 0, m.message());
    // Input and result side by side in one matrix; the residual in place.
    std::vector<float> matrix(5 * 160, float(rank + 1)), residual(5 * 64, 1.0f),
        gamma(64, 1.0f);
    tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
    args.tokens = 5;
    args.hidden = 64;
    args.input = {matrix.data(), 160};
    args.norm_out = {matrix.data() + 70, 160};
    args.residual = args.residual_out = {residual.data(), 0};
    args.norm.gamma = gamma.data();
    RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &args) == 0,
               (m.failure(), m.message()));
    for (int t = 0; t < 5; ++t)
      for (int i = 0; i < 160; ++i) {
        float want = i >= 70 && i < 134 ? 1.0f : float(rank + 1);
        RANK_CHECK(matrix[t * 160 + i] == want,
                   std::to_string(t) + "," + std::to_string(i));
      }
    for (float r : residual)
      RANK_CHECK(r == 4.0f, "");
    // The norm over the input, and over the residual.
    for (int over = 0; over < 2; ++over) {
      PlainCall call(rank, 7, 64);
      call.args.residual_out.data = nullptr;
      call.args.norm_out = over ? call.args.residual : call.args.input;
      RANK_CHECK(tandem_fused_all_reduce_norm(m.workspace, &call.args) == 0,
                 "");
      for (float y : over ? call.residual : call.input)
        RANK_CHECK(y == 1.0f, "");
    }
    return "";
  }));
}

TEST(Status, HasNames) {
  EXPECT_EQ(tandem_abi_version() >> 16, uint32_t(TANDEM_ABI_MAJOR));
  EXPECT_STREQ(tandem_status_name(TANDEM_STATUS_OK), "TANDEM_STATUS_OK");
  EXPECT_STREQ(tandem_status_name(TANDEM_STATUS_INTERNAL),
               "TANDEM_STATUS_INTERNAL");
  EXPECT_STREQ(tandem_status_name(11), "an unknown tandem_status");
  EXPECT_STREQ(tandem_status_name(-1), "an unknown tandem_status");
}
