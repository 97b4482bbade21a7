//===-- Error.cpp - What went wrong, inside the runtime -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Error.h"

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

using namespace tandem;

Error tandem::makeError(tandem_status status, int32_t peer, const char *format,
                        ...) {
  Error error;
  error.status = status;
  error.peer = peer;
  va_list args;
  va_start(args, format);
  vsnprintf(error.message, sizeof(error.message), format, args);
  va_end(args);
  return error;
}

/// The two strerror_r of libc differ in what they return.
[[maybe_unused]] static const char *textOf(int, const char *buffer) {
  return buffer;
}
[[maybe_unused]] static const char *textOf(const char *text, const char *) {
  return text;
}

Error tandem::makeSystemError(int errnum, const char *format, ...) {
  Error error;
  error.status = errnum == ENOMEM || errnum == ENOSPC
                     ? TANDEM_STATUS_OUT_OF_MEMORY
                     : TANDEM_STATUS_SYSTEM;
  va_list args;
  va_start(args, format);
  vsnprintf(error.message, sizeof(error.message), format, args);
  va_end(args);
  char buffer[128] = "unknown error";
  const char *text = textOf(strerror_r(errnum, buffer, sizeof(buffer)), buffer);
  size_t used = strlen(error.message);
  snprintf(error.message + used, sizeof(error.message) - used, ": %s", text);
  return error;
}

tandem_status tandem::exportError(const Error &error, tandem_error *out) {
  // A struct shorter than the first version's has no place for any of it.
  if (!out || out->struct_size < sizeof(tandem_error))
    return error.status;
  out->status = error.status;
  out->reporter = error.reporter;
  out->peer = error.peer;
  out->reserved = 0;
  out->call = error.call;
  Error clean = error;
  clean.clearRest();
  memcpy(out->message, clean.message, sizeof(out->message));
  return error.status;
}
