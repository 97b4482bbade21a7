//===-- Memory.cpp - Device memory that ranks share -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include <utility>

using namespace tandem;
using namespace tandem::cuda;

static CUmemAllocationProp propertiesOf(const Gpu &gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu.index;
  return properties;
}

static Error granularityOf(const Gpu &gpu, uint64_t &granularity) {
  CUmemAllocationProp properties = propertiesOf(gpu);
  size_t least = 0;
  CUresult code = gpu.driver.memGranularity(&least, &properties,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  granularity = least;
  if (code == CUDA_SUCCESS && least == 0)
    code = CUDA_ERROR_UNKNOWN;
  return gpu.driver.failure(code, "asking for the granularity of memory");
}

Error cuda::sharedSize(const Gpu &gpu, uint64_t bytes, uint64_t &size) {
  uint64_t granularity;
  if (Error e = granularityOf(gpu, granularity))
    return e;
  size = (bytes + granularity - 1) / granularity * granularity;
  return Error();
}

SharedRegion &SharedRegion::operator=(SharedRegion &&other) noexcept {
  reset();
  gpu = std::move(other.gpu);
  base = std::exchange(other.base, 0);
  bytes = std::exchange(other.bytes, 0);
  return *this;
}

/// Maps a handle where there is room. The handle stays the caller's.
Error SharedRegion::map(CUmemGenericAllocationHandle handle,
                        uint64_t granularity) {
  const Driver &driver = gpu->driver;
  CUdeviceptr at = 0;
  if (CUresult code = driver.memAddressReserve(&at, bytes, granularity, 0, 0))
    return driver.failure(code, "reserving addresses for shared memory");
  CUresult code = driver.memMap(at, bytes, 0, handle, 0);
  if (code == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu->index;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    code = driver.memSetAccess(at, bytes, &access, 1);
    if (code != CUDA_SUCCESS)
      (void)driver.memUnmap(at, bytes);
  }
  if (code != CUDA_SUCCESS) {
    (void)driver.memAddressFree(at, bytes);
    return driver.failure(code, "mapping shared memory");
  }
  base = at;
  return Error();
}

Error SharedRegion::allocate(const std::shared_ptr<const Gpu> &onGpu,
                             uint64_t atLeast, UniqueFd &fd) {
  reset();
  gpu = onGpu;
  const Driver &driver = gpu->driver;
  uint64_t granularity;
  if (Error e = granularityOf(*gpu, granularity))
    return e;
  bytes = (atLeast + granularity - 1) / granularity * granularity;
  CUmemAllocationProp properties = propertiesOf(*gpu);
  CUmemGenericAllocationHandle handle;
  if (CUresult code = driver.memCreate(&handle, bytes, &properties, 0))
    return driver.failure(code, "taking shared memory");
  int shown = -1;
  Error error = driver.failure(
      driver.memExport(&shown, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                       0),
      "exporting shared memory");
  if (!error) {
    fd.reset(shown);
    error = map(handle, granularity);
  }
  // The mapping and the descriptor keep the memory.
  (void)driver.memRelease(handle);
  if (error)
    fd.reset();
  return error;
}

Error SharedRegion::open(const std::shared_ptr<const Gpu> &onGpu, int fd,
                         uint64_t size) {
  reset();
  gpu = onGpu;
  const Driver &driver = gpu->driver;
  uint64_t granularity;
  if (Error e = granularityOf(*gpu, granularity))
    return e;
  bytes = size;
  CUmemGenericAllocationHandle handle;
  if (CUresult code = driver.memImport(
          &handle,
          // NOLINTNEXTLINE(performance-no-int-to-ptr): as the driver wants it.
          reinterpret_cast<void *>(static_cast<intptr_t>(fd)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return driver.failure(code, "importing a peer's memory");
  Error error = map(handle, granularity);
  (void)driver.memRelease(handle);
  return error;
}

void SharedRegion::reset() {
  if (base) {
    (void)gpu->driver.memUnmap(base, bytes);
    (void)gpu->driver.memAddressFree(base, bytes);
  }
  base = 0;
}

Error cuda::availableMemory(const Gpu &gpu, uint64_t limit, uint64_t &available,
                            const char *&why) {
  GpuScope scope(gpu);
  size_t left = 0, total = 0;
  if (cudaError_t code = cudaMemGetInfo(&left, &total))
    return cudaFailure(code, "asking for free memory");
  available = left;
  why = "free on the GPU";
  if (limit != 0 && limit < available) {
    available = limit;
    why = "allowed by TANDEM_MEMORY_LIMIT";
  }
  return Error();
}

Error DeviceMemory::allocate(uint64_t bytes) {
  return cudaFailure(cudaMalloc(&base, bytes), "taking device memory");
}

Error PinnedMemory::allocate(uint64_t bytes) {
  if (cudaError_t code = cudaHostAlloc(
          &base, bytes, cudaHostAllocMapped | cudaHostAllocPortable)) {
    base = nullptr;
    return cudaFailure(code, "taking pinned memory");
  }
  memset(base, 0, bytes);
  return cudaFailure(cudaHostGetDevicePointer(&device, base, 0),
                     "mapping pinned memory");
}
