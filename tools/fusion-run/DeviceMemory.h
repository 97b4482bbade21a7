//===- DeviceMemory.h - Where arguments and results lie ------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_DEVICEMEMORY_H
#define TANDEM_TOOLS_FUSIONRUN_DEVICEMEMORY_H

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::run {

/// Memory of the kind of device that a function runs on. Functions return
/// false and set `error` on failure.
class DeviceMemory {
public:
  virtual ~DeviceMemory();

  virtual bool allocate(uint64_t bytes, void *&memory, std::string &error) = 0;
  virtual void free(void *memory) = 0;
  virtual bool copyIn(void *device, const void *host, uint64_t bytes,
                      std::string &error) = 0;
  virtual bool copyOut(void *host, const void *device, uint64_t bytes,
                       std::string &error) = 0;
  /// Waits until all that was launched on the stream is done.
  virtual bool synchronize(std::string &error) = 0;
  virtual void *getStream() { return nullptr; }
};

/// This process's own memory.
std::unique_ptr<DeviceMemory> makeHostMemory();

/// CUDA's, by its runtime library, which is looked for when this is called.
/// Null and `error` if there is none, or no device of that index.
std::unique_ptr<DeviceMemory> makeCudaMemory(int index, std::string &error);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_DEVICEMEMORY_H
