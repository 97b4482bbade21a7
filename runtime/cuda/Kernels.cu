//===-- Kernels.cu - Launching the CUDA kernels ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include "RowMath.cuh"
#include "Table.h"
#include "Wait.cuh"

using namespace tandem::cuda;

namespace {
/// All of one element type.
struct KernelTable {
  const ExchangeKernel *lines;
  const ExchangeKernel *elements;
  const ExchangeKernel *oneStep;
  const ExchangeKernel *twoStep;
  const ExchangeKernel (*pairQuick)[numQuickShapes];
  const ExchangeKernel *pairSpread;
  const ExchangeKernel *pairLines;
  const ExchangeKernel *pairOneStep;
  const LocalKernel *norm;
  LocalKernel genericNorm;
  ReduceKernel reduce;
};
} // namespace

template <class T>
static KernelTable makeTable() {
  return {LinesTable<T>::whole,     LinesTable<T>::elements,
          OneStepTable<T>::kernels, TwoStepTable<T>::kernels,
          PairTable<T>::quick,      PairTable<T>::spread,
          PairTable<T>::lines,      PairTable<T>::oneStep,
          LocalTable<T>::norm,      LocalTable<T>::genericNorm,
          LocalTable<T>::reduce};
}
static KernelTable tableOf(int32_t dtype) {
  return dtype == 0   ? makeTable<F32>()
         : dtype == 1 ? makeTable<F16>()
                      : makeTable<BF16>();
}
static int shapeIndex(uint32_t pairs) {
  return pairs == 1 ? 0 : pairs == 2 ? 1 : 2;
}
static uint32_t elementSize(int32_t dtype) { return dtype == 0 ? 4 : 2; }

//===----------------------------------------------------------------------===//
// Self-test and failing from outside
//===----------------------------------------------------------------------===//

/// Block i looks after this rank's i-th peer: warp 0 stores lines to it, warp 1
/// looks at those that come from it. Both count from 1; a line is torn if a
/// part of it is older than the flag it was loaded with.
static __global__ void selfTestKernel(const __grid_constant__ ExchangeParams p,
                                      uint32_t rounds, uint64_t deadline,
                                      SelfTestResult *result) {
  waitForPreviousKernel();
  int32_t lane = threadIdx.x & 31;
  int32_t peer = peerOf(p, static_cast<int32_t>(blockIdx.x));
  bool eighth = (lane & 7) == 7;
  if (threadIdx.x < 32) {
    char *to = p.regions[peer] + p.layout.lineAt(0, peer, p.rank) + lane * 16;
    for (uint32_t n = 1; n <= rounds; ++n)
      storeVector(to, make_uint4(n, n, n, eighth ? 0 : n));
    return;
  }
  const char *from =
      p.regions[p.rank] + p.layout.lineAt(0, p.rank, peer) + lane * 16;
  uint64_t torn = 0, seen = 0;
  uint64_t started = nanoseconds();
  uint32_t before = 0;
  while (true) {
    uint4 v = loadVector(from);
    uint32_t flag = __shfl_sync(0xffffffffu, v.z, lane | 7);
    bool bad =
        v.x < flag || v.y < flag || v.z < flag || (!eighth && v.w < flag);
    torn += bad;
    if (flag != before)
      ++seen;
    before = flag;
    if (__all_sync(0xffffffffu, flag >= rounds))
      break;
    if (__any_sync(0xffffffffu, nanoseconds() - started > deadline)) {
      if (lane == 0)
        atomicOr(reinterpret_cast<unsigned long long *>(&result->missing),
                 1ull << peer);
      break;
    }
  }
  atomicAdd(reinterpret_cast<unsigned long long *>(&result->torn), torn);
  if (eighth)
    atomicAdd(reinterpret_cast<unsigned long long *>(&result->seen), seen);
}

static __global__ void failKernel(const __grid_constant__ ExchangeParams p,
                                  uint64_t word, uint32_t ranks) {
  uint64_t epoch = loadWord(&controlOf(p)->epoch);
  for (int32_t rank = 0; rank < p.world; ++rank) {
    if (!(ranks >> rank & 1))
      continue;
    uint64_t *failure = &reinterpret_cast<Control *>(p.regions[rank])->failure;
    if (loadWord(failure) == 0)
      storeWord(failure, word);
    if (rank == p.rank)
      writeRecord(p, epoch, loadWord(failure), -1, 0, 0);
  }
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

namespace {
/// How a kernel is launched.
struct Shape {
  uint32_t grid;
  uint32_t block;
  uint32_t sharedBytes = 0;
  /// Blocks of a cluster.
  uint32_t cluster = 1;
};
} // namespace

template <class... Formal, class... Actual>
static cudaError_t launch(void (*kernel)(Formal...), const Shape &shape,
                          bool programmatic, cudaStream_t stream,
                          const Actual &...args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.grid);
  config.blockDim = dim3(shape.block);
  config.dynamicSmemBytes = shape.sharedBytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (programmatic) {
    cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = shape.cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, args...);
}

static Operand operandOf(const Rows &rows, int32_t dtype) {
  Operand operand = {};
  operand.data = static_cast<char *>(rows.data);
  operand.stride = rows.stride * elementSize(dtype);
  operand.aligned =
      (reinterpret_cast<uintptr_t>(rows.data) | operand.stride) % 16 == 0;
  return operand;
}

static Scale scaleOf(const void *data, int32_t dtype) {
  return {data, dtype, reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

static NormSpec specOf(const Norm &norm) {
  return {scaleOf(norm.gamma, norm.gammaType), norm.rounding, norm.epsilon};
}

static NormParams normParamsOf(const CallArgs &args) {
  NormParams norm = {};
  norm.residual = operandOf(args.residual, args.dtype);
  norm.out = operandOf(args.out, args.dtype);
  norm.residualOut = operandOf(args.residualOut, args.dtype);
  norm.sumOut = operandOf(args.sumOut, args.dtype);
  norm.bias = scaleOf(args.bias, args.dtype);
  norm.pre = specOf(args.pre);
  norm.norm = specOf(args.norm);
  norm.length.value = static_cast<float>(args.hidden);
  norm.length.inverse = 1.0f / norm.length.value;
  norm.vectors =
      static_cast<int32_t>(args.hidden * elementSize(args.dtype) / vectorBytes);
  norm.rows = static_cast<uint32_t>(args.tokens);
  return norm;
}

static ExchangeParams paramsOf(const Endpoint &endpoint) {
  ExchangeParams p = {};
  p.rank = endpoint.rank;
  p.world = static_cast<int32_t>(endpoint.layout.world);
  for (int32_t rank = 0; rank < p.world; ++rank)
    p.regions[rank] = static_cast<char *>(endpoint.regions[rank]);
  p.record = endpoint.record;
  p.layout = endpoint.layout;
  return p;
}

/// Which of the quick kernels (Table.h) does this call; negative: none. A
/// matter of this rank alone, since they all send the same.
static int quickKindOf(const ExchangeParams &p, int32_t dtype) {
  const NormParams &a = p.norm;
  auto fits = [](const Operand &operand) {
    return !operand.data || operand.aligned;
  };
  auto lies = [](const Scale &scale) { return !scale.data || scale.aligned; };
  if (p.pieces != 1 || p.reduction != 0 || p.shape.pairs > numQuickShapes ||
      !fits(p.input) || !fits(a.residual) || !fits(a.out) ||
      !fits(a.residualOut) || !fits(a.sumOut) || !lies(a.bias) ||
      !lies(a.pre.gamma) || !lies(a.norm.gamma))
    return -1;
  if (!a.norm.gamma.data)
    return quickSum;
  bool sandwich = a.pre.gamma.data;
  int32_t type = a.norm.gamma.dtype;
  if ((type != dtype && type != 0) || (sandwich && a.pre.gamma.dtype != type))
    return -1;
  return quickKind(sandwich, a.bias.data || a.sumOut.data, type != dtype);
}

/// Of a kernel that spreads each row over `spread` blocks; 1: of another.
static PairParams pairParamsOf(const ExchangeParams &p, uint32_t grid,
                               uint32_t spread) {
  const NormParams &a = p.norm;
  PairParams q = {};
  q.input = p.input.data;
  q.inputStride = p.input.stride;
  int peer = 1 - p.rank;
  q.control = reinterpret_cast<const Control *>(p.regions[p.rank]);
  q.outbox = p.regions[peer] + p.layout.lineAt(0, peer, p.rank);
  q.inbox = p.regions[p.rank] + p.layout.lineAt(0, p.rank, peer);
  q.slotBytes =
      p.layout.lineAt(1, peer, p.rank) - p.layout.lineAt(0, peer, p.rank);
  q.gamma = static_cast<const char *>(a.norm.gamma.data);
  q.preGamma = static_cast<const char *>(a.pre.gamma.data);
  q.residual = a.residual.data;
  q.residualStride = a.residual.stride;
  q.residualOut = a.residualOut.data;
  q.residualOutStride = a.residualOut.stride;
  const Operand &out = a.norm.gamma.data ? a.out : a.sumOut;
  q.out = out.data;
  q.outStride = out.stride;
  q.length = a.length;
  q.epsilon = a.norm.epsilon;
  q.rounding = a.norm.rounding;
  q.preEpsilon = a.pre.epsilon;
  q.preRounding = a.pre.rounding;
  q.vectors = static_cast<int32_t>(p.shape.vectors);
  q.warps = static_cast<uint16_t>(ceilDiv(p.shape.warps, spread));
  q.rows = p.rows;
  q.rowLines = p.shape.lines * lineBytes;
  q.hash = p.hash;
  q.threads = q.warps * 32u;
  q.grid = grid;
  q.spread = static_cast<uint16_t>(spread);
  q.bias = static_cast<const char *>(a.bias.data);
  q.sumOut = a.sumOut.data;
  q.sumOutStride = a.sumOut.stride;
  return q;
}

cudaError_t tandem::cuda::launchExchange(const Endpoint &endpoint,
                                         const CallArgs &args, const Plan &plan,
                                         cudaStream_t stream) {
  ExchangeParams p = paramsOf(endpoint);
  p.hash = plan.hash;
  for (int i = 0; i < numHeaderWords; ++i)
    p.header[i] = plan.header[i];
  p.input = operandOf(args.input, args.dtype);
  p.norm = normParamsOf(args);
  p.reduction = args.reduction;
  p.rows = plan.rows;
  p.pieces = plan.pieces;
  p.rowVectors = static_cast<int32_t>(plan.rowVectors);
  p.shape = plan.shape;
  p.rowsPerUnit = plan.rowsPerUnit;
  p.units = plan.units;
  p.pushers = plan.pushers;
  p.chunk = plan.chunk;
  // The engine takes what is aligned; what arrives is the same either way.
  p.bulk = endpoint.bulkCopies && p.input.aligned;
  for (const Rows *out : {&args.out, &args.residualOut, &args.sumOut})
    p.inPlace |= out->data && out->data == args.input.data;

  const KernelTable table = tableOf(args.dtype);
  int shape = shapeIndex(plan.shape.pairs);
  ExchangeKernel kernel = nullptr;
  Shape launched = {plan.grid, plan.block, plan.sharedBytes};
  switch (plan.protocol) {
  case Protocol::Lines: {
    int quick =
        p.world == 2 && !endpoint.general ? quickKindOf(p, args.dtype) : -1;
    kernel = p.world != 2 ? table.lines[shape]
             : quick < 0  ? table.pairLines[shape]
                          : table.pairQuick[quick][shape];
    if (quick >= 0) {
      bool spread = plan.spread && table.pairSpread[quick];
      if (spread) {
        kernel = table.pairSpread[quick];
        launched.cluster = plan.spread;
        launched.grid = plan.rows * launched.cluster;
      }
      p.pair = pairParamsOf(p, launched.grid, launched.cluster);
      launched.block = p.pair.threads + 32;
      launched.sharedBytes =
          spread ? 0 : keptBytesOf(quick, plan.shape.pairs, p.pair.threads);
    }
    break;
  }
  case Protocol::Elements:
    kernel = table.elements[shape];
    break;
  case Protocol::Rows:
    kernel = p.world == 2 ? table.pairOneStep[shape] : table.oneStep[shape];
    break;
  case Protocol::TwoStep:
    kernel = table.twoStep[shape];
    break;
  case Protocol::None:
    return cudaErrorInvalidValue;
  }
  return launch(kernel, launched, endpoint.programmatic, stream, p);
}

cudaError_t tandem::cuda::launchNorm(const CallArgs &args, const NormPlan &plan,
                                     bool programmatic, cudaStream_t stream) {
  LocalParams p = {};
  p.elements = static_cast<uint64_t>(args.hidden);
  const KernelTable table = tableOf(args.dtype);
  LocalKernel kernel = plan.generic ? table.genericNorm
                                    : table.norm[shapeIndex(plan.shape.pairs)];
  constexpr int64_t most = int64_t(1) << 30;
  for (int64_t done = 0; done < args.tokens; done += most) {
    CallArgs part = args;
    part.tokens = args.tokens - done < most ? args.tokens - done : most;
    for (Rows *rows : {&part.input, &part.residual, &part.out,
                       &part.residualOut, &part.sumOut})
      if (rows->data)
        rows->data = static_cast<char *>(rows->data) +
                     done * rows->stride * elementSize(args.dtype);
    p.input = operandOf(part.input, args.dtype);
    p.norm = normParamsOf(part);
    if (cudaError_t error =
            launch(kernel, {plan.grid, plan.block}, programmatic, stream, p))
      return error;
  }
  return cudaSuccess;
}

cudaError_t tandem::cuda::launchReduce(const void *gathered, uint32_t world,
                                       void *out, uint64_t elements,
                                       int32_t dtype, int32_t reduction,
                                       cudaStream_t stream) {
  uint64_t blocks = ceilDiv(elements, 256);
  uint32_t grid = static_cast<uint32_t>(blocks < 4096 ? blocks : 4096);
  if (grid == 0)
    return cudaSuccess;
  return launch(tableOf(dtype).reduce, {grid, 256}, false, stream,
                static_cast<const char *>(gathered), world,
                static_cast<char *>(out), elements, reduction);
}

cudaError_t tandem::cuda::launchSelfTest(const Endpoint &endpoint,
                                         uint32_t rounds, uint64_t deadlineNs,
                                         SelfTestResult *result,
                                         cudaStream_t stream) {
  return launch(selfTestKernel, {endpoint.layout.world - 1, 64}, false, stream,
                paramsOf(endpoint), rounds, deadlineNs, result);
}

cudaError_t tandem::cuda::launchFail(const Endpoint &endpoint, uint64_t word,
                                     uint32_t ranks, cudaStream_t stream) {
  return launch(failKernel, {1, 1}, false, stream, paramsOf(endpoint), word,
                ranks);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Loads a kernel; lowers `resident` to the threads of it that fit.
static cudaError_t loadKernel(const void *kernel, const cudaDeviceProp &device,
                              uint32_t *resident) {
  if (!kernel)
    return cudaSuccess;
  cudaFuncAttributes attributes;
  if (cudaError_t error = cudaFuncGetAttributes(&attributes, kernel))
    return error;
  if (!resident)
    return cudaSuccess;
  // Registers are given out in units of 256, to four warps at a time.
  uint32_t perWarp = static_cast<uint32_t>(
      roundUp(static_cast<uint64_t>(attributes.numRegs) * 32, 256));
  uint32_t threads =
      static_cast<uint32_t>(device.regsPerMultiprocessor) / perWarp / 4 * 128;
  uint32_t most = static_cast<uint32_t>(device.maxThreadsPerMultiProcessor);
  if (threads > most)
    threads = most;
  if (threads < *resident)
    *resident = threads;
  return cudaSuccess;
}

/// The same for one that spreads rows over clusters; `resident` are blocks, 0
/// where the device says that it has no clusters.
static cudaError_t loadSpreadKernel(const void *kernel,
                                    const cudaDeviceProp &device,
                                    uint32_t *resident) {
  if (cudaError_t error = loadKernel(kernel, device, nullptr))
    return error;
  if (!kernel)
    return cudaSuccess;
  for (uint32_t spread = 2; spread <= maxSpread; spread *= 2) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(spread);
    config.blockDim =
        dim3((static_cast<uint32_t>(ceilDiv(maxRowWarps, spread)) + 1) * 32);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = spread;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config)) {
      cudaGetLastError();
      clusters = 0;
    }
    uint32_t blocks = static_cast<uint32_t>(clusters) * spread;
    if (blocks < *resident)
      *resident = blocks;
  }
  return cudaSuccess;
}

cudaError_t tandem::cuda::loadKernels(KernelFacts &facts) {
  int ordinal = 0;
  if (cudaError_t error = cudaGetDevice(&ordinal))
    return error;
  cudaDeviceProp device;
  if (cudaError_t error = cudaGetDeviceProperties(&device, ordinal))
    return error;
  facts.multiprocessors = static_cast<uint32_t>(device.multiProcessorCount);
  facts.bulkCopies = facts.programmatic = device.major >= 9;
  for (int i = 0; i < numShapes; ++i)
    facts.residentThreads[i] = facts.pairThreads[i] = 2048;
  facts.clusterBlocks = device.major >= 9 ? ~0u : 0;
  for (int32_t dtype : {0, 1, 2}) {
    const KernelTable table = tableOf(dtype);
    for (int i = 0; i < numShapes; ++i) {
      for (ExchangeKernel kernel :
           {table.lines[i], table.elements[i], table.oneStep[i],
            table.twoStep[i], table.pairOneStep[i]})
        if (cudaError_t error =
                loadKernel(reinterpret_cast<const void *>(kernel), device,
                           &facts.residentThreads[i]))
          return error;
      for (int kind = -1; kind < numQuickKinds; ++kind) {
        ExchangeKernel kernel = kind < 0             ? table.pairLines[i]
                                : i < numQuickShapes ? table.pairQuick[kind][i]
                                                     : nullptr;
        if (cudaError_t error =
                loadKernel(reinterpret_cast<const void *>(kernel), device,
                           &facts.pairThreads[i]))
          return error;
      }
      if (cudaError_t error = loadKernel(
              reinterpret_cast<const void *>(table.norm[i]), device, nullptr))
        return error;
    }
    for (int kind = 0; kind < numQuickKinds && facts.clusterBlocks; ++kind)
      if (cudaError_t error = loadSpreadKernel(
              reinterpret_cast<const void *>(table.pairSpread[kind]), device,
              &facts.clusterBlocks))
        return error;
    for (const void *kernel :
         {reinterpret_cast<const void *>(table.genericNorm),
          reinterpret_cast<const void *>(table.reduce)})
      if (cudaError_t error = loadKernel(kernel, device, nullptr))
        return error;
  }
  for (const void *kernel : {reinterpret_cast<const void *>(selfTestKernel),
                             reinterpret_cast<const void *>(failKernel)})
    if (cudaError_t error = loadKernel(kernel, device, nullptr))
      return error;
  return cudaSuccess;
}
