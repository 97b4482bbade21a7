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

#include <cstdint>
#include <string>

namespace tandem {

/// A workspace's device side. Arguments are checked and have tokens; the caller
/// lets one execute call in at a time. A call that fails has failed its group.
class Backend {
public:
  virtual ~Backend() = default;

  /// `onFusedPath` is equal on all ranks.
  virtual tandem_status fused(const tandem_norm_args &args, bool onFusedPath,
                              uint64_t call) = 0;
  /// `direct`: fusion is on and the call isn't the fallback's; equal on all
  /// ranks.
  virtual tandem_status allReduce(const tandem_all_reduce_args &args,
                                  bool direct, uint64_t call) = 0;
  virtual tandem_status addRmsNorm(const tandem_norm_args &args) = 0;

  /// Refuses what this device or workspace can't take.
  virtual Error accept(const tandem_norm_args &args, bool collective) = 0;
  virtual Error accept(const tandem_all_reduce_args &) { return Error(); }

  /// The most tokens that the fused path takes at this hidden size and type,
  /// whatever else bounds it. Equal on all ranks.
  virtual int64_t capacity(int64_t hidden, tandem_dtype dtype) const {
    (void)hidden, (void)dtype;
    return INT64_MAX;
  }

  /// Bytes of one rank's input that should go the fused way where the workspace
  /// has no limit of its own, and what that rests on. Equal on all ranks.
  virtual uint64_t advisedBytes() const { return UINT64_MAX; }
  virtual const char *defaults() const { return "there is one way alone"; }

  /// The group's status so far, from wherever its failures are written. Doesn't
  /// wait. Any thread.
  virtual tandem_status check() = 0;
  /// What each rank last called, a line each, and the failure; may be empty.
  virtual std::string dump() const { return std::string(); }

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
