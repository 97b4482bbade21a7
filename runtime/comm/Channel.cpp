//===-- Channel.cpp - Framed messages over a socket -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Channel.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

using namespace tandem;

namespace {
struct FrameHeader {
  uint32_t magic;
  uint32_t type;
  uint64_t sequence;
  uint64_t length;
  uint64_t numFds;
};
constexpr uint32_t frameMagic = 0x544d4446;
/// The kernel's own limit on descriptors in one message.
constexpr size_t maxFds = 253;
/// Far above any signature; guards against a peer that sends noise.
constexpr uint64_t maxBody = uint64_t(1) << 30;
} // namespace

static Error closedError() {
  return makeError(TANDEM_STATUS_PEER_LEFT, -1, "the connection was closed");
}

/// Waits until `events` are there or the deadline has passed.
static Error waitFor(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd p = {fd, events, 0};
    int n = poll(&p, 1, static_cast<int>(deadline.leftMs(1000)));
    if (n > 0)
      return Error();
    if (n < 0 && errno != EINTR)
      return makeSystemError(errno, "poll");
    if (deadline.passed())
      return makeError(TANDEM_STATUS_TIMEOUT, -1, "no answer in time");
  }
}

Error Channel::sendBytes(const void *data, size_t size, const int *fds,
                         size_t numFds, Deadline deadline) {
  if (numFds > maxFds)
    return makeError(TANDEM_STATUS_INTERNAL, -1, "too many descriptors");
  alignas(cmsghdr) char control[CMSG_SPACE(maxFds * sizeof(int))];
  const char *p = static_cast<const char *>(data);
  while (size > 0) {
    iovec io = {const_cast<char *>(p), size};
    msghdr message = {};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    if (numFds > 0) {
      memset(control, 0, sizeof(control));
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(numFds * sizeof(int));
      cmsghdr *c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(numFds * sizeof(int));
      memcpy(CMSG_DATA(c), fds, numFds * sizeof(int));
    }
    ssize_t n = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (n > 0) {
      p += n;
      size -= static_cast<size_t>(n);
      numFds = 0;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Error e = waitFor(socket.get(), POLLOUT, deadline))
        return e;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return closedError();
    } else if (errno != EINTR) {
      return makeSystemError(errno, "sendmsg");
    }
  }
  return Error();
}

Error Channel::recvBytes(void *data, size_t size, std::vector<UniqueFd> *fds,
                         Deadline deadline) {
  alignas(cmsghdr) char control[CMSG_SPACE(maxFds * sizeof(int))];
  char *p = static_cast<char *>(data);
  while (size > 0) {
    iovec io = {p, size};
    msghdr message = {};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t n = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (Error e = waitFor(socket.get(), POLLIN, deadline))
          return e;
        continue;
      }
      if (errno == EINTR)
        continue;
      if (errno == ECONNRESET)
        return closedError();
      return makeSystemError(errno, "recvmsg");
    }
    if (n == 0)
      return closedError();
    for (cmsghdr *c = CMSG_FIRSTHDR(&message); c;
         c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        continue;
      size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        UniqueFd owned(fd);
        if (fds)
          fds->push_back(std::move(owned));
      }
    }
    p += n;
    size -= static_cast<size_t>(n);
  }
  return Error();
}

Error Channel::send(uint32_t type, uint64_t sequence, const std::string &body,
                    const std::vector<int> &fds, Deadline deadline) {
  FrameHeader header = {frameMagic, type, sequence, body.size(), fds.size()};
  if (Error e =
          sendBytes(&header, sizeof(header), fds.data(), fds.size(), deadline))
    return e;
  return sendBytes(body.data(), body.size(), nullptr, 0, deadline);
}

Error Channel::recv(Frame &frame, Deadline deadline) {
  FrameHeader header;
  frame.fds.clear();
  if (Error e = recvBytes(&header, sizeof(header), &frame.fds, deadline))
    return e;
  if (header.magic != frameMagic || header.length > maxBody)
    return makeError(TANDEM_STATUS_INTERNAL, -1, "a frame is not ours");
  if (header.numFds != frame.fds.size())
    return makeError(TANDEM_STATUS_SYSTEM, -1,
                     "%zu of %llu descriptors came through (is the limit on "
                     "open files too low?)",
                     frame.fds.size(),
                     static_cast<unsigned long long>(header.numFds));
  frame.type = header.type;
  frame.sequence = header.sequence;
  frame.body.resize(header.length);
  return recvBytes(&frame.body[0], header.length, nullptr, deadline);
}
