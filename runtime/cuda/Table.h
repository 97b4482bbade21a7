//===-- Table.h - The kernels by element type and shape ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_TABLE_H
#define TANDEM_RUNTIME_CUDA_TABLE_H

#include "Params.h"

namespace tandem {
namespace cuda {

using ExchangeKernel = void (*)(const ExchangeParams);
using LocalKernel = void (*)(const LocalParams);
using ReduceKernel = void (*)(const char *, uint32_t, char *, uint64_t,
                              int32_t);

/// By the logarithm of the pairs of vectors a thread holds: 1, 2, and 4, which
/// only f32 has (maxRowVectorsOf).
constexpr int numShapes = 3;
/// Of Pair.cuh's kernels: norms by quickKind, and the sum alone; shapes of 1
/// and 2 pairs.
constexpr int quickKind(bool sandwich, bool more, bool wide) {
  return (sandwich ? 1 : 0) + (more ? 2 : 0) + (wide ? 4 : 0);
}
constexpr int quickSum = 8;
/// Whether such a kernel keeps residuals in shared memory, not having the
/// registers; a few kilobytes, which never decide how many blocks fit.
TANDEM_HD constexpr bool keepsResidual(bool sandwich, bool wide) {
  return sandwich || wide;
}
/// Dynamic shared memory of a quick kernel's block, if a row isn't spread.
constexpr uint32_t keptBytesOf(int kind, uint32_t pairs, uint32_t threads) {
  bool keeps = kind != quickSum && keepsResidual(kind & 1, kind & 4);
  return keeps ? 2 * pairs * threads * vectorBytes : 0;
}
constexpr int numQuickKinds = 9;
constexpr int numQuickShapes = 2;

/// The kernels of one family and element type: each instance is a file of its
/// own (Instance.cu.in), so that they compile side by side.
template <class T>
struct LinesTable {
  static const ExchangeKernel whole[numShapes];
  static const ExchangeKernel elements[numShapes];
};
template <class T>
struct OneStepTable {
  static const ExchangeKernel kernels[numShapes];
};
/// For worlds of two: the same, quicker.
template <class T>
struct PairTable {
  static const ExchangeKernel quick[numQuickKinds][numQuickShapes];
  /// One pair a thread, rows spread over clusters; none for sums alone.
  static const ExchangeKernel spread[numQuickKinds];
  static const ExchangeKernel lines[numShapes];
  static const ExchangeKernel oneStep[numShapes];
};
template <class T>
struct TwoStepTable {
  static const ExchangeKernel kernels[numShapes];
};
template <class T>
struct LocalTable {
  static const LocalKernel norm[numShapes];
  static const LocalKernel genericNorm;
  static const ReduceKernel reduce;
};

} // namespace cuda
} // namespace tandem

#endif
