//===-- CpuDevice.h - The CPU as a device --------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_CPUDEVICE_H
#define TANDEM_RUNTIME_CPU_CPUDEVICE_H

#include "workspace/Device.h"

namespace tandem {

/// All ranks share one file in memory, which rank 0 makes.
std::shared_ptr<Device> makeCpuDevice();

} // namespace tandem

#endif
