//===-- KernelsAvx2.cpp - The arithmetic for AVX2 -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define TANDEM_KERNELS avx2Kernels
#define TANDEM_KERNELS_NAME "avx2"
#include "KernelsImpl.inc"
