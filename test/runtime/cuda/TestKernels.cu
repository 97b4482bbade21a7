//===-- TestKernels.cu - Kernels for tests and measurements ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "cuda/RowMath.cuh"

using namespace tandem::cuda;

static __global__ void delayKernel(uint64_t duration) {
  uint64_t start = nanoseconds();
  while (nanoseconds() - start < duration) {
  }
}

namespace {
struct StartParams {
  uint64_t *counters[maxWorld];
};
} // namespace

static __global__ void startKernel(const __grid_constant__ StartParams p,
                                   int rank, int world, uint64_t *time) {
  // This rank's word lies on its own device; peers load it.
  uint64_t now = loadWord(p.counters[rank]) + 1;
  storeWord(p.counters[rank], now);
  for (int peer = 0; peer < world; ++peer)
    while (loadWord(p.counters[peer]) < now) {
    }
  *time = nanoseconds();
}

static __global__ void stampKernel(uint64_t *time) { *time = nanoseconds(); }

static __global__ void linkKernel(uint4 *to, const uint4 *from,
                                  uint64_t vectors) {
  uint64_t step = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < vectors; i += step)
    to[i] = from[i];
}

static __global__ void inverseRmsKernel(Length length, float epsilon,
                                        unsigned long long *different) {
  uint32_t step = gridDim.x * blockDim.x;
  for (uint64_t bits = blockIdx.x * blockDim.x + threadIdx.x;
       bits <= 0x7f800000u; bits += step) {
    float sum = __uint_as_float(static_cast<uint32_t>(bits));
    float quick = inverseRms(sum, length, epsilon);
    float mean = __fadd_rn(__fdiv_rn(sum, length.value), epsilon);
    float want = __frcp_rn(__fsqrt_rn(mean));
    if (__float_as_uint(quick) != __float_as_uint(want))
      atomicAdd(different, 1ull);
  }
}

void tandem::cuda::launchInverseRms(float length, float epsilon,
                                    uint64_t *different, cudaStream_t stream) {
  inverseRmsKernel<<<1024, 256, 0, stream>>>(
      {length, 1.0f / length}, epsilon,
      reinterpret_cast<unsigned long long *>(different));
}

void tandem::cuda::launchDelay(uint64_t duration, cudaStream_t stream) {
  delayKernel<<<1, 1, 0, stream>>>(duration);
}

void tandem::cuda::launchStart(uint64_t *const *counters, int rank, int world,
                               uint64_t *time, cudaStream_t stream) {
  StartParams p = {};
  for (int i = 0; i < world; ++i)
    p.counters[i] = counters[i];
  startKernel<<<1, 1, 0, stream>>>(p, rank, world, time);
}

void tandem::cuda::launchStamp(uint64_t *time, cudaStream_t stream) {
  stampKernel<<<1, 1, 0, stream>>>(time);
}

void tandem::cuda::launchLinkStores(void *to, const void *from, uint64_t bytes,
                                    uint32_t grid, cudaStream_t stream) {
  linkKernel<<<grid, 512, 0, stream>>>(
      static_cast<uint4 *>(to), static_cast<const uint4 *>(from), bytes / 16);
}

void tandem::cuda::launchNeighbour(void *to, const void *from, uint64_t bytes,
                                   cudaStream_t stream) {
  linkKernel<<<264, 256, 0, stream>>>(
      static_cast<uint4 *>(to), static_cast<const uint4 *>(from), bytes / 16);
}
