//===-- CpuDevice.cpp - The CPU as a device -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "CpuBackend.h"
#include "Memory.h"
#include "workspace/Workspace.h"

#include <cstdio>

using namespace tandem;

namespace {
class CpuMaker final : public WorkspaceMaker {
public:
  CpuMaker(std::shared_ptr<Communicator> comm, const Terms &terms,
           const tandem_workspace_desc &desc)
      : comm(std::move(comm)), fused(terms.fused != 0) {
    planned = planWorkspace(this->comm->world, terms.maxTokens, desc.hidden,
                            desc.dtype, plan);
  }

  Error offer(std::string &, std::vector<UniqueFd> &fds) override {
    if (planned || comm->world == 1 || comm->rank != 0)
      return planned;
    UniqueFd fd;
    if (Error e = makeSharedFile(layout().bytes, fd))
      return e;
    fds.push_back(std::move(fd));
    return Error();
  }

  int numSteps() const override { return 1; }

  Error build(int, Offers &offers, tandem_workspace &workspace, Deadline,
              uint64_t &) override {
    workspace.agreed.fusedBytes = fused ? plan.askedBytes : 0;
    workspace.agreed.privateBytes = plan.privateBytes;
    workspace.agreed.sharedBytes = layout().bytes;
    int fd = offers.fds[0].empty() ? -1 : offers.fds[0][0].get();
    return createCpuBackend(comm, layout(), plan.rowBytes, fd,
                            workspace.timeoutMs, workspace.failure,
                            workspace.backend);
  }

private:
  const Layout &layout() const { return fused ? plan.fused : plan.fallback; }

  std::shared_ptr<Communicator> comm;
  const bool fused;
  WorkspacePlan plan;
  Error planned;
};

class CpuGroup final : public DeviceGroup {
public:
  CpuGroup(std::shared_ptr<Communicator> comm, uint64_t memoryLimit)
      : comm(std::move(comm)), memoryLimit(memoryLimit) {}

  /// Looks at the memory there is.
  Error vote(const tandem_workspace_desc &desc, DeviceVote &vote) override {
    WorkspacePlan plan;
    if (Error e = planWorkspace(comm->world, desc.max_tokens, desc.hidden,
                                desc.dtype, plan))
      return e;
    const char *why;
    uint64_t available = availableMemory(memoryLimit, why);
    uint64_t fallback = plan.fallback.bytes + plan.privateBytes;
    uint64_t fused = plan.fused.bytes + plan.privateBytes;
    auto tooMuch = [&](uint64_t needed) {
      return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1,
                       "a workspace needs %llu bytes, %llu are %s",
                       static_cast<unsigned long long>(needed),
                       static_cast<unsigned long long>(available), why);
    };
    if (fallback > available)
      return tooMuch(fallback);
    if (fused > available) {
      vote.refusal = TANDEM_STATUS_OUT_OF_MEMORY;
      snprintf(vote.reason, sizeof(vote.reason), "%.250s",
               tooMuch(fused).message);
    }
    return Error();
  }

  Error decide(const std::vector<DeviceVote> &, const tandem_workspace_desc &,
               Terms &) override {
    return Error();
  }
  bool retreat(int, const Error &cause, Terms &terms) override {
    return retreatFromFused(cause, terms);
  }
  std::unique_ptr<WorkspaceMaker>
  begin(const Terms &terms, const tandem_workspace_desc &desc) override {
    return std::make_unique<CpuMaker>(comm, terms, desc);
  }

private:
  std::shared_ptr<Communicator> comm;
  const uint64_t memoryLimit;
};

class CpuDevice final : public Device {
public:
  tandem_device kind() const override { return TANDEM_DEVICE_CPU; }
  Error queryBytes(int32_t world, const tandem_workspace_desc &desc,
                   tandem_workspace_bytes &bytes) override {
    WorkspacePlan plan;
    if (Error e = planWorkspace(world, desc.max_tokens, desc.hidden, desc.dtype,
                                plan))
      return e;
    bytes.shared_bytes = plan.fused.bytes;
    bytes.private_bytes = plan.privateBytes;
    bytes.fallback_shared_bytes = plan.fallback.bytes;
    return Error();
  }
  Error join(const std::shared_ptr<Communicator> &comm,
             const Settings &settings,
             std::shared_ptr<DeviceGroup> &group) override {
    group = std::make_shared<CpuGroup>(comm, settings.memoryLimit);
    return Error();
  }
};
} // namespace

std::shared_ptr<Device> tandem::makeCpuDevice() {
  return std::make_shared<CpuDevice>();
}
