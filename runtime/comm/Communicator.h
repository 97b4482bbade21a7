//===-- Communicator.h - A group of ranks and how it agrees --- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_COMM_COMMUNICATOR_H
#define TANDEM_RUNTIME_COMM_COMMUNICATOR_H

#include "Rendezvous.h"
#include "support/ForkGuard.h"

#include <functional>
#include <mutex>

namespace tandem {

/// Kinds of collective on the control plane, compared between the ranks.
enum class ControlOp : uint32_t {
  Barrier = 1,
  WorkspaceVote = 2,
  WorkspaceCommit = 3,
  SetFusion = 4,
  WorkspaceOffer = 5,
};

/// The control plane of a group: a star of sockets around rank 0, used to agree
/// and never while executing. Thread-safe.
class Communicator {
public:
  Communicator(int rank, int world, int64_t timeoutMs, Meeting meeting)
      : rank(rank), world(world), timeoutMs(timeoutMs),
        meeting(std::move(meeting)) {}

  const int rank;
  const int world;
  const int64_t timeoutMs;
  ForkGuard fork;

  /// What one rank says in a round. Rank 0's own comes without descriptors.
  struct Said {
    std::string body;
    std::vector<UniqueFd> fds;
  };

  /// Runs on rank 0 with what every rank said, by rank; makes the answer for
  /// all, with descriptors that stay rank 0's own (or those of `said`, until
  /// the round is over). An error goes to all ranks.
  using Decide = std::function<Error(
      std::vector<Said> &said, std::string &answer, std::vector<int> &fds)>;

  /// One round: every rank says something, rank 0 decides, all get the same
  /// answer or the same error. Waits at most until `deadline`, then breaks the
  /// communicator. `lock` is that of a collective made of several rounds.
  /// `fds` go with what is said and stay the caller's.
  Error agree(std::unique_lock<std::mutex> &lock, ControlOp op,
              const std::string &said, const std::vector<int> &fds,
              const Decide &decide, Frame &answer, Deadline deadline);

  std::unique_lock<std::mutex> begin() {
    return std::unique_lock<std::mutex>(mutex);
  }

  /// Ranks are on several hosts: `fds` are lost then.
  bool isRemote() const { return meeting.remote != nullptr; }

  /// True once the process of `peer` has ended, as far as the kernel tells.
  bool isDead(int peer, int waitMs = 0) const;

  /// Makes every later collective fail with this cause: the group is spoilt.
  void spoil(const Error &cause);
  Error spoiltBy() const;

private:
  Error agreeAsHub(ControlOp op, const std::string &said, const Decide &decide,
                   Frame &answer, Deadline deadline);
  Error agreeFarApart(ControlOp op, const std::string &said,
                      const Decide &decide, Frame &answer, Deadline deadline);
  Error agreeAsSpoke(ControlOp op, const std::string &said,
                     const std::vector<int> &fds, Frame &answer,
                     Deadline deadline);
  Error collect(ControlOp op, std::vector<Said> &said, Deadline &deadline);
  Error lost(int peer, const Error &cause) const;

  Meeting meeting;
  std::mutex mutex;
  uint64_t sequence = 0;
  mutable std::mutex spoiltMutex;
  Error spoilt;
};

} // namespace tandem

#endif
