//===-- Defaults.h - What is known about which machines ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The fused path's limit where the workspace has none of its own. Rank 0
// decides for all. Needs no CUDA.

#ifndef TANDEM_RUNTIME_CUDA_DEFAULTS_H
#define TANDEM_RUNTIME_CUDA_DEFAULTS_H

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {
namespace cuda {

enum class Defaults : uint32_t {
  /// Not measured: fused for messages for which one kernel instead of two is
  /// worth more than any difference in how they use the links.
  Conservative,
  /// Two H200s, one for each rank: fused whatever fits (docs/cuda.md).
  TwoH200,
};

/// For ranks on GPUs with these names; `shared`: two of them have one GPU.
Defaults defaultsFor(const std::vector<std::string> &names, bool shared);

/// Bytes of one rank's input that go the fused way where there is NCCL for
/// more.
uint64_t fusedLimitOf(Defaults defaults);

/// For people: where the limit and the choice of kernels come from.
const char *describe(Defaults defaults);

} // namespace cuda
} // namespace tandem

#endif
