//===-- MeasureKernels.h - Kernels for measuring ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONBENCH_MEASUREKERNELS_H
#define TANDEM_TOOLS_FUSIONBENCH_MEASUREKERNELS_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem {
namespace measure {

constexpr int maxRanks = 8;

/// Keeps a stream busy.
void launchDelay(uint64_t nanoseconds, cudaStream_t stream);

/// All ranks go on together: `counters` holds a word for each rank, which every
/// rank's device can reach, and this rank's is advanced by one. `time` gets the
/// nanoseconds at which this rank went on, on its own clock. Give up after ten
/// seconds.
void launchStart(uint64_t *const *counters, int rank, int world, uint64_t *time,
                 cudaStream_t stream);

/// Writes the time.
void launchStamp(uint64_t *time, cudaStream_t stream);

/// Copies `bytes` (a multiple of 16) with `grid` blocks: an ordinary kernel, to
/// a peer's memory or to the device's own.
void launchCopy(void *to, const void *from, uint64_t bytes, uint32_t grid,
                cudaStream_t stream);

} // namespace measure
} // namespace tandem

#endif
