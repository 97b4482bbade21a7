//===-- GpuHarness.h - Ranks on GPUs for tests ---------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_CUDA_GPUHARNESS_H
#define TANDEM_TEST_RUNTIME_CUDA_GPUHARNESS_H

#include "../Harness.h"

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace tandem::test {

/// GPUs that this machine has, asked in a process of its own: a process that
/// has used CUDA can't fork ranks that use it.
int numGpus();

/// Whether NCCL is to serve ranks that share a GPU: where the environment has
/// TANDEM_TEST_NCCL_ON_ONE_GPU. It takes the ranks for ranks of several hosts.
bool ncclOnOneGpu();

/// Skips the test unless NCCL serves two ranks.
#define NEED_NCCL()                                                            \
  do {                                                                         \
    if (tandem::test::numGpus() < 2 && !tandem::test::ncclOnOneGpu())          \
      GTEST_SKIP() << "needs NCCL, and so 2 GPUs (or 1 and "                   \
                      "TANDEM_TEST_NCCL_ON_ONE_GPU=1); there are "             \
                   << tandem::test::numGpus();                                 \
  } while (false)

/// Skips the test, with the reason, unless there are this many GPUs.
#define NEED_GPUS(count)                                                       \
  do {                                                                         \
    if (tandem::test::numGpus() < (count))                                     \
      GTEST_SKIP() << "needs " << (count) << " GPU(s), there are "             \
                   << tandem::test::numGpus();                                 \
  } while (false)

/// In a rank: returns what CUDA says unless it is success.
#define RANK_CUDA(call)                                                        \
  do {                                                                         \
    cudaError_t code_ = (call);                                                \
    if (code_ != cudaSuccess)                                                  \
      return std::string(__FILE__ ":") + std::to_string(__LINE__) +            \
             ": " #call ": " + cudaGetErrorString(code_);                      \
  } while (false)

/// In a rank: the call, or its group's message.
#define RANK_OK(member, call)                                                  \
  do {                                                                         \
    tandem_status status_ = (call);                                            \
    if (status_ != 0) {                                                        \
      (member).failure();                                                      \
      return std::string(__FILE__ ":") + std::to_string(__LINE__) +            \
             ": " #call ": " + tandem_status_name(status_) + ": " +            \
             (member).message();                                               \
    }                                                                          \
  } while (false)

/// A rank on GPU `rank mod numGpus`, which is made the thread's current one.
struct GpuMember : Member {
  /// `ignoreFusion` and the like come through the environment.
  tandem_status open(int rank);
  tandem_status joinGpu(const std::string &name, int rank, int world,
                        int64_t timeoutMs = 20000);
  tandem_status makeGpuWorkspace(int64_t maxTokens, int64_t hidden,
                                 tandem_dtype dtype = TANDEM_DTYPE_F32,
                                 uint32_t flags = 0, int64_t maxBlocks = 0,
                                 int64_t timeoutMs = TANDEM_TIMEOUT_DEFAULT);
};

/// Floats on the GPU.
class DeviceFloats {
public:
  DeviceFloats() = default;
  explicit DeviceFloats(size_t count, float value = 0.0f) {
    fill(count, value);
  }
  DeviceFloats(const DeviceFloats &) = delete;
  DeviceFloats &operator=(const DeviceFloats &) = delete;
  ~DeviceFloats();
  void fill(size_t count, float value);
  void put(const std::vector<float> &values);
  std::vector<float> get() const;
  float *data() const { return pointer; }
  size_t size() const { return count; }

private:
  float *pointer = nullptr;
  size_t count = 0;
};

/// PlainCall's data on the GPU: input of rank r is r + 1 everywhere, residual
/// and gamma are 1, so that the new residual is known exactly and the norm
/// is 1.
struct PlainGpuCall {
  PlainGpuCall(int rank, int64_t tokens, int64_t hidden,
               cudaStream_t stream = nullptr);
  tandem_norm_args args;
  DeviceFloats input, residual, gamma, normOut, residualOut;
  /// Forgets the results.
  void clear();
  /// Waits for the GPU; what is wrong with the results, if anything.
  std::string check(int world) const;
};

/// Waits for the GPU, at most `ms`; false if it isn't done by then.
bool waitForGpu(int64_t ms);

} // namespace tandem::test

#endif
