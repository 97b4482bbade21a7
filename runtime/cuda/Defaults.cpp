//===-- Defaults.cpp - What is known about which machines -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Defaults.h"

using namespace tandem::cuda;

Defaults tandem::cuda::defaultsFor(const std::vector<std::string> &names,
                                   bool shared) {
  if (names.size() != 2 || shared)
    return Defaults::Conservative;
  for (const std::string &name : names)
    if (name != "NVIDIA H200")
      return Defaults::Conservative;
  return Defaults::TwoH200;
}

uint64_t tandem::cuda::fusedLimitOf(Defaults defaults) {
  return defaults == Defaults::TwoH200 ? ~uint64_t(0) : uint64_t(2) << 20;
}

const char *tandem::cuda::describe(Defaults defaults) {
  return defaults == Defaults::TwoH200
             ? "measured on two NVIDIA H200s"
             : "conservative, not measured on these GPUs";
}
