//===-- Ranks.cpp - All ranks of a workspace in one process ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <cstring>

using namespace tandem::cuda;

std::string tandem::cuda::whyNoGpu(int devices) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess)
    return std::string("no GPU: ") + cudaGetErrorString(error);
  if (count < devices)
    return "needs " + std::to_string(devices) + " GPUs, there are " +
           std::to_string(count);
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b) {
      int can = 1;
      if (a != b)
        TANDEM_CHECK_CUDA(cudaDeviceCanAccessPeer(&can, a, b));
      if (!can)
        return "GPU " + std::to_string(a) + " can't access GPU " +
               std::to_string(b);
    }
  return std::string();
}

DeviceBuffer::DeviceBuffer(int device, size_t bytes)
    : bytes(bytes), device(device) {
  TANDEM_CHECK_CUDA(cudaSetDevice(device));
  void *memory = nullptr;
  TANDEM_CHECK_CUDA(cudaMalloc(&memory, bytes ? bytes : 1));
  data = static_cast<char *>(memory);
}

DeviceBuffer::~DeviceBuffer() {
  if (!data)
    return;
  cudaSetDevice(device);
  cudaFree(data);
}

Ranks::Ranks(int world, int devices, uint64_t capacity, uint32_t maxBlocks)
    : world(world), devices(devices) {
  for (int a = 0; a < devices; ++a) {
    TANDEM_CHECK_CUDA(cudaSetDevice(a));
    // Enabling it twice is an error that checkers report.
    static bool enabled[64] = {};
    for (int b = 0; b < devices && !enabled[a]; ++b)
      if (a != b)
        TANDEM_CHECK_CUDA(cudaDeviceEnablePeerAccess(b, 0));
    enabled[a] = enabled[a] || devices > 1;
    TANDEM_CHECK_CUDA(loadKernels(kernelFacts));
  }
  facts.world = static_cast<uint32_t>(world);
  facts.capacity = capacity;
  facts.multiprocessors = kernelFacts.multiprocessors;
  memcpy(facts.residentThreads, kernelFacts.residentThreads,
         sizeof(facts.residentThreads));
  memcpy(facts.pairThreads, kernelFacts.pairThreads, sizeof(facts.pairThreads));
  facts.clusterBlocks = kernelFacts.clusterBlocks;
  uint32_t perDevice = static_cast<uint32_t>((world + devices - 1) / devices);
  facts.maxBlocks = maxBlocks;
  if (!maxBlocks && perDevice > 1)
    facts.maxBlocks = facts.multiprocessors / perDevice;
  facts.wholeLines = true;
  facts.bulkCopies = kernelFacts.bulkCopies;
  facts.tuning = defaultTuning(facts.world, facts.bulkCopies);

  Layout layout = layOutRegion(facts.world, capacity);
  for (int rank = 0; rank < world; ++rank) {
    use(rank);
    regions.emplace_back(deviceOf(rank), layout.bytes);
    void *record = nullptr;
    TANDEM_CHECK_CUDA(
        cudaHostAlloc(&record, sizeof(HostRecord), cudaHostAllocMapped));
    records.push_back(static_cast<HostRecord *>(record));
    cudaStream_t stream;
    TANDEM_CHECK_CUDA(
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams.push_back(stream);
  }
  for (int rank = 0; rank < world; ++rank) {
    use(rank);
    Endpoint endpoint = {};
    endpoint.rank = rank;
    for (int peer = 0; peer < world; ++peer)
      endpoint.regions[peer] = regions[peer].get();
    void *record;
    TANDEM_CHECK_CUDA(cudaHostGetDevicePointer(&record, records[rank], 0));
    endpoint.record = static_cast<HostRecord *>(record);
    endpoint.layout = layout;
    endpoint.bulkCopies = facts.bulkCopies;
    endpoint.programmatic = kernelFacts.programmatic;
    endpoints.push_back(endpoint);
  }
  reset();
}

void Ranks::reset() {
  for (int rank = 0; rank < world; ++rank) {
    use(rank);
    memset(records[rank], 0, sizeof(HostRecord));
    TANDEM_CHECK_CUDA(cudaMemset(regions[rank].get(), 0, regions[rank].size()));
    Control control = {};
    control.epoch = firstEpoch;
    control.deadline = uint64_t(10) * 1000000000;
    TANDEM_CHECK_CUDA(cudaMemcpy(regions[rank].get(), &control, sizeof(control),
                                 cudaMemcpyHostToDevice));
    TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
  }
}

void Ranks::setDeadline(uint64_t nanoseconds) {
  for (int rank = 0; rank < world; ++rank) {
    use(rank);
    TANDEM_CHECK_CUDA(
        cudaMemcpy(&reinterpret_cast<Control *>(regions[rank].get())->deadline,
                   &nanoseconds, sizeof(nanoseconds), cudaMemcpyHostToDevice));
  }
}

Ranks::~Ranks() {
  for (int rank = 0; rank < world; ++rank) {
    cudaSetDevice(deviceOf(rank));
    cudaStreamSynchronize(streams[rank]);
    cudaStreamDestroy(streams[rank]);
    cudaFreeHost(records[rank]);
  }
}

void Ranks::synchronize() {
  for (int rank = 0; rank < world; ++rank) {
    use(rank);
    TANDEM_CHECK_CUDA(cudaStreamSynchronize(streams[rank]));
  }
}
