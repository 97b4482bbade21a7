//===-- Gpu.cpp - A GPU as this process sees it ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu.h"

#include <cstdio>

using namespace tandem;
using namespace tandem::cuda;

Error cuda::cudaFailure(cudaError_t code, const char *action) {
  if (code == cudaSuccess)
    return Error();
  (void)cudaGetLastError();
  tandem_status status = TANDEM_STATUS_SYSTEM;
  if (code == cudaErrorMemoryAllocation)
    status = TANDEM_STATUS_OUT_OF_MEMORY;
  else if (code == cudaErrorNotSupported ||
           code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice ||
           code == cudaErrorInvalidDevice ||
           code == cudaErrorNoKernelImageForDevice)
    status = TANDEM_STATUS_UNSUPPORTED;
  return makeError(status, -1, "%s: %s (%s)", action, cudaGetErrorName(code),
                   cudaGetErrorString(code));
}

Error Driver::failure(CUresult code, const char *action) const {
  if (code == CUDA_SUCCESS)
    return Error();
  const char *name = nullptr;
  if (!errorName || errorName(code, &name) != CUDA_SUCCESS || !name)
    name = "an unknown error";
  tandem_status status = TANDEM_STATUS_SYSTEM;
  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    status = TANDEM_STATUS_OUT_OF_MEMORY;
  else if (code == CUDA_ERROR_NOT_SUPPORTED)
    status = TANDEM_STATUS_UNSUPPORTED;
  return makeError(status, -1, "%s: %s", action, name);
}

/// Finds one function of the driver; false where it is too old.
template <typename Function>
static bool find(const char *name, Function &function) {
  void *address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  // Those of CUDA 11.3 and before; no newer meaning of a name is wanted.
  cudaError_t code = cudaGetDriverEntryPointByVersion(
      name, &address, 11030, cudaEnableDefault, &found);
#else
  cudaError_t code =
      cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (code != cudaSuccess || found != cudaDriverEntryPointSuccess || !address) {
    (void)cudaGetLastError();
    return false;
  }
  function = reinterpret_cast<Function>(address);
  return true;
}

static bool load(Driver &driver) {
  bool all = find("cuGetErrorName", driver.errorName);
  all &= find("cuDeviceGetAttribute", driver.deviceAttribute);
  all &= find("cuPointerGetAttribute", driver.pointerAttribute);
  all &= find("cuMemCreate", driver.memCreate);
  all &= find("cuMemRelease", driver.memRelease);
  all &= find("cuMemAddressReserve", driver.memAddressReserve);
  all &= find("cuMemAddressFree", driver.memAddressFree);
  all &= find("cuMemMap", driver.memMap);
  all &= find("cuMemUnmap", driver.memUnmap);
  all &= find("cuMemSetAccess", driver.memSetAccess);
  all &= find("cuMemExportToShareableHandle", driver.memExport);
  all &= find("cuMemImportFromShareableHandle", driver.memImport);
  all &= find("cuMemGetAllocationGranularity", driver.memGranularity);
  return all;
}

/// Why this GPU's memory can't be shared; empty: it can.
static std::string findObstacle(const Gpu &gpu, bool haveDriver) {
  if (!haveDriver)
    return "the driver has no virtual memory management";
  int mapped = 0, descriptors = 0;
  const Driver &driver = gpu.driver;
  if (driver.deviceAttribute(
          &mapped, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
          gpu.index) != CUDA_SUCCESS ||
      !mapped)
    return "the GPU has no virtual memory management";
  if (driver.deviceAttribute(
          &descriptors,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
          gpu.index) != CUDA_SUCCESS ||
      !descriptors)
    return "the GPU's memory can't be handed on by file descriptor";
  return std::string();
}

Error cuda::openGpu(int index, std::shared_ptr<const Gpu> &out) {
  int count = 0;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "this machine has no CUDA driver (libcuda.so.1)");
  if (cudaError_t code = cudaGetDeviceCount(&count)) {
    Error error = cudaFailure(code, "looking for GPUs");
    error.status = TANDEM_STATUS_UNSUPPORTED;
    return error;
  }
  if (index < 0 || index >= count)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "device_index is %d, this process sees %d GPU%s", index,
                     count, count == 1 ? "" : "s");
  auto gpu = std::make_shared<Gpu>();
  gpu->index = index;
  GpuScope scope(*gpu);
  cudaDeviceProp properties;
  cudaError_t code = scope.error;
  if (code == cudaSuccess)
    code = cudaGetDeviceProperties(&properties, index);
  // Makes the context.
  if (code == cudaSuccess)
    code = cudaFree(nullptr);
  if (code != cudaSuccess) {
    char action[64];
    snprintf(action, sizeof(action), "opening GPU %d", index);
    return cudaFailure(code, action);
  }
  memcpy(gpu->uuid.bytes, properties.uuid.bytes, sizeof(gpu->uuid.bytes));
  snprintf(gpu->name, sizeof(gpu->name), "%.63s", properties.name);
  gpu->sms = properties.multiProcessorCount;
  gpu->capability = properties.major * 10 + properties.minor;
  bool haveDriver = load(gpu->driver);
  gpu->noSharing = findObstacle(*gpu, haveDriver);
  out = std::move(gpu);
  return Error();
}

int cuda::findGpu(const Uuid &uuid) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess)
    count = 0;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) == cudaSuccess &&
        memcmp(properties.uuid.bytes, uuid.bytes, sizeof(uuid.bytes)) == 0)
      return i;
  }
  (void)cudaGetLastError();
  return -1;
}
