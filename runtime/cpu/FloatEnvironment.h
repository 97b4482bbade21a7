//===-- FloatEnvironment.h - The default float environment ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_FLOATENVIRONMENT_H
#define TANDEM_RUNTIME_CPU_FLOATENVIRONMENT_H

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tandem {

/// Rounds to nearest and keeps subnormals while it lives, whatever the host
/// program has switched its thread to, so that all ranks get the same bits.
class FloatEnvironment {
public:
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;
#if defined(__x86_64__)
  FloatEnvironment() : saved(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatEnvironment() { _mm_setcsr(saved); }

private:
  unsigned saved;
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved));
    asm volatile("msr fpcr, %0" ::"r"(uint64_t(0)));
  }
  ~FloatEnvironment() { asm volatile("msr fpcr, %0" ::"r"(saved)); }

private:
  uint64_t saved;
#else
  FloatEnvironment() {}
  ~FloatEnvironment() {}

private:
#endif
};

} // namespace tandem

#endif
