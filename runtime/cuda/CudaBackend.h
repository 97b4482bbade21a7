//===-- CudaBackend.h - The CUDA backend of a workspace ------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Carries calls out by one of four ways to a sum, all chosen by what the ranks
// agreed on and by the call's shape and flags:
//   fused    one kernel of ours through the shared regions
//   ordered  the same kernels in parts: rank-ordered sums for the fallback
//   gather   ncclAllGather and a rank-ordered sum on each rank
//   NCCL     ncclAllReduce
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDABACKEND_H
#define TANDEM_RUNTIME_CUDA_CUDABACKEND_H

#include "Defaults.h"
#include "HostSegment.h"
#include "Kernels.h"
#include "Memory.h"
#include "Monitor.h"
#include "Nccl.h"
#include "OwnStream.h"
#include "comm/Communicator.h"
#include "cpu/Memory.h"
#include "workspace/Backend.h"
#include "workspace/GroupFailure.h"

#include <functional>

namespace tandem {
namespace cuda {

/// What a rank of a workspace holds on its device and host.
struct Resources {
  std::shared_ptr<const Gpu> gpu;
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Monitor> monitor;

  /// What the ranks agreed on.
  Facts facts = {};
  Defaults defaults = Defaults::Conservative;
  /// There are shared regions.
  bool direct = false;
  /// The longest row that a norm may have, in bytes.
  uint64_t rowBytes = 0;
  uint64_t fusedBytes = 0;
  int64_t timeoutMs = 0;
  bool programmatic = false;
  bool checkCalls = false;
  std::string hangDump;

  /// One's own and the peers', by rank.
  SharedRegion regions[maxWorld];
  Endpoint endpoint = {};
  DeviceMemory scratch;
  uint64_t scratchBytes = 0;
  PinnedMemory pinned;
  SharedMapping host;
  /// For what is done on the device besides calls.
  OwnStream ownStream;

  std::shared_ptr<NcclComm> nccl;
  /// Gives the place of `nccl` back.
  std::function<void()> releaseNccl;

  Resources() = default;
  Resources(const Resources &) = delete;
  Resources &operator=(const Resources &) = delete;
  ~Resources();
  /// For a forked child.
  void forget();

  /// Of one's own region, if there are any.
  Control *control() const {
    return static_cast<Control *>(regions[comm->rank].get());
  }
  HostSegment *segment() const {
    return static_cast<HostSegment *>(host.get());
  }
  /// What `pinned` holds.
  struct Page {
    HostRecord record;
    /// Where the device's count of calls is copied to.
    uint64_t epoch;
  };
  Page *page() const { return static_cast<Page *>(pinned.get()); }
  HostRecord *record() const { return page() ? &page()->record : nullptr; }
};

/// `failure` must outlive it.
std::unique_ptr<Backend> makeCudaBackend(std::unique_ptr<Resources> resources,
                                         GroupFailure &failure);

/// Bytes of scratch of one's own: for what isn't contiguous, for gathered
/// parts, and for sums with no other place.
uint64_t scratchBytesFor(int world, uint64_t rowBytes, uint64_t askedBytes);

} // namespace cuda
} // namespace tandem

#endif
