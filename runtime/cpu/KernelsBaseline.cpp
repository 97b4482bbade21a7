//===-- KernelsBaseline.cpp - The arithmetic for any processor ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define TANDEM_KERNELS baselineKernels
#define TANDEM_KERNELS_NAME "baseline"
#include "KernelsImpl.inc"
