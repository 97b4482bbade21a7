//===-- Kernels.h - The arithmetic of the CPU backend --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_KERNELS_H
#define TANDEM_RUNTIME_CPU_KERNELS_H

#include <stdint.h>

namespace tandem {

/// A tandem_norm_spec whose epsilon is in the type it is used in.
struct NormParams {
  const void *gamma;
  int32_t gammaType;
  int32_t rounding;
  float epsilon;
};

/// One row of the family from the sum on; see tandem_add_rms_norm. Absent
/// operands are null. An output may be the very memory of an input.
struct NormRow {
  const void *x;
  const void *bias;
  const void *residual;
  NormParams pre;
  NormParams norm;
  void *y;
  void *r;
  void *s;
  int64_t n;
};

/// One instruction set's kernels, by tandem_dtype. All sets give the same bits.
struct Kernels {
  const char *name;
  /// dst[i] = rn(srcs[0][i] op srcs[1][i] op ...), in f32 and in this order.
  /// dst may be one of the sources.
  void (*reduce[3])(int32_t reduction, const void *const *srcs, int world,
                    void *dst, int64_t n);
  void (*norm[3])(const NormRow &row);
};

extern const Kernels baselineKernels;
#if defined(TANDEM_RUNTIME_X86)
extern const Kernels avx2Kernels;
#endif

/// Returns the best set that this processor has.
const Kernels &bestKernels();

} // namespace tandem

#endif
