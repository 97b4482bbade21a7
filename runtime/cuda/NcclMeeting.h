//===-- NcclMeeting.h - How the ranks of an ncclComm_t meet --- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_NCCLMEETING_H
#define TANDEM_RUNTIME_CUDA_NCCLMEETING_H

#include "workspace/Device.h"

namespace tandem {

/// Finds out who the ranks of an ncclComm_t are and where they meet. Collective
/// over them. `rank` and `world` are those of the communicator.
Error meetThroughNccl(Device &device, void *ncclComm, const Settings &settings,
                      Deadline deadline, int &rank, int &world,
                      Meeting &meeting);

} // namespace tandem

#endif
