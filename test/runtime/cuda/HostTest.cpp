//===-- HostTest.cpp - The CUDA backend's host side without a GPU ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// FakeNccl.cpp stands in for NCCL where a test says so.

#include "cuda/CudaBackend.h"
#include "cuda/Monitor.h"
#include "cuda/Nccl.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cuda;

namespace {

TEST(CudaHost, NcclThatIsNotThereIsNamed) {
  std::shared_ptr<const NcclApi> api;
  Error error = loadNccl("/nowhere/libnccl.so.2", api);
  EXPECT_EQ(error.status, TANDEM_STATUS_UNSUPPORTED);
  EXPECT_TRUE(strstr(error.message, "no NCCL")) << error.message;
  EXPECT_TRUE(strstr(error.message, "/nowhere/libnccl.so.2")) << error.message;
  EXPECT_FALSE(api);
}

TEST(CudaHost, ALibraryThatIsNotNcclIsNamed) {
  std::shared_ptr<const NcclApi> api;
  Error error = loadNccl("libm.so.6", api);
  EXPECT_EQ(error.status, TANDEM_STATUS_UNSUPPORTED);
  EXPECT_TRUE(strstr(error.message, "'libm.so.6' lacks a function"))
      << error.message;
}

TEST(CudaHost, AnOldNcclIsRefused) {
  setenv("FAKE_NCCL_VERSION", "21304", 1);
  std::shared_ptr<const NcclApi> api;
  Error error = loadNccl(TANDEM_FAKE_NCCL, api);
  EXPECT_EQ(error.status, TANDEM_STATUS_UNSUPPORTED);
  EXPECT_TRUE(strstr(error.message, "is version 21304, older than 21400"))
      << error.message;
}

TEST(CudaHost, WhatNcclSaysIsPassedOn) {
  setenv("FAKE_NCCL_VERSION", "22809", 1);
  std::shared_ptr<const NcclApi> api;
  Error error = loadNccl(TANDEM_FAKE_NCCL, api);
  ASSERT_FALSE(error) << error.message;
  EXPECT_EQ(api->version, 22809);
  EXPECT_FALSE(api->failure(0, nullptr, "calling"));
  EXPECT_FALSE(api->failure(ncclCodeInProgress, nullptr, "calling"));
  error = api->failure(3, nullptr, "calling");
  EXPECT_EQ(error.status, TANDEM_STATUS_SYSTEM);
  EXPECT_STREQ(error.message, "calling: NCCL says 'code 3': the fake's reason");
}

/// The formula of docs/cuda.md, and the promise of at most 0.16 GB.
TEST(CudaHost, BytesOfAWorkspace) {
  constexpr uint64_t asked = uint64_t(2048) * 7168 * 2, row = 262144;
  EXPECT_EQ(scratchBytesFor(2, row, asked), uint64_t(8) << 20);
  EXPECT_EQ(scratchBytesFor(8, row, 4096), roundUp(10 * (262144 + 256), 1024));
  constexpr uint64_t granularity = uint64_t(2) << 20;
  for (int world = 2; world <= maxWorld; ++world) {
    uint64_t region =
        roundUp(regionBytes(static_cast<uint32_t>(world), asked), granularity);
    EXPECT_LE(region + scratchBytesFor(world, row, asked), 160000000u)
        << world << " ranks";
  }
  // A third of scratch holds a row with its padding, whatever the world.
  for (int world = 2; world <= 16; ++world)
    EXPECT_GE(scratchBytesFor(world, row, 0) / 3 / 256 * 256, row + 16);
}

TEST(CudaHost, TheHostsSegmentHasRoomForAll) {
  for (int world : {2, 8, 128}) {
    uint64_t bytes = HostSegment::bytes(world);
    EXPECT_EQ(bytes % 4096, 0u);
    EXPECT_GE(bytes, offsetof(HostSegment, ranks) +
                         static_cast<uint64_t>(world) * sizeof(HostLine));
  }
}

class Counter final : public Watched {
public:
  void look() override { looks.fetch_add(1); }
  std::atomic<int> looks{0};
};

/// What was removed isn't looked at again, and a monitor ends with its owner.
TEST(CudaHost, TheMonitorLooksUntilToldNotTo) {
  auto gpu = std::make_shared<Gpu>();
  Counter first, second;
  {
    Monitor monitor(gpu);
    monitor.add(&first);
    monitor.add(&second);
    for (int i = 0; i < 500 && (first.looks < 2 || second.looks < 2); ++i) {
      monitor.wake();
      usleep(2000);
    }
    EXPECT_GE(first.looks, 2);
    EXPECT_GE(second.looks, 2);
    monitor.remove(&first);
    int before = first.looks, other = second.looks;
    for (int i = 0; i < 500 && second.looks < other + 3; ++i) {
      monitor.wake();
      usleep(2000);
    }
    EXPECT_EQ(first.looks, before);
    EXPECT_GE(second.looks, other + 3);
    monitor.remove(&second);
  }
  int after = second.looks;
  usleep(50000);
  EXPECT_EQ(second.looks, after);
}

} // namespace
