//===-- GroupFailure.cpp - The first failure of a group -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupFailure.h"

#include "cpu/Layout.h"
#include "support/Clock.h"

#include <sched.h>

using namespace tandem;

enum : uint32_t { RecordEmpty = 0, RecordWriting = 1, RecordThere = 2 };

tandem_status GroupFailure::adopt(const Error &error) {
  std::lock_guard<std::mutex> guard(mutex);
  if (!first) {
    first = error;
    first.message[sizeof(first.message) - 1] = '\0';
    local.store(first.status, std::memory_order_release);
  }
  return first.status;
}

tandem_status GroupFailure::check() {
  tandem_status status = local.load(std::memory_order_acquire);
  if (status != TANDEM_STATUS_OK || !shared)
    return status;
  if (shared->state.load(std::memory_order_acquire) != RecordThere)
    return TANDEM_STATUS_OK;
  return adopt(shared->error);
}

tandem_status GroupFailure::fail(const Error &error) {
  if (tandem_status status = local.load(std::memory_order_acquire))
    return status;
  if (!shared)
    return adopt(error);
  uint32_t expected = RecordEmpty;
  if (shared->state.compare_exchange_strong(expected, RecordWriting)) {
    shared->error = error;
    shared->state.store(RecordThere);
    return adopt(error);
  }
  // Whoever was first writes a few hundred bytes; unless it died over them.
  Deadline patience = Deadline::in(100);
  while (shared->state.load(std::memory_order_acquire) != RecordThere &&
         !patience.passed())
    sched_yield();
  if (shared->state.load(std::memory_order_acquire) == RecordThere)
    return adopt(shared->error);
  return adopt(error);
}

Error GroupFailure::get() const {
  std::lock_guard<std::mutex> guard(mutex);
  return first;
}
