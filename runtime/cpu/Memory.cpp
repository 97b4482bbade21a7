//===-- Memory.cpp - Shared memory, and how much there is -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

using namespace tandem;

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

/// Reads a small file; empty where it can't.
static std::string readFile(const std::string &path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  for (ssize_t n; fd && (n = read(fd.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

static bool parseNumber(const std::string &text, uint64_t &value) {
  char *end;
  errno = 0;
  value = strtoull(text.c_str(), &end, 10);
  return end != text.c_str() && errno == 0 && text[0] >= '0' && text[0] <= '9';
}

/// Takes `limit - used` of one control group, if it has a limit.
static void boundByGroup(const std::string &limitFile,
                         const std::string &usedFile, const std::string &stat,
                         const char *cacheKey, uint64_t &available,
                         const char *&why) {
  uint64_t limit, used, cache = 0;
  if (!parseNumber(readFile(limitFile), limit) ||
      !parseNumber(readFile(usedFile), used))
    return;
  // Clean cache of files is given back on demand.
  std::string text = readFile(stat);
  size_t at = text.find(cacheKey);
  if (at != std::string::npos)
    (void)parseNumber(text.substr(at + strlen(cacheKey)), cache);
  used = used > cache ? used - cache : 0;
  uint64_t left = limit > used ? limit - used : 0;
  if (left < available) {
    available = left;
    why = "left by the control group";
  }
}

uint64_t tandem::availableMemory(uint64_t limit, const char *&why) {
  uint64_t available = UINT64_MAX;
  why = "of address space";
  std::string info = readFile("/proc/meminfo");
  size_t at = info.find("MemAvailable:");
  uint64_t kib;
  if (at != std::string::npos) {
    at = info.find_first_of("0123456789", at);
    if (at != std::string::npos && parseNumber(info.substr(at), kib)) {
      available = kib * 1024;
      why = "available on the machine";
    }
  }
  // Every group up to the root may have a limit.
  std::string groups = readFile("/proc/self/cgroup");
  for (size_t line = 0; line < groups.size();) {
    size_t end = groups.find('\n', line);
    if (end == std::string::npos)
      end = groups.size();
    std::string entry = groups.substr(line, end - line);
    line = end + 1;
    size_t first = entry.find(':');
    size_t second = entry.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = entry.substr(first + 1, second - first - 1);
    std::string path = entry.substr(second + 1);
    bool unified = controllers.empty();
    if (!unified &&
        ("," + controllers + ",").find(",memory,") == std::string::npos)
      continue;
    for (;;) {
      std::string dir = (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") +
                        (path == "/" ? "" : path);
      if (unified)
        boundByGroup(dir + "/memory.max", dir + "/memory.current",
                     dir + "/memory.stat", "inactive_file ", available, why);
      else
        boundByGroup(dir + "/memory.limit_in_bytes",
                     dir + "/memory.usage_in_bytes", dir + "/memory.stat",
                     "total_inactive_file ", available, why);
      size_t slash = path.rfind('/');
      if (path.size() <= 1 || slash == std::string::npos)
        break;
      path.resize(slash == 0 ? 1 : slash);
    }
  }
  if (limit != 0 && limit < available) {
    available = limit;
    why = "allowed by TANDEM_MEMORY_LIMIT";
  }
  return available;
}

Error tandem::makeSharedFile(SharedFileKind kind, uint64_t bytes,
                             UniqueFd &fd) {
  if (kind == SharedFileKind::Memfd) {
    fd.reset(static_cast<int>(syscall(SYS_memfd_create, "tandem-workspace",
                                      MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    if (!fd)
      return makeSystemError(errno, "memfd_create");
  } else {
#ifdef O_TMPFILE
    fd.reset(open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
#endif
    if (!fd)
      return makeSystemError(errno, "an unnamed file in /dev/shm");
  }
  // A memfd is born with mode 0777; only its own user may open it again through
  // /proc.
  if (fchmod(fd.get(), 0600) != 0)
    return makeSystemError(errno, "fchmod of shared memory");
  // A memfd has no limit of its own: asking for more than there is would bring
  // the kernel's killer and not an error.
  const char *why;
  uint64_t available = availableMemory(0, why);
  if (bytes > available) {
    fd.reset();
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1,
                     "%llu bytes of shared memory are needed, %llu are %s",
                     static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(available), why);
  }
  // Takes the pages now: without them a store would end in SIGBUS later.
  int err;
  do
    err = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  while (err == EINTR);
  if (err != 0) {
    fd.reset();
    return makeSystemError(err, "%llu bytes of shared memory",
                           static_cast<unsigned long long>(bytes));
  }
  // Nobody can take them away any more.
  (void)fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return Error();
}

Error tandem::makeSharedFile(uint64_t bytes, UniqueFd &fd) {
  Error error = makeSharedFile(SharedFileKind::Memfd, bytes, fd);
  if (error.status != TANDEM_STATUS_SYSTEM)
    return error;
  // Forbidden by a sandbox, or an old kernel.
  return makeSharedFile(SharedFileKind::UnnamedFile, bytes, fd);
}

Error SharedMapping::map(int fd, uint64_t bytes) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return makeSystemError(errno, "fstat of shared memory");
  if (static_cast<uint64_t>(st.st_size) != bytes)
    return makeError(TANDEM_STATUS_INTERNAL, -1,
                     "shared memory has %lld bytes, not %llu",
                     static_cast<long long>(st.st_size),
                     static_cast<unsigned long long>(bytes));
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, fd, 0);
  if (p == MAP_FAILED)
    return makeSystemError(errno, "mapping %llu bytes of shared memory",
                           static_cast<unsigned long long>(bytes));
#ifdef MADV_DONTFORK
  (void)madvise(p, bytes, MADV_DONTFORK);
#endif
  base = p;
  size = bytes;
  return Error();
}

void SharedMapping::reset() {
  if (base)
    munmap(base, size);
  base = nullptr;
}
