//===- DeviceMemory.cpp - Where arguments and results lie -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace tandem::run;

DeviceMemory::~DeviceMemory() = default;

namespace {
class HostMemory : public DeviceMemory {
public:
  bool allocate(uint64_t bytes, void *&memory, std::string &error) override {
    memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory)
      error = std::to_string(bytes) + " bytes of memory can't be had";
    return memory != nullptr;
  }
  void free(void *memory) override { ::free(memory); }
  bool copyIn(void *device, const void *host, uint64_t bytes,
              std::string &) override {
    if (bytes)
      memcpy(device, host, bytes);
    return true;
  }
  bool copyOut(void *host, const void *device, uint64_t bytes,
               std::string &) override {
    if (bytes)
      memcpy(host, device, bytes);
    return true;
  }
  bool synchronize(std::string &) override { return true; }
};

/// Calls of the CUDA runtime, found by name, so that this program also starts
/// on machines without it.
class CudaMemory : public DeviceMemory {
public:
  ~CudaMemory() override {
    if (stream)
      streamDestroy(stream);
  }

  bool open(int index, std::string &error) {
    void *library = nullptr;
    for (const char *name :
         {"libcudart.so", "libcudart.so.13", "libcudart.so.12"}) {
      library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
      if (library)
        break;
    }
    if (!library) {
      error = "--device=cuda needs the CUDA runtime, libcudart.so, which is "
              "not found";
      return false;
    }
    bool isComplete =
        find(library, "cudaSetDevice", setDevice) &&
        find(library, "cudaMalloc", malloc) &&
        find(library, "cudaFree", release) &&
        find(library, "cudaMemcpy", memcpy) &&
        find(library, "cudaStreamCreate", streamCreate) &&
        find(library, "cudaStreamDestroy", streamDestroy) &&
        find(library, "cudaStreamSynchronize", streamSynchronize) &&
        find(library, "cudaGetErrorString", errorString);
    if (!isComplete) {
      error = "the CUDA runtime that was found lacks functions";
      return false;
    }
    return check("device " + std::to_string(index), setDevice(index), error) &&
           check("stream", streamCreate(&stream), error);
  }

  bool allocate(uint64_t bytes, void *&memory, std::string &error) override {
    return check(std::to_string(bytes) + " bytes of device memory",
                 malloc(&memory, bytes ? bytes : 1), error);
  }
  void free(void *memory) override { release(memory); }
  bool copyIn(void *device, const void *host, uint64_t bytes,
              std::string &error) override {
    return check("copy to the device", memcpy(device, host, bytes, 1), error);
  }
  bool copyOut(void *host, const void *device, uint64_t bytes,
               std::string &error) override {
    return check("copy from the device", memcpy(host, device, bytes, 2), error);
  }
  bool synchronize(std::string &error) override {
    return check("stream", streamSynchronize(stream), error);
  }
  void *getStream() override { return stream; }

private:
  template <typename Function>
  static bool find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
  bool check(const std::string &what, int status, std::string &error) {
    if (status != 0)
      error = "CUDA: " + what + ": " + errorString(status);
    return status == 0;
  }

  int (*setDevice)(int) = nullptr;
  int (*malloc)(void **, size_t) = nullptr;
  int (*release)(void *) = nullptr;
  int (*memcpy)(void *, const void *, size_t, int) = nullptr;
  int (*streamCreate)(void **) = nullptr;
  int (*streamDestroy)(void *) = nullptr;
  int (*streamSynchronize)(void *) = nullptr;
  const char *(*errorString)(int) = nullptr;
  void *stream = nullptr;
};
} // namespace

std::unique_ptr<DeviceMemory> tandem::run::makeHostMemory() {
  return std::make_unique<HostMemory>();
}

std::unique_ptr<DeviceMemory> tandem::run::makeCudaMemory(int index,
                                                          std::string &error) {
  auto memory = std::make_unique<CudaMemory>();
  if (!memory->open(index, error))
    return nullptr;
  return memory;
}
