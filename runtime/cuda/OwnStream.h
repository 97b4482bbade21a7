//===-- OwnStream.h - A stream of the runtime's own ----------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What the runtime does on the device besides calls: on a stream that has no
// order with the legacy stream. A synchronous copy would have, and it would
// wait for the caller's streams, fail in their captures, and yet may return
// before its bytes are seen by other streams.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_OWNSTREAM_H
#define TANDEM_RUNTIME_CUDA_OWNSTREAM_H

#include "support/Clock.h"
#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace tandem {
namespace cuda {

/// On the GPU that was current when it was made. Any thread may copy; one at a
/// time waits.
class OwnStream {
public:
  OwnStream() = default;
  OwnStream(const OwnStream &) = delete;
  OwnStream &operator=(const OwnStream &) = delete;
  /// Doesn't wait: what is enqueued is still done.
  ~OwnStream() { reset(); }

  Error make();
  void reset();
  /// For a forked child.
  void forget() { stream = nullptr; }
  cudaStream_t get() const { return stream; }

  /// Enqueues a copy between host and device. `from` may change, and `to` be
  /// read, once `wait` has returned.
  Error copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);

  /// Waits for all that is enqueued. `action` says what that is. `look`, if
  /// any, is called meanwhile; its error ends the wait, as the deadline does.
  Error wait(Deadline deadline, const char *action,
             const std::function<Error()> &look = nullptr);

private:
  cudaStream_t stream = nullptr;
};

} // namespace cuda
} // namespace tandem

#endif
