//===-- Abi.cpp - Entry points of the C ABI -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The only place that the C ABI's callers reach. The standard library may throw
// std::bad_alloc on the paths that create things; it is caught here. The
// execute calls use nothing that throws.
//
//===----------------------------------------------------------------------===//

#include "comm/Rendezvous.h"
#include "cpu/CpuBackend.h"
#include "cpu/CpuDevice.h"
#ifdef TANDEM_RUNTIME_CUDA
#include "cuda/CudaDevice.h"
#include "cuda/NcclMeeting.h"
#endif
#include "workspace/Validate.h"
#include "workspace/Workspace.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

using namespace tandem;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

/// Runs `body`, which returns an Error, and hands its outcome out.
template <typename Body>
static tandem_status guarded(tandem_error *out, Body body) noexcept {
  return exportError(caught(body), out);
}

template <typename Handle>
static Error checkHandle(const Handle *handle, uint64_t magic,
                         const char *name) {
  if (!handle)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "%s is NULL", name);
  if (handle->magic != magic)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s is not a handle of its kind, or destroyed", name);
  return Error();
}

void *tandem::allocateHandle(size_t size) {
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  return memory;
}

void tandem::retireHandle(void *memory, size_t size) noexcept {
  if (madvise(memory, size, MADV_DONTNEED) != 0)
    memset(memory, 0, size);
}

static bool isWorkspace(const tandem_workspace *workspace) {
  return workspace && workspace->magic == workspaceMagic;
}

static Error checkTimeout(int64_t timeoutMs, int64_t inherited,
                          int64_t &result) {
  if (timeoutMs < TANDEM_TIMEOUT_DEFAULT)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "timeout_ms is %lld, less than -1",
                     static_cast<long long>(timeoutMs));
  result = timeoutMs == TANDEM_TIMEOUT_DEFAULT ? inherited : timeoutMs;
  return Error();
}

/// Reads a number of the environment that is at least 0.
static Error readEnvironment(const char *name, int64_t &value) {
  const char *text = getenv(name);
  if (!text || !*text)
    return Error();
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  // strtoll takes leading blanks.
  if (errno != 0 || end == text || !strchr("+-0123456789", *text) ||
      *end != '\0' || number < 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s is '%.60s', not a number of at least 0", name, text);
  value = number;
  return Error();
}

static Error forkedError(const char *name) {
  return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                   "%s belongs to the process that this one was forked from",
                   name);
}

//===----------------------------------------------------------------------===//
// Version and status
//===----------------------------------------------------------------------===//

uint32_t tandem_abi_version(void) { return TANDEM_ABI_VERSION; }

const char *tandem_status_name(tandem_status status) {
  static const char *const names[] = {
      "TANDEM_STATUS_OK",          "TANDEM_STATUS_INVALID_ARGUMENT",
      "TANDEM_STATUS_UNSUPPORTED", "TANDEM_STATUS_OUT_OF_MEMORY",
      "TANDEM_STATUS_TIMEOUT",     "TANDEM_STATUS_PEER_DIED",
      "TANDEM_STATUS_PEER_LEFT",   "TANDEM_STATUS_MISMATCH",
      "TANDEM_STATUS_SYSTEM",      "TANDEM_STATUS_BUSY",
      "TANDEM_STATUS_INTERNAL"};
  if (status < 0 ||
      status >= static_cast<tandem_status>(sizeof(names) / sizeof(names[0])))
    return "an unknown tandem_status";
  return names[status];
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

static Error createContext(const tandem_context_desc *desc,
                           tandem_context **context) {
  if (!context)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "context is NULL");
  *context = nullptr;
  tandem_context_desc known = TANDEM_CONTEXT_DESC_INIT;
  if (desc)
    if (Error e = readStruct(desc, "tandem_context_desc", known))
      return e;
  if (Error e = checkReserved(known.reserved, "tandem_context_desc"))
    return e;
  if (known.device != TANDEM_DEVICE_CPU && known.device != TANDEM_DEVICE_CUDA)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "device is %d, not one of tandem_device", known.device);
  if (known.flags & ~uint32_t(TANDEM_CONTEXT_IGNORE_ENVIRONMENT))
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "flags has bits 0x%x that this runtime doesn't know",
                     known.flags &
                         ~uint32_t(TANDEM_CONTEXT_IGNORE_ENVIRONMENT));
  auto made = std::make_unique<tandem_context>();
  Settings &settings = made->settings;
  if (!(known.flags & TANDEM_CONTEXT_IGNORE_ENVIRONMENT)) {
    int64_t disable = 0, limit = 0;
    if (Error e = readEnvironment("TANDEM_TIMEOUT_MS", settings.timeoutMs))
      return e;
    if (Error e = readEnvironment("TANDEM_DISABLE_FUSION", disable))
      return e;
    if (Error e = readEnvironment("TANDEM_MEMORY_LIMIT", limit))
      return e;
    int64_t disableNccl = 0, disableSharing = 0, checkCalls = 0;
    int64_t ncclSharesGpus = 0;
    if (Error e = readEnvironment("TANDEM_DISABLE_SHARING", disableSharing))
      return e;
    if (Error e = readEnvironment("TANDEM_DISABLE_NCCL", disableNccl))
      return e;
    if (Error e = readEnvironment("TANDEM_CHECK", checkCalls))
      return e;
    if (Error e = readEnvironment("TANDEM_NCCL_SHARES_GPUS", ncclSharesGpus))
      return e;
    settings.disableFusion = disable != 0;
    settings.disableNccl = disableNccl != 0;
    settings.disableSharing = disableSharing != 0;
    settings.checkCalls = checkCalls != 0;
    settings.ncclSharesGpus = ncclSharesGpus != 0;
    if (const char *path = getenv("TANDEM_HANG_DUMP"))
      settings.hangDump = path;
    if (const char *library = getenv("TANDEM_NCCL_LIBRARY"))
      settings.ncclLibrary = library;
    settings.memoryLimit = static_cast<uint64_t>(limit);
    if (const char *directory = getenv("TANDEM_RENDEZVOUS_DIR"))
      settings.rendezvousDirectory = directory;
  }
  if (Error e = checkTimeout(known.timeout_ms, settings.timeoutMs,
                             settings.timeoutMs))
    return e;
  if (known.device == TANDEM_DEVICE_CPU) {
    made->device = makeCpuDevice();
  } else {
#ifdef TANDEM_RUNTIME_CUDA
    if (Error e = makeCudaDevice(known.device_index, made->device))
      return e;
#else
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "this runtime was built without the CUDA backend");
#endif
  }
  *context = made.release();
  return Error();
}

tandem_status tandem_context_create(const tandem_context_desc *desc,
                                    tandem_context **context,
                                    tandem_error *error) {
  return guarded(error, [&] { return createContext(desc, context); });
}

void tandem_context_destroy(tandem_context *context) {
  if (context && context->magic == contextMagic)
    delete context;
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

tandem_status tandem_unique_id_create(tandem_context *context,
                                      tandem_unique_id *id,
                                      tandem_error *error) {
  return guarded(error, [&]() -> Error {
    if (Error e = checkHandle(context, contextMagic, "context"))
      return e;
    if (!id)
      return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "id is NULL");
    return makeUniqueId(*id);
  });
}

static Error createComm(tandem_context *context, const tandem_comm_desc *desc,
                        tandem_comm **comm) {
  if (!comm)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "comm is NULL");
  *comm = nullptr;
  if (Error e = checkHandle(context, contextMagic, "context"))
    return e;
  tandem_comm_desc known;
  if (Error e = readStruct(desc, "tandem_comm_desc", known))
    return e;
  if (Error e = checkReserved(known.reserved, "tandem_comm_desc"))
    return e;
  if (known.flags != 0)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "flags has bits 0x%x that this runtime doesn't know",
                     known.flags);
#ifndef TANDEM_RUNTIME_CUDA
  if (known.kind == TANDEM_COMM_NCCL)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "this runtime was built without the CUDA backend, which a "
                     "communicator from an ncclComm_t needs");
#endif
  if (known.kind != TANDEM_COMM_RENDEZVOUS &&
      known.kind != TANDEM_COMM_UNIQUE_ID && known.kind != TANDEM_COMM_NCCL)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "kind is %d, not one of tandem_comm_kind", known.kind);
  if (known.world < 1 || known.world > TANDEM_MAX_WORLD)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "world is %d, not in [1, %d]", known.world,
                     TANDEM_MAX_WORLD);
  if (known.rank < 0 || known.rank >= known.world)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rank is %d, not in [0, %d)", known.rank, known.world);
  int64_t timeoutMs = 0;
  if (Error e = checkTimeout(known.timeout_ms, context->settings.timeoutMs,
                             timeoutMs))
    return e;
  Meeting meeting;
  if (known.kind == TANDEM_COMM_NCCL) {
#ifdef TANDEM_RUNTIME_CUDA
    if (Error e = meetThroughNccl(*context->device, known.nccl_comm,
                                  context->settings, Deadline::in(timeoutMs),
                                  known.rank, known.world, meeting))
      return e;
#endif
  } else if (known.world > 1) {
    Place place;
    if (known.kind == TANDEM_COMM_RENDEZVOUS) {
      if (Error e = placeOfName(known.name,
                                context->settings.rendezvousDirectory, place))
        return e;
    } else {
      if (!known.unique_id)
        return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                         "unique_id is NULL");
      if (Error e = placeOfUniqueId(*known.unique_id, place))
        return e;
    }
    if (Error e = meet(place, known.rank, known.world, Deadline::in(timeoutMs),
                       meeting))
      return e;
  }
  auto made = std::make_unique<tandem_comm>();
  made->settings = context->settings;
  made->core = std::make_shared<Communicator>(known.rank, known.world,
                                              timeoutMs, std::move(meeting));
  if (!made->core->fork.valid())
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1, "no page to map");
  made->kind = context->device->kind();
  if (Error e = context->device->join(made->core, made->settings, made->device))
    return e;
  *comm = made.release();
  return Error();
}

tandem_status tandem_comm_create(tandem_context *context,
                                 const tandem_comm_desc *desc,
                                 tandem_comm **comm, tandem_error *error) {
  return guarded(error, [&] { return createComm(context, desc, comm); });
}

tandem_status tandem_comm_barrier(tandem_comm *comm, tandem_error *error) {
  return guarded(error, [&]() -> Error {
    if (Error e = checkHandle(comm, commMagic, "comm"))
      return e;
    Communicator &core = *comm->core;
    if (!core.fork.inOwner())
      return forkedError("comm");
    auto lock = core.begin();
    Frame answer;
    return core.agree(
        lock, ControlOp::Barrier, std::string(), {},
        [](std::vector<Communicator::Said> &, std::string &,
           std::vector<int> &) { return Error(); },
        answer, Deadline::in(core.timeoutMs));
  });
}

int32_t tandem_comm_rank(const tandem_comm *comm) {
  return comm && comm->magic == commMagic ? comm->core->rank : -1;
}

int32_t tandem_comm_world(const tandem_comm *comm) {
  return comm && comm->magic == commMagic ? comm->core->world : 0;
}

void tandem_comm_destroy(tandem_comm *comm) {
  if (comm && comm->magic == commMagic)
    delete comm;
}

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

tandem_status tandem_workspace_query_bytes(tandem_context *context,
                                           int32_t world,
                                           const tandem_workspace_desc *desc,
                                           tandem_workspace_bytes *bytes,
                                           tandem_error *error) {
  return guarded(error, [&]() -> Error {
    if (Error e = checkHandle(context, contextMagic, "context"))
      return e;
    tandem_workspace_desc known;
    if (Error e = readStruct(desc, "tandem_workspace_desc", known))
      return e;
    tandem_workspace_bytes out;
    if (Error e = readStruct(bytes, "tandem_workspace_bytes", out))
      return e;
    return context->device->queryBytes(world, known, *bytes);
  });
}

static Error createWorkspaceOf(tandem_comm *comm,
                               const tandem_workspace_desc *desc,
                               tandem_workspace **workspace) {
  if (!workspace)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "workspace is NULL");
  *workspace = nullptr;
  if (Error e = checkHandle(comm, commMagic, "comm"))
    return e;
  if (!comm->core->fork.inOwner())
    return forkedError("comm");
  tandem_workspace_desc known;
  if (Error e = readStruct(desc, "tandem_workspace_desc", known))
    return e;
  if (Error e = checkReserved(known.reserved, "tandem_workspace_desc"))
    return e;
  if (known.max_blocks < 0 || known.max_blocks > INT32_MAX)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "max_blocks is %lld, not in [0, 2^31)",
                     static_cast<long long>(known.max_blocks));
  if (!known.signature && known.signature_length != 0)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "signature is NULL, signature_length is %llu",
                     static_cast<unsigned long long>(known.signature_length));
  if (Error e = checkTimeout(known.timeout_ms, comm->core->timeoutMs,
                             known.timeout_ms))
    return e;
  std::unique_ptr<tandem_workspace> made;
  if (Error e = createWorkspace(comm->core, comm->device, comm->kind,
                                comm->settings, known, made))
    return e;
  *workspace = made.release();
  return Error();
}

tandem_status tandem_workspace_create(tandem_comm *comm,
                                      const tandem_workspace_desc *desc,
                                      tandem_workspace **workspace,
                                      tandem_error *error) {
  return guarded(error,
                 [&] { return createWorkspaceOf(comm, desc, workspace); });
}

void tandem_workspace_destroy(tandem_workspace *workspace) {
  if (!isWorkspace(workspace))
    return;
  if (workspace->comm->fork.inOwner())
    workspace->backend->leave();
  else
    workspace->backend->forget();
  delete workspace;
}

int64_t tandem_workspace::tokenLimit(int64_t hidden, tandem_dtype dtype) const {
  if (!agreed.fused || !fusionOn.load(std::memory_order_acquire) ||
      hidden <= 0 || dtype < TANDEM_DTYPE_F32 || dtype > TANDEM_DTYPE_BF16)
    return -1;
  uint64_t row;
  if (__builtin_mul_overflow(static_cast<uint64_t>(hidden), elementBytes(dtype),
                             &row))
    return -1;
  int64_t limit = static_cast<int64_t>(agreed.fusedBytes / row);
  if (limit > 0)
    limit = std::min(limit, backend->capacity(hidden, dtype));
  // Not even one token fits, or none should go: there is no fused path.
  if (agreed.tokenLimit >= 0)
    limit = std::min(limit, agreed.tokenLimit);
  else
    limit = static_cast<int64_t>(
        std::min(static_cast<uint64_t>(limit), backend->advisedBytes() / row));
  return limit > 0 ? limit : -1;
}

int64_t tandem_token_limit(const tandem_workspace *workspace, int64_t hidden,
                           tandem_dtype dtype) {
  return isWorkspace(workspace) ? workspace->tokenLimit(hidden, dtype) : -1;
}

/// Checks a struct that is only written to.
template <typename T>
static bool isLargeEnough(const T *out) {
  return out && out->struct_size >= sizeof(T);
}

tandem_status tandem_workspace_get_info(const tandem_workspace *workspace,
                                        tandem_workspace_info *info) {
  if (!isWorkspace(workspace) || !isLargeEnough(info))
    return TANDEM_STATUS_INVALID_ARGUMENT;
  const Agreement &agreed = workspace->agreed;
  info->rank = workspace->comm->rank;
  info->world = workspace->comm->world;
  info->fused =
      agreed.fused && workspace->fusionOn.load(std::memory_order_acquire);
  info->reserved = 0;
  info->capacity_bytes = agreed.fusedBytes;
  info->token_limit = agreed.fused ? agreed.tokenLimit : -1;
  info->shared_bytes = agreed.sharedBytes;
  info->private_bytes = agreed.privateBytes;
  const char *reason = agreed.reason;
  if (agreed.fused && !info->fused)
    reason = "switched off by tandem_workspace_set_fusion";
  strncpy(info->reason, reason, sizeof(info->reason) - 1);
  info->reason[sizeof(info->reason) - 1] = '\0';
  return TANDEM_STATUS_OK;
}

tandem_status tandem_workspace_set_fusion(tandem_workspace *workspace,
                                          int32_t enabled,
                                          tandem_error *error) {
  return guarded(error, [&]() -> Error {
    if (Error e = checkHandle(workspace, workspaceMagic, "workspace"))
      return e;
    if (!workspace->comm->fork.inOwner())
      return forkedError("workspace");
    if (enabled != 0 && enabled != 1)
      return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                       "enabled is %d, not 0 or 1", enabled);
    return agreeOnFusion(*workspace, enabled != 0);
  });
}

tandem_status tandem_workspace_get_counters(const tandem_workspace *workspace,
                                            tandem_counters *counters) {
  if (!isWorkspace(workspace) || !isLargeEnough(counters))
    return TANDEM_STATUS_INVALID_ARGUMENT;
  const Counters &from = workspace->counters;
  counters->fused = from.fused.load(std::memory_order_relaxed);
  counters->fallback = from.fallback.load(std::memory_order_relaxed);
  counters->all_reduce = from.allReduce.load(std::memory_order_relaxed);
  counters->norm = from.norm.load(std::memory_order_relaxed);
  counters->failed = from.failed.load(std::memory_order_relaxed);
  counters->rounds = workspace->backend->rounds();
  counters->sleeps = workspace->backend->sleeps();
  return TANDEM_STATUS_OK;
}

tandem_status tandem_workspace_get_defaults(const tandem_workspace *workspace,
                                            char *text, uint64_t size) {
  if (!isWorkspace(workspace) || !text || size == 0)
    return TANDEM_STATUS_INVALID_ARGUMENT;
  const Agreement &agreed = workspace->agreed;
  const uint64_t advised = workspace->backend->advisedBytes();
  char limit[64] = "what fits";
  if (agreed.tokenLimit >= 0)
    snprintf(limit, sizeof(limit), "%lld tokens, given with the workspace",
             static_cast<long long>(agreed.tokenLimit));
  else if (advised != UINT64_MAX)
    snprintf(limit, sizeof(limit), "%llu bytes of a rank's input",
             static_cast<unsigned long long>(advised));
  if (agreed.fused)
    snprintf(text, size, "limit: %s; defaults: %s", limit,
             workspace->backend->defaults());
  else
    snprintf(text, size, "no fused path: %s", agreed.reason);
  return TANDEM_STATUS_OK;
}

tandem_status tandem_workspace_get_hang_dump(const tandem_workspace *workspace,
                                             char *text, uint64_t size) {
  if (!isWorkspace(workspace) || !text || size == 0 ||
      !workspace->comm->fork.inOwner())
    return TANDEM_STATUS_INVALID_ARGUMENT;
  return guarded(nullptr, [&]() -> Error {
    (void)workspace->backend->check();
    std::string all = workspace->backend->dump();
    uint64_t length = std::min<uint64_t>(all.size(), size - 1);
    memcpy(text, all.data(), length);
    text[length] = '\0';
    return Error();
  });
}

tandem_status tandem_workspace_get_failure(const tandem_workspace *workspace,
                                           tandem_error *failure) {
  if (!isWorkspace(workspace))
    return TANDEM_STATUS_INVALID_ARGUMENT;
  if (!workspace->comm->fork.inOwner())
    return TANDEM_STATUS_INVALID_ARGUMENT;
  (void)workspace->backend->check();
  return exportError(workspace->failure.get(), failure);
}

//===----------------------------------------------------------------------===//
// Execute
//===----------------------------------------------------------------------===//

/// Fails the group and remembers that no more can be agreed in it.
static tandem_status failGroup(tandem_workspace &workspace, Error error) {
  if (error.peer < 0)
    error.peer = workspace.comm->rank;
  tandem_status status =
      workspace.backend->fail(error, workspace.calls.load() + 1);
  workspace.comm->spoil(workspace.failure.get());
  return status;
}

/// The same for a call.
static tandem_status failCall(tandem_workspace &workspace, const Error &error) {
  workspace.counters.failed.fetch_add(1, std::memory_order_relaxed);
  return failGroup(workspace, error);
}

tandem_status tandem_workspace_fail(tandem_workspace *workspace,
                                    tandem_status status, const char *message) {
  if (!isWorkspace(workspace) || !workspace->comm->fork.inOwner() ||
      status <= TANDEM_STATUS_OK || status > TANDEM_STATUS_INTERNAL)
    return TANDEM_STATUS_INVALID_ARGUMENT;
  // Not a call: `failed` counts those.
  return failGroup(*workspace,
                   makeError(status, workspace->comm->rank, "rank %d: %.400s",
                             workspace->comm->rank,
                             message ? message : "can't go on"));
}

/// What all execute calls share: who may come in, and what an error leads to.
/// `run` gets the checked arguments.
template <typename Args, typename Check, typename Run>
static tandem_status execute(tandem_workspace *workspace, const Args *args,
                             const char *name, Check check, Run run) {
  // No handle is read before this.
  if (args && args->tokens == 0)
    return TANDEM_STATUS_OK;
  if (!isWorkspace(workspace) || !workspace->comm->fork.inOwner())
    return TANDEM_STATUS_INVALID_ARGUMENT;
  if (workspace->busy.exchange(true, std::memory_order_acquire))
    return failCall(*workspace,
                    makeError(TANDEM_STATUS_BUSY, -1,
                              "rank %d executed two calls on one workspace at "
                              "the same time",
                              workspace->comm->rank));
  tandem_status status = workspace->backend->check();
  if (status == TANDEM_STATUS_OK) {
    Args known;
    Error error = readStruct(args, name, known);
    if (!error)
      error = check(known);
    if (error) {
      Error named = makeError(error.status, -1, "rank %d: %.400s",
                              workspace->comm->rank, error.message);
      status = failCall(*workspace, named);
    } else {
      status = run(known);
      if (status != TANDEM_STATUS_OK) {
        workspace->comm->spoil(workspace->failure.get());
        workspace->counters.failed.fetch_add(1, std::memory_order_relaxed);
      }
    }
  } else {
    workspace->comm->spoil(workspace->failure.get());
    workspace->counters.failed.fetch_add(1, std::memory_order_relaxed);
  }
  workspace->busy.store(false, std::memory_order_release);
  return status;
}

static Error checkBatchInvariance(const tandem_workspace &workspace,
                                  uint32_t flags) {
  if ((flags & TANDEM_CALL_BATCH_INVARIANT) && !workspace.agreed.batchInvariant)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "TANDEM_CALL_BATCH_INVARIANT needs a workspace made with "
                     "TANDEM_WORKSPACE_BATCH_INVARIANT");
  return Error();
}

tandem_status tandem_fused_all_reduce_norm(tandem_workspace *workspace,
                                           const tandem_norm_args *args) {
  return execute(
      workspace, args, "tandem_norm_args",
      [&](tandem_norm_args &known) {
        Error error = validate(NormCall::Fused, known);
        if (!error)
          error = checkBatchInvariance(*workspace, known.flags);
        if (!error)
          error = workspace->backend->accept(known, /*collective=*/true);
        return error;
      },
      [&](tandem_norm_args &known) {
        bool fused =
            !(known.flags & TANDEM_CALL_FALLBACK) &&
            known.tokens <= workspace->tokenLimit(known.hidden, known.dtype);
        tandem_status status =
            workspace->backend->fused(known, fused, ++workspace->calls);
        if (status == TANDEM_STATUS_OK)
          Counters::add(fused ? workspace->counters.fused
                              : workspace->counters.fallback);
        return status;
      });
}

tandem_status tandem_all_reduce(tandem_workspace *workspace,
                                const tandem_all_reduce_args *args) {
  return execute(
      workspace, args, "tandem_all_reduce_args",
      [&](tandem_all_reduce_args &known) {
        Error error = validate(known);
        if (!error)
          error = checkBatchInvariance(*workspace, known.flags);
        if (!error)
          error = workspace->backend->accept(known);
        return error;
      },
      [&](tandem_all_reduce_args &known) {
        bool direct = !(known.flags & TANDEM_CALL_FALLBACK) &&
                      workspace->agreed.fused &&
                      workspace->fusionOn.load(std::memory_order_acquire);
        tandem_status status =
            workspace->backend->allReduce(known, direct, ++workspace->calls);
        if (status == TANDEM_STATUS_OK)
          Counters::add(workspace->counters.allReduce);
        return status;
      });
}

/// The two local calls, which a workspace counts if there is one.
static tandem_status executeNorm(tandem_workspace *workspace,
                                 const tandem_norm_args *args, NormCall call) {
  if (args && args->tokens == 0)
    return TANDEM_STATUS_OK;
  if (!workspace) {
    tandem_norm_args known;
    Error error = readStruct(args, "tandem_norm_args", known);
    if (!error)
      error = validate(call, known);
    if (error)
      return error.status;
    addRmsNormOnCpu(known);
    return TANDEM_STATUS_OK;
  }
  return execute(
      workspace, args, "tandem_norm_args",
      [&](tandem_norm_args &known) {
        Error error = validate(call, known);
        if (!error)
          error = workspace->backend->accept(known, /*collective=*/false);
        return error;
      },
      [&](tandem_norm_args &known) {
        tandem_status status = workspace->backend->addRmsNorm(known);
        if (status == TANDEM_STATUS_OK)
          Counters::add(workspace->counters.norm);
        return status;
      });
}

tandem_status tandem_add_rms_norm(tandem_workspace *workspace,
                                  const tandem_norm_args *args) {
  return executeNorm(workspace, args, NormCall::AddRmsNorm);
}

tandem_status tandem_rms_norm(tandem_workspace *workspace,
                              const tandem_norm_args *args) {
  return executeNorm(workspace, args, NormCall::RmsNorm);
}
