//===- Group.h - The ranks of a session -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ONNXRUNTIME_GROUP_H
#define TANDEM_RUNTIME_ONNXRUNTIME_GROUP_H

#include "tandem/Runtime/tandem.h"

#include <atomic>
#include <mutex>
#include <string>

namespace tandem::ort {

/// What a session's options say of its ranks.
struct GroupOptions {
  int32_t rank = 0;
  int32_t world = 1;
  std::string rendezvous = "onnxruntime";
  int64_t maxTokens = 4096;
  int64_t tokenLimit = -1;
  int64_t timeoutMs = TANDEM_TIMEOUT_DEFAULT;
  /// What the ranks' files decided; empty: not compared.
  std::string signature;
};

/// The communicator and the workspace of a session, made at its first
/// collective, which all ranks come to together. Safe for use by several
/// threads.
class Group {
public:
  explicit Group(GroupOptions options) : options(std::move(options)) {}
  ~Group() { close(); }
  Group(const Group &) = delete;

  /// Where a session's collectives run: the host, or the GPU of this index.
  static constexpr int32_t kHost = -1;

  /// Says that a collective of the session runs at `gpu`, and opens it.
  /// Returns false, with `error` set, if that fails or others run elsewhere.
  bool place(int32_t gpu, std::string &error);

  /// The workspace; null, with `error` set, if it can't be had. Collective at
  /// the first call.
  tandem_workspace *get(int64_t hidden, tandem_dtype dtype, std::string &error);

  /// Leaves: from now on place and get fail. Nobody may be in a collective.
  void close();

  /// False while there is no workspace.
  bool getCounters(tandem_counters &counters);

  /// What the group's calls say of their failure.
  std::string describe(tandem_status status);

  /// The group's failure, of which a call that went to a GPU doesn't know yet;
  /// OK while there is no workspace.
  tandem_status getFailure(tandem_error &failure);

  int32_t world() const { return options.world; }

  /// Kernels come and go with their session.
  void enter() { ++numKernels; }
  void leave() { --numKernels; }
  bool isInUse() const { return numKernels != 0; }

private:
  /// Makes the context if there is none.
  tandem_status open(tandem_error &why);

  GroupOptions options;
  std::mutex mutex;
  std::atomic<int> numKernels{0};
  bool placed = false;
  bool closed = false;
  int32_t where = kHost;
  tandem_context *context = nullptr;
  tandem_comm *comm = nullptr;
  tandem_workspace *workspace = nullptr;
};

} // namespace tandem::ort

#endif // TANDEM_RUNTIME_ONNXRUNTIME_GROUP_H
