//===-- Nccl.h - NCCL, found at run time ---------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// NCCL is opened with dlopen, so that the runtime neither needs it to load nor
// brings a second copy into a process that has one (PyTorch's). Only the part
// of its ABI that is used is declared here; it hasn't changed since 2.14, the
// oldest version that is taken.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_NCCL_H
#define TANDEM_RUNTIME_CUDA_NCCL_H

#include "support/Clock.h"
#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace tandem {
namespace cuda {

struct NcclId {
  char bytes[128];
};

/// NCCL's functions, and the library they are in. Never unloaded: its threads
/// may outlive every communicator.
struct NcclApi {
  using Comm = void *;
  int version = 0;
  const char *(*errorString)(int) = nullptr;
  /// 2.13 on; may be null.
  const char *(*lastError)(Comm) = nullptr;
  int (*getUniqueId)(NcclId *) = nullptr;
  int (*commInitRank)(Comm *, int, NcclId, int) = nullptr;
  int (*commDestroy)(Comm) = nullptr;
  int (*commAbort)(Comm) = nullptr;
  int (*commGetAsyncError)(Comm, int *) = nullptr;
  int (*commCount)(Comm, int *) = nullptr;
  int (*commUserRank)(Comm, int *) = nullptr;
  int (*commCuDevice)(Comm, int *) = nullptr;
  int (*allReduce)(const void *, void *, size_t, int, int, Comm,
                   cudaStream_t) = nullptr;
  int (*allGather)(const void *, void *, size_t, int, Comm,
                   cudaStream_t) = nullptr;

  Error failure(int code, Comm comm, const char *action) const;
};

/// Numbers of NCCL's own.
enum : int {
  ncclCodeSuccess = 0,
  ncclCodeInProgress = 7,
  ncclTypeBytes = 0,
  ncclTypeF16 = 6,
  ncclTypeF32 = 7,
  ncclTypeBf16 = 9,
};

/// Opens `library`, or libnccl.so.2 if empty. UNSUPPORTED with the reason where
/// there is none, or one that is too old.
Error loadNccl(const std::string &library, std::shared_ptr<const NcclApi> &api);

/// An NCCL communicator of our own. Ranks enqueue in the same order.
class NcclComm {
public:
  /// Collective over `world` ranks on the current GPU: all have the same `id`.
  /// Also connects the ranks for every size there is, so that no call does
  /// later.
  static Error create(const std::shared_ptr<const NcclApi> &api,
                      const NcclId &id, int rank, int world, Deadline deadline,
                      std::shared_ptr<NcclComm> &comm);
  NcclComm(std::shared_ptr<const NcclApi> api, int world);
  NcclComm(const NcclComm &) = delete;
  NcclComm &operator=(const NcclComm &) = delete;
  ~NcclComm();

  /// Enqueue; `count` elements of a tandem_dtype. Never wait.
  Error allReduce(const void *in, void *out, uint64_t count, int32_t dtype,
                  int32_t reduction, cudaStream_t stream);
  Error allGather(const void *in, void *out, uint64_t bytes,
                  cudaStream_t stream);

  /// Looks at what was enqueued outside of captures: an error of NCCL's, or a
  /// call that isn't done `timeoutMs` (0: any time) after the one before it
  /// was. For one thread, the watchdog.
  Error watch(int64_t timeoutMs);
  /// An error that NCCL found on its own during `action`. Any thread.
  Error lookForErrors(const char *action) const;
  /// Ends whatever runs, so that streams go on; every later call fails. Any
  /// thread.
  void abort();
  bool aborted() const { return gone.load(std::memory_order_acquire); }
  /// In a forked child.
  void forget();

private:
  Error connect(Deadline deadline);
  Error callEverySize(void *buffer, uint64_t bytes, cudaStream_t stream);
  Error enqueued(int code, const char *action, cudaStream_t stream);
  /// Waits for nobody, but for a second where a graph holds `mine`: NCCL gives
  /// it up when the graph is gone, and not before. Where there is no thread to
  /// wait for that, `mustEnd` says whether this one does.
  void release(NcclApi::Comm mine, bool mustEnd);

  /// Calls that the watchdog can have in sight at once; more go unwatched.
  static constexpr uint64_t numMarks = 64;

  std::shared_ptr<const NcclApi> api;
  const int world;
  int gpu = 0;
  std::atomic<NcclApi::Comm> comm{nullptr};
  std::atomic<bool> gone{false};
  /// A call was captured into a graph.
  std::atomic<bool> captured{false};
  /// Held while something is enqueued.
  std::timed_mutex busy;
  cudaEvent_t marks[numMarks] = {};
  std::atomic<uint64_t> marked{0};
  std::atomic<uint64_t> seen{0};
  /// When the oldest mark became the oldest.
  int64_t oldestSince = 0;
};

} // namespace cuda
} // namespace tandem

#endif
