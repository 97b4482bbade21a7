//===-- CudaDevice.h - A GPU as a device ---------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Needs no CUDA header, so that the rest of the runtime can be without.

#ifndef TANDEM_RUNTIME_CUDA_CUDADEVICE_H
#define TANDEM_RUNTIME_CUDA_CUDADEVICE_H

#include "workspace/Device.h"

namespace tandem {
namespace cuda {
struct Gpu;
} // namespace cuda

/// Opens GPU `index` of those that this process sees, and loads our kernels.
/// UNSUPPORTED, with the reason, where there is no driver or no GPU.
Error makeCudaDevice(int index, std::shared_ptr<Device> &device);

/// The GPU of a device whose kind is TANDEM_DEVICE_CUDA.
const std::shared_ptr<const cuda::Gpu> &gpuOf(const Device &device);

} // namespace tandem

#endif
