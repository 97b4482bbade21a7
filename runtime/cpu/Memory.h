//===-- Memory.h - Shared memory, and how much there is ------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_MEMORY_H
#define TANDEM_RUNTIME_CPU_MEMORY_H

#include "support/Error.h"
#include "support/UniqueFd.h"

namespace tandem {

/// Memory that a new workspace may take: the least of what the system has
/// available, what this process's control groups leave, and `limit` (0: none).
/// `why` gets the name of whichever it was.
uint64_t availableMemory(uint64_t limit, const char *&why);

/// Where an anonymous shared file may come from, best first.
enum class SharedFileKind { Memfd, UnnamedFile };

/// Makes a file of `bytes` in memory, with all its pages there, that has no
/// name anywhere: it can only be had from its descriptor, and is gone with the
/// last process that holds it.
Error makeSharedFile(uint64_t bytes, UniqueFd &fd);
Error makeSharedFile(SharedFileKind kind, uint64_t bytes, UniqueFd &fd);

/// A mapping of such a file. Not inherited by a forked child.
class SharedMapping {
public:
  SharedMapping() = default;
  SharedMapping(const SharedMapping &) = delete;
  SharedMapping &operator=(const SharedMapping &) = delete;
  ~SharedMapping() { reset(); }

  /// Checks that the file has `bytes` and maps it.
  Error map(int fd, uint64_t bytes);
  void reset();
  /// Forgets the mapping: for a forked child, which doesn't have it.
  void forget() { base = nullptr; }
  void *get() const { return base; }

private:
  void *base = nullptr;
  uint64_t size = 0;
};

} // namespace tandem

#endif
