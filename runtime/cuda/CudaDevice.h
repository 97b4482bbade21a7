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

/// Opens GPU `index` of those that this process sees, and loads our kernels.
/// UNSUPPORTED, with the reason, where there is no driver or no GPU.
Error makeCudaDevice(int index, std::shared_ptr<Device> &device);

/// Finds out who the ranks of an ncclComm_t are and where they meet. Collective
/// over them. `rank` and `world` are those of the communicator.
Error meetThroughNccl(Device &device, void *ncclComm, const Settings &settings,
                      Deadline deadline, int &rank, int &world,
                      Meeting &meeting);

} // namespace tandem

#endif
