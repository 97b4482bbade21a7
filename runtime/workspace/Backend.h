//===-- Backend.h - What a device must do for a workspace ----- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_BACKEND_H
#define TANDEM_RUNTIME_WORKSPACE_BACKEND_H

#include "support/Error.h"

namespace tandem {

/// A workspace's device side. Arguments are checked and have tokens; the caller
/// lets one execute call in at a time. A call that fails has failed its group.
class Backend {
public:
  virtual ~Backend() = default;

  /// `onFusedPath` is equal on all ranks.
  virtual tandem_status fused(const tandem_norm_args &args, bool onFusedPath,
                              uint64_t call) = 0;
  virtual tandem_status allReduce(const tandem_all_reduce_args &args,
                                  uint64_t call) = 0;
  virtual tandem_status addRmsNorm(const tandem_norm_args &args) = 0;

  /// Refuses what this device or workspace can't take, by what the ranks agreed
  /// on and the arguments' shape alone.
  virtual Error accept(const tandem_norm_args &args) const = 0;

  /// Fails the group with a failure found on this rank. Any thread.
  virtual tandem_status fail(const Error &error, uint64_t call) = 0;
  /// Tells the peers that this rank makes no more calls.
  virtual void leave() = 0;
  /// Lets go of what a forked child doesn't have.
  virtual void forget() = 0;

  virtual uint64_t rounds() const = 0;
  virtual uint64_t sleeps() const = 0;
};

} // namespace tandem

#endif
