//===-- KernelsAvx512.cpp - The arithmetic for AVX-512 --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define TANDEM_KERNELS avx512Kernels
#define TANDEM_KERNELS_NAME "avx512"
#include "KernelsImpl.inc"
