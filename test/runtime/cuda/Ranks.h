//===-- Ranks.h - All ranks of a workspace in one process -------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// For tests and measurements of the kernels alone: every rank is a stream, on
// the machine's GPUs in turn, so that worlds are possible that are larger than
// the machine. Grids are bounded so that those of all ranks of a device fit.

#ifndef TANDEM_TEST_RUNTIME_CUDA_RANKS_H
#define TANDEM_TEST_RUNTIME_CUDA_RANKS_H

#include "cuda/Kernels.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace tandem {
namespace cuda {

#define TANDEM_CHECK_CUDA(call)                                                \
  do {                                                                         \
    cudaError_t error_ = (call);                                               \
    if (error_ != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,            \
              cudaGetErrorString(error_));                                     \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/// Why the kernels can't be run here; empty if they can.
std::string whyNoGpu(int devices);

/// Device memory that is freed with it.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(int device, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer &&other) noexcept { swap(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept {
    swap(other);
    return *this;
  }
  char *get() const { return data; }
  size_t size() const { return bytes; }

private:
  void swap(DeviceBuffer &other) {
    std::swap(data, other.data);
    std::swap(bytes, other.bytes);
    std::swap(device, other.device);
  }
  char *data = nullptr;
  size_t bytes = 0;
  int device = 0;
};

class Ranks {
public:
  /// `devices` are used in turn. `maxBlocks` of 0: as many as fit jointly.
  Ranks(int world, int devices, uint64_t capacity, uint32_t maxBlocks = 0);
  ~Ranks();

  /// Zeroes the shared memory and begins at firstEpoch, as a host does.
  void reset();
  void setDeadline(uint64_t nanoseconds);

  int deviceOf(int rank) const { return rank % devices; }
  void use(int rank) const { TANDEM_CHECK_CUDA(cudaSetDevice(deviceOf(rank))); }
  cudaStream_t stream(int rank) const { return streams[rank]; }
  const Endpoint &endpoint(int rank) const { return endpoints[rank]; }
  const HostRecord &record(int rank) const { return *records[rank]; }
  HostRecord &record(int rank) { return *records[rank]; }

  /// Waits for all ranks; the first CUDA error.
  void synchronize();

  const int world;
  const int devices;
  Facts facts = {};
  KernelFacts kernelFacts = {};

private:
  std::vector<DeviceBuffer> regions;
  std::vector<HostRecord *> records;
  std::vector<Endpoint> endpoints;
  std::vector<cudaStream_t> streams;
};

/// Kernels of the tests' own.
/// Keeps a stream busy.
void launchDelay(uint64_t nanoseconds, cudaStream_t stream);
/// All ranks go on together: `counters` holds a word for each rank, all of
/// which every rank can reach; `mine` the time at which this one went on.
void launchStart(uint64_t *const *counters, int rank, int world, uint64_t *time,
                 cudaStream_t stream);
/// Counts the sums of squares, of all that there are, whose inverse root mean
/// square isn't what rounding each operation gives.
void launchInverseRms(float length, float epsilon, uint64_t *different,
                      cudaStream_t stream);
/// Writes the time.
void launchStamp(uint64_t *time, cudaStream_t stream);
/// Stores `bytes` to a peer's memory, 16 bytes a thread, and nothing else.
void launchLinkStores(void *to, const void *from, uint64_t bytes, uint32_t grid,
                      cudaStream_t stream);
/// A kernel that waits for its input like any other: reads and writes `bytes`.
void launchNeighbour(void *to, const void *from, uint64_t bytes,
                     cudaStream_t stream);

} // namespace cuda
} // namespace tandem

#endif
