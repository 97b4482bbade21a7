//===-- OwnStream.cpp - A stream of the runtime's own ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnStream.h"

#include "Gpu.h"

#include <ctime>

using namespace tandem;
using namespace tandem::cuda;

Error OwnStream::make() {
  reset();
  cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (code != cudaSuccess)
    stream = nullptr;
  return cudaFailure(code, "making a stream");
}

void OwnStream::reset() {
  if (stream)
    (void)cudaStreamDestroy(stream);
  stream = nullptr;
}

Error OwnStream::copy(void *to, const void *from, size_t bytes,
                      cudaMemcpyKind kind) {
  return cudaFailure(cudaMemcpyAsync(to, from, bytes, kind, stream),
                     kind == cudaMemcpyHostToDevice ? "copying to the GPU"
                                                    : "copying from the GPU");
}

Error OwnStream::wait(Deadline deadline, const char *action,
                      const std::function<Error()> &look) {
  for (;;) {
    cudaError_t code = cudaStreamQuery(stream);
    if (code == cudaSuccess)
      return Error();
    // Not an error, but remembered as one.
    if (code != cudaErrorNotReady)
      return cudaFailure(code, action);
    if (cudaPeekAtLastError() == cudaErrorNotReady)
      (void)cudaGetLastError();
    if (look)
      if (Error e = look())
        return e;
    if (deadline.passed())
      return makeError(TANDEM_STATUS_TIMEOUT, -1, "%s: not done in time",
                       action);
    timespec nap = {0, 50000};
    (void)nanosleep(&nap, nullptr);
  }
}
