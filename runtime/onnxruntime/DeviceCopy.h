//===- DeviceCopy.h - Copies within a GPU's memory --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ONNXRUNTIME_DEVICECOPY_H
#define TANDEM_RUNTIME_ONNXRUNTIME_DEVICECOPY_H

#include <cstddef>
#include <string>

namespace tandem::ort {

/// Copies `bytes` bytes of a GPU's memory on a CUDA stream of the calling
/// thread's current context. Returns what failed; nothing: it is on its way.
std::string copyOnDevice(void *to, const void *from, size_t bytes,
                         void *stream);

} // namespace tandem::ort

#endif // TANDEM_RUNTIME_ONNXRUNTIME_DEVICECOPY_H
