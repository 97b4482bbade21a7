//===-- UniqueFd.h - A file descriptor that is closed once ---- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SUPPORT_UNIQUEFD_H
#define TANDEM_RUNTIME_SUPPORT_UNIQUEFD_H

#include <unistd.h>
#include <utility>

namespace tandem {

class UniqueFd {
public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd(fd) {}
  UniqueFd(UniqueFd &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  UniqueFd &operator=(UniqueFd &&other) noexcept {
    reset(std::exchange(other.fd, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  int release() { return std::exchange(fd, -1); }
  void reset(int next = -1) {
    if (fd >= 0)
      close(fd);
    fd = next;
  }

private:
  int fd = -1;
};

} // namespace tandem

#endif
