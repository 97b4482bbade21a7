//===-- CpuBackend.cpp - The CPU backend of a workspace -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuBackend.h"

#include "Exchange.h"
#include "FloatEnvironment.h"
#include "Kernels.h"
#include "Memory.h"

#include <cstring>
#include <new>

using namespace tandem;

/// From this many bytes a rank on, and for three ranks or more, each rank
/// reduces a share and reads the others' results, instead of reducing all by
/// itself: fewer bytes moved for one more round. Part of the wire protocol.
static constexpr uint64_t twoStepBytes = 32768;

static NormParams paramsOf(const tandem_norm_spec &norm) {
  return {norm.gamma, norm.gamma_dtype, norm.rounding,
          static_cast<float>(norm.epsilon)};
}

/// Address of a row, null where the operand is absent.
static char *rowOf(const tandem_view &view, int64_t row, uint64_t element) {
  if (!view.data)
    return nullptr;
  return static_cast<char *>(view.data) +
         static_cast<uint64_t>(row * view.row_stride) * element;
}

namespace {
/// A rectangle of the operands: some rows, or a piece of one row.
struct Chunk {
  int64_t row;
  int64_t rows;
  /// Bytes into the row, and of the row.
  uint64_t offset;
  uint64_t width;
};

class CpuBackend final : public Backend, private Liveness {
public:
  CpuBackend(std::shared_ptr<Communicator> comm, const Layout &layout,
             uint64_t rowBytes, int64_t timeoutMs, GroupFailure &failure,
             std::unique_ptr<SharedMapping> mapping,
             std::unique_ptr<char[]> scratch)
      : comm(std::move(comm)), layout(layout), rowBytes(rowBytes),
        failure(failure), mapping(std::move(mapping)),
        scratch(std::move(scratch)), kernels(bestKernels()),
        exchange(layout, this->mapping->get(), this->comm->rank, timeoutMs,
                 *this, failure) {
    if (this->mapping->get())
      failure.attach(
          &static_cast<SegmentHeader *>(this->mapping->get())->failure);
  }
  ~CpuBackend() override { failure.detach(); }

  tandem_status fused(const tandem_norm_args &args, bool onFusedPath,
                      uint64_t call) override;
  tandem_status allReduce(const tandem_all_reduce_args &args, bool direct,
                          uint64_t call) override;
  tandem_status addRmsNorm(const tandem_norm_args &args) override {
    addRmsNormOnCpu(args);
    return TANDEM_STATUS_OK;
  }
  Error accept(const tandem_norm_args &args, bool collective) override;
  tandem_status check() override { return failure.check(); }
  tandem_status fail(const Error &error, uint64_t call) override {
    return exchange.fail(error, call);
  }
  void leave() override { exchange.leave(); }
  void forget() override {
    failure.detach();
    mapping->forget();
  }
  uint64_t rounds() const override { return exchange.rounds(); }
  uint64_t sleeps() const override { return exchange.sleeps(); }

private:
  bool isDead(int peer) const override { return comm->isDead(peer); }

  tandem_status bring(CallHeader &header, const tandem_view &input,
                      const Chunk &chunk);
  const void *sumOf(int64_t row, void *into);
  void copySum(int64_t row, char *to);

  std::shared_ptr<Communicator> comm;
  const Layout layout;
  const uint64_t rowBytes;
  GroupFailure &failure;
  std::unique_ptr<SharedMapping> mapping;
  /// One row.
  std::unique_ptr<char[]> scratch;
  const Kernels &kernels;
  Exchange exchange;

  /// The chunk that `bring` brought last.
  struct {
    Chunk chunk;
    tandem_dtype dtype;
    tandem_reduction reduction;
    uint64_t element;
    /// Where rank r's rows lie, `stride` bytes apart; or, if reduced, its share
    /// of the result, `share` bytes each.
    const char *part[TANDEM_MAX_WORLD];
    uint64_t stride;
    bool reduced;
    uint64_t share;
  } now = {};
};
} // namespace

Error CpuBackend::accept(const tandem_norm_args &args, bool collective) {
  if (!collective)
    return Error();
  uint64_t row;
  if (__builtin_mul_overflow(uint64_t(args.hidden), elementBytes(args.dtype),
                             &row) ||
      row > rowBytes)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "hidden is %lld: a row may have %llu bytes in this "
                     "workspace (make it with the largest hidden size)",
                     static_cast<long long>(args.hidden),
                     static_cast<unsigned long long>(rowBytes));
  return Error();
}

/// Brings the ranks' parts of a chunk to where this rank can read them.
tandem_status CpuBackend::bring(CallHeader &header, const tandem_view &input,
                                const Chunk &chunk) {
  const int world = comm->world;
  now.chunk = chunk;
  now.reduced = false;
  const char *rows = rowOf(input, chunk.row, now.element) + chunk.offset;
  const uint64_t inputStride =
      static_cast<uint64_t>(input.row_stride) * now.element;
  if (world == 1) {
    now.part[0] = rows;
    now.stride = inputStride;
    return TANDEM_STATUS_OK;
  }

  const uint64_t bytes = static_cast<uint64_t>(chunk.rows) * chunk.width;
  char *mine = exchange.outgoing();
  if (inputStride == chunk.width)
    memcpy(mine, rows, bytes);
  else
    for (int64_t i = 0; i < chunk.rows; ++i)
      memcpy(mine + static_cast<uint64_t>(i) * chunk.width,
             rows + static_cast<uint64_t>(i) * inputStride, chunk.width);
  if (tandem_status status = exchange.advance(header))
    return status;
  for (int r = 0; r < world; ++r)
    now.part[r] = exchange.incoming(r);
  now.stride = chunk.width;
  if (world < 3 || bytes < twoStepBytes)
    return TANDEM_STATUS_OK;

  // Shares of whole lines, the last ones shorter or empty.
  const uint64_t rank = static_cast<uint64_t>(comm->rank);
  uint64_t share = (bytes + static_cast<uint64_t>(world) - 1) / world;
  share = (share + lineBytes - 1) / lineBytes * lineBytes;
  uint64_t begin = rank * share < bytes ? rank * share : bytes;
  uint64_t end = begin + share < bytes ? begin + share : bytes;
  const void *sources[TANDEM_MAX_WORLD];
  for (int r = 0; r < world; ++r)
    sources[r] = now.part[r] + begin;
  kernels.reduce[now.dtype](now.reduction, sources, world, exchange.outgoing(),
                            static_cast<int64_t>((end - begin) / now.element));
  if (tandem_status status = exchange.advance(header))
    return status;
  for (int r = 0; r < world; ++r)
    now.part[r] = exchange.incoming(r);
  now.reduced = true;
  now.share = share;
  return TANDEM_STATUS_OK;
}

/// Writes row `row` of the chunk, reduced over the ranks, to `to`.
void CpuBackend::copySum(int64_t row, char *to) {
  const uint64_t width = now.chunk.width;
  if (!now.reduced) {
    const void *sources[TANDEM_MAX_WORLD];
    for (int r = 0; r < comm->world; ++r)
      sources[r] = now.part[r] + static_cast<uint64_t>(row) * now.stride;
    kernels.reduce[now.dtype](now.reduction, sources, comm->world, to,
                              static_cast<int64_t>(width / now.element));
    return;
  }
  uint64_t at = static_cast<uint64_t>(row) * width;
  for (uint64_t done = 0; done < width;) {
    uint64_t rank = (at + done) / now.share;
    uint64_t into = (at + done) % now.share;
    uint64_t piece = now.share - into;
    if (piece > width - done)
      piece = width - done;
    memcpy(to + done, now.part[rank] + into, piece);
    done += piece;
  }
}

/// The reduced row `row`, in place if it lies in one piece, else in `into`.
const void *CpuBackend::sumOf(int64_t row, void *into) {
  if (now.reduced) {
    uint64_t at = static_cast<uint64_t>(row) * now.chunk.width;
    uint64_t last = at + now.chunk.width - 1;
    if (at / now.share == last / now.share)
      return now.part[at / now.share] + at % now.share;
  }
  copySum(row, static_cast<char *>(into));
  return into;
}

/// The part of a call's header that all kinds of calls fill alike.
template <typename Args>
static CallHeader makeHeader(const Args &args, uint64_t call, uint32_t kind,
                             uint32_t reduction) {
  CallHeader header = {};
  header.call = call;
  header.tokens = args.tokens;
  header.hidden = args.hidden;
  header.dtype = static_cast<uint32_t>(args.dtype);
  header.reduction = reduction;
  header.kind = kind;
  header.batchInvariant = (args.flags & TANDEM_CALL_BATCH_INVARIANT) != 0;
  return header;
}

/// Whether this call's sums come through the fused buffers or in the fallback's
/// smaller steps makes no difference to their bits: both add in rank order. So
/// the two paths share what goes between the ranks, and a rank whose guard took
/// the other branch still pairs with its peers.
tandem_status CpuBackend::fused(const tandem_norm_args &args, bool onFusedPath,
                                uint64_t call) {
  (void)onFusedPath;
  FloatEnvironment environment;
  CallHeader header = makeHeader(args, call, CallFused, TANDEM_REDUCTION_SUM);
  header.variant = variantOf(args);
  memcpy(&header.epsilon, &args.norm.epsilon, sizeof(header.epsilon));
  if (args.pre_norm.gamma)
    memcpy(&header.preEpsilon, &args.pre_norm.epsilon,
           sizeof(header.preEpsilon));

  now.dtype = args.dtype;
  now.reduction = TANDEM_REDUCTION_SUM;
  now.element = elementBytes(args.dtype);
  const uint64_t width = static_cast<uint64_t>(args.hidden) * now.element;
  const int64_t step = static_cast<int64_t>(layout.capacity / width);
  NormRow row = {};
  row.bias = args.bias;
  row.pre = paramsOf(args.pre_norm);
  row.norm = paramsOf(args.norm);
  row.n = args.hidden;
  for (int64_t at = 0; at < args.tokens; at += step) {
    int64_t rows = args.tokens - at < step ? args.tokens - at : step;
    if (tandem_status status = bring(header, args.input, {at, rows, 0, width}))
      return status;
    for (int64_t i = 0; i < rows; ++i) {
      row.x = sumOf(i, scratch.get());
      row.residual = rowOf(args.residual, at + i, now.element);
      row.y = rowOf(args.norm_out, at + i, now.element);
      row.r = rowOf(args.residual_out, at + i, now.element);
      row.s = rowOf(args.sum_out, at + i, now.element);
      kernels.norm[args.dtype](row);
    }
  }
  return TANDEM_STATUS_OK;
}

tandem_status CpuBackend::allReduce(const tandem_all_reduce_args &args, bool,
                                    uint64_t call) {
  FloatEnvironment environment;
  CallHeader header = makeHeader(
      args, call,
      args.flags & TANDEM_CALL_FALLBACK ? CallFallbackReduce : CallAllReduce,
      static_cast<uint32_t>(args.reduction));

  now.dtype = args.dtype;
  now.reduction = args.reduction;
  now.element = elementBytes(args.dtype);
  const uint64_t width = static_cast<uint64_t>(args.hidden) * now.element;
  const bool whole = width <= layout.capacity;
  // A row longer than the buffers goes in pieces.
  const int64_t step =
      whole ? static_cast<int64_t>(layout.capacity / width) : 1;
  for (int64_t at = 0; at < args.tokens; at += step) {
    int64_t rows = args.tokens - at < step ? args.tokens - at : step;
    for (uint64_t offset = 0; offset < width;) {
      uint64_t piece = width - offset;
      if (piece > layout.capacity)
        piece = layout.capacity;
      if (tandem_status status =
              bring(header, args.input, {at, rows, offset, piece}))
        return status;
      for (int64_t i = 0; i < rows; ++i)
        copySum(i, rowOf(args.output, at + i, now.element) + offset);
      offset += piece;
    }
  }
  return TANDEM_STATUS_OK;
}

void tandem::addRmsNormOnCpu(const tandem_norm_args &args) {
  FloatEnvironment environment;
  const Kernels &kernels = bestKernels();
  const uint64_t element = elementBytes(args.dtype);
  NormRow row = {};
  row.bias = args.bias;
  row.pre = paramsOf(args.pre_norm);
  row.norm = paramsOf(args.norm);
  row.n = args.hidden;
  for (int64_t i = 0; i < args.tokens; ++i) {
    row.x = rowOf(args.input, i, element);
    row.residual = rowOf(args.residual, i, element);
    row.y = rowOf(args.norm_out, i, element);
    row.r = rowOf(args.residual_out, i, element);
    row.s = rowOf(args.sum_out, i, element);
    kernels.norm[args.dtype](row);
  }
}

Error tandem::createCpuBackend(const std::shared_ptr<Communicator> &comm,
                               const Layout &layout, uint64_t rowBytes, int fd,
                               int64_t timeoutMs, GroupFailure &failure,
                               std::unique_ptr<Backend> &backend) {
  auto mapping = std::make_unique<SharedMapping>();
  if (comm->world > 1) {
    if (fd < 0)
      return makeError(TANDEM_STATUS_INTERNAL, 0,
                       "no shared memory came with rank 0's decision");
    if (Error e = mapping->map(fd, layout.bytes))
      return e;
    // The others wait for all ranks to have built theirs before they use it.
    if (comm->rank == 0)
      Exchange::initialize(layout, mapping->get());
  }
  std::unique_ptr<char[]> scratch(new (std::nothrow) char[rowBytes]);
  if (!scratch)
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1,
                     "%llu bytes for a row of scratch",
                     static_cast<unsigned long long>(rowBytes));
  backend =
      std::make_unique<CpuBackend>(comm, layout, rowBytes, timeoutMs, failure,
                                   std::move(mapping), std::move(scratch));
  return Error();
}
