//===-- Error.h - What went wrong, inside the runtime --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SUPPORT_ERROR_H
#define TANDEM_RUNTIME_SUPPORT_ERROR_H

#include "tandem/Runtime/tandem.h"

#include <cstring>
#include <new>
#include <system_error>

namespace tandem {

/// A failure with its cause; holds no memory, so that making one can't fail.
/// Contextually true when it is a failure.
struct Error {
  tandem_status status = TANDEM_STATUS_OK;
  int32_t reporter = -1;
  int32_t peer = -1;
  uint64_t call = 0;
  char message[sizeof(tandem_error::message)];

  /// Success. Leaves most of the message as it is: calls make a dozen of these.
  Error() { message[0] = '\0'; }

  /// Clears what lies behind the message, for bytes that leave this process.
  void clearRest() {
    size_t used = strnlen(message, sizeof(message));
    memset(message + used, 0, sizeof(message) - used);
  }

  explicit operator bool() const { return status != TANDEM_STATUS_OK; }
};

/// Makes an error; too long a message is cut.
__attribute__((format(printf, 3, 4))) Error makeError(tandem_status status,
                                                      int32_t peer,
                                                      const char *format, ...);

/// Makes an error that ends in the text of `errnum`.
__attribute__((format(printf, 2, 3))) Error makeSystemError(int errnum,
                                                            const char *format,
                                                            ...);

/// Copies `error` into the caller's struct as far as that is large enough.
/// Returns the status.
tandem_status exportError(const Error &error, tandem_error *out);

/// Runs `body`, which returns an Error; what it throws becomes one, too. What
/// one rank of a collective throws would otherwise leave its peers waiting.
template <typename Body>
Error caught(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1, "out of memory");
  } catch (const std::system_error &error) {
    return makeError(TANDEM_STATUS_SYSTEM, -1, "%.300s", error.what());
  } catch (...) {
    return makeError(TANDEM_STATUS_INTERNAL, -1, "an unexpected exception");
  }
}

} // namespace tandem

#endif
