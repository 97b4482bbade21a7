//===-- Remote.h - Telling ranks that no socket reaches ------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_COMM_REMOTE_H
#define TANDEM_RUNTIME_COMM_REMOTE_H

#include "support/Clock.h"
#include "support/Error.h"

#include <string>
#include <vector>

namespace tandem {

/// Stands in for the control plane's sockets where ranks are on several hosts.
/// Descriptors can't be passed then, and nobody sees another's process end.
class Remote {
public:
  virtual ~Remote() = default;
  /// Gets what every rank says, by rank. Collective. After an error it can't be
  /// used again.
  virtual Error allGather(const std::string &mine,
                          std::vector<std::string> &all, Deadline deadline) = 0;
};

} // namespace tandem

#endif
