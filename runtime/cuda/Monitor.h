//===-- Monitor.h - Looks after a group while it works -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_MONITOR_H
#define TANDEM_RUNTIME_CUDA_MONITOR_H

#include "Gpu.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {
namespace cuda {

/// Something to look at every few milliseconds.
class Watched {
public:
  virtual ~Watched() = default;
  /// On the monitor's thread, with the GPU current.
  virtual void look() = 0;
};

/// The watchdog of a communicator on a GPU: one thread, from its first
/// workspace on. Launches nothing and waits for nothing on the device.
class Monitor {
public:
  explicit Monitor(std::shared_ptr<const Gpu> gpu) : gpu(std::move(gpu)) {}
  ~Monitor() { stop(); }
  Monitor(const Monitor &) = delete;
  Monitor &operator=(const Monitor &) = delete;

  /// Throws std::system_error where no thread can be started.
  void add(Watched *watched);
  /// Returns once `watched` isn't looked at any more.
  void remove(Watched *watched);
  /// Looks soon.
  void wake();
  void stop();
  /// For a forked child, in which there is no such thread.
  void forget() { (void)thread.release(); }

private:
  void run();

  std::shared_ptr<const Gpu> gpu;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Watched *> all;
  bool stopping = false;
  bool woken = false;
  std::unique_ptr<std::thread> thread;
};

} // namespace cuda
} // namespace tandem

#endif
