//===-- Gpu.h - A GPU as this process sees it ----------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_GPU_H
#define TANDEM_RUNTIME_CUDA_GPU_H

#include "support/Error.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace tandem {
namespace cuda {

/// Says what failed and why: "ACTION: NAME (text)". Clears the runtime's last
/// error, so that the caller's own checks don't find ours.
Error cudaFailure(cudaError_t code, const char *action);

/// The driver's functions that the runtime API has no counterpart of, found
/// through the static CUDA runtime: nothing here links libcuda, so that the
/// library loads where there is no driver.
struct Driver {
  decltype(&cuMemCreate) memCreate = nullptr;
  decltype(&cuMemRelease) memRelease = nullptr;
  decltype(&cuMemAddressReserve) memAddressReserve = nullptr;
  decltype(&cuMemAddressFree) memAddressFree = nullptr;
  decltype(&cuMemMap) memMap = nullptr;
  decltype(&cuMemUnmap) memUnmap = nullptr;
  decltype(&cuMemSetAccess) memSetAccess = nullptr;
  decltype(&cuMemExportToShareableHandle) memExport = nullptr;
  decltype(&cuMemImportFromShareableHandle) memImport = nullptr;
  decltype(&cuMemGetAllocationGranularity) memGranularity = nullptr;
  decltype(&cuDeviceGetAttribute) deviceAttribute = nullptr;
  decltype(&cuPointerGetAttribute) pointerAttribute = nullptr;
  decltype(&cuGetErrorName) errorName = nullptr;

  Error failure(CUresult code, const char *action) const;
};

struct Uuid {
  uint8_t bytes[16];
  bool operator==(const Uuid &other) const {
    return memcmp(bytes, other.bytes, sizeof(bytes)) == 0;
  }
};

/// One GPU. Unchanging once made.
struct Gpu {
  int index = 0;
  Uuid uuid = {};
  char name[64] = {};
  int sms = 0;
  int capability = 0;
  Driver driver;
  /// Why memory of this GPU can't be shared between processes; empty: it can.
  std::string noSharing;
};

/// Opens GPU `index` of those that this process sees. UNSUPPORTED, with the
/// reason, where there is no driver, no GPU or none of that index.
Error openGpu(int index, std::shared_ptr<const Gpu> &gpu);

/// The index of the GPU with this UUID among those this process sees; -1: it is
/// not among them.
int findGpu(const Uuid &uuid);

/// Makes a GPU the thread's current one for a while.
class GpuScope {
public:
  explicit GpuScope(const Gpu &gpu) {
    if (cudaGetDevice(&before) == cudaSuccess && before == gpu.index)
      before = -1;
    else
      error = cudaSetDevice(gpu.index);
  }
  GpuScope(const GpuScope &) = delete;
  GpuScope &operator=(const GpuScope &) = delete;
  ~GpuScope() {
    if (before >= 0)
      (void)cudaSetDevice(before);
  }
  cudaError_t error = cudaSuccess;

private:
  int before = -1;
};

/// Lets this thread call CUDA while another captures a graph: nothing that is
/// called in its scope touches a stream that a caller could capture.
class RelaxedCapture {
public:
  RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};

} // namespace cuda
} // namespace tandem

#endif
