//===-- Channel.h - Framed messages over a socket ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_COMM_CHANNEL_H
#define TANDEM_RUNTIME_COMM_CHANNEL_H

#include "support/Clock.h"
#include "support/Error.h"
#include "support/UniqueFd.h"

#include <string>
#include <vector>

namespace tandem {

/// A message between two ranks of a communicator.
struct Frame {
  uint32_t type = 0;
  /// Number of the collective it belongs to.
  uint64_t sequence = 0;
  std::string body;
  std::vector<UniqueFd> fds;
};

/// One end of a connected, non-blocking Unix stream socket. Errors of the
/// connection have the status PEER_LEFT (closed or reset) or TIMEOUT and don't
/// name a rank: that is the caller's to add.
class Channel {
public:
  Channel() = default;
  explicit Channel(UniqueFd fd) : socket(std::move(fd)) {}

  int fd() const { return socket.get(); }
  void close() { socket.reset(); }

  /// Sends exactly `size` bytes, with descriptors attached to the first.
  Error sendBytes(const void *data, size_t size, const int *fds, size_t numFds,
                  Deadline deadline);
  /// Receives exactly `size` bytes; descriptors that come with them are added
  /// to `fds`.
  Error recvBytes(void *data, size_t size, std::vector<UniqueFd> *fds,
                  Deadline deadline);

  Error send(uint32_t type, uint64_t sequence, const std::string &body,
             const std::vector<int> &fds, Deadline deadline);
  Error recv(Frame &frame, Deadline deadline);

private:
  UniqueFd socket;
};

} // namespace tandem

#endif
