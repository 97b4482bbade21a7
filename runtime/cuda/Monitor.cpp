//===-- Monitor.cpp - Looks after a group while it works ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Monitor.h"

#include <algorithm>
#include <pthread.h>
// NOLINTNEXTLINE(modernize-deprecated-headers): pthread_sigmask is POSIX.
#include <signal.h>

using namespace tandem;
using namespace tandem::cuda;

static constexpr auto interval = std::chrono::milliseconds(20);

namespace {
/// Blocks all signals of this thread, and of threads that it starts, for a
/// while: the host's are not for ours.
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t every;
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &before);
  }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};
} // namespace

void Monitor::add(Watched *watched) {
  std::lock_guard<std::mutex> guard(mutex);
  if (!thread) {
    SignalsBlocked blocked;
    thread = std::make_unique<std::thread>([this] { run(); });
  }
  all.push_back(watched);
}

void Monitor::remove(Watched *watched) {
  std::lock_guard<std::mutex> guard(mutex);
  all.erase(std::remove(all.begin(), all.end(), watched), all.end());
}

void Monitor::wake() {
  std::lock_guard<std::mutex> guard(mutex);
  woken = true;
  changed.notify_all();
}

void Monitor::stop() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (thread)
    thread->join();
  thread.reset();
}

void Monitor::run() {
  GpuScope scope(*gpu);
  RelaxedCapture relaxed;
  std::unique_lock<std::mutex> guard(mutex);
  while (!stopping) {
    for (Watched *watched : all)
      watched->look();
    changed.wait_for(guard, interval, [&] { return stopping || woken; });
    woken = false;
  }
}
