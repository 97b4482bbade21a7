//===-- CpuDevice.cpp - Timing the CPU backend ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

using namespace tandem::bench;

namespace {
using Clock = std::chrono::steady_clock;

class CpuDevice final : public Device {
public:
  ~CpuDevice() override {
    for (void *memory : all)
      free(memory);
  }
  std::string open(Board &b, int, int world) override {
    board = &b;
    ranks = world;
    snprintf(b.deviceName, sizeof(b.deviceName), "CPU");
    return std::string();
  }
  void *allocate(uint64_t bytes) override {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory)
      all.push_back(memory);
    return memory;
  }
  void fill(void *memory, uint64_t bytes) override {
    memset(memory, 0x3c, bytes);
  }
  void *stream() override { return nullptr; }
  void *peerMemory(void *, uint64_t) override { return nullptr; }
  void copyToPeer(void *, const void *, uint64_t) override {}

  std::string measure(Timing timing, int calls, int samples, const Body &body,
                      double *out) override {
    if (timing != Timing::Chain)
      return std::string();
    for (int sample = -1; sample < samples; ++sample) {
      if (!meet(*board, ranks))
        return "another rank failed";
      Clock::time_point start = Clock::now();
      for (int call = 0; call < calls; ++call)
        if (tandem_status status = body(call))
          return tandem_status_name(status);
      double us =
          std::chrono::duration<double, std::micro>(Clock::now() - start)
              .count();
      if (sample >= 0)
        out[sample] = us / calls;
    }
    return std::string();
  }

private:
  Board *board = nullptr;
  int ranks = 0;
  std::vector<void *> all;
};
} // namespace

std::unique_ptr<Device> tandem::bench::makeCpuDevice() {
  return std::make_unique<CpuDevice>();
}

#if !defined(TANDEM_BENCH_CUDA)
std::unique_ptr<Device> tandem::bench::makeCudaDevice() { return nullptr; }
#endif
