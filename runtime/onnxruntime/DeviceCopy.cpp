//===- DeviceCopy.cpp - Copies within a GPU's memory ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// ONNX Runtime's CUDA provider has loaded the driver, and made its GPU's
// context current, before it runs any node. So this asks the driver by name,
// and the library needs nothing of CUDA to be built or loaded.

#include "DeviceCopy.h"

#include <cstdint>

#include <dlfcn.h>

namespace {
using Copy = int (*)(uint64_t, uint64_t, size_t, void *);
} // namespace

static Copy findCopy() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? reinterpret_cast<Copy>(dlsym(driver, "cuMemcpyDtoDAsync_v2"))
                : nullptr;
}

std::string tandem::ort::copyOnDevice(void *to, const void *from, size_t bytes,
                                      void *stream) {
  static const Copy copy = findCopy();
  if (!copy)
    return "the CUDA driver, libcuda.so.1, is not there";
  int error = copy(reinterpret_cast<uint64_t>(to),
                   reinterpret_cast<uint64_t>(from), bytes, stream);
  return error == 0 ? std::string()
                    : "the copy failed with the CUDA driver's error " +
                          std::to_string(error);
}
