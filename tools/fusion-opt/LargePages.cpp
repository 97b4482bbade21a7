//===- LargePages.cpp - Memory for large graphs ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LargePages.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#if defined(__GLIBC__) && defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

void mlir::tandem::expectAllocations(size_t bytes) {
  constexpr size_t pageSize = size_t(2) << 20;
  // The largest that the C library takes.
  constexpr int mapAbove = 32 << 20;
  bytes = llvm::alignTo(std::min(bytes, size_t(1) << 30), pageSize);
  // One heap for nearly everything, which keeps what is freed, and grows by
  // `bytes` the first time.
  mallopt(M_MMAP_THRESHOLD, mapAbove);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, static_cast<int>(bytes));
  auto getHeapEnd = [] { return reinterpret_cast<uintptr_t>(sbrk(0)); };
  uintptr_t begin = llvm::alignTo(getHeapEnd(), pageSize);
  // Volatile, since a pair of these would be optimised away.
  void *volatile block = std::malloc(pageSize);
  std::free(block);
  mallopt(M_TOP_PAD, pageSize);
  if (uintptr_t end = getHeapEnd(); begin < end)
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the heap.
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
}

#else

void mlir::tandem::expectAllocations(size_t) {}

#endif
