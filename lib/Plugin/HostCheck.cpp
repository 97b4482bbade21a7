//===- HostCheck.cpp - Is the host's MLIR ours? ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostCheck.h"

#include <cstring>
#include <dlfcn.h>
#include <link.h>

/// The file name of the loaded object at `info`, for people.
static std::string getName(const Dl_info &info) {
  return info.dli_fname && *info.dli_fname ? info.dli_fname : "the program";
}

static bool hasFileName(const char *path, const char *name) {
  if (!path)
    return false;
  const char *slash = std::strrchr(path, '/');
  return std::strcmp(slash ? slash + 1 : path, name) == 0;
}

namespace {
struct NeedsQuery {
  const void *address;
  const char *library;
  bool found = false;
};
} // namespace

/// Looks whether the object that holds an address lists a library among those
/// that it needs.
static int findNeeded(dl_phdr_info *info, size_t, void *data) {
  auto &query = *static_cast<NeedsQuery *>(data);
  const auto address = reinterpret_cast<ElfW(Addr)>(query.address);
  const ElfW(Dyn) *dynamic = nullptr;
  bool holds = false;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin &&
        address - begin < header.p_memsz)
      holds = true;
    if (header.p_type == PT_DYNAMIC)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): where it was loaded.
      dynamic = reinterpret_cast<const ElfW(Dyn) *>(begin);
  }
  if (!holds)
    return 0;
  if (!dynamic)
    return 1;
  // glibc has made the table's address absolute.
  const char *strings = nullptr;
  for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address.
      strings = reinterpret_cast<const char *>(entry->d_un.d_ptr);
  for (const ElfW(Dyn) *entry = dynamic; strings && entry->d_tag != DT_NULL;
       ++entry)
    if (entry->d_tag == DT_NEEDED &&
        std::strcmp(strings + entry->d_un.d_val, query.library) == 0)
      query.found = true;
  return 1;
}

std::string mlir::tandem::findHostMismatch(const void *caller,
                                           const void *mlirSymbol,
                                           const char *library) {
  Dl_info ours, host;
  if (!dladdr(mlirSymbol, &ours) || !dladdr(caller, &host))
    return "the loading program can't be identified";

  // Functions of a host that exports its own MLIR come before the library's.
  if (!hasFileName(ours.dli_fname, library))
    return getName(ours) + " has a copy of MLIR of its own instead of " +
           library;
  if (host.dli_fbase == ours.dli_fbase)
    return "";
  NeedsQuery query{caller, library};
  dl_iterate_phdr(findNeeded, &query);
  if (!query.found)
    return getName(host) + " does not use " + library;
  return "";
}
