//===-- Kernels.cpp - Choice of the instruction set -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

using namespace tandem;

const Kernels &tandem::bestKernels() {
#if defined(TANDEM_RUNTIME_X86)
  // The processor's features are in libgcc's own table; reading it costs a
  // load.
  if (__builtin_cpu_supports("avx2"))
    return avx2Kernels;
#endif
  return baselineKernels;
}
