//===-- Validate.h - Checks of what callers pass -------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_VALIDATE_H
#define TANDEM_RUNTIME_WORKSPACE_VALIDATE_H

#include "support/Error.h"

#include <cstring>

namespace tandem {

/// Takes over a struct that begins with its size: one that is newer than ours
/// may only have zeros where we know nothing. Once T has grown in a minor
/// version, its size in 1.0 must stay the least that is accepted.
template <typename T>
Error readStruct(const T *in, const char *name, T &out) {
  if (!in)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "%s is NULL", name);
  uint64_t size = in->struct_size;
  if (size < sizeof(T) || size > 65536)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s has struct_size %llu, this runtime needs at least "
                     "%zu: start from its _INIT macro",
                     name, static_cast<unsigned long long>(size), sizeof(T));
  const char *bytes = reinterpret_cast<const char *>(in);
  for (uint64_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                       "%s uses a field at byte %llu that this runtime (ABI "
                       "%d.%d) doesn't know",
                       name, static_cast<unsigned long long>(i),
                       TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR);
  memcpy(&out, in, sizeof(T));
  return Error();
}

/// Refuses what a later ABI may put into the words kept free.
template <size_t N>
Error checkReserved(const uint64_t (&reserved)[N], const char *name) {
  for (uint64_t word : reserved)
    if (word != 0)
      return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                       "%s.reserved must be zero in this ABI version", name);
  return Error();
}

/// Which of the three calls the arguments are for.
enum class NormCall { Fused, AddRmsNorm, RmsNorm };

/// Checks an execute call's arguments but for what the workspace limits. Sets
/// strides of 0 to `hidden`.
Error validate(NormCall call, tandem_norm_args &args);
Error validate(tandem_all_reduce_args &args);

} // namespace tandem

#endif
