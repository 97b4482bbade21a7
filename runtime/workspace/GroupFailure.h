//===-- GroupFailure.h - The first failure of a group --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_GROUPFAILURE_H
#define TANDEM_RUNTIME_WORKSPACE_GROUPFAILURE_H

#include "support/Error.h"

#include <atomic>
#include <mutex>

namespace tandem {

struct FailureRecord;

/// Remembers the first failure that this rank knows of, and shares it with the
/// group through a record in shared memory where there is one. Thread-safe.
class GroupFailure {
public:
  /// `record` must outlive this; null for a world of one.
  void attach(FailureRecord *record) { shared = record; }
  void detach() { shared = nullptr; }

  /// The status so far, looking at the group's record too. Doesn't wait.
  tandem_status check();

  /// Notes a failure that this rank found. If another rank was first, its cause
  /// is kept instead. Returns the status to report. Waking sleepers is the
  /// caller's.
  tandem_status fail(const Error &error);

  Error get() const;

private:
  tandem_status adopt(const Error &error);

  FailureRecord *shared = nullptr;
  std::atomic<tandem_status> local{TANDEM_STATUS_OK};
  mutable std::mutex mutex;
  Error first;
};

} // namespace tandem

#endif
