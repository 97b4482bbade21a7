//===-- CpuBackend.h - The CPU backend of a workspace --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_CPUBACKEND_H
#define TANDEM_RUNTIME_CPU_CPUBACKEND_H

#include "Layout.h"
#include "comm/Communicator.h"
#include "workspace/Backend.h"
#include "workspace/GroupFailure.h"

#include <memory>

namespace tandem {

/// Maps the group's shared memory (`fd`, unused in a world of one) and takes
/// this rank's own. `rowBytes` bounds the rows of norms. `failure` must outlive
/// it.
Error createCpuBackend(const std::shared_ptr<Communicator> &comm,
                       const Layout &layout, uint64_t rowBytes, int fd,
                       int64_t timeoutMs, GroupFailure &failure,
                       std::unique_ptr<Backend> &backend);

/// Row by row, on this rank alone; needs no workspace.
void addRmsNormOnCpu(const tandem_norm_args &args);

} // namespace tandem

#endif
