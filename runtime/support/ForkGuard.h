//===-- ForkGuard.h - Tells a forked child from its parent ---- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SUPPORT_FORKGUARD_H
#define TANDEM_RUNTIME_SUPPORT_FORKGUARD_H

#include <sys/mman.h>
#include <unistd.h>

namespace tandem {

/// One page that the kernel clears in a forked child, so that asking costs a
/// load and not a system call. Where the kernel can't (before Linux 4.14),
/// every process looks like the owner.
class ForkGuard {
public:
  ForkGuard() {
    size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      return;
    page = static_cast<volatile char *>(p);
#ifdef MADV_WIPEONFORK
    (void)madvise(p, size, MADV_WIPEONFORK);
#endif
    *page = 1;
  }
  ForkGuard(const ForkGuard &) = delete;
  ForkGuard &operator=(const ForkGuard &) = delete;
  ~ForkGuard() {
    if (page)
      munmap(const_cast<char *>(page), size);
  }

  bool valid() const { return page != nullptr; }
  bool inOwner() const { return *page != 0; }

private:
  volatile char *page = nullptr;
  size_t size = 0;
};

} // namespace tandem

#endif
