//===-- CudaGroupTest.cpp - Groups of ranks on GPUs -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuHarness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::test;

static void expectAll(const std::vector<std::string> &said,
                      const std::string &what = "") {
  for (size_t rank = 0; rank < said.size(); ++rank)
    EXPECT_EQ(said[rank], what) << "rank " << rank;
}

static tandem_workspace_info infoOf(const tandem_workspace *workspace) {
  tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
  (void)tandem_workspace_get_info(workspace, &info);
  return info;
}

static tandem_counters countersOf(const tandem_workspace *workspace) {
  tandem_counters counters = TANDEM_COUNTERS_INIT;
  (void)tandem_workspace_get_counters(workspace, &counters);
  return counters;
}

/// Ranks share GPUs, so that there is no NCCL between two of them.
static bool shared(int world) { return numGpus() < world && !ncclOnOneGpu(); }

/// One fused call, one forced fallback, one all_reduce, all checked.
static std::string someCalls(GpuMember &m, int rank, int world, int64_t tokens,
                             int64_t hidden, uint32_t flags = 0) {
  PlainGpuCall call(rank, tokens, hidden);
  for (uint32_t fallback : {0u, uint32_t(TANDEM_CALL_FALLBACK)}) {
    call.clear();
    call.args.flags = flags | fallback;
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    std::string wrong = call.check(world);
    RANK_CHECK(wrong.empty(), std::to_string(tokens) + " tokens, flags " +
                                  std::to_string(call.args.flags) + ": " +
                                  wrong + (m.failure(), m.message()));
    DeviceFloats sum(call.input.size(), -1.0f);
    tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
    reduce.tokens = tokens;
    reduce.hidden = hidden;
    reduce.flags = flags | fallback;
    reduce.input.data = call.input.data();
    reduce.output.data = sum.data();
    RANK_OK(m, tandem_all_reduce(m.workspace, &reduce));
    RANK_CUDA(cudaDeviceSynchronize());
    for (float value : sum.get())
      RANK_CHECK(value == static_cast<float>(world * (world + 1) / 2),
                 "all_reduce gave " + std::to_string(value) + ", flags " +
                     std::to_string(reduce.flags) + ", tokens " +
                     std::to_string(tokens));
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

TEST(CudaContext, SaysWhyThereIsNone) {
  if (numGpus() > 0)
    GTEST_SKIP() << "there is a GPU";
  expectAll(runRanks(1, [](int) -> std::string {
    tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
    desc.device = TANDEM_DEVICE_CUDA;
    tandem_context *context = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    tandem_status status = tandem_context_create(&desc, &context, &error);
    RANK_CHECK(status == TANDEM_STATUS_UNSUPPORTED, error.message);
    RANK_CHECK(!context, "");
    std::string text = error.message;
    RANK_CHECK(text.find("GPU") != std::string::npos ||
                   text.find("CUDA") != std::string::npos,
               text);
    return "";
  }));
}

TEST(CudaContext, RefusesAnIndexThatIsNotThere) {
  NEED_GPUS(1);
  int count = numGpus();
  expectAll(runRanks(1, [&](int) -> std::string {
    tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
    desc.device = TANDEM_DEVICE_CUDA;
    desc.device_index = count;
    tandem_context *context = nullptr;
    tandem_error error = TANDEM_ERROR_INIT;
    tandem_status status = tandem_context_create(&desc, &context, &error);
    RANK_CHECK(status == TANDEM_STATUS_INVALID_ARGUMENT, error.message);
    RANK_CHECK(strstr(error.message, "device_index is"), error.message);
    return "";
  }));
}

TEST(CudaContext, QueryBytesSaysWhatAWorkspaceTakes) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
    desc.max_tokens = 2048;
    desc.hidden = 7168;
    desc.dtype = TANDEM_DTYPE_BF16;
    tandem_workspace_bytes bytes = TANDEM_WORKSPACE_BYTES_INIT;
    RANK_CHECK(tandem_workspace_query_bytes(m.context, 8, &desc, &bytes,
                                            &m.error) == 0,
               m.message());
    RANK_CHECK(bytes.shared_bytes + bytes.private_bytes <= 160000000,
               std::to_string(bytes.shared_bytes + bytes.private_bytes));
    RANK_CHECK(tandem_workspace_query_bytes(m.context, 2, &desc, &bytes,
                                            &m.error) == 0,
               m.message());
    RANK_CHECK(tandem_workspace_create(m.comm, &desc, &m.workspace, &m.error) ==
                   0,
               m.message());
    tandem_workspace_info info = infoOf(m.workspace);
    RANK_CHECK(info.shared_bytes == bytes.shared_bytes &&
                   info.private_bytes == bytes.private_bytes,
               std::to_string(info.shared_bytes));
    return "";
  }));
}

//===----------------------------------------------------------------------===//
// Groups and paths
//===----------------------------------------------------------------------===//

TEST(CudaGroup, TwoRanksOnTwoGpus) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 4096) == 0, m.message());
    tandem_workspace_info info = infoOf(m.workspace);
    RANK_CHECK(info.fused == 1, info.reason);
    RANK_CHECK(shared(2) || !*info.reason, info.reason);
    RANK_CHECK(tandem_token_limit(m.workspace, 4096, 0) == 64, "");
    RANK_CHECK(tandem_token_limit(m.workspace, 2048, 0) == 128, "");
    RANK_CHECK(tandem_token_limit(m.workspace, 2048, 2) == 256, "");
    for (int64_t tokens : {1, 7, 64, 65, 1000}) {
      std::string wrong = someCalls(m, rank, 2, tokens, 4096);
      if (!wrong.empty())
        return wrong;
    }
    tandem_counters counters = countersOf(m.workspace);
    RANK_CHECK(counters.fused == 3 && counters.fallback == 7 &&
                   counters.all_reduce == 10,
               std::to_string(counters.fused));
    // A row that is no multiple of 16 bytes can't be fused, on any rank.
    RANK_CHECK(tandem_token_limit(m.workspace, 1001, 0) == -1, "");
    return someCalls(m, rank, 2, 9, 1001);
  }));
}

TEST(CudaGroup, BatchInvariantFallbackIsOrdered) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(
        m.makeGpuWorkspace(64, 1024, 0, TANDEM_WORKSPACE_BATCH_INVARIANT) == 0,
        m.message());
    for (int64_t tokens : {1, 64, 65, 1000})
      for (int64_t hidden : {1024, 1001}) {
        std::string wrong =
            someCalls(m, rank, 2, tokens, hidden, TANDEM_CALL_BATCH_INVARIANT);
        if (!wrong.empty())
          return wrong;
      }
    return "";
  }));
}

/// More ranks than GPUs: no NCCL, and kernels that take turns on a GPU.
TEST(CudaGroup, MoreRanksThanGpus) {
  NEED_GPUS(1);
  for (int world : {2, 3}) {
    if (world <= numGpus())
      continue;
    std::string name = freshName();
    expectAll(runRanks(world, [&](int rank) -> std::string {
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, world) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(16, 1024) == 0, m.message());
      tandem_workspace_info info = infoOf(m.workspace);
      RANK_CHECK(info.fused == 1, info.reason);
      RANK_CHECK(ncclOnOneGpu() ||
                     strstr(info.reason, "shares its GPU with rank 0"),
                 info.reason);
      for (int64_t tokens : {1, 16, 40}) {
        std::string wrong = someCalls(m, rank, world, tokens, 1024);
        if (!wrong.empty())
          return wrong;
      }
      return someCalls(m, rank, world, 3, 1001);
    }));
  }
}

/// Each rank sees its own GPU alone, as device 0.
TEST(CudaGroup, OwnVisibleDevices) {
  NEED_GPUS(2);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 4096) == 0, m.message());
    RANK_CHECK(infoOf(m.workspace).fused == 1, infoOf(m.workspace).reason);
    return someCalls(m, rank, 2, 70, 4096);
  }));
}

TEST(CudaGroup, UniqueId) {
  NEED_GPUS(1);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.open(rank) == 0, m.message());
    tandem_unique_id id;
    if (rank == 0) {
      RANK_CHECK(tandem_unique_id_create(m.context, &id, &m.error) == 0,
                 m.message());
      RANK_CHECK(write(ends[1], &id, sizeof(id)) == sizeof(id), "");
    } else {
      RANK_CHECK(read(ends[0], &id, sizeof(id)) == sizeof(id), "");
    }
    tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
    desc.kind = TANDEM_COMM_UNIQUE_ID;
    desc.rank = rank;
    desc.world = 2;
    desc.unique_id = &id;
    RANK_CHECK(tandem_comm_create(m.context, &desc, &m.comm, &m.error) == 0,
               m.message());
    RANK_CHECK(m.makeGpuWorkspace(8, 1024) == 0, m.message());
    return someCalls(m, rank, 2, 8, 1024);
  }));
  close(ends[0]);
  close(ends[1]);
}

/// NCCL's own interface, for the test to make an ncclComm_t.
struct NcclIdBytes {
  char bytes[128];
};

/// Makes a communicator from an ncclComm_t, on one host or as if on two.
static void fromAnNcclComm(bool apart) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  expectAll(runRanks(2, [&](int rank) -> std::string {
    if (apart) {
      setenv("TANDEM_HOST_ID", rank ? "there" : "here", 1);
      setenv("NCCL_P2P_DISABLE", "1", 1);
      setenv("NCCL_SHM_DISABLE", "1", 1);
    }
    GpuMember m;
    RANK_CHECK(m.open(rank) == 0, m.message());
    const char *path = getenv("TANDEM_NCCL_LIBRARY");
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
    RANK_CHECK(library, dlerror());
    auto getId = reinterpret_cast<int (*)(NcclIdBytes *)>(
        dlsym(library, "ncclGetUniqueId"));
    auto init = reinterpret_cast<int (*)(void **, int, NcclIdBytes, int)>(
        dlsym(library, "ncclCommInitRank"));
    auto destroy =
        reinterpret_cast<int (*)(void *)>(dlsym(library, "ncclCommDestroy"));
    NcclIdBytes id;
    if (rank == 0) {
      RANK_CHECK(getId(&id) == 0, "");
      RANK_CHECK(write(ends[1], &id, sizeof(id)) == sizeof(id), "");
    } else {
      RANK_CHECK(read(ends[0], &id, sizeof(id)) == sizeof(id), "");
    }
    void *nccl = nullptr;
    RANK_CHECK(init(&nccl, 2, id, rank) == 0, "");
    tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
    desc.kind = TANDEM_COMM_NCCL;
    desc.nccl_comm = nccl;
    desc.rank = 1;
    desc.world = 3;
    RANK_CHECK(tandem_comm_create(m.context, &desc, &m.comm, &m.error) ==
                   TANDEM_STATUS_INVALID_ARGUMENT,
               m.message());
    desc.rank = 0;
    desc.world = 1;
    RANK_CHECK(tandem_comm_create(m.context, &desc, &m.comm, &m.error) == 0,
               m.message());
    RANK_CHECK(tandem_comm_rank(m.comm) == rank, "");
    RANK_CHECK(tandem_comm_world(m.comm) == 2, "");
    // It isn't needed any more.
    RANK_CHECK(destroy(nccl) == 0, "");
    RANK_CHECK(m.makeGpuWorkspace(8, 1024) == 0, m.message());
    tandem_workspace_info info = infoOf(m.workspace);
    RANK_CHECK(info.fused == !apart, info.reason);
    RANK_CHECK(!apart || strstr(info.reason, "several hosts"), info.reason);
    std::string wrong = someCalls(m, rank, 2, 9, 1024);
    RANK_CHECK(wrong.empty(), wrong);
    // Different votes are found out this way, too.
    tandem_workspace *other = nullptr;
    std::swap(other, m.workspace);
    tandem_status status = m.makeGpuWorkspace(8, rank ? 512 : 1024);
    std::swap(other, m.workspace);
    RANK_CHECK(status == TANDEM_STATUS_MISMATCH, m.message());
    RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == 0, m.message());
    return "";
  }));
  close(ends[0]);
  close(ends[1]);
}

TEST(CudaGroup, FromAnNcclComm) {
  NEED_NCCL();
  fromAnNcclComm(/*apart=*/false);
}

/// What stands for two hosts here: no sockets, no shared memory, NCCL over its
/// network transport.
TEST(CudaGroup, FromAnNcclCommAcrossHosts) {
  NEED_NCCL();
  fromAnNcclComm(/*apart=*/true);
}

/// A switch on one rank takes the path from all.
TEST(CudaGroup, SwitchesOnOneRankHoldForAll) {
  NEED_GPUS(1);
  struct {
    const char *variable;
    const char *reason;
    int fused;
  } const cases[] = {
      {"TANDEM_DISABLE_FUSION", "TANDEM_DISABLE_FUSION", 0},
      {"TANDEM_DISABLE_SHARING", "TANDEM_DISABLE_SHARING", 0},
      {"TANDEM_DISABLE_NCCL", "TANDEM_DISABLE_NCCL", 1},
  };
  for (auto &one : cases) {
    // Needs NCCL to be left.
    if (shared(2) && one.fused == 0 && strstr(one.reason, "SHARING"))
      continue;
    std::string name = freshName();
    expectAll(runRanks(2, [&](int rank) -> std::string {
      if (rank == 1)
        setenv(one.variable, "1", 1);
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(16, 1024, 0,
                                    TANDEM_WORKSPACE_BATCH_INVARIANT) == 0,
                 m.message());
      tandem_workspace_info info = infoOf(m.workspace);
      RANK_CHECK(info.fused == one.fused, info.reason);
      RANK_CHECK(strstr(info.reason, one.reason), info.reason);
      RANK_CHECK(tandem_token_limit(m.workspace, 1024, 0) ==
                     (one.fused ? 16 : -1),
                 "");
      // With and without batch invariance: NCCL, gathered or ordered.
      for (uint32_t flags : {0u, uint32_t(TANDEM_CALL_BATCH_INVARIANT)})
        for (int64_t hidden : {1024, 1001}) {
          std::string wrong = someCalls(m, rank, 2, 300, hidden, flags);
          if (!wrong.empty())
            return wrong;
        }
      return "";
    }));
  }
}

TEST(CudaGroup, NoWayAtAllIsAnError) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    setenv("TANDEM_DISABLE_SHARING", "1", 1);
    setenv("TANDEM_DISABLE_NCCL", "1", 1);
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(16, 1024) == TANDEM_STATUS_UNSUPPORTED,
               m.message());
    RANK_CHECK(strstr(m.error.message, "there is no way between the GPUs"),
               m.message());
    return "";
  }));
}

TEST(CudaGroup, RequiredFusedIsAnErrorWithTheReason) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    if (rank == 0)
      setenv("TANDEM_MEMORY_LIMIT", "60000000", 1);
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(
        m.makeGpuWorkspace(4096, 4096, 0, TANDEM_WORKSPACE_REQUIRE_FUSED) ==
            TANDEM_STATUS_OUT_OF_MEMORY,
        m.message());
    RANK_CHECK(strstr(m.error.message, "TANDEM_MEMORY_LIMIT"), m.message());
    // Without the demand there is a workspace, which serves if NCCL does.
    if (shared(2)) {
      RANK_CHECK(m.makeGpuWorkspace(4096, 4096) == TANDEM_STATUS_UNSUPPORTED,
                 m.message());
      return "";
    }
    RANK_CHECK(m.makeGpuWorkspace(4096, 4096) == 0, m.message());
    RANK_CHECK(infoOf(m.workspace).fused == 0, "");
    return someCalls(m, rank, 2, 33, 4096);
  }));
}

TEST(CudaGroup, DescriptionsThatDifferAreNamed) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(16, rank ? 1024 : 2048) ==
                   TANDEM_STATUS_MISMATCH,
               m.message());
    RANK_CHECK(
        strstr(m.error.message, "rank 1 has hidden 1024, rank 0 has 2048"),
        m.message());
    // The smallest max_tokens holds.
    RANK_CHECK(m.makeGpuWorkspace(rank ? 16 : 32, 1024) == 0, m.message());
    RANK_CHECK(tandem_token_limit(m.workspace, 1024, 0) == 16, "");
    return someCalls(m, rank, 2, 20, 1024);
  }));
}

TEST(CudaGroup, CpuAndGpuDontMix) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    tandem_status status =
        rank == 0 ? m.joinGpu(name, 0, 2) : m.join(name, 1, 2);
    RANK_CHECK(status == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(16, 1024) == TANDEM_STATUS_MISMATCH,
               m.message());
    RANK_CHECK(strstr(m.error.message, "rank 1 is on the CPU, rank 0 on CUDA"),
               m.message());
    return "";
  }));
}

TEST(CudaGroup, FusionCanBeSwitchedOffAndOn) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(16, 1024) == 0, m.message());
    RANK_OK(m, tandem_workspace_set_fusion(m.workspace, rank, &m.error));
    RANK_CHECK(tandem_token_limit(m.workspace, 1024, 0) == -1, "");
    std::string wrong = someCalls(m, rank, 2, 4, 1024);
    if (!wrong.empty())
      return wrong;
    RANK_CHECK(countersOf(m.workspace).fused == 0, "");
    RANK_OK(m, tandem_workspace_set_fusion(m.workspace, 1, &m.error));
    wrong = someCalls(m, rank, 2, 4, 1024);
    RANK_CHECK(countersOf(m.workspace).fused == 1, "");
    return wrong;
  }));
}

/// Rows with gaps and off 16-byte boundaries, in place: the same results.
TEST(CudaGroup, ViewsOfAnyAlignment) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    constexpr int64_t tokens = 10, hidden = 1024, stride = hidden + 3;
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(16, hidden) == 0, m.message());
    for (uint32_t flags : {0u, uint32_t(TANDEM_CALL_FALLBACK)}) {
      // Rank 0's rows have gaps, rank 1's have none.
      int64_t mine = rank == 0 ? stride : hidden;
      DeviceFloats input(tokens * stride + 1, static_cast<float>(rank + 1)),
          residual(tokens * stride + 1, 1.0f), gamma(hidden + 1, 1.0f),
          out(tokens * stride + 1, -1.0f);
      tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
      args.tokens = tokens;
      args.hidden = hidden;
      args.flags = flags;
      args.input = {input.data() + 1, mine};
      args.residual = {residual.data() + 1, mine};
      args.residual_out = args.residual;
      args.norm.gamma = gamma.data() + 1;
      args.norm_out = {out.data() + 1, mine};
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &args));
      RANK_CUDA(cudaDeviceSynchronize());
      std::vector<float> r = residual.get(), y = out.get();
      RANK_CHECK(r[0] == 1.0f && y[0] == -1.0f, "before the first row");
      for (int64_t i = 0; i < tokens; ++i)
        for (int64_t j = 0; j < mine && i * mine + j + 1 < int64_t(r.size());
             ++j) {
          size_t at = static_cast<size_t>(i * mine + j + 1);
          bool inside = j < hidden;
          RANK_CHECK(r[at] == (inside ? 4.0f : 1.0f),
                     "residual " + std::to_string(r[at]));
          RANK_CHECK(inside ? std::fabs(y[at] - 1.0f) < 1e-6f : y[at] == -1.0f,
                     "norm " + std::to_string(y[at]));
        }
    }
    return "";
  }));
}

TEST(CudaGroup, PointersFromElsewhereAreRefused) {
  NEED_GPUS(1);
  for (int which : {0, 1}) {
    if (which == 1 && numGpus() < 2)
      continue;
    std::string name = freshName();
    expectAll(runRanks(2, [&](int rank) -> std::string {
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(16, 1024, 0, 0, 0, 5000) == 0, m.message());
      PlainGpuCall call(rank, 4, 1024);
      std::vector<float> host(4096);
      void *other = nullptr;
      if (which == 1) {
        RANK_CUDA(cudaSetDevice(1 - rank));
        RANK_CUDA(cudaMalloc(&other, 65536));
        RANK_CUDA(cudaSetDevice(rank));
      }
      if (rank == 1)
        call.args.norm_out.data = which == 0 ? host.data() : other;
      tandem_status status =
          tandem_fused_all_reduce_norm(m.workspace, &call.args);
      if (rank == 0) {
        RANK_CHECK(status == 0 || status == TANDEM_STATUS_INVALID_ARGUMENT,
                   tandem_status_name(status));
        // The peer's error gets its kernel out long before the deadline.
        int64_t start = nowMs();
        RANK_CHECK(waitForGpu(3000), "the kernel still waits");
        RANK_CHECK(nowMs() - start < 2000, "");
      }
      status = m.failure();
      RANK_CHECK(status == TANDEM_STATUS_INVALID_ARGUMENT,
                 tandem_status_name(status));
      RANK_CHECK(m.error.peer == 1 && m.error.reporter == 1, m.message());
      RANK_CHECK(strstr(m.error.message, which == 0
                                             ? "norm_out is not memory that"
                                             : "norm_out is memory of GPU 0"),
                 m.message());
      return "";
    }));
  }
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// Captured calls of every path, replayed between eager ones; a capture that is
/// never replayed; an error in the middle of a capture.
TEST(CudaGraph, CaptureAndReplayOfEveryPath) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(
        m.makeGpuWorkspace(64, 1024, 0, TANDEM_WORKSPACE_BATCH_INVARIANT) == 0,
        m.message());
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    struct {
      int64_t tokens;
      uint32_t flags;
    } const paths[] = {{4, 0},
                       {64, 0},
                       {200, 0},
                       {200, TANDEM_CALL_BATCH_INVARIANT},
                       {4, TANDEM_CALL_FALLBACK}};
    for (auto &path : paths) {
      PlainGpuCall call(rank, path.tokens, 1024, stream);
      call.args.flags = path.flags;
      cudaGraph_t graph, unused;
      cudaGraphExec_t exec;
      // Twice in a graph.
      RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_CUDA(cudaStreamEndCapture(stream, &graph));
      RANK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
      RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_CUDA(cudaStreamEndCapture(stream, &unused));
      RANK_CUDA(cudaGraphDestroy(unused));
      for (int i = 0; i < 20; ++i) {
        call.clear();
        if (i % 3 == 1) {
          RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
        } else {
          RANK_CUDA(cudaGraphLaunch(exec, stream));
        }
        std::string wrong = call.check(2);
        RANK_CHECK(wrong.empty(), std::to_string(path.tokens) + " tokens: " +
                                      wrong + (m.failure(), m.message()));
      }
      RANK_CUDA(cudaGraphExecDestroy(exec));
      RANK_CUDA(cudaGraphDestroy(graph));
    }
    RANK_CHECK(m.failure() == 0, m.message());
    RANK_CUDA(cudaStreamDestroy(stream));
    return "";
  }));
}

TEST(CudaGraph, AnErrorLeavesTheCaptureWhole) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    PlainGpuCall call(rank, 4, 1024, stream);
    cudaGraph_t graph;
    RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    // The peer's error must not come before this rank's first call.
    RANK_OK(m, tandem_comm_barrier(m.comm, &m.error));
    call.args.tokens = -1;
    tandem_status status =
        tandem_fused_all_reduce_norm(m.workspace, &call.args);
    RANK_CHECK(status == TANDEM_STATUS_INVALID_ARGUMENT,
               tandem_status_name(status));
    // Time for the watchdog to look while the capture is on.
    usleep(100000);
    RANK_CUDA(cudaStreamEndCapture(stream, &graph));
    RANK_CUDA(cudaGraphDestroy(graph));
    RANK_CUDA(cudaStreamDestroy(stream));
    return "";
  }));
}

/// Workspaces and groups are made and destroyed while a stream of the caller's
/// is captured: the capture is whole, and no memory is lost.
TEST(CudaGraph, WorkspacesComeAndGoDuringACapture) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    cudaStream_t captured, other;
    // One that the legacy stream waits for.
    RANK_CUDA(cudaStreamCreate(&captured));
    RANK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    DeviceFloats from(1024, 1.0f), to(1024, 0.0f);
    PlainGpuCall call(rank, 4, 1024, other);
    size_t before = 0, after = 0, total = 0;
    for (int i = 0; i < 6; ++i) {
      if (i == 3)
        RANK_CUDA(cudaMemGetInfo(&before, &total));
      cudaGraph_t graph;
      RANK_CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
      RANK_CUDA(cudaMemcpyAsync(to.data(), from.data(), 4096,
                                cudaMemcpyDeviceToDevice, captured));
      RANK_CHECK(m.makeGpuWorkspace(4096, 4096) == 0, m.message());
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      // With the call still running, as far as anybody knows.
      tandem_workspace_destroy(m.workspace);
      m.workspace = nullptr;
      cudaError_t code = cudaStreamEndCapture(captured, &graph);
      RANK_CHECK(code == cudaSuccess,
                 std::string("the capture: ") + cudaGetErrorString(code));
      RANK_CUDA(cudaGraphDestroy(graph));
      std::string wrong = call.check(2);
      RANK_CHECK(wrong.empty(), wrong);
      RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == 0, m.message());
    }
    RANK_CUDA(cudaMemGetInfo(&after, &total));
    RANK_CHECK(after + (size_t(8) << 20) >= before,
               "lost " + std::to_string((before - after) >> 20) + " MiB");
    RANK_CUDA(cudaStreamDestroy(captured));
    RANK_CUDA(cudaStreamDestroy(other));
    return "";
  }));
}

/// NCCL keeps a communicator until the graphs that hold it are gone; whoever
/// leaves the group first doesn't wait for that.
TEST(CudaGraph, MayOutliveItsGroup) {
  NEED_NCCL();
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    PlainGpuCall call(rank, 200, 1024, stream);
    RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    RANK_CUDA(cudaStreamEndCapture(stream, &graph));
    RANK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    RANK_CUDA(cudaGraphLaunch(exec, stream));
    std::string wrong = call.check(2);
    RANK_CHECK(wrong.empty(), wrong);
    int64_t before = nowMs();
    tandem_workspace_destroy(m.workspace);
    m.workspace = nullptr;
    tandem_comm_destroy(m.comm);
    m.comm = nullptr;
    RANK_CHECK(nowMs() - before < 4000, "leaving took too long");
    RANK_CUDA(cudaGraphExecDestroy(exec));
    RANK_CUDA(cudaGraphDestroy(graph));
    // The GPU is as good as ever, and so is a new group.
    RANK_CHECK(m.join(name + "2", rank, 2, 20000) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
    call.clear();
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    wrong = call.check(2);
    RANK_CHECK(wrong.empty(), wrong);
    RANK_CUDA(cudaStreamDestroy(stream));
    return "";
  }));
}

/// Two groups on streams of their own, half of the GPU for each.
TEST(CudaGroup, TwoGroupsInterleaved) {
  NEED_GPUS(1);
  std::string names[2] = {freshName(), freshName()};
  expectAll(runRanks(
      2,
      [&](int rank) -> std::string {
        GpuMember m[2];
        cudaStream_t streams[2];
        for (int g = 0; g < 2; ++g) {
          // In the other order of ranks.
          RANK_CHECK(m[g].open(rank) == 0, m[g].message());
          RANK_CHECK(m[g].join(names[g], g == 0 ? rank : 1 - rank, 2, 20000) ==
                         0,
                     m[g].message());
          RANK_CHECK(m[g].makeGpuWorkspace(256, 4096, 0, 0, 60) == 0,
                     m[g].message());
          RANK_CUDA(
              cudaStreamCreateWithFlags(&streams[g], cudaStreamNonBlocking));
        }
        PlainGpuCall first(rank, 256, 4096, streams[0]);
        PlainGpuCall second(1 - rank, 200, 4096, streams[1]);
        std::mt19937 order(static_cast<unsigned>(7 + rank));
        for (int i = 0; i < 200; ++i) {
          // The ranks don't agree on which group comes first.
          bool swap = order() % 2;
          for (int g = 0; g < 2; ++g) {
            int which = swap ? 1 - g : g;
            RANK_OK(m[which], tandem_fused_all_reduce_norm(
                                  m[which].workspace,
                                  which ? &second.args : &first.args));
          }
          if (i % 50 == 49) {
            std::string wrong = first.check(2) + second.check(2);
            RANK_CHECK(wrong.empty(), wrong + (m[0].failure(), m[0].message()) +
                                          (m[1].failure(), m[1].message()));
            first.clear();
            second.clear();
          }
        }
        return "";
      },
      120));
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Makes a new group after a failure and calls in it.
static std::string afterwards(const std::string &name, int rank, int world) {
  GpuMember m;
  RANK_CHECK(m.joinGpu(name, rank, world) == 0, m.message());
  RANK_CHECK(m.makeGpuWorkspace(8, 1024) == 0, m.message());
  return someCalls(m, rank, world, 9, 1024);
}

TEST(CudaFault, CallsThatDifferAreAnErrorAtOnce) {
  NEED_GPUS(1);
  enum { Tokens, Operation, Residual, Epsilon, Path, NumCases };
  for (int which = 0; which < NumCases; ++which) {
    std::string name = freshName(), again = freshName();
    expectAll(runRanks(2, [&](int rank) -> std::string {
      {
        GpuMember m;
        RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
        RANK_CHECK(m.makeGpuWorkspace(64, 1024, 0,
                                      TANDEM_WORKSPACE_BATCH_INVARIANT, 0,
                                      10000) == 0,
                   m.message());
        PlainGpuCall call(rank, 4, 1024);
        DeviceFloats sum(call.input.size());
        if (rank == 1 && which == Tokens)
          call.args.tokens = 3;
        if (rank == 1 && which == Residual)
          call.args.residual.data = nullptr;
        if (rank == 1 && which == Epsilon)
          call.args.norm.epsilon = 1e-6;
        if (rank == 1 && which == Path)
          call.args.flags = TANDEM_CALL_FALLBACK | TANDEM_CALL_BATCH_INVARIANT;
        int64_t start = nowMs();
        if (rank == 1 && which == Operation) {
          tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
          reduce.tokens = 4;
          reduce.hidden = 1024;
          reduce.input.data = call.input.data();
          reduce.output.data = sum.data();
          RANK_OK(m, tandem_all_reduce(m.workspace, &reduce));
        } else {
          RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
        }
        RANK_CHECK(waitForGpu(5000), "the kernel still waits");
        RANK_CUDA(cudaDeviceSynchronize());
        tandem_status status = m.failure();
        RANK_CHECK(status == TANDEM_STATUS_MISMATCH,
                   std::string(tandem_status_name(status)) + m.message());
        RANK_CHECK(nowMs() - start < 4000, "late");
        if (which == Tokens)
          RANK_CHECK(strstr(m.error.message, "tokens") &&
                         strstr(m.error.message, "3") &&
                         strstr(m.error.message, "4"),
                     m.message());
        // Sticky.
        status = tandem_fused_all_reduce_norm(m.workspace, &call.args);
        RANK_CHECK(status == TANDEM_STATUS_MISMATCH,
                   tandem_status_name(status));
      }
      return afterwards(again, rank, 2);
    }));
  }
}

/// A fused call against a call through NCCL ends at the deadline, on both.
TEST(CudaFault, FusedAgainstNcclEndsAtTheDeadline) {
  NEED_NCCL();
  std::string name = freshName(), again = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    {
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(64, 1024, 0, 0, 0, 2000) == 0, m.message());
      PlainGpuCall call(rank, 4, 1024);
      call.args.flags = rank == 1 ? uint32_t(TANDEM_CALL_FALLBACK) : 0;
      int64_t start = nowMs();
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_CHECK(waitForGpu(10000), "still waits");
      RANK_CHECK(nowMs() - start > 1500, "too early");
      usleep(200000);
      tandem_status status = m.failure();
      RANK_CHECK(status == TANDEM_STATUS_TIMEOUT,
                 std::string(tandem_status_name(status)) + m.message());
    }
    return afterwards(again, rank, 2);
  }));
}

/// With TANDEM_CHECK=1 calls through NCCL are compared, too.
TEST(CudaFault, CheckingModeComparesNcclCalls) {
  NEED_NCCL();
  struct {
    const char *what;
    void (*change)(tandem_norm_args &);
  } const cases[] = {
      {"called with tokens", [](tandem_norm_args &args) { args.tokens = 99; }},
      {"called with other type, reduction and operation",
       [](tandem_norm_args &args) { args.dtype = TANDEM_DTYPE_BF16; }},
      {"called with other operands",
       [](tandem_norm_args &args) { args.residual.data = nullptr; }},
      {"called with epsilon",
       [](tandem_norm_args &args) { args.norm.epsilon = 0.5; }},
  };
  for (auto &one : cases) {
    std::string name = freshName();
    expectAll(runRanks(2, [&](int rank) -> std::string {
      setenv("TANDEM_CHECK", "1", 1);
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(64, 1024, 0, 0, 0, 10000) == 0,
                 m.message());
      std::string wrong = someCalls(m, rank, 2, 100, 1024);
      if (!wrong.empty())
        return wrong;
      PlainGpuCall call(rank, 100, 1024);
      if (rank == 1)
        one.change(call.args);
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_CHECK(waitForGpu(8000), "still waits");
      usleep(100000);
      tandem_status status = m.failure();
      RANK_CHECK(status == TANDEM_STATUS_MISMATCH,
                 std::string(tandem_status_name(status)) + m.message());
      RANK_CHECK(m.message().find(one.what) != std::string::npos, m.message());
      return "";
    }));
  }
}

/// A rank that comes too late, eagerly and in a replay.
TEST(CudaFault, ALateRankIsATimeout) {
  NEED_GPUS(1);
  for (bool replay : {false, true}) {
    std::string name = freshName(), again = freshName();
    std::string dump = "/tmp/tandem-test-" + std::to_string(getpid());
    expectAll(runRanks(2, [&](int rank) -> std::string {
      {
        setenv("TANDEM_HANG_DUMP", dump.c_str(), 1);
        GpuMember m;
        RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
        RANK_CHECK(m.makeGpuWorkspace(64, 1024, 0, 0, 0, 1000) == 0,
                   m.message());
        cudaStream_t stream;
        RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        PlainGpuCall call(rank, 4, 1024, stream);
        RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
        std::string wrong = call.check(2);
        RANK_CHECK(wrong.empty(), wrong);
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
        RANK_CUDA(cudaStreamEndCapture(stream, &graph));
        RANK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
        if (rank == 1)
          usleep(3000000);
        int64_t start = nowMs();
        tandem_status status = 0;
        if (replay) {
          RANK_CUDA(cudaGraphLaunch(exec, stream));
        } else {
          status = tandem_fused_all_reduce_norm(m.workspace, &call.args);
        }
        RANK_CUDA(cudaStreamSynchronize(stream));
        RANK_CHECK(rank == 1 || nowMs() - start < 2500, "late");
        RANK_CHECK(rank == 0 || replay || status == TANDEM_STATUS_TIMEOUT,
                   tandem_status_name(status));
        status = m.failure();
        RANK_CHECK(status == TANDEM_STATUS_TIMEOUT,
                   std::string(tandem_status_name(status)) + m.message());
        RANK_CHECK(m.error.peer == 1 && m.error.reporter == 0, m.message());
        char text[2000];
        RANK_CHECK(tandem_workspace_get_hang_dump(m.workspace, text,
                                                  sizeof(text)) == 0,
                   "");
        RANK_CHECK(strstr(text, "rank 0 (process") &&
                       strstr(text, "rank 1 (process") &&
                       strstr(text, "tokens 4, hidden 1024") &&
                       strstr(text, "TANDEM_STATUS_TIMEOUT"),
                   text);
        std::string file = dump + "." + std::to_string(rank);
        RANK_CHECK(unlink(file.c_str()) == 0, "no " + file);
        RANK_CUDA(cudaGraphExecDestroy(exec));
        RANK_CUDA(cudaGraphDestroy(graph));
        RANK_CUDA(cudaStreamDestroy(stream));
      }
      return afterwards(again, rank, 2);
    }));
  }
}

/// A rank that leaves its peer alone is found out when that calls on, also by a
/// replay.
TEST(CudaFault, CallingOnAfterAPeerLeft) {
  NEED_GPUS(1);
  for (bool replay : {false, true}) {
    std::string name = freshName();
    expectAll(runRanks(2, [&](int rank) -> std::string {
      GpuMember m;
      RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
      cudaStream_t stream;
      RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      PlainGpuCall call(rank, 4, 1024, stream);
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      RANK_CUDA(cudaStreamEndCapture(stream, &graph));
      RANK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      if (rank == 0)
        return call.check(2);
      // Right, although the peer is gone.
      std::string wrong = call.check(2);
      RANK_CHECK(wrong.empty(), wrong);
      RANK_CHECK(m.failure() == 0, m.message());
      usleep(2000000);
      int64_t start = nowMs();
      tandem_status status;
      if (replay) {
        RANK_CUDA(cudaGraphLaunch(exec, stream));
        RANK_CUDA(cudaStreamSynchronize(stream));
        status = m.failure();
      } else {
        status = tandem_fused_all_reduce_norm(m.workspace, &call.args);
      }
      RANK_CHECK(nowMs() - start < 3000, "late");
      RANK_CHECK(status == TANDEM_STATUS_PEER_LEFT ||
                     (replay && status == TANDEM_STATUS_PEER_DIED),
                 tandem_status_name(status));
      return "";
    }));
  }
}

/// A replay that waits for a peer which has left, without a deadline, doesn't
/// keep this rank from leaving.
TEST(CudaFault, LeavingWithAReplayThatNobodyAnswers) {
  NEED_GPUS(1);
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    RANK_CHECK(m.makeGpuWorkspace(64, 1024, TANDEM_DTYPE_F32, 0, 0,
                                  TANDEM_TIMEOUT_NEVER) == 0,
               m.message());
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    PlainGpuCall call(rank, 4, 1024, stream);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    RANK_CUDA(cudaStreamEndCapture(stream, &graph));
    RANK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    std::string wrong = call.check(2);
    RANK_CHECK(wrong.empty(), wrong);
    RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == 0, m.message());
    if (rank == 1)
      RANK_CUDA(cudaGraphLaunch(exec, stream));
    int64_t start = nowMs();
    tandem_workspace_destroy(m.workspace);
    m.workspace = nullptr;
    RANK_CHECK(nowMs() - start < 5000, "leaving took too long");
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CUDA(cudaGraphExecDestroy(exec));
    RANK_CUDA(cudaGraphDestroy(graph));
    RANK_CUDA(cudaStreamDestroy(stream));
    return "";
  }));
}

/// Ranks that are killed at random moments, fused and through NCCL. The
/// survivor finds out within a second and makes a new group.
TEST(CudaFault, Kills) {
  NEED_GPUS(1);
  const int kills = fullTests() ? 20 : 4;
  std::mt19937 random(11);
  for (int i = 0; i < kills; ++i) {
    std::string name = freshName();
    int victim = i % 2;
    bool through = i % 4 >= 2 && !shared(2);
    int64_t after = random() % 150;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    Ranks ranks(2, [&](int rank) -> std::string {
      {
        GpuMember m;
        RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
        RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
        PlainGpuCall call(rank, 64, 1024);
        call.args.flags = through ? uint32_t(TANDEM_CALL_FALLBACK) : 0;
        char byte = 'x';
        RANK_CHECK(write(ready[1], &byte, 1) == 1, "");
        int64_t start = nowMs();
        tandem_status status = 0;
        while (!status && nowMs() - start < 10000) {
          for (int n = 0; !status && n < 8; ++n)
            status = tandem_fused_all_reduce_norm(m.workspace, &call.args);
          RANK_CHECK(waitForGpu(5000), "the GPU still waits");
        }
        int64_t took = nowMs() - start;
        if (!status)
          status = m.failure();
        m.failure();
        RANK_CHECK(status == TANDEM_STATUS_PEER_DIED ||
                       (through && status == TANDEM_STATUS_SYSTEM),
                   std::string(tandem_status_name(status)) + ": " +
                       m.message());
        RANK_CHECK(took < 3000, "took " + std::to_string(took) + " ms");
      }
      // A world of its own: the peer is gone.
      GpuMember m;
      RANK_CHECK(m.joinGpu("", 0, 1) == 0, m.message());
      RANK_CHECK(m.makeGpuWorkspace(64, 1024) == 0, m.message());
      PlainGpuCall call(0, 3, 1024);
      RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
      return call.check(1);
    });
    char bytes[2];
    for (int n = 0; n < 2;) {
      ssize_t got = read(ready[0], bytes, static_cast<size_t>(2 - n));
      ASSERT_GT(got, 0);
      n += static_cast<int>(got);
    }
    usleep(static_cast<useconds_t>(after * 1000));
    ranks.signal(victim, SIGKILL);
    std::vector<std::string> said = ranks.join(60);
    EXPECT_EQ(said[static_cast<size_t>(victim)], "killed by signal 9");
    EXPECT_EQ(said[static_cast<size_t>(1 - victim)], "")
        << "kill " << i << (through ? ", NCCL" : ", fused") << ", after "
        << after << " ms";
    close(ready[0]);
    close(ready[1]);
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static size_t freeMemory() {
  size_t left = 0, total = 0;
  (void)cudaMemGetInfo(&left, &total);
  return left;
}

TEST(CudaMemory, WorkspacesAndCommunicatorsGiveItBack) {
  NEED_GPUS(1);
  const int workspaces = fullTests() ? 1000 : 50;
  const int comms = fullTests() ? 20 : 4;
  std::string name = freshName();
  int64_t start = nowMs();
  expectAll(runRanks(
      2,
      [&](int rank) -> std::string {
        GpuMember m;
        RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
        size_t before = 0;
        int fds = 0;
        for (int i = 0; i < workspaces; ++i) {
          if (i == 3) {
            RANK_CUDA(cudaDeviceSynchronize());
            before = freeMemory();
            fds = countFds();
          }
          RANK_CHECK(m.makeGpuWorkspace(256, 4096) == 0,
                     "workspace " + std::to_string(i) + ": " + m.message());
          PlainGpuCall call(rank, 2, 4096);
          call.args.flags = i % 2 ? uint32_t(TANDEM_CALL_FALLBACK) : 0;
          RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
          std::string wrong = call.check(2);
          RANK_CHECK(wrong.empty(), wrong);
          tandem_workspace_destroy(m.workspace);
          m.workspace = nullptr;
        }
        // The peer may not have unmapped its last yet.
        RANK_CHECK(tandem_comm_barrier(m.comm, &m.error) == 0, m.message());
        size_t after = freeMemory();
        RANK_CHECK(after + (size_t(8) << 20) >= before,
                   "lost " + std::to_string((before - after) >> 20) + " MiB");
        RANK_CHECK(countFds() <= fds, "descriptors");
        return "";
      },
      500));
  printf("%d workspaces in %lld ms\n", workspaces,
         static_cast<long long>(nowMs() - start));
  std::string again = freshName();
  start = nowMs();
  expectAll(runRanks(
      2,
      [&](int rank) -> std::string {
        size_t before = 0;
        for (int i = 0; i < comms; ++i) {
          if (i == 2)
            before = freeMemory();
          GpuMember m;
          RANK_CHECK(m.joinGpu(again, rank, 2) == 0, m.message());
          RANK_CHECK(m.makeGpuWorkspace(256, 4096) == 0,
                     "communicator " + std::to_string(i) + ": " + m.message());
          std::string wrong = someCalls(m, rank, 2, 3, 4096);
          RANK_CHECK(wrong.empty(), wrong);
        }
        usleep(500000);
        size_t after = freeMemory();
        RANK_CHECK(after + (size_t(32) << 20) >= before,
                   "lost " + std::to_string((before - after) >> 20) + " MiB");
        return "";
      },
      300));
  printf("%d communicators in %lld ms\n", comms,
         static_cast<long long>(nowMs() - start));
}

/// What a call costs the thread that makes it, and what NCCL takes of the GPU:
/// figures for docs/cuda.md. Only that calls don't wait is checked.
TEST(CudaGroup, CallsOnlyLaunch) {
  NEED_NCCL();
  std::string name = freshName();
  expectAll(runRanks(2, [&](int rank) -> std::string {
    GpuMember m;
    RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
    size_t before = freeMemory();
    RANK_CHECK(m.makeGpuWorkspace(64, 4096) == 0, m.message());
    size_t after = freeMemory();
    tandem_workspace_info info = infoOf(m.workspace);
    PlainGpuCall call(rank, 1, 4096);
    double best[2] = {1e9, 1e9};
    for (int fallback : {0, 1})
      for (int batch = 0; batch < 20; ++batch) {
        constexpr int calls = 50;
        call.args.flags = fallback ? uint32_t(TANDEM_CALL_FALLBACK) : 0;
        RANK_CUDA(cudaDeviceSynchronize());
        timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < calls; ++i)
          RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
        clock_gettime(CLOCK_MONOTONIC, &end);
        best[fallback] =
            std::min(best[fallback],
                     (static_cast<double>(end.tv_sec - start.tv_sec) * 1e6 +
                      static_cast<double>(end.tv_nsec - start.tv_nsec) * 1e-3) /
                         calls);
      }
    RANK_CUDA(cudaDeviceSynchronize());
    if (rank == 0) {
      printf("host: %.2f us a fused call, %.2f us a fallback; NCCL's "
             "communicator: %lld MiB of the GPU\n",
             best[0], best[1],
             (static_cast<long long>(before - after) -
              static_cast<long long>(info.shared_bytes + info.private_bytes)) >>
                 20);
      fflush(stdout);
    }
    // A peer that isn't there yet must not hold the caller up.
    if (rank == 1)
      usleep(300000);
    call.args.flags = 0;
    int64_t start = nowMs();
    RANK_OK(m, tandem_fused_all_reduce_norm(m.workspace, &call.args));
    RANK_CHECK(nowMs() - start < 100, "the call waited");
    std::string wrong = call.check(2);
    RANK_CHECK(wrong.empty(), wrong);
    return "";
  }));
}

/// NCCL over its network transport, as between hosts.
TEST(CudaGroup, NcclOverTheNetwork) {
  NEED_NCCL();
  std::string name = freshName();
  expectAll(runRanks(
      2,
      [&](int rank) -> std::string {
        setenv("NCCL_P2P_DISABLE", "1", 1);
        setenv("NCCL_SHM_DISABLE", "1", 1);
        setenv("TANDEM_DISABLE_SHARING", "1", 1);
        GpuMember m;
        RANK_CHECK(m.joinGpu(name, rank, 2) == 0, m.message());
        RANK_CHECK(m.makeGpuWorkspace(64, 4096, 0,
                                      TANDEM_WORKSPACE_BATCH_INVARIANT) == 0,
                   m.message());
        for (int64_t tokens : {1, 64, 500}) {
          std::string wrong = someCalls(m, rank, 2, tokens, 4096);
          if (wrong.empty())
            wrong = someCalls(m, rank, 2, tokens, 4096,
                              TANDEM_CALL_BATCH_INVARIANT);
          if (!wrong.empty())
            return wrong;
        }
        return "";
      },
      120));
}
