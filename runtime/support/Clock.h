//===-- Clock.h - Deadlines on the monotonic clock ------------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SUPPORT_CLOCK_H
#define TANDEM_RUNTIME_SUPPORT_CLOCK_H

#include <cstdint>
#include <ctime>

namespace tandem {

inline int64_t nowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

/// A point in time after which to give up, or never.
class Deadline {
public:
  /// `timeoutMs` from now; 0 is never.
  static Deadline in(int64_t timeoutMs) {
    Deadline d;
    // A year is as good as never, and can't overflow.
    constexpr int64_t year = int64_t(365) * 24 * 3600 * 1000;
    if (timeoutMs > 0)
      d.at = nowNs() + (timeoutMs < year ? timeoutMs : year) * 1000000;
    return d;
  }

  bool never() const { return at == 0; }
  bool passed() const { return at != 0 && nowNs() >= at; }

  /// Milliseconds left, rounded up, at most `most`; `most` where there is no
  /// deadline.
  int64_t leftMs(int64_t most) const {
    if (never())
      return most;
    int64_t left = (at - nowNs() + 999999) / 1000000;
    return left < 0 ? 0 : left < most ? left : most;
  }

  /// The earlier of two deadlines.
  Deadline min(Deadline other) const {
    if (never() || (!other.never() && other.at < at))
      return other;
    return *this;
  }

  /// The same, `ms` later.
  Deadline plus(int64_t ms) const {
    Deadline d = *this;
    if (!never())
      d.at += ms * 1000000;
    return d;
  }

private:
  int64_t at = 0;
};

} // namespace tandem

#endif
