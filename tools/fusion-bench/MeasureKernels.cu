//===-- MeasureKernels.cu - Kernels for measuring -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeasureKernels.h"

#include "cuda/Device.cuh"

using namespace tandem;
using cuda::loadWord;
using cuda::nanoseconds;
using cuda::storeWord;

static __global__ void delayKernel(uint64_t duration) {
  uint64_t start = nanoseconds();
  while (nanoseconds() - start < duration) {
  }
}

namespace {
struct StartParams {
  uint64_t *counters[measure::maxRanks];
};
} // namespace

static __global__ void startKernel(const __grid_constant__ StartParams p,
                                   int rank, int world, uint64_t *time) {
  uint64_t now = loadWord(p.counters[rank]) + 1;
  storeWord(p.counters[rank], now);
  uint64_t began = nanoseconds();
  for (int peer = 0; peer < world; ++peer)
    while (loadWord(p.counters[peer]) < now &&
           nanoseconds() - began < 10000000000ull) {
    }
  *time = nanoseconds();
}

static __global__ void stampKernel(uint64_t *time) { *time = nanoseconds(); }

static __global__ void copyKernel(uint4 *to, const uint4 *from,
                                  uint64_t vectors) {
  uint64_t step = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < vectors; i += step)
    to[i] = from[i];
}

void measure::launchDelay(uint64_t duration, cudaStream_t stream) {
  delayKernel<<<1, 1, 0, stream>>>(duration);
}

void measure::launchStart(uint64_t *const *counters, int rank, int world,
                          uint64_t *time, cudaStream_t stream) {
  StartParams p = {};
  for (int i = 0; i < world; ++i)
    p.counters[i] = counters[i];
  startKernel<<<1, 1, 0, stream>>>(p, rank, world, time);
}

void measure::launchStamp(uint64_t *time, cudaStream_t stream) {
  stampKernel<<<1, 1, 0, stream>>>(time);
}

void measure::launchCopy(void *to, const void *from, uint64_t bytes,
                         uint32_t grid, cudaStream_t stream) {
  copyKernel<<<grid, 512, 0, stream>>>(
      static_cast<uint4 *>(to), static_cast<const uint4 *>(from), bytes / 16);
}
