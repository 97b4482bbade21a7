//===-- Kernels.h - Launching the CUDA kernels ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Functions for the host side of the CUDA backend. All but loadKernels only
// launch, on the current device: no allocation, no synchronisation, safe while
// a stream is captured. They return CUDA's error of the launch. Arguments are
// checked before (workspace/Validate.h); absent operands have null data.

#ifndef TANDEM_RUNTIME_CUDA_KERNELS_H
#define TANDEM_RUNTIME_CUDA_KERNELS_H

#include "Plan.h"

#include <cuda_runtime_api.h>

namespace tandem {
namespace cuda {

/// Loads every kernel onto the current device and prepares it, so that no
/// execute call does (a load may allocate and synchronise). Call it when a
/// workspace is made, on any stream state but a capture.
struct KernelFacts {
  uint32_t multiprocessors;
  /// See Facts.
  uint32_t residentThreads[3];
  uint32_t pairThreads[3];
  uint32_t clusterBlocks;
  bool bulkCopies;
  /// The device has programmatic launches (9.0 on).
  bool programmatic;
};
cudaError_t loadKernels(KernelFacts &facts);

/// One rank's end of a workspace. Fixed when the workspace is made.
struct Endpoint {
  int32_t rank;
  /// Each rank's region as this process has it mapped; the own one included.
  void *regions[maxWorld];
  /// Device address of this rank's HostRecord.
  HostRecord *record;
  Layout layout;
  /// Facts::bulkCopies.
  bool bulkCopies;
  /// Launch programmatically: start before the previous kernel of the stream is
  /// done. KernelFacts::programmatic.
  bool programmatic;
  /// For tests: the kernels that can do everything alone.
  bool general = false;
};

/// Rows of `hidden` elements, `stride` elements apart (never 0). Any alignment
/// that the element type allows; 16 bytes, stride included, is fastest. Moved
/// bits and path are the same.
struct Rows {
  void *data;
  int64_t stride;
};

struct Norm {
  const void *gamma;
  int32_t gammaType;
  int32_t rounding;
  float epsilon;
};

/// The family of tandem_fused_all_reduce_norm. Without norm.gamma only the sum
/// is made: bias, pre, residual, out and residualOut are absent.
struct CallArgs {
  int64_t tokens;
  int64_t hidden;
  int32_t dtype;
  /// tandem_reduction; anything but sum only without a norm.
  int32_t reduction;
  Rows input;
  Rows residual;
  Rows out;
  Rows residualOut;
  Rows sumOut;
  const void *bias;
  Norm pre;
  Norm norm;
};

/// The collective, by the plan of planCall for the same shape. Every rank
/// launches the same sequence of these on its workspace, in one stream order.
cudaError_t launchExchange(const Endpoint &endpoint, const CallArgs &args,
                           const Plan &plan, cudaStream_t stream);

/// tandem_add_rms_norm and tandem_rms_norm: `input` is the sum.
cudaError_t launchNorm(const CallArgs &args, const NormPlan &plan,
                       bool programmatic, cudaStream_t stream);

/// out[i] = rn(inputs[0][i] op inputs[1][i] ...), in rank order in f32: the sum
/// behind an all-gather, where there is no direct access. `elements` of dtype a
/// rank, contiguous, `world` of them one after another.
cudaError_t launchReduce(const void *gathered, uint32_t world, void *out,
                         uint64_t elements, int32_t dtype, int32_t reduction,
                         cudaStream_t stream);

/// Device memory for launchSelfTest, zeroed by the caller.
struct SelfTestResult {
  /// Lines that were seen in part. 0: lines are whole.
  uint64_t torn;
  /// Lines looked at while they were being stored; small counts prove little.
  uint64_t seen;
  /// Ranks whose lines didn't come before the deadline, by bit.
  uint64_t missing;
};
/// Stores lines to all peers and looks at theirs, `rounds` times. All ranks run
/// it at the same time. Uses the lines' area; zero the region afterwards.
cudaError_t launchSelfTest(const Endpoint &endpoint, uint32_t rounds,
                           uint64_t deadlineNs, SelfTestResult *result,
                           cudaStream_t stream);

/// Stores a failure word to every region in `ranks` (by bit) that has none, and
/// to the own HostRecord. For a stream that isn't the calls'.
cudaError_t launchFail(const Endpoint &endpoint, uint64_t word, uint32_t ranks,
                       cudaStream_t stream);

} // namespace cuda
} // namespace tandem

#endif
