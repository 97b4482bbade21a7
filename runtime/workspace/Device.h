//===-- Device.h - What a device does to make workspaces ------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_DEVICE_H
#define TANDEM_RUNTIME_WORKSPACE_DEVICE_H

#include "comm/Communicator.h"
#include "support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace tandem {

/// Defaults that a context hands on.
struct Settings {
  int64_t timeoutMs = 30000;
  std::string rendezvousDirectory;
  bool disableFusion = false;
  uint64_t memoryLimit = 0;
  /// Directory or file prefix that a failure's hang dump is written to; empty:
  /// nowhere.
  std::string hangDump;
  /// TANDEM_NCCL_LIBRARY: the file to load; empty: libnccl.so.2.
  std::string ncclLibrary;
  bool disableNccl = false;
  bool disableSharing = false;
  /// TANDEM_NCCL_SHARES_GPUS, for tests: let NCCL say whether it serves ranks
  /// that share a GPU.
  bool ncclSharesGpus = false;
  /// TANDEM_CHECK: compare calls that go through NCCL, too.
  bool checkCalls = false;
};

/// What a rank's device has to say before a workspace is made.
struct DeviceVote {
  /// Why this rank can't have the fused path; OK: it can.
  int32_t refusal;
  uint32_t unused;
  char reason[sizeof(tandem_workspace_info::reason)];
  /// The device's own words.
  uint8_t words[320];
};

/// What rank 0 decided; equal on all ranks, and sent as it is.
struct Terms {
  uint32_t fused;
  /// 1: the workspace is made.
  uint32_t done;
  /// 1: these are other terms than before; begin again.
  uint32_t again;
  uint32_t padding;
  int64_t maxTokens;
  int64_t tokenLimit;
  /// The least result of the step before.
  uint64_t result;
  char reason[sizeof(tandem_workspace_info::reason)];
  /// The device's own words.
  uint8_t words[640];
};

/// What all ranks have to show each other, by rank.
struct Offers {
  std::vector<std::string> bodies;
  std::vector<std::vector<UniqueFd>> fds;
};

/// Makes one workspace's device side, in step with the other ranks. Destroying
/// it before the last step gives everything back.
class WorkspaceMaker {
public:
  virtual ~WorkspaceMaker() = default;

  /// Takes this rank's memory. What is shown goes to all ranks.
  virtual Error offer(std::string &body, std::vector<UniqueFd> &fds) = 0;
  /// The steps that follow. A rank goes on to the next when all have done one.
  virtual int numSteps() const = 0;
  /// `result` comes in as the least of what the ranks set it to in the step
  /// before, and is 0 in the first.
  virtual Error build(int step, Offers &offers, tandem_workspace &workspace,
                      Deadline deadline, uint64_t &result) = 0;
};

/// The step in which an offer fails.
constexpr int offerStep = -1;

/// A device's part of a communicator, shared by its workspaces. Thread-safe.
class DeviceGroup {
public:
  virtual ~DeviceGroup() = default;

  /// Says what this rank's device can do. An error: no workspace at all.
  virtual Error vote(const tandem_workspace_desc &desc, DeviceVote &vote) = 0;
  /// Rank 0: fills in the device's words of the terms, and may take the fused
  /// path away.
  virtual Error decide(const std::vector<DeviceVote> &votes,
                       const tandem_workspace_desc &desc, Terms &terms) = 0;
  /// Rank 0: takes from the terms what `cause` made impossible in `step`. False
  /// if nothing is left to try.
  virtual bool retreat(int step, const Error &cause, Terms &terms) = 0;
  virtual std::unique_ptr<WorkspaceMaker>
  begin(const Terms &terms, const tandem_workspace_desc &desc) = 0;
  /// In a forked child: lets go of what isn't there.
  virtual void forget() {}
};

/// What a context is for.
class Device {
public:
  virtual ~Device() = default;
  virtual tandem_device kind() const = 0;
  virtual Error queryBytes(int32_t world, const tandem_workspace_desc &desc,
                           tandem_workspace_bytes &bytes) = 0;
  /// Not collective.
  virtual Error join(const std::shared_ptr<Communicator> &comm,
                     const Settings &settings,
                     std::shared_ptr<DeviceGroup> &group) = 0;
};

inline const char *deviceName(int32_t kind) {
  return kind == TANDEM_DEVICE_CUDA ? "CUDA" : "the CPU";
}

/// The usual retreat: from the fused path to what is left.
bool retreatFromFused(const Error &cause, Terms &terms);

} // namespace tandem

#endif
