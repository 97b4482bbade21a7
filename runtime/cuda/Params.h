//===-- Params.h - What is handed to the kernels ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_PARAMS_H
#define TANDEM_RUNTIME_CUDA_PARAMS_H

#include "Kernels.h"

namespace tandem {
namespace cuda {

/// A view in bytes.
struct Operand {
  char *data;
  int64_t stride;
  /// Every row begins at a multiple of 16 bytes. Decides how a row is loaded,
  /// never what is computed or sent.
  bool aligned;

  TANDEM_HD char *row(uint32_t index) const {
    return data + static_cast<int64_t>(index) * stride;
  }
};

/// A bias or gamma.
struct Scale {
  const void *data;
  int32_t dtype;
  bool aligned;
};

struct NormSpec {
  Scale gamma;
  int32_t rounding;
  float epsilon;
};

/// A row's length, and 1 / length rounded: means are quotients.
struct Length {
  float value;
  float inverse;
};

/// What follows the sum.
struct NormParams {
  Operand residual, out, residualOut, sumOut;
  Scale bias;
  NormSpec pre, norm;
  /// In elements, as the means' divisor.
  Length length;
  int32_t vectors;
  uint32_t rows;
};

/// A local norm.
struct LocalParams {
  Operand input;
  NormParams norm;
  uint64_t elements;
};

/// What pairKernel (Pair.cuh) needs of a call, close together.
struct PairParams {
  const Control *control;
  const char *input;
  int64_t inputStride;
  /// Of slot 0; the other's is `slotBytes` behind.
  char *outbox;
  const char *inbox;
  uint64_t slotBytes;
  const char *residual;
  int64_t residualStride;
  char *residualOut;
  int64_t residualOutStride;
  char *out;
  int64_t outStride;
  const char *gamma;
  const char *preGamma;
  Length length;
  float epsilon;
  float preEpsilon;
  int32_t rounding;
  int32_t preRounding;
  int32_t vectors;
  /// Of a block, but for the one that keeps the books.
  uint16_t warps;
  /// Blocks of a cluster that a row is spread over.
  uint16_t spread;
  uint32_t rows;
  /// Bytes of a row's lines.
  uint32_t rowLines;
  uint32_t hash;
  /// The block's that hold the row or its part of it, and the grid's blocks.
  uint32_t threads;
  uint32_t grid;
  const char *bias;
  char *sumOut;
  int64_t sumOutStride;
};

struct ExchangeParams {
  alignas(64) PairParams pair;
  char *regions[maxWorld];
  HostRecord *record;
  Layout layout;
  int32_t rank;
  int32_t world;
  uint32_t hash;
  uint32_t header[numHeaderWords];
  Operand input;
  NormParams norm;
  int32_t reduction;
  uint32_t rows;
  /// Pieces of a row, and vectors of the whole row (Plan).
  uint32_t pieces;
  int32_t rowVectors;
  RowShape shape;
  uint32_t rowsPerUnit;
  uint32_t units;
  /// Blocks whose last warp pushes.
  uint32_t pushers;
  /// Bytes of a bulk copy.
  uint32_t chunk;
  bool bulk;
  /// An output lies on the input: a row must be pushed before it is written.
  bool inPlace;
};

} // namespace cuda
} // namespace tandem

#endif
