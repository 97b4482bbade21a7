//===-- Local.cuh - Norms and sums without peers ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_LOCAL_CUH
#define TANDEM_RUNTIME_CUDA_LOCAL_CUH

#include "Lines.cuh"

namespace tandem {
namespace cuda {

/// tandem_add_rms_norm, a row a block at a time.
template <class T, int P>
__global__ void __maxnreg__(P == 1 ? 72 : registersFor(P))
    normKernel(const __grid_constant__ LocalParams p) {
  __shared__ Partials partials;
  int32_t lane = threadIdx.x & 31;
  int32_t warp = threadIdx.x >> 5;
  Holding<P> holding = holdingOf<P>(
      p.norm.vectors, warp, static_cast<int32_t>(blockDim.x >> 5), lane);
  touchParams(p, p.norm.rows);
  clearPartials(partials, blockDim.x);
  waitForPreviousKernel();
  uint32_t touched = touchGammas<T>(p.norm);
  uint32_t turn = 0;
  for (uint32_t row = blockIdx.x; row < p.norm.rows; row += gridDim.x) {
    uint4 s[2 * P], residual[2 * P];
    loadRow<T, P>(p.input, p.input.row(row), holding, p.norm.vectors, s);
    if (p.norm.residual.data)
      loadRow<T, P>(p.norm.residual, p.norm.residual.row(row), holding,
                    p.norm.vectors, residual);
    // Makes NaNs canonical, as if this were a sum.
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      float values[T::perVector];
      T::unpack(s[i], values);
      s[i] = T::pack(values);
    }
    finishRow<T, P>(p.norm, row, holding, s, residual, partials, turn,
                    blockDim.x);
  }
  endBlock();
  keepWords(touched, p.norm.rows);
}

//===----------------------------------------------------------------------===//
// Rows of any length, an element at a time
//===----------------------------------------------------------------------===//

template <class T>
__device__ __forceinline__ float elementOf(const void *row, uint64_t i) {
  return T::widen(static_cast<const typename T::Storage *>(row)[i]);
}
template <class T>
__device__ __forceinline__ void setElement(void *row, uint64_t i, float value) {
  static_cast<typename T::Storage *>(row)[i] =
      static_cast<typename T::Storage>(T::round(value));
}
__device__ __forceinline__ float scaleOf(const Scale &scale, uint64_t i) {
  if (scale.dtype == 0)
    return elementOf<F32>(scale.data, i);
  return scale.dtype == 1 ? elementOf<F16>(scale.data, i)
                          : elementOf<BF16>(scale.data, i);
}

template <class T>
__device__ __forceinline__ float
scaledElement(float v, float inverse, const NormSpec &norm, uint64_t i) {
  v *= inverse;
  if (norm.rounding == 0)
    v = roundTo<T>(v);
  return roundTo<T>(v * scaleOf(norm.gamma, i));
}

template <class T>
__global__ void genericNormKernel(const __grid_constant__ LocalParams p) {
  __shared__ Partials partials;
  clearPartials(partials, blockDim.x);
  waitForPreviousKernel();
  const NormParams &a = p.norm;
  uint32_t turn = 0;
  for (uint32_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const char *x = p.input.row(row);
    auto biased = [&](uint64_t i) {
      float v = elementOf<T>(x, i);
      return a.bias.data ? roundTo<T>(v + scaleOf(a.bias, i)) : v;
    };
    float preInverse = 0.0f;
    if (a.pre.gamma.data) {
      float sum = 0.0f;
      for (uint64_t i = threadIdx.x; i < p.elements; i += blockDim.x)
        sum += biased(i) * biased(i);
      preInverse = inverseRms(sumOverRow(sum, partials, turn, blockDim.x),
                              a.length, a.pre.epsilon);
    }
    // What is normalised is kept where the results go: in the new residual or,
    // without one, in the norm. Each thread reads what it wrote itself.
    char *kept = a.residualOut.data ? a.residualOut.row(row) : a.out.row(row);
    float sum = 0.0f;
    for (uint64_t i = threadIdx.x; i < p.elements; i += blockDim.x) {
      float raw = elementOf<T>(x, i);
      float v = biased(i);
      if (a.pre.gamma.data)
        v = scaledElement<T>(v, preInverse, a.pre, i);
      if (a.residual.data)
        v = roundTo<T>(v + elementOf<T>(a.residual.row(row), i));
      sum += v * v;
      setElement<T>(kept, i, v);
      if (a.sumOut.data)
        setElement<T>(a.sumOut.row(row), i, raw);
    }
    float inverse = inverseRms(sumOverRow(sum, partials, turn, blockDim.x),
                               a.length, a.norm.epsilon);
    for (uint64_t i = threadIdx.x; i < p.elements; i += blockDim.x)
      setElement<T>(
          a.out.row(row), i,
          scaledElement<T>(elementOf<T>(kept, i), inverse, a.norm, i));
  }
  endBlock();
}

template <class T>
__global__ void reduceKernel(const char *gathered, uint32_t world, char *out,
                             uint64_t elements, int32_t reduction) {
  waitForPreviousKernel();
  uint64_t step = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += step) {
    float total = elementOf<T>(gathered, i);
    for (uint32_t r = 1; r < world; ++r) {
      float next = elementOf<T>(gathered, r * elements + i);
      total = combine(reduction, total, next);
    }
    setElement<T>(out, i, total);
  }
  endBlock();
}

} // namespace cuda
} // namespace tandem

#endif
