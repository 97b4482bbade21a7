//===-- HostSegment.h - What ranks share on their host -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_HOSTSEGMENT_H
#define TANDEM_RUNTIME_CUDA_HOSTSEGMENT_H

#include "cpu/Layout.h"

namespace tandem {
namespace cuda {

/// The last collective call that a rank launched, for the hang dump. Written by
/// the thread that calls, read by anybody: `sequence` is odd meanwhile.
struct LastCall {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> path;
  std::atomic<uint64_t> call;
  std::atomic<int64_t> tokens;
  std::atomic<int64_t> hidden;
  /// dtype | kind << 8 | captured << 16
  std::atomic<uint32_t> what;
  std::atomic<int32_t> pid;
  /// On the host's monotonic clock.
  std::atomic<int64_t> atNs;
};

struct alignas(lineBytes) HostLine {
  /// 1 once the rank has destroyed its workspace and its calls are done.
  std::atomic<uint32_t> left;
  LastCall last;
};

/// One for a workspace, in memory that rank 0 makes. Never touched by a device.
struct HostSegment {
  uint64_t magic;
  uint32_t world;
  uint32_t reserved;
  FailureRecord failure;
  HostLine ranks[1];

  static uint64_t bytes(int world) {
    uint64_t size =
        sizeof(HostSegment) + uint64_t(world - 1) * sizeof(HostLine);
    return (size + 4095) / 4096 * 4096;
  }
};
constexpr uint64_t hostSegmentMagic = 0x4755434d45444e54;

} // namespace cuda
} // namespace tandem

#endif
