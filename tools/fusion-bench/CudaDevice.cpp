//===-- CudaDevice.cpp - Timing on GPUs -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "MeasureKernels.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace tandem::bench;
namespace measure = tandem::measure;

namespace {
static_assert(sizeof(cudaIpcMemHandle_t) == 64, "Board has room for it");

/// What an ordinary kernel between two calls copies, and what turns the L2
/// cache over.
constexpr uint64_t neighbourBytes = uint64_t(8) << 20;
constexpr uint64_t coldBytes = uint64_t(160) << 20;

class CudaDevice final : public Device {
public:
  ~CudaDevice() override {
    if (peer)
      cudaIpcCloseMemHandle(peer);
    for (void *memory : opened)
      cudaIpcCloseMemHandle(memory);
    for (void *memory : all)
      cudaFree(memory);
    if (work)
      cudaStreamDestroy(work);
    if (registered)
      cudaHostUnregister(board);
  }

  std::string open(Board &b, int r, int world) override {
    board = &b;
    rank = r;
    ranks = world;
    cudaDeviceProp properties;
    // All there is of the board but the times.
    if (failed(cudaSetDevice(rank)) ||
        failed(cudaGetDeviceProperties(&properties, rank)) ||
        failed(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking)) ||
        failed(cudaHostRegister(board, sizeof(Board::starts),
                                cudaHostRegisterMapped)))
      return problem;
    registered = true;
    void *mapped = nullptr;
    if (failed(cudaHostGetDevicePointer(&mapped, board, 0)))
      return problem;
    for (int i = 0; i < world; ++i)
      starts[i] = reinterpret_cast<uint64_t *>(mapped) + ptrdiff_t(16) * i;
    if (rank == 0)
      snprintf(board->deviceName, sizeof(board->deviceName), "%.100s",
               properties.name);
    times = static_cast<uint64_t *>(allocate(256));
    from = allocate(coldBytes);
    to = allocate(coldBytes);
    if (!times || !from || !to)
      return problem;
    meetOnDevices();
    return std::string();
  }

  void *allocate(uint64_t bytes) override {
    void *memory = nullptr;
    if (failed(cudaMalloc(&memory, bytes)))
      return nullptr;
    all.push_back(memory);
    return memory;
  }
  void fill(void *memory, uint64_t bytes) override {
    cudaMemset(memory, 0x3c, bytes);
    cudaDeviceSynchronize();
  }
  void *stream() override { return work; }

  void *peerMemory(void *own, uint64_t) override {
    cudaIpcMemHandle_t handle;
    bool have = !failed(cudaIpcGetMemHandle(&handle, own));
    if (have)
      memcpy(board->handles[rank], &handle, sizeof(handle));
    if (!meet(*board, ranks) || !have || ranks < 2)
      return nullptr;
    memcpy(&handle, board->handles[(rank + 1) % ranks], sizeof(handle));
    if (cudaIpcOpenMemHandle(&peer, handle, cudaIpcMemLazyEnablePeerAccess) !=
        cudaSuccess) {
      cudaGetLastError();
      peer = nullptr;
    }
    return peer;
  }
  void copyToPeer(void *dst, const void *src, uint64_t bytes) override {
    measure::launchCopy(
        dst, src, bytes,
        static_cast<uint32_t>(std::min<uint64_t>(264, (bytes + 8191) / 8192)),
        work);
  }

  std::string measure(Timing timing, int calls, int samples, const Body &body,
                      double *out) override;

private:
  /// Puts the words at which ranks meet into their own devices' memory, if all
  /// of them can reach it: by way of the host's some would start microseconds
  /// later than others.
  void meetOnDevices();
  bool failed(cudaError_t error) {
    if (error == cudaSuccess)
      return false;
    problem = cudaGetErrorString(error);
    return true;
  }
  /// Captures what `each` launches for every call between start and stamp.
  template <class Each>
  std::string capture(int calls, Each each, cudaGraphExec_t &graph);
  std::string replay(cudaGraphExec_t graph, double &microseconds);

  Board *board = nullptr;
  bool registered = false;
  int rank = 0;
  int ranks = 0;
  std::string problem;
  cudaStream_t work = nullptr;
  uint64_t *starts[measure::maxRanks] = {};
  uint64_t *times = nullptr;
  void *from = nullptr;
  void *to = nullptr;
  void *peer = nullptr;
  std::vector<void *> all;
  std::vector<void *> opened;
};
} // namespace

void CudaDevice::meetOnDevices() {
  // What is exported is a whole block of the allocator's.
  constexpr uint64_t block = uint64_t(2) << 20;
  void *own = allocate(block);
  cudaIpcMemHandle_t handle;
  bool good = own && !failed(cudaMemset(own, 0, block)) &&
              !failed(cudaDeviceSynchronize()) &&
              !failed(cudaIpcGetMemHandle(&handle, own));
  if (good)
    memcpy(board->startHandles[rank], &handle, sizeof(handle));
  board->canMeet[rank] = good;
  if (!meet(*board, ranks))
    return;
  good = std::count(board->canMeet, board->canMeet + ranks, 1) == ranks;
  uint64_t *words[measure::maxRanks] = {};
  for (int i = 0; good && i < ranks; ++i) {
    void *memory = own;
    if (i != rank) {
      memcpy(&handle, board->startHandles[i], sizeof(handle));
      good =
          cudaIpcOpenMemHandle(&memory, handle,
                               cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
      if (good)
        opened.push_back(memory);
    }
    words[i] = static_cast<uint64_t *>(memory);
  }
  cudaGetLastError();
  // Everybody has read what was there.
  if (!meet(*board, ranks))
    return;
  board->canMeet[rank] = good;
  if (!meet(*board, ranks) ||
      std::count(board->canMeet, board->canMeet + ranks, 1) != ranks)
    return;
  std::copy(words, words + ranks, starts);
}

template <class Each>
std::string CudaDevice::capture(int calls, Each each, cudaGraphExec_t &exec) {
  if (failed(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal)))
    return problem;
  measure::launchStart(starts, rank, ranks, times, work);
  tandem_status status = TANDEM_STATUS_OK;
  for (int call = 0; call < calls && !status; ++call)
    status = each(call);
  measure::launchStamp(times + 1, work);
  cudaGraph_t graph = nullptr;
  if (failed(cudaStreamEndCapture(work, &graph)))
    return problem;
  cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  if (status)
    return tandem_status_name(status);
  return failed(error) ? problem : std::string();
}

std::string CudaDevice::replay(cudaGraphExec_t graph, double &microseconds) {
  uint64_t t[2];
  if (failed(cudaGraphLaunch(graph, work)) ||
      failed(
          cudaMemcpyAsync(t, times, sizeof(t), cudaMemcpyDeviceToHost, work)) ||
      failed(cudaStreamSynchronize(work)))
    return problem;
  microseconds = double(t[1] - t[0]) / 1000;
  return std::string();
}

std::string CudaDevice::measure(Timing timing, int calls, int samples,
                                const Body &body, double *out) {
  // The same on all ranks, so that each knows when the last one came.
  // NOLINTNEXTLINE(bugprone-random-generator-seed)
  std::mt19937 random(7);
  std::vector<std::vector<uint64_t>> delays(static_cast<size_t>(calls));
  double latest = 0;
  for (auto &delay : delays) {
    uint64_t most = 0;
    for (int i = 0; i < ranks; ++i) {
      delay.push_back(random() % 20000);
      most = std::max(most, delay.back());
    }
    latest += double(most) / 1000;
  }
  uint64_t between = timing == Timing::Cold ? coldBytes : neighbourBytes;
  auto aside = [&](int call) {
    if (timing == Timing::Skew)
      measure::launchDelay(
          delays[static_cast<size_t>(call)][static_cast<size_t>(rank)], work);
    else if (timing != Timing::Chain)
      measure::launchCopy(to, from, between, 264, work);
  };
  cudaGraphExec_t with = nullptr, without = nullptr;
  std::string wrong = capture(
      calls,
      [&](int call) {
        aside(call);
        return body(call);
      },
      with);
  bool subtract = timing == Timing::Neighbours || timing == Timing::Cold;
  if (wrong.empty() && subtract)
    wrong = capture(
        calls,
        [&](int call) {
          aside(call);
          return tandem_status(TANDEM_STATUS_OK);
        },
        without);
  for (int sample = -2; wrong.empty() && sample < samples; ++sample) {
    double us = 0, less = 0;
    wrong = replay(with, us);
    if (wrong.empty() && subtract)
      wrong = replay(without, less);
    if (timing == Timing::Skew)
      less = latest;
    if (sample >= 0)
      out[sample] = std::max(0.0, us - less) / calls;
  }
  if (with)
    cudaGraphExecDestroy(with);
  if (without)
    cudaGraphExecDestroy(without);
  return wrong;
}

std::unique_ptr<Device> tandem::bench::makeCudaDevice() {
  return std::make_unique<CudaDevice>();
}
