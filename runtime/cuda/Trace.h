//===-- Trace.h - NVTX ranges, where there is NVTX ------------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_TRACE_H
#define TANDEM_RUNTIME_CUDA_TRACE_H

// Headers alone, which look for a tool when first used; without one a range is
// a load and a branch.
#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_NVTX 1
#endif
#endif

namespace tandem {
namespace cuda {

/// A range of the host's time in a profile.
class Trace {
public:
#ifdef TANDEM_NVTX
  explicit Trace(const char *name) { nvtxRangePushA(name); }
  ~Trace() { nvtxRangePop(); }
#else
  explicit Trace(const char *) {}
  ~Trace() {}
#endif
  Trace(const Trace &) = delete;
  Trace &operator=(const Trace &) = delete;
};

} // namespace cuda
} // namespace tandem

#endif
