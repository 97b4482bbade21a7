//===-- Layout.cpp - Sizes and places in the shared memory ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

using namespace tandem;

static bool roundUp(uint64_t value, uint64_t to, uint64_t &out) {
  if (__builtin_add_overflow(value, to - 1, &out))
    return false;
  out -= out % to;
  return true;
}

Error tandem::layOut(uint32_t world, uint64_t capacity, Layout &layout) {
  layout = Layout();
  layout.world = world;
  if (!roundUp(capacity, lineBytes, layout.capacity))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "a capacity of %llu bytes is too large",
                     static_cast<unsigned long long>(capacity));
  if (world == 1)
    return Error();
  layout.headersAt = sizeof(SegmentHeader) + world * sizeof(RankLine);
  uint64_t headersEnd =
      layout.headersAt + uint64_t(numSlots) * world * sizeof(CallHeader);
  constexpr uint64_t page = 4096;
  (void)roundUp(headersEnd, page, layout.dataAt);
  uint64_t data, bytes;
  if (__builtin_mul_overflow(layout.capacity, uint64_t(numSlots) * world,
                             &data) ||
      __builtin_add_overflow(data, layout.dataAt, &bytes) ||
      !roundUp(bytes, page, layout.bytes) || layout.bytes > INT64_MAX)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "2 x %u ranks x %llu bytes don't fit in 64 bits", world,
                     static_cast<unsigned long long>(layout.capacity));
  return Error();
}

Error tandem::planWorkspace(int32_t world, int64_t maxTokens, int64_t hidden,
                            tandem_dtype dtype, WorkspacePlan &plan) {
  plan = WorkspacePlan();
  if (world < 1 || world > TANDEM_MAX_WORLD)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "world is %d, not in [1, %d]", world, TANDEM_MAX_WORLD);
  if (maxTokens < 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "max_tokens is %lld, less than 0",
                     static_cast<long long>(maxTokens));
  if (hidden <= 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "hidden is %lld, not positive",
                     static_cast<long long>(hidden));
  if (dtype < TANDEM_DTYPE_F32 || dtype > TANDEM_DTYPE_BF16)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "dtype is %d, not one of tandem_dtype", dtype);
  uint64_t row, asked;
  if (__builtin_mul_overflow(uint64_t(hidden), elementBytes(dtype), &row) ||
      __builtin_mul_overflow(row, uint64_t(maxTokens), &asked) ||
      asked > INT64_MAX)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "max_tokens %lld x hidden %lld x %llu bytes don't fit in "
                     "64 bits",
                     static_cast<long long>(maxTokens),
                     static_cast<long long>(hidden),
                     static_cast<unsigned long long>(elementBytes(dtype)));
  plan.askedBytes = asked;
  plan.rowBytes = row > minCapacity ? row : minCapacity;
  if (Error e = layOut(world, plan.rowBytes, plan.fallback))
    return e;
  uint64_t capacity = asked > plan.rowBytes ? asked : plan.rowBytes;
  if (Error e = layOut(world, capacity, plan.fused))
    return e;
  // One row, to sum into before it is normalised.
  plan.privateBytes = plan.rowBytes;
  return Error();
}
