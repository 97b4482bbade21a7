//===-- Rendezvous.h - How the ranks of a group meet ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_COMM_RENDEZVOUS_H
#define TANDEM_RUNTIME_COMM_RENDEZVOUS_H

#include "Channel.h"
#include "Remote.h"

#include <array>
#include <memory>

namespace tandem {

/// Version of everything two processes of a group exchange: hello, frames,
/// shared memory. Ranks of different versions don't form a group.
constexpr uint32_t wireProtocol = 2;

/// The first message of a rank to rank 0. The first three fields keep their
/// place in every version, so that a difference can be named.
struct Hello {
  uint64_t magic;
  uint32_t protocol;
  uint32_t abi;
  int32_t rank;
  int32_t world;
  /// How long the sender goes on waiting; 0: for ever.
  int64_t remainingMs;
  uint8_t key[16];
  /// A descriptor of the sender's process comes with the message.
  uint32_t hasPidfd;
  uint32_t reserved;
};
constexpr uint64_t helloMagic = 0x31494d45444e4154;

/// A Reply's status that sends a rank back to the rendezvous: it came again
/// while an attempt that it had already been told about was being wound up.
constexpr int32_t comeAgain = -1;

/// Rank 0's answer; keeps its layout in every version.
struct Reply {
  uint64_t magic;
  uint32_t protocol;
  int32_t status;
  int32_t peer;
  uint32_t reserved;
  char message[480];
};

/// Where a group meets.
struct Place {
  /// Directory of the socket; empty: an abstract socket.
  std::string directory;
  std::string name;
  /// Proves that the two mean the same group.
  std::array<uint8_t, 16> key{};
};

/// What a meeting leaves.
struct Meeting {
  /// Rank 0: a channel to every other rank, by rank. Others: to rank 0 alone.
  std::vector<Channel> channels;
  /// A descriptor of every rank's process, by rank; empty where the kernel has
  /// none, and at one's own place.
  std::vector<UniqueFd> pidfds;
  /// Ranks on several hosts have this instead of the above.
  std::unique_ptr<Remote> remote;
};

/// Turns a rendezvous name or path into a place. `directory` is the user's
/// choice of private directory, or empty for the default, which is made if it
/// isn't there.
Error placeOfName(const char *name, const std::string &directory, Place &place);

Error makeUniqueId(tandem_unique_id &id);
Error placeOfUniqueId(const tandem_unique_id &id, Place &place);

/// Meets the other `world - 1` ranks.
Error meet(const Place &place, int rank, int world, Deadline deadline,
           Meeting &meeting);

} // namespace tandem

#endif
