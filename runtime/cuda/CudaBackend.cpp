//===-- CudaBackend.cpp - The CUDA backend of a workspace -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaBackend.h"

#include "Trace.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>

using namespace tandem;
using namespace tandem::cuda;

//===----------------------------------------------------------------------===//
// Resources
//===----------------------------------------------------------------------===//

Resources::~Resources() {
  if (!gpu)
    return;
  GpuScope scope(*gpu);
  RelaxedCapture relaxed;
  // NCCL's kernels end before what they read goes.
  nccl.reset();
  if (releaseNccl)
    releaseNccl();
  ownStream.reset();
  // All here and not by the members: where a caller captures, memory may be
  // freed in this scope alone. First what waits for kernels; unmapping doesn't.
  scratch.reset();
  pinned.reset();
  for (SharedRegion &region : regions)
    region.reset();
}

void Resources::forget() {
  for (SharedRegion &region : regions)
    region.forget();
  scratch.forget();
  pinned.forget();
  host.forget();
  if (nccl)
    nccl->forget();
  releaseNccl = nullptr;
  ownStream.forget();
  gpu = nullptr;
}

uint64_t cuda::scratchBytesFor(int world, uint64_t rowBytes,
                               uint64_t askedBytes) {
  constexpr uint64_t most = uint64_t(8) << 20;
  uint64_t bytes = (uint64_t(world) + 2) * (rowBytes + 256);
  return roundUp(std::max(bytes, std::min(askedBytes, most)), 1024);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

namespace {
/// What a call is, in the words that the ranks compare.
enum CallKind : uint32_t {
  KindFused = 1,
  KindAllReduce = 2,
  /// A fused call's rank-ordered fallback.
  KindOrdered = 3,
};

/// How a call got its sum, for the hang dump.
enum CallPath : uint32_t { PathFused, PathOrdered, PathGather, PathNccl };
const char *const pathNames[] = {"fused", "ordered", "gather", "nccl"};

/// Calls compare whether they ask for batch invariance, too.
constexpr uint32_t invariantBit = 1u << 7;
/// A check before a call that goes through NCCL.
constexpr uint32_t checkBit = 1u << 6;
} // namespace

static Rows rowsOf(const tandem_view &view) {
  return {view.data, view.data ? view.row_stride : 0};
}

static Norm normOf(const tandem_norm_spec &spec) {
  if (!spec.gamma)
    return {};
  return {spec.gamma, spec.gamma_dtype, spec.rounding,
          static_cast<float>(spec.epsilon)};
}

static CallArgs callOf(const tandem_norm_args &args) {
  CallArgs call = {};
  call.tokens = args.tokens;
  call.hidden = args.hidden;
  call.dtype = args.dtype;
  call.reduction = TANDEM_REDUCTION_SUM;
  call.input = rowsOf(args.input);
  call.residual = rowsOf(args.residual);
  call.out = rowsOf(args.norm_out);
  call.residualOut = rowsOf(args.residual_out);
  call.sumOut = rowsOf(args.sum_out);
  call.bias = args.bias;
  call.pre = normOf(args.pre_norm);
  call.norm = normOf(args.norm);
  return call;
}

static Rows skip(const Rows &rows, int64_t count, uint64_t element) {
  if (!rows.data)
    return rows;
  return {static_cast<char *>(rows.data) +
              static_cast<uint64_t>(count * rows.stride) * element,
          rows.stride};
}

/// `count` rows of a call from row `at` on.
static CallArgs part(const CallArgs &call, int64_t at, int64_t count) {
  CallArgs some = call;
  const uint64_t element = elementBytes(call.dtype);
  some.tokens = count;
  for (Rows CallArgs::*rows :
       {&CallArgs::input, &CallArgs::residual, &CallArgs::out,
        &CallArgs::residualOut, &CallArgs::sumOut})
    some.*rows = skip(call.*rows, at, element);
  return some;
}

static bool contiguous(const Rows &rows, int64_t tokens, int64_t hidden) {
  return rows.data && (tokens == 1 || rows.stride == hidden);
}

static uint32_t floatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static CallShape shapeOf(const CallArgs &call, uint32_t kind, int64_t row) {
  CallShape shape = {};
  shape.tokens = call.tokens;
  shape.hidden = call.hidden;
  shape.dtype = call.dtype;
  shape.reduction = call.reduction;
  shape.kind = kind;
  shape.part = static_cast<uint32_t>(row);
  shape.norm = call.norm.gamma != nullptr;
  if (!shape.norm)
    return shape;
  shape.variant = variantOf(call.bias, call.residual.data, call.pre.gamma, true,
                            call.norm.rounding, call.pre.rounding,
                            call.norm.gammaType, call.pre.gammaType);
  shape.epsilonBits = floatBits(call.norm.epsilon);
  shape.preEpsilonBits = floatBits(call.pre.epsilon);
  return shape;
}

//===----------------------------------------------------------------------===//
// The backend
//===----------------------------------------------------------------------===//

namespace {
class CudaBackend final : public Backend, private Watched {
public:
  CudaBackend(std::unique_ptr<Resources> resources, GroupFailure &failure);
  ~CudaBackend() override;

  tandem_status fused(const tandem_norm_args &args, bool onFusedPath,
                      uint64_t call) override;
  tandem_status allReduce(const tandem_all_reduce_args &args, bool direct,
                          uint64_t call) override;
  tandem_status addRmsNorm(const tandem_norm_args &args) override;
  Error accept(const tandem_norm_args &args, bool collective) override;
  Error accept(const tandem_all_reduce_args &args) override;
  int64_t capacity(int64_t hidden, tandem_dtype dtype) const override;
  uint64_t advisedBytes() const override {
    // Without NCCL the fallback is the same kernels in parts.
    return held->nccl ? fusedLimitOf(held->defaults) : UINT64_MAX;
  }
  const char *defaults() const override { return describe(held->defaults); }
  tandem_status check() override;
  tandem_status fail(const Error &error, uint64_t call) override;
  void leave() override;
  void forget() override;
  std::string dump() const override;
  uint64_t rounds() const override { return numLaunches.load(); }
  uint64_t sleeps() const override { return 0; }

private:
  class Noted;
  void look() override;
  Error findDeparted();
  void waitForCalls();
  Error adopt(const HostRecord &record);
  void stopKernels(const Error &cause);
  void writeDump() noexcept;
  Error checkPointer(const char *name, const void *pointer);
  void note(CallPath path, uint32_t kind, const CallArgs &args, uint64_t call,
            bool captured);
  tandem_status finish(const Error &error, uint64_t call);

  Error exchange(const CallArgs &args, uint32_t kind, int64_t row,
                 cudaStream_t stream);
  Error launch(const CallArgs &args, const Plan &plan, cudaStream_t stream);
  Error ordered(const CallArgs &args, uint32_t kind, cudaStream_t stream);
  Error orderedSum(const CallArgs &args, uint32_t kind, int64_t row,
                   cudaStream_t stream);
  Error gatherSum(const CallArgs &args, cudaStream_t stream);
  Error alone(const CallArgs &args, cudaStream_t stream);
  Error throughNccl(const CallArgs &args, cudaStream_t stream);
  Error checkThenNccl(const CallArgs &args, uint32_t kind, cudaStream_t stream);
  Error sumInParts(const CallArgs &args, uint32_t kind, bool gather,
                   cudaStream_t stream);
  Error norm(const CallArgs &args, cudaStream_t stream);
  Error copy(const Rows &from, const Rows &to, int64_t tokens, int64_t width,
             uint64_t element, cudaStream_t stream);
  char *scratchPart(int third) const {
    return static_cast<char *>(held->scratch.get()) +
           static_cast<uint64_t>(third) * scratchThird();
  }
  uint64_t scratchThird() const { return held->scratchBytes / 3 / 256 * 256; }
  int64_t maxRows(int64_t hidden, int32_t dtype, bool withNorm) const;

  std::unique_ptr<Resources> held;
  GroupFailure &failure;
  /// Kernels that exchange; those among them that went into graphs.
  std::atomic<uint64_t> numLaunches{0};
  std::atomic<uint64_t> numCaptured{0};
  /// Pages' first bytes whose pointers were found to be this GPU's.
  static constexpr size_t numKnown = 64;
  std::atomic<uintptr_t> known[numKnown] = {};
  /// hidden << 32 | tokens, by type: the last answers of maxRows, without and
  /// with norms.
  mutable std::atomic<uint64_t> limits[2][3] = {};
  /// Monitor's.
  bool stopped = false;
  std::atomic<bool> dumped{false};
  int64_t departedSince = 0;
  std::atomic<int64_t> leavingSince{0};
};
} // namespace

CudaBackend::CudaBackend(std::unique_ptr<Resources> resources,
                         GroupFailure &failure)
    : held(std::move(resources)), failure(failure) {
  if (held->segment())
    failure.attach(&held->segment()->failure);
  try {
    held->monitor->add(this);
  } catch (...) {
    failure.detach();
    throw;
  }
}

CudaBackend::~CudaBackend() {
  if (held->gpu) {
    held->monitor->remove(this);
    failure.detach();
  }
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

static const char *headerWordName(int32_t word) {
  static const char *const names[] = {"tokens",
                                      "hidden",
                                      "type, reduction and operation",
                                      "operands",
                                      "epsilon",
                                      "pre_norm's epsilon",
                                      "rows before this part",
                                      "spare"};
  return word >= 0 && word < numHeaderWords ? names[word] : "call";
}

/// Makes the group's failure of what a kernel wrote.
Error CudaBackend::adopt(const HostRecord &record) {
  const int rank = held->comm->rank;
  Error error;
  if (record.status == TANDEM_STATUS_MISMATCH && record.word >= 0)
    error = record.word == HeaderKind || record.word == HeaderVariant
                ? makeError(TANDEM_STATUS_MISMATCH, record.peer,
                            "rank %d called with other %s (0x%x) than rank %d "
                            "(0x%x)",
                            record.peer, headerWordName(record.word),
                            record.theirs, rank, record.mine)
                : makeError(TANDEM_STATUS_MISMATCH, record.peer,
                            "rank %d called with %s %u, rank %d with %u",
                            record.peer, headerWordName(record.word),
                            record.theirs, rank, record.mine);
  else if (record.status == TANDEM_STATUS_TIMEOUT && record.peer >= 0 &&
           held->comm->isDead(record.peer))
    error = makeError(TANDEM_STATUS_PEER_DIED, record.peer,
                      "the process of rank %d ended", record.peer);
  else if (record.status == TANDEM_STATUS_TIMEOUT)
    error = makeError(TANDEM_STATUS_TIMEOUT, record.peer,
                      "rank %d did not come to a call within %lld ms",
                      record.peer, static_cast<long long>(held->timeoutMs));
  else
    error = makeError(
        record.status, record.peer, "rank %d found a failure (%s) of rank %d",
        record.reporter, tandem_status_name(record.status), record.peer);
  error.reporter = record.reporter;
  error.call = record.call;
  return error;
}

tandem_status CudaBackend::check() {
  if (tandem_status status = failure.check()) {
    writeDump();
    return status;
  }
  HostRecord *record = held->record();
  if (!record || __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != 2)
    return TANDEM_STATUS_OK;
  // Who found it knows more about it.
  if (record->reporter != held->comm->rank && held->segment()) {
    Deadline patience = Deadline::in(200);
    while (!patience.passed()) {
      if (tandem_status status = failure.check())
        return status;
      timespec nap = {0, 1000000};
      (void)nanosleep(&nap, nullptr);
    }
  }
  tandem_status status = failure.fail(adopt(*record));
  writeDump();
  return status;
}

tandem_status CudaBackend::fail(const Error &error, uint64_t call) {
  Error mine = error;
  mine.reporter = held->comm->rank;
  if (mine.call == 0)
    mine.call = call;
  tandem_status status = failure.fail(mine);
  writeDump();
  // Stops this rank's kernels; the peers' monitors find the group's record.
  held->monitor->wake();
  return status;
}

/// A peer that has gone or died without having left.
Error CudaBackend::findDeparted() {
  HostSegment *segment = held->segment();
  for (int r = 0; r < held->comm->world; ++r) {
    if (r == held->comm->rank)
      continue;
    if (segment && segment->ranks[r].left.load(std::memory_order_acquire))
      return makeError(TANDEM_STATUS_PEER_LEFT, r,
                       "rank %d destroyed its workspace", r);
  }
  return Error();
}

/// Lets waiting kernels go, and NCCL's.
void CudaBackend::stopKernels(const Error &cause) {
  if (held->direct && held->pinned.get()) {
    uint64_t *word = &held->record()->stop;
    __atomic_store_n(word,
                     failureWord(cause.status, cause.reporter, cause.peer),
                     __ATOMIC_RELEASE);
    // For kernels that don't wait, and so don't look.
    (void)held->ownStream.copy(&held->control()->failure, word, sizeof(*word),
                               cudaMemcpyHostToDevice);
  }
  if (held->nccl)
    held->nccl->abort();
}

void CudaBackend::look() {
  if (stopped)
    return;
  Communicator &comm = *held->comm;
  // 1. What is already known, here or elsewhere.
  tandem_status status = check();
  // 2. Peers.
  HostSegment *segment = held->segment();
  for (int r = 0; !status && r < comm.world; ++r) {
    bool left =
        segment && segment->ranks[r].left.load(std::memory_order_acquire) != 0;
    if (r == comm.rank || left || !comm.isDead(r))
      continue;
    Error error = makeError(TANDEM_STATUS_PEER_DIED, r,
                            "the process of rank %d ended", r);
    error.reporter = comm.rank;
    status = failure.fail(error);
    writeDump();
  }
  // 3. NCCL.
  if (!status && held->nccl)
    if (Error e = held->nccl->watch(held->timeoutMs)) {
      e.reporter = comm.rank;
      status = failure.fail(e);
      writeDump();
    }
  if (status) {
    stopped = true;
    comm.spoil(failure.get());
    stopKernels(failure.get());
    return;
  }
  // A peer has left, which is its right once all calls are done. A call after
  // that is found out when it is made, but for a graph's replay: that waits in
  // its kernel for what will never come.
  Error departed = findDeparted();
  int64_t leaving = leavingSince.load(std::memory_order_acquire);
  int64_t patience = held->timeoutMs > 0 ? held->timeoutMs : 30000;
  if (departed && departedSince == 0)
    departedSince = nowNs();
  bool gone = departed && nowNs() - departedSince > 1000000000;
  bool late = leaving && nowNs() - leaving > patience * 1000000;
  if (gone || late) {
    stopped = true;
    if (!departed)
      departed = makeError(TANDEM_STATUS_TIMEOUT, -1,
                           "calls were not done when rank %d left", comm.rank);
    departed.reporter = comm.rank;
    stopKernels(departed);
  }
}

/// Waits for the calls that were launched outside of graphs. They end when
/// their peers have come, at their deadline, or when the monitor stops them.
void CudaBackend::waitForCalls() {
  const uint64_t launched = numLaunches.load() - numCaptured.load();
  Resources::Page *page = held->page();
  auto isDone = [&] {
    return ((page->epoch - firstEpoch) & epochMask) >= launched;
  };
  page->epoch = firstEpoch;
  while (!isDone()) {
    if (held->ownStream.copy(&page->epoch, &held->control()->epoch,
                             sizeof(page->epoch), cudaMemcpyDeviceToHost) ||
        held->ownStream.wait(Deadline(), "waiting for the last calls"))
      return;
    if (!isDone()) {
      timespec nap = {0, 100000};
      (void)nanosleep(&nap, nullptr);
    }
  }
}

void CudaBackend::leave() {
  GpuScope scope(*held->gpu);
  {
    RelaxedCapture relaxed;
    leavingSince.store(nowNs(), std::memory_order_release);
    if (held->direct)
      waitForCalls();
    // Kernels use what is about to go; freeing waits for all that run, as
    // synchronizing the device does. But that would break every capture of the
    // caller's, and fail itself. Meanwhile no other thread gets anything done
    // on this GPU, which is why the calls were waited for before.
    held->scratch.reset();
    (void)cudaGetLastError();
  }
  if (HostSegment *segment = held->segment())
    segment->ranks[held->comm->rank].left.store(1, std::memory_order_release);
}

void CudaBackend::forget() {
  failure.detach();
  held->monitor->forget();
  held->forget();
}

//===----------------------------------------------------------------------===//
// The hang dump
//===----------------------------------------------------------------------===//

static bool isCaptured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess)
    (void)cudaGetLastError();
  return capture != cudaStreamCaptureStatusNone;
}

void CudaBackend::note(CallPath path, uint32_t kind, const CallArgs &args,
                       uint64_t call, bool captured) {
  HostSegment *segment = held->segment();
  if (!segment)
    return;
  LastCall &last = segment->ranks[held->comm->rank].last;
  uint32_t sequence = last.sequence.load(std::memory_order_relaxed);
  last.sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  last.path.store(path, std::memory_order_relaxed);
  last.call.store(call, std::memory_order_relaxed);
  last.tokens.store(args.tokens, std::memory_order_relaxed);
  last.hidden.store(args.hidden, std::memory_order_relaxed);
  last.what.store(static_cast<uint32_t>(args.dtype) | (kind & 0xff) << 8 |
                      (captured ? 1u << 16 : 0u),
                  std::memory_order_relaxed);
  last.atNs.store(nowNs(), std::memory_order_relaxed);
  last.sequence.store(sequence + 2, std::memory_order_release);
}

std::string CudaBackend::dump() const {
  static const char *const types[] = {"f32", "f16", "bf16", "?"};
  static const char *const kinds[] = {"?", "fused_all_reduce_norm",
                                      "all_reduce",
                                      "fused_all_reduce_norm (fallback)"};
  std::string text;
  HostSegment *segment = held->segment();
  char line[320];
  for (int r = 0; segment && r < held->comm->world; ++r) {
    const LastCall &last = segment->ranks[r].last;
    uint64_t call;
    uint32_t path, what;
    int64_t tokens, hidden, at;
    for (int tries = 0; tries < 1000; ++tries) {
      uint32_t before = last.sequence.load(std::memory_order_acquire);
      call = last.call.load(std::memory_order_relaxed);
      path = last.path.load(std::memory_order_relaxed);
      what = last.what.load(std::memory_order_relaxed);
      tokens = last.tokens.load(std::memory_order_relaxed);
      hidden = last.hidden.load(std::memory_order_relaxed);
      at = last.atNs.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 &&
          before == last.sequence.load(std::memory_order_relaxed))
        break;
    }
    int pid = last.pid.load(std::memory_order_relaxed);
    const char *state = segment->ranks[r].left.load() ? ", has left"
                        : r != held->comm->rank && held->comm->isDead(r)
                            ? ", has died"
                            : "";
    if (call == 0)
      snprintf(line, sizeof(line), "rank %d (process %d%s): no call yet\n", r,
               pid, state);
    else
      snprintf(line, sizeof(line),
               "rank %d (process %d%s): call %" PRIu64
               ", %s, %s%s, tokens %lld, hidden %lld, %s, launched %.3f s "
               "ago\n",
               r, pid, state, call, kinds[(what >> 8 & 0xff) & 3],
               pathNames[path & 3],
               what >> 16 & 1 ? ", captured into a graph" : "",
               static_cast<long long>(tokens), static_cast<long long>(hidden),
               types[what & 3], static_cast<double>(nowNs() - at) * 1e-9);
    text += line;
  }
  text += std::string("defaults: ") + defaults() + "\n";
  Error error = failure.get();
  if (error) {
    snprintf(line, sizeof(line),
             "failure: %s, found by rank %d, caused by rank %d, call %" PRIu64
             ": ",
             tandem_status_name(error.status), error.reporter, error.peer,
             error.call);
    text += line;
    text += error.message;
    text += '\n';
  }
  return text;
}

/// For whoever looks into a hang; once. Called where nothing may be thrown.
void CudaBackend::writeDump() noexcept {
  if (held->hangDump.empty() || dumped.exchange(true))
    return;
  try {
    std::string path = held->hangDump + "." + std::to_string(held->comm->rank);
    UniqueFd fd(open(path.c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                     0600));
    std::string text = dump();
    if (fd)
      (void)!write(fd.get(), text.data(), text.size());
  } catch (...) { // NOLINT(bugprone-empty-catch): without memory, no dump.
  }
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Memory of another GPU or of the host would end in a fault that takes the
/// whole process's GPU context down. Looked up once a page.
Error CudaBackend::checkPointer(const char *name, const void *pointer) {
  if (!pointer)
    return Error();
  constexpr uintptr_t page = uintptr_t(1) << 16;
  uintptr_t at = reinterpret_cast<uintptr_t>(pointer) / page;
  // Zero is no page that anything lies in.
  std::atomic<uintptr_t> &slot = known[at % numKnown];
  if (slot.load(std::memory_order_relaxed) == at)
    return Error();
  auto attribute = held->gpu->driver.pointerAttribute;
  unsigned type = 0;
  int ordinal = -1;
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(pointer);
  if (!attribute)
    return Error();
  if (attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
      CUDA_SUCCESS)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "%s is not memory that CUDA knows (a host pointer in a "
                     "workspace on a GPU?)",
                     name);
  if (type == CU_MEMORYTYPE_DEVICE &&
      attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
          CUDA_SUCCESS &&
      ordinal != held->gpu->index) {
    unsigned managed = 0;
    (void)attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    if (!managed)
      return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                       "%s is memory of GPU %d, the workspace is on GPU %d",
                       name, ordinal, held->gpu->index);
  }
  slot.store(at, std::memory_order_relaxed);
  return Error();
}

Error CudaBackend::accept(const tandem_norm_args &args, bool collective) {
  uint64_t row;
  if (__builtin_mul_overflow(uint64_t(args.hidden), elementBytes(args.dtype),
                             &row) ||
      args.hidden > INT32_MAX || (collective && row > held->rowBytes))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "hidden is %lld: a row may have %llu bytes in this "
                     "workspace (make it with the largest hidden size)",
                     static_cast<long long>(args.hidden),
                     static_cast<unsigned long long>(held->rowBytes));
  if (args.tokens > INT32_MAX)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "tokens is %lld, more than 2^31 - 1",
                     static_cast<long long>(args.tokens));
  const struct {
    const char *name;
    const void *pointer;
  } all[] = {{"input", args.input.data},
             {"residual", args.residual.data},
             {"bias", args.bias},
             {"norm.gamma", args.norm.gamma},
             {"pre_norm.gamma", args.pre_norm.gamma},
             {"norm_out", args.norm_out.data},
             {"residual_out", args.residual_out.data},
             {"sum_out", args.sum_out.data}};
  for (const auto &one : all)
    if (Error e = checkPointer(one.name, one.pointer))
      return e;
  return Error();
}

Error CudaBackend::accept(const tandem_all_reduce_args &args) {
  if (args.tokens > INT32_MAX || args.hidden > INT32_MAX)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "tokens %lld or hidden %lld is more than 2^31 - 1",
                     static_cast<long long>(args.tokens),
                     static_cast<long long>(args.hidden));
  if (Error e = checkPointer("input", args.input.data))
    return e;
  return checkPointer("output", args.output.data);
}

/// Rows that one kernel takes. Asked in every call: remembers the last answer.
int64_t CudaBackend::maxRows(int64_t hidden, int32_t dtype,
                             bool withNorm) const {
  if (!held->direct)
    return 0;
  std::atomic<uint64_t> &slot = limits[withNorm][dtype];
  uint64_t packed = slot.load(std::memory_order_relaxed);
  if (packed >> 32 == static_cast<uint64_t>(hidden))
    return static_cast<int64_t>(packed & 0xffffffff);
  int64_t rows = maxTokens(held->facts, hidden, dtype, withNorm);
  slot.store(static_cast<uint64_t>(hidden) << 32 | static_cast<uint64_t>(rows),
             std::memory_order_relaxed);
  return rows;
}

int64_t CudaBackend::capacity(int64_t hidden, tandem_dtype dtype) const {
  if (held->comm->world == 1)
    return INT64_MAX;
  if (hidden > INT32_MAX)
    return 0;
  return maxRows(hidden, dtype, true);
}

//===----------------------------------------------------------------------===//
// Ways to a sum
//===----------------------------------------------------------------------===//

Error CudaBackend::copy(const Rows &from, const Rows &to, int64_t tokens,
                        int64_t width, uint64_t element, cudaStream_t stream) {
  const uint64_t bytes = static_cast<uint64_t>(width) * element;
  auto pitch = [&](const Rows &rows) {
    return tokens == 1 ? bytes : static_cast<uint64_t>(rows.stride) * element;
  };
  return cudaFailure(cudaMemcpy2DAsync(to.data, pitch(to), from.data,
                                       pitch(from), bytes,
                                       static_cast<size_t>(tokens),
                                       cudaMemcpyDeviceToDevice, stream),
                     "copying rows");
}

/// One kernel, which must take the shape.
Error CudaBackend::exchange(const CallArgs &args, uint32_t kind, int64_t row,
                            cudaStream_t stream) {
  Plan plan;
  if (const char *why = planCall(held->facts, shapeOf(args, kind, row), plan))
    return makeError(TANDEM_STATUS_INTERNAL, -1, "no plan for %lld x %lld: %s",
                     static_cast<long long>(args.tokens),
                     static_cast<long long>(args.hidden), why);
  return launch(args, plan, stream);
}

Error CudaBackend::launch(const CallArgs &args, const Plan &plan,
                          cudaStream_t stream) {
  if (cudaError_t code = launchExchange(held->endpoint, args, plan, stream))
    return cudaFailure(code, "launching a fused kernel");
  numLaunches.fetch_add(1, std::memory_order_relaxed);
  return Error();
}

Error CudaBackend::norm(const CallArgs &args, cudaStream_t stream) {
  NormPlan plan = planNorm(held->facts.multiprocessors, args.tokens,
                           args.hidden, args.dtype);
  return cudaFailure(launchNorm(args, plan, held->programmatic, stream),
                     "launching a norm");
}

/// A world of one: the sum is the input.
Error CudaBackend::alone(const CallArgs &args, cudaStream_t stream) {
  if (args.norm.gamma)
    return norm(args, stream);
  const uint64_t element = elementBytes(args.dtype);
  if (contiguous(args.input, args.tokens, args.hidden) &&
      contiguous(args.sumOut, args.tokens, args.hidden))
    return cudaFailure(launchReduce(args.input.data, 1, args.sumOut.data,
                                    static_cast<uint64_t>(args.tokens) *
                                        static_cast<uint64_t>(args.hidden),
                                    args.dtype, args.reduction, stream),
                       "launching a sum");
  for (int64_t row = 0; row < args.tokens; ++row)
    if (Error e =
            cudaFailure(launchReduce(skip(args.input, row, element).data, 1,
                                     skip(args.sumOut, row, element).data,
                                     static_cast<uint64_t>(args.hidden),
                                     args.dtype, args.reduction, stream),
                        "launching a sum"))
      return e;
  return Error();
}

/// The sum alone, in rank order, through the regions, of any shape: rows that
/// aren't whole vectors go through padded copies, long ones in pieces.
Error CudaBackend::orderedSum(const CallArgs &args, uint32_t kind, int64_t row,
                              cudaStream_t stream) {
  const uint64_t element = elementBytes(args.dtype);
  const uint64_t width = static_cast<uint64_t>(args.hidden) * element;
  const bool whole = width % vectorBytes == 0;
  // Bytes of a row that go at a time; a multiple of vectors but for the last.
  uint64_t most = held->facts.capacity / 2 / vectorBytes * vectorBytes;
  if (!whole)
    most = std::min(most, scratchThird() / vectorBytes * vectorBytes);
  for (uint64_t offset = 0; offset < width; offset += most) {
    const uint64_t piece = std::min(most, width - offset);
    CallArgs some = args;
    some.hidden = static_cast<int64_t>(piece / element);
    some.input.data = static_cast<char *>(args.input.data) + offset;
    some.sumOut.data = static_cast<char *>(args.sumOut.data) + offset;
    const uint64_t padded = roundUp(piece, vectorBytes);
    const int64_t paddedHidden = static_cast<int64_t>(padded / element);
    int64_t step = maxRows(paddedHidden, args.dtype, false);
    if (!whole)
      step = std::min(step, static_cast<int64_t>(scratchThird() / padded));
    if (step < 1)
      return makeError(TANDEM_STATUS_INTERNAL, -1,
                       "no room for a row of %llu bytes",
                       static_cast<unsigned long long>(padded));
    for (int64_t at = 0; at < args.tokens; at += step) {
      CallArgs now = part(some, at, std::min(step, args.tokens - at));
      CallArgs sent = now;
      if (!whole) {
        sent.hidden = paddedHidden;
        sent.input = {scratchPart(0), paddedHidden};
        sent.sumOut = {scratchPart(1), paddedHidden};
        if (Error e = copy(now.input, sent.input, now.tokens, now.hidden,
                           element, stream))
          return e;
      }
      if (Error e = exchange(sent, kind, row + at, stream))
        return e;
      if (!whole)
        if (Error e = copy(sent.sumOut, now.sumOut, now.tokens, now.hidden,
                           element, stream))
          return e;
    }
  }
  return Error();
}

/// The sum alone, in rank order, of parts that NCCL brings together. What goes
/// at a time depends on the shape alone.
Error CudaBackend::gatherSum(const CallArgs &args, cudaStream_t stream) {
  const uint64_t element = elementBytes(args.dtype);
  const uint64_t world = static_cast<uint64_t>(held->comm->world);
  const uint64_t slot = held->scratchBytes / (world + 2) / 256 * 256;
  char *scratch = static_cast<char *>(held->scratch.get());
  char *mine = scratch + world * slot, *summed = mine + slot;
  const uint64_t width = static_cast<uint64_t>(args.hidden) * element;
  const uint64_t most = std::min(width, slot);
  for (uint64_t offset = 0; offset < width; offset += most) {
    const uint64_t piece = std::min(most, width - offset);
    const int64_t hidden = static_cast<int64_t>(piece / element);
    const int64_t step = static_cast<int64_t>(slot / piece);
    CallArgs some = args;
    some.input.data = static_cast<char *>(args.input.data) + offset;
    some.sumOut.data = static_cast<char *>(args.sumOut.data) + offset;
    for (int64_t at = 0; at < args.tokens; at += step) {
      CallArgs now = part(some, at, std::min(step, args.tokens - at));
      const uint64_t bytes = static_cast<uint64_t>(now.tokens) * piece;
      const void *in = now.input.data;
      if (!contiguous(now.input, now.tokens, hidden)) {
        if (Error e = copy(now.input, {mine, hidden}, now.tokens, hidden,
                           element, stream))
          return e;
        in = mine;
      }
      if (Error e = held->nccl->allGather(in, scratch, bytes, stream))
        return e;
      bool straight = contiguous(now.sumOut, now.tokens, hidden);
      if (Error e = cudaFailure(
              launchReduce(scratch, static_cast<uint32_t>(world),
                           straight ? now.sumOut.data : summed, bytes / element,
                           args.dtype, args.reduction, stream),
              "launching a sum"))
        return e;
      if (!straight)
        if (Error e = copy({summed, hidden}, now.sumOut, now.tokens, hidden,
                           element, stream))
          return e;
    }
  }
  return Error();
}

/// A rank-ordered sum into scratch, then the norm, some rows at a time.
Error CudaBackend::sumInParts(const CallArgs &args, uint32_t kind, bool gather,
                              cudaStream_t stream) {
  const uint64_t width =
      static_cast<uint64_t>(args.hidden) * elementBytes(args.dtype);
  // gatherSum needs all of scratch but its last slot, which it doesn't use for
  // sums that lie in one piece.
  const uint64_t world = static_cast<uint64_t>(held->comm->world);
  const uint64_t slot = held->scratchBytes / (world + 2) / 256 * 256;
  char *sums =
      gather ? static_cast<char *>(held->scratch.get()) + (world + 1) * slot
             : scratchPart(2);
  const int64_t step =
      static_cast<int64_t>((gather ? slot : scratchThird()) / width);
  for (int64_t at = 0; at < args.tokens; at += step) {
    CallArgs now = part(args, at, std::min(step, args.tokens - at));
    CallArgs sum = now;
    sum.norm = sum.pre = {};
    sum.bias = nullptr;
    sum.residual = sum.out = sum.residualOut = {};
    sum.sumOut = {sums, args.hidden};
    if (Error e =
            gather ? gatherSum(sum, stream) : orderedSum(sum, kind, at, stream))
      return e;
    now.input = sum.sumOut;
    if (Error e = norm(now, stream))
      return e;
  }
  return Error();
}

/// Rank-ordered, for any shape: through the regions if there are any.
Error CudaBackend::ordered(const CallArgs &args, uint32_t kind,
                           cudaStream_t stream) {
  const bool withNorm = args.norm.gamma != nullptr;
  if (!held->direct)
    return withNorm ? sumInParts(args, kind, /*gather=*/true, stream)
                    : gatherSum(args, stream);
  if (!withNorm)
    return orderedSum(args, kind, 0, stream);
  int64_t step = maxRows(args.hidden, args.dtype, true);
  if (step < 1)
    return sumInParts(args, kind, /*gather=*/false, stream);
  for (int64_t at = 0; at < args.tokens; at += step)
    if (Error e = exchange(part(args, at, std::min(step, args.tokens - at)),
                           kind, at, stream))
      return e;
  return Error();
}

/// ncclAllReduce, which wants all rows in one piece, then the norm. NCCL's
/// count must not depend on how this rank's rows lie.
Error CudaBackend::throughNccl(const CallArgs &args, cudaStream_t stream) {
  const uint64_t element = elementBytes(args.dtype);
  const uint64_t count =
      static_cast<uint64_t>(args.tokens) * static_cast<uint64_t>(args.hidden);
  const bool withNorm = args.norm.gamma != nullptr;
  auto fits = [&](const Rows &rows) {
    return contiguous(rows, args.tokens, args.hidden);
  };
  Rows in = args.input;
  const bool copied = !fits(in);
  // The sum's place until it is normalised: an output that holds nothing which
  // is still needed.
  Rows sum = {};
  if (fits(args.sumOut))
    sum = args.sumOut;
  else if (withNorm && fits(args.out) && args.out.data != args.residual.data)
    sum = args.out;
  else if (withNorm && fits(args.residualOut) &&
           args.residualOut.data != args.residual.data)
    sum = args.residualOut;
  const uint64_t wanted = count * element;
  if ((copied || !sum.data) && wanted > scratchThird())
    return makeError(
        TANDEM_STATUS_INVALID_ARGUMENT, -1,
        "%llu bytes: through NCCL, rows that aren't contiguous, and calls "
        "whose only contiguous output is the residual itself, may have %llu",
        static_cast<unsigned long long>(wanted),
        static_cast<unsigned long long>(scratchThird()));
  if (copied) {
    in = {scratchPart(0), args.hidden};
    if (Error e =
            copy(args.input, in, args.tokens, args.hidden, element, stream))
      return e;
  }
  if (!sum.data)
    sum = {scratchPart(1), args.hidden};
  if (Error e = held->nccl->allReduce(in.data, sum.data, count, args.dtype,
                                      args.reduction, stream))
    return e;
  CallArgs rest = args;
  rest.input = sum;
  if (rest.sumOut.data == sum.data)
    rest.sumOut = {};
  if (withNorm)
    return norm(rest, stream);
  if (sum.data == args.sumOut.data)
    return Error();
  return copy(sum, args.sumOut, args.tokens, args.hidden, element, stream);
}

/// The same, with TANDEM_CHECK=1 behind an exchange of a few bytes whose
/// headers say what is about to be called.
Error CudaBackend::checkThenNccl(const CallArgs &args, uint32_t kind,
                                 cudaStream_t stream) {
  if (held->checkCalls && held->direct) {
    CallArgs small = {};
    small.tokens = 1;
    small.hidden = 4;
    small.dtype = TANDEM_DTYPE_F32;
    small.input = small.sumOut = {scratchPart(2), 4};
    Plan plan;
    if (const char *why = planCall(held->facts, shapeOf(small, kind, 0), plan))
      return makeError(TANDEM_STATUS_INTERNAL, -1, "no plan for a check: %s",
                       why);
    putHeader(shapeOf(args, kind | checkBit, 0), plan);
    if (Error e = launch(small, plan, stream))
      return e;
  }
  return throughNccl(args, stream);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Notes a call for the hang dump, and which of its launches are captured.
class CudaBackend::Noted {
public:
  Noted(CudaBackend &backend, CallPath path, uint32_t kind,
        const CallArgs &args, uint64_t call, cudaStream_t stream)
      : backend(backend), captured(isCaptured(stream)),
        before(backend.numLaunches.load(std::memory_order_relaxed)) {
    backend.note(path, kind, args, call, captured);
  }
  Noted(const Noted &) = delete;
  Noted &operator=(const Noted &) = delete;
  ~Noted() {
    if (captured)
      backend.numCaptured.fetch_add(
          backend.numLaunches.load(std::memory_order_relaxed) - before,
          std::memory_order_relaxed);
  }

private:
  CudaBackend &backend;
  const bool captured;
  const uint64_t before;
};

tandem_status CudaBackend::finish(const Error &error, uint64_t call) {
  if (!error)
    return TANDEM_STATUS_OK;
  Error named = makeError(error.status, held->comm->rank, "rank %d: %.400s",
                          held->comm->rank, error.message);
  return fail(named, call);
}

tandem_status CudaBackend::fused(const tandem_norm_args &args, bool onFusedPath,
                                 uint64_t call) {
  Trace trace(onFusedPath ? "tandem_fused_all_reduce_norm"
                          : "tandem_fused_all_reduce_norm (fallback)");
  GpuScope scope(*held->gpu);
  cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  CallArgs given = callOf(args);
  if (held->comm->world == 1)
    return finish(alone(given, stream), call);
  if (Error e = findDeparted())
    return fail(e, call);
  const bool inOrder =
      (args.flags & TANDEM_CALL_BATCH_INVARIANT) || !held->nccl;
  const uint32_t invariant =
      args.flags & TANDEM_CALL_BATCH_INVARIANT ? invariantBit : 0;
  CallPath path = onFusedPath    ? PathFused
                  : !inOrder     ? PathNccl
                  : held->direct ? PathOrdered
                                 : PathGather;
  uint32_t kind = onFusedPath ? KindFused : KindOrdered;
  const Noted noted(*this, path, kind, given, call, stream);
  if (onFusedPath)
    return finish(exchange(given, KindFused | invariant, 0, stream), call);
  if (inOrder)
    return finish(ordered(given, KindOrdered | invariant, stream), call);
  return finish(checkThenNccl(given, KindOrdered, stream), call);
}

tandem_status CudaBackend::allReduce(const tandem_all_reduce_args &args,
                                     bool direct, uint64_t call) {
  Trace trace("tandem_all_reduce");
  GpuScope scope(*held->gpu);
  cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  CallArgs given = {};
  given.tokens = args.tokens;
  given.hidden = args.hidden;
  given.dtype = args.dtype;
  given.reduction = args.reduction;
  given.input = rowsOf(args.input);
  given.sumOut = rowsOf(args.output);
  if (held->comm->world == 1)
    return finish(alone(given, stream), call);
  if (Error e = findDeparted())
    return fail(e, call);
  // NCCL's maximum and minimum treat NaNs as the GPU's instructions do, so only
  // sums go through it. Small ones are quicker through the regions.
  const bool inOrder = (args.flags & TANDEM_CALL_BATCH_INVARIANT) ||
                       !held->nccl || args.reduction != TANDEM_REDUCTION_SUM;
  const bool small =
      direct && args.tokens <= maxRows(args.hidden, args.dtype, false);
  const uint32_t invariant =
      args.flags & TANDEM_CALL_BATCH_INVARIANT ? invariantBit : 0;
  const CallPath path = small          ? PathFused
                        : !inOrder     ? PathNccl
                        : held->direct ? PathOrdered
                                       : PathGather;
  const Noted noted(*this, path, KindAllReduce, given, call, stream);
  if (small)
    return finish(exchange(given, KindAllReduce | invariant, 0, stream), call);
  if (inOrder)
    return finish(ordered(given, KindAllReduce | invariant, stream), call);
  return finish(checkThenNccl(given, KindAllReduce, stream), call);
}

tandem_status CudaBackend::addRmsNorm(const tandem_norm_args &args) {
  Trace trace("tandem_add_rms_norm");
  GpuScope scope(*held->gpu);
  return finish(norm(callOf(args), static_cast<cudaStream_t>(args.stream)), 0);
}

std::unique_ptr<Backend>
cuda::makeCudaBackend(std::unique_ptr<Resources> resources,
                      GroupFailure &failure) {
  return std::make_unique<CudaBackend>(std::move(resources), failure);
}
