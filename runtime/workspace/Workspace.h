//===-- Workspace.h - The handles behind the C ABI ------------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_WORKSPACE_H
#define TANDEM_RUNTIME_WORKSPACE_WORKSPACE_H

#include "Backend.h"
#include "Device.h"
#include "GroupFailure.h"
#include "comm/Communicator.h"

#include <atomic>
#include <memory>
#include <string>

namespace tandem {

/// Tell a handle of one kind from another's, or from noise.
constexpr uint64_t contextMagic = 0x7478657443646e54;
constexpr uint64_t commMagic = 0x6d6d6f43646e5474;
constexpr uint64_t workspaceMagic = 0x6563617073646e54;

/// Memory for a handle: pages of its own. Throws std::bad_alloc.
void *allocateHandle(size_t size);

/// Takes the memory of a destroyed handle: gives the pages back and keeps their
/// addresses for good, which read as zero from then on, so that a later call
/// with it finds out that it is no handle any more.
void retireHandle(void *memory, size_t size) noexcept;

/// What the ranks of a workspace agreed on: equal on all of them.
struct Agreement {
  bool fused = false;
  /// Bytes of one rank's input that the fused path takes.
  uint64_t fusedBytes = 0;
  /// -1: bounded by the bytes alone.
  int64_t tokenLimit = -1;
  bool batchInvariant = false;
  uint64_t sharedBytes = 0;
  uint64_t privateBytes = 0;
  char reason[sizeof(tandem_workspace_info::reason)] = {};
};

/// Counters that one thread writes and any reads.
struct Counters {
  std::atomic<uint64_t> fused{0}, fallback{0}, allReduce{0}, norm{0}, failed{0};

  static void add(std::atomic<uint64_t> &counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
  }
};

} // namespace tandem

struct tandem_context {
  const uint64_t magic = tandem::contextMagic;
  tandem::Settings settings;
  std::shared_ptr<tandem::Device> device;

  static void *operator new(size_t size) {
    return tandem::allocateHandle(size);
  }
  static void operator delete(void *memory, size_t size) noexcept {
    tandem::retireHandle(memory, size);
  }
};

struct tandem_comm {
  const uint64_t magic = tandem::commMagic;
  std::shared_ptr<tandem::Communicator> core;
  tandem_device kind = TANDEM_DEVICE_CPU;
  std::shared_ptr<tandem::DeviceGroup> device;
  tandem::Settings settings;

  static void *operator new(size_t size) {
    return tandem::allocateHandle(size);
  }
  static void operator delete(void *memory, size_t size) noexcept {
    tandem::retireHandle(memory, size);
  }
};

struct tandem_workspace {
  const uint64_t magic = tandem::workspaceMagic;
  std::shared_ptr<tandem::Communicator> comm;
  std::shared_ptr<tandem::DeviceGroup> device;
  tandem::Agreement agreed;
  /// Number of the collective that made it: its name between the ranks.
  uint64_t id = 0;
  int64_t timeoutMs = 0;
  std::atomic<bool> fusionOn{true};
  std::atomic<bool> busy{false};
  /// Collective execute calls so far.
  std::atomic<uint64_t> calls{0};
  tandem::Counters counters;
  /// Mutable: asking for it looks at the group's record too.
  mutable tandem::GroupFailure failure;
  std::unique_ptr<tandem::Backend> backend;

  /// See tandem_token_limit.
  int64_t tokenLimit(int64_t hidden, tandem_dtype dtype) const;

  static void *operator new(size_t size) {
    return tandem::allocateHandle(size);
  }
  static void operator delete(void *memory, size_t size) noexcept {
    tandem::retireHandle(memory, size);
  }
};

namespace tandem {

/// Makes a workspace with the other ranks; see tandem_workspace_create.
Error createWorkspace(const std::shared_ptr<Communicator> &comm,
                      const std::shared_ptr<DeviceGroup> &device,
                      tandem_device kind, const Settings &settings,
                      const tandem_workspace_desc &desc,
                      std::unique_ptr<tandem_workspace> &workspace);

/// Agrees on whether the fused path is on; see tandem_workspace_set_fusion.
Error agreeOnFusion(tandem_workspace &workspace, bool enabled);

} // namespace tandem

#endif
