//===-- Memory.h - Device memory that ranks share ------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A rank's region is physical memory of its GPU with a file descriptor, which
// its peers map. The memory lives as long as anybody has it mapped, whatever
// happens to the rank that made it: nobody's stores can end in memory that was
// given to someone else.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_MEMORY_H
#define TANDEM_RUNTIME_CUDA_MEMORY_H

#include "Gpu.h"
#include "support/UniqueFd.h"

namespace tandem {
namespace cuda {

/// A mapping of shared device memory, own or a peer's. Unmapped when destroyed:
/// no kernel may use it then.
class SharedRegion {
public:
  SharedRegion() = default;
  SharedRegion(SharedRegion &&other) noexcept { *this = std::move(other); }
  SharedRegion &operator=(SharedRegion &&other) noexcept;
  SharedRegion(const SharedRegion &) = delete;
  SharedRegion &operator=(const SharedRegion &) = delete;
  ~SharedRegion() { reset(); }

  /// Takes at least `bytes` of the GPU's memory; `fd` is for the peers.
  Error allocate(const std::shared_ptr<const Gpu> &gpu, uint64_t bytes,
                 UniqueFd &fd);
  /// Maps a peer's memory, of `bytes` as its rank's `size` says.
  Error open(const std::shared_ptr<const Gpu> &gpu, int fd, uint64_t bytes);
  void reset();
  /// For a forked child, which has no mapping.
  void forget() { base = 0; }

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has it as a number.
  void *get() const { return reinterpret_cast<void *>(base); }
  /// Bytes that are mapped: a multiple of the GPU's granularity.
  uint64_t size() const { return bytes; }

private:
  Error map(CUmemGenericAllocationHandle handle, uint64_t granularity);

  std::shared_ptr<const Gpu> gpu;
  CUdeviceptr base = 0;
  uint64_t bytes = 0;
};

/// Bytes that `bytes` of shared memory take on this GPU.
Error sharedSize(const Gpu &gpu, uint64_t bytes, uint64_t &size);

/// Device memory that the runtime may still take, at most `limit` (0: none).
Error availableMemory(const Gpu &gpu, uint64_t limit, uint64_t &available,
                      const char *&why);

/// Plain device memory of one's own.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory() { reset(); }
  Error allocate(uint64_t bytes);
  void reset() {
    if (base)
      (void)cudaFree(base);
    base = nullptr;
  }
  void forget() { base = nullptr; }
  void *get() const { return base; }

private:
  void *base = nullptr;
};

/// Zeroed memory of the host that the device reads and writes.
class PinnedMemory {
public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;
  ~PinnedMemory() { reset(); }
  Error allocate(uint64_t bytes);
  void reset() {
    if (base)
      (void)cudaFreeHost(base);
    base = nullptr;
  }
  void forget() { base = nullptr; }
  void *get() const { return base; }
  /// Where the device finds it.
  void *onDevice() const { return device; }

private:
  void *base = nullptr;
  void *device = nullptr;
};

} // namespace cuda
} // namespace tandem

#endif
