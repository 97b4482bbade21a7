//===-- Nccl.cpp - NCCL, found at run time --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nccl.h"

#include "Memory.h"
#include "OwnStream.h"

#include <condition_variable>
#include <dlfcn.h>
#include <future>
#include <system_error>
#include <thread>

using namespace tandem;
using namespace tandem::cuda;

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

Error NcclApi::failure(int code, Comm comm, const char *action) const {
  if (code == ncclCodeSuccess || code == ncclCodeInProgress)
    return Error();
  // NCCL fills this in for its last error; empty otherwise.
  const char *detail = lastError ? lastError(comm) : "";
  return makeError(TANDEM_STATUS_SYSTEM, -1, "%s: NCCL says '%s'%s%.200s",
                   action, errorString(code), detail && *detail ? ": " : "",
                   detail ? detail : "");
}

template <typename Function>
static bool find(void *library, const char *name, Function &function) {
  void *address = dlsym(library, name);
  function = reinterpret_cast<Function>(address);
  return address != nullptr;
}

Error cuda::loadNccl(const std::string &library,
                     std::shared_ptr<const NcclApi> &out) {
  const char *name = library.empty() ? "libnccl.so.2" : library.c_str();
  // Never closed: NCCL's threads and exit handlers stay.
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1, "no NCCL: %.300s",
                     why ? why : name);
  }
  auto api = std::make_shared<NcclApi>();
  int (*getVersion)(int *) = nullptr;
  bool all = find(handle, "ncclGetVersion", getVersion);
  all &= find(handle, "ncclGetErrorString", api->errorString);
  all &= find(handle, "ncclGetUniqueId", api->getUniqueId);
  all &= find(handle, "ncclCommInitRank", api->commInitRank);
  all &= find(handle, "ncclCommDestroy", api->commDestroy);
  all &= find(handle, "ncclCommAbort", api->commAbort);
  all &= find(handle, "ncclCommGetAsyncError", api->commGetAsyncError);
  all &= find(handle, "ncclCommCount", api->commCount);
  all &= find(handle, "ncclCommUserRank", api->commUserRank);
  all &= find(handle, "ncclCommCuDevice", api->commCuDevice);
  all &= find(handle, "ncclAllReduce", api->allReduce);
  all &= find(handle, "ncclAllGather", api->allGather);
  (void)find(handle, "ncclGetLastError", api->lastError);
  if (!all || getVersion(&api->version) != ncclCodeSuccess)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "no NCCL: '%.200s' lacks a function that is needed", name);
  constexpr int oldest = 21400;
  if (api->version < oldest)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "no NCCL: '%.200s' is version %d, older than %d", name,
                     api->version, oldest);
  out = std::move(api);
  return Error();
}

static int typeOf(int32_t dtype) {
  switch (dtype) {
  case TANDEM_DTYPE_F16:
    return ncclTypeF16;
  case TANDEM_DTYPE_BF16:
    return ncclTypeBf16;
  default:
    return ncclTypeF32;
  }
}

static int operationOf(int32_t reduction) {
  // sum, prod, max, min are 0, 1, 2, 3.
  switch (reduction) {
  case TANDEM_REDUCTION_PROD:
    return 1;
  case TANDEM_REDUCTION_MAX:
    return 2;
  case TANDEM_REDUCTION_MIN:
    return 3;
  default:
    return 0;
  }
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

namespace {
/// What the thread that makes a communicator shares with the one that waits for
/// it, which may give up first.
struct Making {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int code = 0;
  NcclApi::Comm comm = nullptr;
  /// Set once nobody waits any more.
  bool abandoned = false;
};
} // namespace

NcclComm::NcclComm(std::shared_ptr<const NcclApi> api, int world)
    : api(std::move(api)), world(world) {}

Error NcclComm::create(const std::shared_ptr<const NcclApi> &api,
                       const NcclId &id, int rank, int world, Deadline deadline,
                       std::shared_ptr<NcclComm> &out) {
  auto made = std::make_shared<NcclComm>(api, world);
  for (cudaEvent_t &mark : made->marks)
    if (cudaError_t code =
            cudaEventCreateWithFlags(&mark, cudaEventDisableTiming)) {
      mark = nullptr;
      return cudaFailure(code, "making an event");
    }
  int gpu = 0;
  if (cudaError_t code = cudaGetDevice(&gpu))
    return cudaFailure(code, "asking for the current GPU");
  made->gpu = gpu;

  // In a thread of its own, because it waits for the others for as long as they
  // like. (A communicator that doesn't block instead would start a thread for
  // every call later on.)
  auto making = std::make_shared<Making>();
  auto make = [making, api, id, rank, world, gpu] {
    (void)cudaSetDevice(gpu);
    RelaxedCapture relaxed;
    NcclApi::Comm comm = nullptr;
    int code = api->commInitRank(&comm, world, id, rank);
    std::unique_lock<std::mutex> guard(making->mutex);
    making->done = true;
    making->code = code;
    making->comm = comm;
    if (making->abandoned && code == ncclCodeSuccess && comm)
      (void)api->commAbort(comm);
    making->changed.notify_all();
  };
  if (Error e = caught([&] {
        std::thread(make).detach();
        return Error();
      }))
    return e;
  std::unique_lock<std::mutex> guard(making->mutex);
  while (!making->done) {
    making->changed.wait_for(guard,
                             std::chrono::milliseconds(deadline.leftMs(100)));
    if (!making->done && deadline.passed()) {
      making->abandoned = true;
      return makeError(TANDEM_STATUS_TIMEOUT, -1,
                       "the ranks did not make an NCCL communicator in time");
    }
  }
  if (Error e =
          api->failure(making->code, nullptr, "making an NCCL communicator"))
    return e;
  made->comm = making->comm;
  guard.unlock();
  if (Error e = made->connect(deadline)) {
    made->abort();
    return e;
  }
  out = std::move(made);
  return Error();
}

/// Calls of all the sizes at which NCCL changes its ways.
Error NcclComm::callEverySize(void *buffer, uint64_t bytes,
                              cudaStream_t stream) {
  for (int32_t dtype = 0; dtype < 3; ++dtype) {
    uint64_t element = dtype == TANDEM_DTYPE_F32 ? 4 : 2;
    for (uint64_t size = 1024; size <= bytes; size *= 8)
      if (Error e = allReduce(buffer, buffer, size / element, dtype,
                              TANDEM_REDUCTION_SUM, stream))
        return e;
  }
  for (uint64_t size = 1024; size * uint64_t(world) <= bytes; size *= 16)
    if (Error e = allGather(buffer, buffer, size, stream))
      return e;
  return Error();
}

Error NcclComm::lookForErrors(const char *action) const {
  NcclApi::Comm mine = comm.load();
  int state = ncclCodeSuccess;
  if (!mine || api->commGetAsyncError(mine, &state) != ncclCodeSuccess)
    return Error();
  return api->failure(state, mine, action);
}

/// NCCL connects ranks when a size first needs it: it allocates then, and waits
/// for its peers. Here that is done for all sizes. The calls are launched as
/// one graph: where a stream besides the caller's has had more than four
/// kernels launched one by one, every later kernel of the process starts up to
/// 0.2 us later (docs/cuda.md).
Error NcclComm::connect(Deadline deadline) {
  constexpr uint64_t most = uint64_t(32) << 20;
  DeviceMemory buffer;
  OwnStream stream;
  if (Error e = buffer.allocate(most))
    return e;
  if (Error e = stream.make())
    return e;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t calls = nullptr;
  Error error = cudaFailure(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
      "beginning a capture");
  if (!error) {
    error = cudaFailure(cudaMemsetAsync(buffer.get(), 0, most, stream.get()),
                        "clearing");
    if (!error)
      error = callEverySize(buffer.get(), most, stream.get());
    cudaError_t code = cudaStreamEndCapture(stream.get(), &graph);
    if (!error)
      error = cudaFailure(code, "ending a capture");
  }
  if (!error)
    error = cudaFailure(cudaGraphInstantiate(&calls, graph, 0),
                        "making a graph of NCCL's calls");
  if (!error)
    error = cudaFailure(cudaGraphLaunch(calls, stream.get()),
                        "launching a graph of NCCL's calls");
  if (!error)
    error = stream.wait(deadline, "connecting NCCL's ranks",
                        [this] { return lookForErrors("connecting"); });
  if (calls)
    (void)cudaGraphExecDestroy(calls);
  if (graph)
    (void)cudaGraphDestroy(graph);
  if (error)
    abort();
  else
    captured = false;
  return error;
}

NcclComm::~NcclComm() {
  if (NcclApi::Comm mine = comm.exchange(nullptr))
    release(mine, false);
  for (cudaEvent_t mark : marks)
    if (mark)
      (void)cudaEventDestroy(mark);
}

void NcclComm::release(NcclApi::Comm mine, bool mustEnd) {
  // Not destroyed: that would wait where a peer is gone or late.
  if (!captured.load()) {
    (void)api->commAbort(mine);
    return;
  }
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> released = done->get_future();
  try {
    std::thread([api = api, gpu = gpu, mine, done] {
      (void)cudaSetDevice(gpu);
      RelaxedCapture relaxed;
      (void)api->commAbort(mine);
      done->set_value();
    }).detach();
  } catch (const std::system_error &) {
    if (mustEnd)
      (void)api->commAbort(mine);
    return;
  }
  (void)released.wait_for(std::chrono::seconds(1));
}

void NcclComm::forget() {
  comm = nullptr;
  for (cudaEvent_t &mark : marks)
    mark = nullptr;
}

void NcclComm::abort() {
  gone.store(true, std::memory_order_release);
  // A thread that is enqueuing holds the lock; if it hangs there, aborting is
  // what gets it out.
  NcclApi::Comm mine;
  {
    std::unique_lock<std::timed_mutex> lock(busy, std::chrono::seconds(1));
    mine = comm.exchange(nullptr);
  }
  if (mine)
    release(mine, true);
}

/// Marks what was enqueued for the watchdog.
Error NcclComm::enqueued(int code, const char *action, cudaStream_t stream) {
  if (Error e = api->failure(code, comm, action))
    return e;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
      capture != cudaStreamCaptureStatusNone) {
    (void)cudaGetLastError();
    captured = true;
    return Error();
  }
  uint64_t next = marked.load(std::memory_order_relaxed);
  if (next - seen.load(std::memory_order_acquire) < numMarks) {
    if (cudaEventRecord(marks[next % numMarks], stream) == cudaSuccess)
      marked.store(next + 1, std::memory_order_release);
    else
      (void)cudaGetLastError();
  }
  return Error();
}

static Error abortedError() {
  return makeError(TANDEM_STATUS_SYSTEM, -1,
                   "the group's NCCL communicator was aborted");
}

Error NcclComm::allReduce(const void *in, void *out, uint64_t count,
                          int32_t dtype, int32_t reduction,
                          cudaStream_t stream) {
  std::lock_guard<std::timed_mutex> lock(busy);
  NcclApi::Comm mine = comm.load();
  if (!mine || aborted())
    return abortedError();
  return enqueued(api->allReduce(in, out, count, typeOf(dtype),
                                 operationOf(reduction), mine, stream),
                  "ncclAllReduce", stream);
}

Error NcclComm::allGather(const void *in, void *out, uint64_t bytes,
                          cudaStream_t stream) {
  std::lock_guard<std::timed_mutex> lock(busy);
  NcclApi::Comm mine = comm.load();
  if (!mine || aborted())
    return abortedError();
  return enqueued(api->allGather(in, out, bytes, ncclTypeBytes, mine, stream),
                  "ncclAllGather", stream);
}

Error NcclComm::watch(int64_t timeoutMs) {
  NcclApi::Comm mine = comm.load();
  if (!mine || aborted())
    return Error();
  if (Error e = lookForErrors("a call through NCCL"))
    return e;
  uint64_t at = seen.load(std::memory_order_relaxed);
  const uint64_t end = marked.load(std::memory_order_acquire);
  if (oldestSince == 0)
    oldestSince = nowNs();
  while (at != end) {
    cudaError_t code = cudaEventQuery(marks[at % numMarks]);
    if (code == cudaErrorNotReady)
      break;
    // Any other error is the stream's owner's, who will see it.
    (void)cudaGetLastError();
    ++at;
    oldestSince = nowNs();
  }
  seen.store(at, std::memory_order_release);
  if (at == end)
    oldestSince = 0;
  else if (timeoutMs > 0 && nowNs() - oldestSince > timeoutMs * 1000000)
    return makeError(TANDEM_STATUS_TIMEOUT, -1,
                     "a call through NCCL was not done after %lld ms",
                     static_cast<long long>(timeoutMs));
  return Error();
}
