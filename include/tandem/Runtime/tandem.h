/*===-- tandem/Runtime/tandem.h - C ABI of the Tandem runtime -----*- C -*-===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* A fused all-reduce + add + RMSNorm between the ranks of a tensor-parallel  *|
|* group, the unfused calls that stand in for it, and the communicators and   *|
|* workspaces both need. docs/runtime.md explains the protocol, the numbers   *|
|* and the ABI policy.                                                        *|
|*                                                                            *|
|* Conventions                                                                *|
|*  - Nothing here throws, aborts, exits, prints or keeps global state.       *|
|*  - Every struct that the caller fills in begins with `struct_size`. Start  *|
|*    from the TANDEM_..._INIT macro of the struct: it sets that field and    *|
|*    every default. Reserved fields must be zero.                            *|
|*  - Functions return a tandem_status. Functions that create or vote also    *|
|*    fill an optional tandem_error (NULL: not wanted) with a message that    *|
|*    names the rank and the values at fault.                                 *|
|*  - All sizes are 64 bits wide. Strides count elements, times milliseconds. *|
|*  - "Collective": every rank of the group must make the call, in the same   *|
|*    order relative to its other collective calls on the same object.        *|
|*                                                                            *|
|* Threads                                                                    *|
|*  - Different objects may be used by different threads at the same time,    *|
|*    also two workspaces of one communicator.                                *|
|*  - One workspace executes one call at a time, in the order in which its    *|
|*    group's ranks all make them. A second execute call that arrives while   *|
|*    one runs fails with TANDEM_STATUS_BUSY and fails the group, because     *|
|*    the ranks could no longer know which call is which.                     *|
|*  - Queries (tandem_token_limit, ..._info, ..._counters, ..._failure) may   *|
|*    run on any thread at any time.                                          *|
|*  - Collective calls on one communicator are serialised by a lock.          *|
|*  - Destroying an object while another thread uses it is an error of the    *|
|*    caller's that can't be detected.                                        *|
|*  - A handle that is destroyed, or of another kind, is                      *|
|*    TANDEM_STATUS_INVALID_ARGUMENT; destroying it does nothing. For that    *|
|*    a page of addresses of each is kept, without memory behind it.          *|
|*  - Handles don't survive fork(): in the child every call but destroy       *|
|*    returns TANDEM_STATUS_INVALID_ARGUMENT, and destroy frees the child's   *|
|*    copy without touching the group.                                        *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_RUNTIME_TANDEM_H
#define TANDEM_RUNTIME_TANDEM_H

#include <stddef.h>
#include <stdint.h>

/* C, in C's ways: NOLINTBEGIN(*) */

#if defined(TANDEM_RUNTIME_BUILDING) || defined(__GNUC__)
#define TANDEM_API __attribute__((visibility("default")))
#else
#define TANDEM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ABI version. A new minor version only adds (fields at the end of structs,
   functions, enumerators); a new major version may break. */
#define TANDEM_ABI_MAJOR 1
#define TANDEM_ABI_MINOR 1
#define TANDEM_ABI_VERSION ((TANDEM_ABI_MAJOR << 16) | TANDEM_ABI_MINOR)

/// Returns TANDEM_ABI_VERSION of the library that is loaded. The program may
/// use it if the major parts are equal and the library's minor part is at least
/// that of the header it was compiled with.
TANDEM_API uint32_t tandem_abi_version(void);

/*===-- Status and errors -------------------------------------------------===*/

typedef int32_t tandem_status;
enum {
  TANDEM_STATUS_OK = 0,
  /// An argument is wrong, here and now; the message names it and its value.
  TANDEM_STATUS_INVALID_ARGUMENT = 1,
  /// This build, machine or backend can't do it; the message says which.
  TANDEM_STATUS_UNSUPPORTED = 2,
  TANDEM_STATUS_OUT_OF_MEMORY = 3,
  /// A peer did not come within the time that was set.
  TANDEM_STATUS_TIMEOUT = 4,
  /// A peer's process ended.
  TANDEM_STATUS_PEER_DIED = 5,
  /// A peer destroyed its workspace or communicator.
  TANDEM_STATUS_PEER_LEFT = 6,
  /// The ranks disagree: world, version, module signature, shape, type, call.
  TANDEM_STATUS_MISMATCH = 7,
  /// The operating system refused something; the message holds its reason.
  TANDEM_STATUS_SYSTEM = 8,
  /// Two threads executed on one workspace at the same time.
  TANDEM_STATUS_BUSY = 9,
  /// A bug in the runtime.
  TANDEM_STATUS_INTERNAL = 10
};

/// Returns the name of a status ("TANDEM_STATUS_TIMEOUT"); never NULL. The
/// string is static.
TANDEM_API const char *tandem_status_name(tandem_status status);

/// What went wrong, filled in by the library. Set `struct_size` before the
/// call.
typedef struct tandem_error {
  uint64_t struct_size;
  tandem_status status;
  /// The rank that found the failure; -1 if no group was involved.
  int32_t reporter;
  /// The rank that caused it; -1 where no single rank did.
  int32_t peer;
  uint32_t reserved;
  /// Number of the execute call on its workspace, from 1; 0 outside of calls.
  uint64_t call;
  /// Always terminated by a zero.
  char message[480];
} tandem_error;
#define TANDEM_ERROR_INIT {sizeof(tandem_error), 0, -1, -1, 0, 0, {0}}

/*===-- Types -------------------------------------------------------------===*/

typedef int32_t tandem_dtype;
enum { TANDEM_DTYPE_F32 = 0, TANDEM_DTYPE_F16 = 1, TANDEM_DTYPE_BF16 = 2 };

typedef int32_t tandem_reduction;
enum {
  TANDEM_REDUCTION_SUM = 0,
  TANDEM_REDUCTION_MAX = 1,
  TANDEM_REDUCTION_MIN = 2,
  TANDEM_REDUCTION_PROD = 3
};

/// Where a norm rounds its normalised value to the element type.
typedef int32_t tandem_rounding;
enum {
  /// y = rn(rn(x / rms) * gamma), as RMSNormalization and Hugging Face do.
  TANDEM_ROUNDING_BEFORE_GAMMA = 0,
  /// y = rn((x / rms) * gamma), as SimplifiedLayerNormalization does.
  TANDEM_ROUNDING_AFTER_GAMMA = 1
};

typedef int32_t tandem_device;
enum { TANDEM_DEVICE_CPU = 0, TANDEM_DEVICE_CUDA = 1 };

typedef struct tandem_context tandem_context;
typedef struct tandem_comm tandem_comm;
typedef struct tandem_workspace tandem_workspace;

/// Values of every `timeout_ms`: a positive number of milliseconds, or these.
#define TANDEM_TIMEOUT_DEFAULT (-1)
#define TANDEM_TIMEOUT_NEVER 0

/*===-- Context -----------------------------------------------------------===*/

enum {
  /// Do not read any TANDEM_* environment variable.
  TANDEM_CONTEXT_IGNORE_ENVIRONMENT = 1u << 0
};

typedef struct tandem_context_desc {
  uint64_t struct_size;
  tandem_device device;
  /// Index of the device among those this process sees (CUDA only).
  int32_t device_index;
  uint32_t flags;
  uint32_t reserved0;
  /// Default of everything made in the context; TANDEM_TIMEOUT_DEFAULT is
  /// TANDEM_TIMEOUT_MS of the environment, or 30 seconds.
  int64_t timeout_ms;
  uint64_t reserved[4];
} tandem_context_desc;
#define TANDEM_CONTEXT_DESC_INIT                                               \
  {sizeof(tandem_context_desc), TANDEM_DEVICE_CPU, 0, 0, 0,                    \
   TANDEM_TIMEOUT_DEFAULT,      {0, 0, 0, 0}}

/// Makes a context: the device, defaults, and what the environment says
/// (TANDEM_TIMEOUT_MS, TANDEM_RENDEZVOUS_DIR, TANDEM_DISABLE_FUSION,
/// TANDEM_MEMORY_LIMIT, and those of docs/cuda.md; read here and never again).
/// `desc` may be NULL. TANDEM_DEVICE_CUDA is TANDEM_STATUS_UNSUPPORTED in a
/// build without it and on a machine without a driver or GPU; the message says
/// which.
TANDEM_API tandem_status tandem_context_create(const tandem_context_desc *desc,
                                               tandem_context **context,
                                               tandem_error *error);

/// Frees a context; NULL is allowed. Communicators and workspaces made from it
/// keep working: they hold what they need.
TANDEM_API void tandem_context_destroy(tandem_context *context);

/*===-- Communicators -----------------------------------------------------===*/

#define TANDEM_UNIQUE_ID_BYTES 128
/// The largest world a communicator may have.
#define TANDEM_MAX_WORLD 128

/// Names a group that is about to be made. Any one process makes it and hands
/// the bytes to the others by whatever means it has.
typedef struct tandem_unique_id {
  uint8_t bytes[TANDEM_UNIQUE_ID_BYTES];
} tandem_unique_id;

/// Makes an id that no other group has.
TANDEM_API tandem_status tandem_unique_id_create(tandem_context *context,
                                                 tandem_unique_id *id,
                                                 tandem_error *error);

typedef int32_t tandem_comm_kind;
enum {
  /// The ranks meet at a Unix socket: `name` is a bare name ([A-Za-z0-9._-], at
  /// most 64 characters) in the user's private directory, or, when it holds a
  /// slash, the socket's path, whose directory must be private to the user.
  TANDEM_COMM_RENDEZVOUS = 0,
  /// The ranks meet by `unique_id`.
  TANDEM_COMM_UNIQUE_ID = 1,
  /// The ranks of an existing ncclComm_t (CUDA), which is used once, to meet.
  /// rank and world are its own; leave them at 0 and 1, or give the same. The
  /// ranks may be on several hosts; then there is no fused path, and NCCL
  /// carries all. TANDEM_STATUS_UNSUPPORTED in a build without CUDA.
  TANDEM_COMM_NCCL = 2
};

typedef struct tandem_comm_desc {
  uint64_t struct_size;
  tandem_comm_kind kind;
  /// This process's rank in the group, in [0, world). It need be neither a
  /// global rank nor a device index.
  int32_t rank;
  int32_t world;
  uint32_t flags;
  /// How long to wait for the other ranks, and the default of workspaces.
  int64_t timeout_ms;
  const char *name;
  const tandem_unique_id *unique_id;
  void *nccl_comm;
  uint64_t reserved[4];
} tandem_comm_desc;
#define TANDEM_COMM_DESC_INIT                                                  \
  {sizeof(tandem_comm_desc),                                                   \
   TANDEM_COMM_RENDEZVOUS,                                                     \
   0,                                                                          \
   1,                                                                          \
   0,                                                                          \
   TANDEM_TIMEOUT_DEFAULT,                                                     \
   NULL,                                                                       \
   NULL,                                                                       \
   NULL,                                                                       \
   {0, 0, 0, 0}}

/// Makes a communicator. Collective: returns when all `world` ranks are there,
/// or on every rank that came with an error that names the rank at fault
/// (another world, version or a rank twice: MISMATCH; nobody came: TIMEOUT).
TANDEM_API tandem_status tandem_comm_create(tandem_context *context,
                                            const tandem_comm_desc *desc,
                                            tandem_comm **comm,
                                            tandem_error *error);

/// Waits for all ranks. Collective; not meant for the hot path.
TANDEM_API tandem_status tandem_comm_barrier(tandem_comm *comm,
                                             tandem_error *error);

/// The rank and world that the communicator was made with; -1 and 0 of NULL.
TANDEM_API int32_t tandem_comm_rank(const tandem_comm *comm);
TANDEM_API int32_t tandem_comm_world(const tandem_comm *comm);

/// Frees a communicator; NULL is allowed. Not collective. Its workspaces keep
/// working and must be destroyed too.
TANDEM_API void tandem_comm_destroy(tandem_comm *comm);

/*===-- Workspaces --------------------------------------------------------===*/

enum {
  /// Fail on all ranks where the fused path can't be had, instead of making a
  /// workspace with the fallback alone.
  TANDEM_WORKSPACE_REQUIRE_FUSED = 1u << 0,
  /// Calls may ask for batch invariance. Must be equal on all ranks.
  TANDEM_WORKSPACE_BATCH_INVARIANT = 1u << 1
};

typedef struct tandem_workspace_desc {
  uint64_t struct_size;
  /// Room for max_tokens x hidden elements of dtype, shared by all shapes and
  /// types that fit in these bytes. The ranks agree on the smallest max_tokens;
  /// hidden and dtype must be equal.
  int64_t max_tokens;
  int64_t hidden;
  tandem_dtype dtype;
  uint32_t flags;
  /// Above this many tokens the fused path should not be taken (from tuning);
  /// -1: up to the capacity. The ranks agree on the smallest.
  int64_t token_limit;
  int64_t timeout_ms;
  /// The module's signature: lines separated by '\n', compared across the
  /// ranks. NULL: none (then none may have one).
  const char *signature;
  uint64_t signature_length;
  /// Thread blocks that its fused kernels may have (CUDA); 0: as many as the
  /// GPU holds. The ranks agree on the smallest. Groups whose calls overlap in
  /// time on one GPU share it by this: see docs/cuda.md.
  int64_t max_blocks;
  uint64_t reserved[3];
} tandem_workspace_desc;
#define TANDEM_WORKSPACE_DESC_INIT                                             \
  {sizeof(tandem_workspace_desc),                                              \
   0,                                                                          \
   0,                                                                          \
   TANDEM_DTYPE_F32,                                                           \
   0,                                                                          \
   -1,                                                                         \
   TANDEM_TIMEOUT_DEFAULT,                                                     \
   NULL,                                                                       \
   0,                                                                          \
   0,                                                                          \
   {0, 0, 0}}

/// What a workspace takes, known before anything is allocated.
typedef struct tandem_workspace_bytes {
  uint64_t struct_size;
  /// Shared by the group, once on its host (CPU), or on every rank's device.
  uint64_t shared_bytes;
  /// Of each rank's own.
  uint64_t private_bytes;
  /// What is left of shared_bytes if the ranks agree on the fallback alone.
  uint64_t fallback_shared_bytes;
} tandem_workspace_bytes;
#define TANDEM_WORKSPACE_BYTES_INIT {sizeof(tandem_workspace_bytes), 0, 0, 0}

/// Computes the bytes of a workspace for a group of `world` ranks. Not
/// collective, allocates nothing. INVALID_ARGUMENT names a size that is out of
/// range or overflows 64 bits.
TANDEM_API tandem_status tandem_workspace_query_bytes(
    tandem_context *context, int32_t world, const tandem_workspace_desc *desc,
    tandem_workspace_bytes *bytes, tandem_error *error);

/// Makes a workspace. Collective. The ranks compare their descriptions and
/// signatures (MISMATCH on all ranks, naming the first line that differs),
/// check the memory there is, and either all get the fused path or none: then
/// the workspace serves with a token limit of -1, and tandem_workspace_get_info
/// has the failing rank's reason on every rank. It never grows.
TANDEM_API tandem_status
tandem_workspace_create(tandem_comm *comm, const tandem_workspace_desc *desc,
                        tandem_workspace **workspace, tandem_error *error);

/// Frees a workspace; NULL is allowed. Waits for its calls, on a GPU for all
/// that runs there. Streams may be captured meanwhile. Not collective: a peer
/// that calls on gets TANDEM_STATUS_PEER_LEFT.
TANDEM_API void tandem_workspace_destroy(tandem_workspace *workspace);

typedef struct tandem_workspace_info {
  uint64_t struct_size;
  int32_t rank;
  int32_t world;
  /// 1: the fused path exists and is on.
  int32_t fused;
  uint32_t reserved;
  /// Bytes of one rank's input that the fused path takes at a time.
  uint64_t capacity_bytes;
  /// The agreed limit in tokens, before it is bounded by the capacity; -1:
  /// none.
  int64_t token_limit;
  uint64_t shared_bytes;
  uint64_t private_bytes;
  /// Why there is no fused path, with the rank that lacks it. With a fused
  /// path: why the fallback does without NCCL (CUDA), or empty.
  char reason[256];
} tandem_workspace_info;
#define TANDEM_WORKSPACE_INFO_INIT                                             \
  {sizeof(tandem_workspace_info), -1, 0, 0, 0, 0, 0, 0, 0, {0}}

/// Fills `info`, whose struct_size is set; else INVALID_ARGUMENT.
TANDEM_API tandem_status tandem_workspace_get_info(
    const tandem_workspace *workspace, tandem_workspace_info *info);

/// Returns the largest token count for which the fused path can and should run
/// at this hidden size and type, equal on all ranks; -1 where there is none
/// (also for a NULL workspace or sizes out of range).
TANDEM_API int64_t tandem_token_limit(const tandem_workspace *workspace,
                                      int64_t hidden, tandem_dtype dtype);

/// Turns the fused path off (0) or on (1, where it exists). Collective, so that
/// it changes between the same two calls on all ranks: it is off if any rank
/// asks for off. The environment's TANDEM_DISABLE_FUSION=1 on any rank does the
/// same when a workspace is made.
TANDEM_API tandem_status tandem_workspace_set_fusion(
    tandem_workspace *workspace, int32_t enabled, tandem_error *error);

/// How often each path was taken on this rank; calls with zero tokens count
/// nowhere.
typedef struct tandem_counters {
  uint64_t struct_size;
  /// tandem_fused_all_reduce_norm on the fused path.
  uint64_t fused;
  /// The same on the fallback: by flag, above the limit, or without fused path.
  uint64_t fallback;
  uint64_t all_reduce;
  /// tandem_add_rms_norm and tandem_rms_norm.
  uint64_t norm;
  /// Calls that returned an error.
  uint64_t failed;
  /// Exchanges with the peers, and how many of them had to sleep.
  uint64_t rounds;
  uint64_t sleeps;
} tandem_counters;
#define TANDEM_COUNTERS_INIT {sizeof(tandem_counters), 0, 0, 0, 0, 0, 0, 0}

/// Fills `counters`, whose struct_size is set; else INVALID_ARGUMENT.
TANDEM_API tandem_status tandem_workspace_get_counters(
    const tandem_workspace *workspace, tandem_counters *counters);

/// Returns the status of the workspace's group, OK while it works, and fills
/// `failure` with cause and peer. A failure is sticky: every later execute call
/// returns its status at once and leaves its outputs undefined. Destroy the
/// workspace and the communicator and make new ones.
TANDEM_API tandem_status tandem_workspace_get_failure(
    const tandem_workspace *workspace, tandem_error *failure);

/// Fails the workspace's group from outside of a call: for a rank that can't
/// make the calls that its peers make, so that they don't wait for it until
/// their deadline. They get `status`, which may not be OK, and `message` (NULL:
/// none; its first 400 bytes are kept), with this rank as the cause. Not
/// collective; any thread. Returns the group's status: of two failures the
/// first stays. INVALID_ARGUMENT, and no failure, for a `status` that is none.
/// Since ABI 1.1.
TANDEM_API tandem_status tandem_workspace_fail(tandem_workspace *workspace,
                                               tandem_status status,
                                               const char *message);

/// Writes a line to `text` (at most `size` bytes with the closing zero) that
/// says where the fused path's limit comes from and which defaults are used:
/// measured ones for the GPUs they were measured on, else conservative ones.
/// Any thread, at any time.
TANDEM_API tandem_status tandem_workspace_get_defaults(
    const tandem_workspace *workspace, char *text, uint64_t size);

/// Writes what each rank last called to `text` (at most `size` bytes with the
/// closing zero), a line each, and the group's failure if there is one: for
/// finding out who hangs (CUDA; calls are noted when they are launched, replays
/// of graphs aren't). Environment TANDEM_HANG_DUMP=PREFIX appends the same to
/// PREFIX.RANK when a group fails. Any thread, at any time.
TANDEM_API tandem_status tandem_workspace_get_hang_dump(
    const tandem_workspace *workspace, char *text, uint64_t size);

/*===-- Execute -----------------------------------------------------------===*/
/*
   Execute calls launch and return: they allocate nothing. On the CPU they
   return when the result is there and ignore the stream. A call with zero
   tokens returns OK before any handle is read. Any other error fails the group
   (see tandem_workspace_get_failure), because this rank's next call could
   otherwise pair with a peer's previous one.

   Which path is taken is a function of what the ranks agreed on when the
   workspace was made and of tokens, hidden, dtype and flags: never of pointers.
   The ranks compare these in every call (MISMATCH names both values).

   Every result is a rounding away from the documented value, NaNs are the
   canonical quiet NaN, and all ranks that pass the same residual, bias and
   gamma get the same bits. One exception: a sum that NCCL makes (CUDA: without
   batch invariance, where the fused path is not taken) has NCCL's order,
   roundings and NaNs, so its bits may depend on size, world and version of
   NCCL; docs/cuda.md, "Ways to a sum", says when.

   An output may be the very same view as an input (same pointer and stride);
   any other overlap, and overlap between outputs, is INVALID_ARGUMENT.
*/

/// Rows of `hidden` contiguous elements. row_stride counts elements and is at
/// least `hidden`; 0 stands for `hidden`. data NULL: the operand is absent.
typedef struct tandem_view {
  void *data;
  int64_t row_stride;
} tandem_view;

/// An RMS norm over a row: x / sqrt(mean(x^2) + epsilon) * gamma, in f32.
/// gamma holds `hidden` elements of gamma_dtype; NULL: no norm.
typedef struct tandem_norm_spec {
  const void *gamma;
  tandem_dtype gamma_dtype;
  tandem_rounding rounding;
  double epsilon;
} tandem_norm_spec;

enum {
  /// Take the fallback whatever the token count. On an all_reduce: this is the
  /// other branch of a fused call.
  TANDEM_CALL_FALLBACK = 1u << 0,
  /// The result of a token must have the same bits whatever the path and the
  /// batch around it.
  TANDEM_CALL_BATCH_INVARIANT = 1u << 1
};

typedef struct tandem_norm_args {
  uint64_t struct_size;
  int64_t tokens;
  int64_t hidden;
  /// Type of everything but the gammas.
  tandem_dtype dtype;
  uint32_t flags;
  void *stream;
  tandem_view input;
  /// Added before the (last) norm; optional.
  tandem_view residual;
  /// `hidden` elements added to the sum; optional.
  const void *bias;
  /// The sandwich's norm of the sum, before the residual; optional.
  tandem_norm_spec pre_norm;
  tandem_norm_spec norm;
  /// The norm's result.
  tandem_view norm_out;
  /// The value that was normalised (the new residual); optional.
  tandem_view residual_out;
  /// The all-reduce's own sum; optional.
  tandem_view sum_out;
  /// Room for quantised results; zero.
  uint64_t reserved[8];
} tandem_norm_args;
#define TANDEM_NORM_ARGS_INIT                                                  \
  {sizeof(tandem_norm_args),                                                   \
   0,                                                                          \
   0,                                                                          \
   TANDEM_DTYPE_F32,                                                           \
   0,                                                                          \
   NULL,                                                                       \
   {NULL, 0},                                                                  \
   {NULL, 0},                                                                  \
   NULL,                                                                       \
   {NULL, 0, 0, 0.0},                                                          \
   {NULL, 0, 0, 0.0},                                                          \
   {NULL, 0},                                                                  \
   {NULL, 0},                                                                  \
   {NULL, 0},                                                                  \
   {0, 0, 0, 0, 0, 0, 0, 0}}

/// The whole family, rn being one rounding to dtype:
///   s = rn(sum of the ranks' inputs, in rank order, in f32;
///          through NCCL: NCCL's sum)                          -> sum_out
///   s = rn(s + bias)                                          with a bias
///   s = pre_norm(s)                                           with a pre_norm
///   r = rn(s + residual), or s without a residual             -> residual_out
///   y = norm(r)                                               -> norm_out
/// Collective over the workspace's group.
TANDEM_API tandem_status tandem_fused_all_reduce_norm(
    tandem_workspace *workspace, const tandem_norm_args *args);

/// The same from `s` on, `input` being the sum: what follows an unfused
/// all-reduce. Local; without a workspace (NULL) the operands are in host
/// memory.
TANDEM_API tandem_status tandem_add_rms_norm(tandem_workspace *workspace,
                                             const tandem_norm_args *args);

/// y = norm(input) alone: residual, bias, pre_norm, residual_out and sum_out
/// must be absent. Local; the workspace may be NULL, as above.
TANDEM_API tandem_status tandem_rms_norm(tandem_workspace *workspace,
                                         const tandem_norm_args *args);

typedef struct tandem_all_reduce_args {
  uint64_t struct_size;
  int64_t tokens;
  int64_t hidden;
  tandem_dtype dtype;
  uint32_t flags;
  void *stream;
  tandem_view input;
  tandem_view output;
  tandem_reduction reduction;
  uint32_t reserved0;
  uint64_t reserved[4];
} tandem_all_reduce_args;
#define TANDEM_ALL_REDUCE_ARGS_INIT                                            \
  {sizeof(tandem_all_reduce_args),                                             \
   0,                                                                          \
   0,                                                                          \
   TANDEM_DTYPE_F32,                                                           \
   0,                                                                          \
   NULL,                                                                       \
   {NULL, 0},                                                                  \
   {NULL, 0},                                                                  \
   TANDEM_REDUCTION_SUM,                                                       \
   0,                                                                          \
   {0, 0, 0, 0}}

/// Reduces element by element over the ranks, in rank order, in f32, rounded
/// once; a sum that goes through NCCL is NCCL's instead, other reductions never
/// are. max and min propagate NaN. Collective over the workspace's group.
TANDEM_API tandem_status tandem_all_reduce(tandem_workspace *workspace,
                                           const tandem_all_reduce_args *args);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(*) */

#endif /* TANDEM_RUNTIME_TANDEM_H */
