//===-- Rank.cpp - One rank of fusion-bench -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <algorithm>
#include <cstring>

using namespace tandem::bench;

namespace {
/// Handles that are destroyed in the right order.
struct Handles {
  tandem_context *context = nullptr;
  tandem_comm *comm = nullptr;
  tandem_workspace *workspace = nullptr;
  ~Handles() {
    tandem_workspace_destroy(workspace);
    tandem_comm_destroy(comm);
    tandem_context_destroy(context);
  }
};
} // namespace

static uint64_t sizeOf(tandem_dtype dtype) {
  return dtype == TANDEM_DTYPE_F32 ? 4 : 2;
}

uint64_t tandem::bench::bytesOf(const Item &item) {
  return static_cast<uint64_t>(item.tokens * item.hidden) * sizeOf(item.dtype);
}

// So many that the start of all ranks, some microseconds, doesn't count.
int tandem::bench::callsOf(const Item &item, tandem_device device) {
  uint64_t bytes = bytesOf(item);
  if (device == TANDEM_DEVICE_CPU)
    return bytes <= (2 << 20) ? 40 : bytes <= (8 << 20) ? 20 : 8;
  return bytes <= (2 << 20) ? 200 : bytes <= (8 << 20) ? 100 : 20;
}

std::string tandem::bench::runRank(const Options &options, Board &board,
                                   int rank, const std::string &group) {
  std::unique_ptr<Device> device =
      options.device == TANDEM_DEVICE_CPU ? makeCpuDevice() : makeCudaDevice();
  if (!device)
    return "this build has no CUDA backend";
  Handles h;
  tandem_error error = TANDEM_ERROR_INIT;
  auto failed = [&](const char *what) {
    return std::string(what) + ": " + error.message;
  };
  tandem_context_desc contextDesc = TANDEM_CONTEXT_DESC_INIT;
  contextDesc.device = options.device;
  contextDesc.device_index = options.device == TANDEM_DEVICE_CPU ? 0 : rank;
  if (tandem_context_create(&contextDesc, &h.context, &error))
    return failed("context");
  std::string wrong = device->open(board, rank, options.ranks);
  if (!wrong.empty())
    return wrong;
  tandem_comm_desc commDesc = TANDEM_COMM_DESC_INIT;
  commDesc.rank = rank;
  commDesc.world = options.ranks;
  commDesc.name = group.c_str();
  if (tandem_comm_create(h.context, &commDesc, &h.comm, &error))
    return failed("communicator");

  uint64_t bytes = 0, row = 0;
  int64_t tokens =
      *std::max_element(options.tokens.begin(), options.tokens.end());
  for (int64_t hidden : options.hidden)
    for (tandem_dtype dtype : options.dtypes) {
      row = std::max(row, static_cast<uint64_t>(hidden) * sizeOf(dtype));
      bytes = std::max(bytes,
                       static_cast<uint64_t>(tokens * hidden) * sizeOf(dtype));
    }
  tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
  desc.max_tokens = tokens;
  desc.hidden = static_cast<int64_t>(row / 4);
  desc.dtype = TANDEM_DTYPE_F32;
  // All that fits is measured, whatever the defaults say.
  desc.token_limit = tokens;
  if (tandem_workspace_create(h.comm, &desc, &h.workspace, &error))
    return failed("workspace");
  if (rank == 0) {
    tandem_workspace_info info = TANDEM_WORKSPACE_INFO_INIT;
    tandem_workspace_get_info(h.workspace, &info);
    strncpy(board.note, info.reason, sizeof(board.note) - 1);
    tandem_workspace_get_defaults(h.workspace, board.defaults,
                                  sizeof(board.defaults));
  }

  void *input = device->allocate(bytes), *residual = device->allocate(bytes),
       *out = device->allocate(bytes), *sum = device->allocate(bytes),
       *gamma = device->allocate(row);
  if (!input || !residual || !out || !sum || !gamma)
    return "not enough memory for " + std::to_string(bytes) +
           " bytes an operand";
  for (void *memory : {input, residual, out, sum})
    device->fill(memory, bytes);
  device->fill(gamma, row);
  void *peer = device->peerMemory(out, bytes);

  std::vector<Item> items = itemsOf(options);
  std::vector<double> times(static_cast<size_t>(options.samples));
  for (size_t i = 0; i < items.size(); ++i) {
    const Item &item = items[i];
    uint64_t used = bytesOf(item);
    tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
    args.tokens = item.tokens;
    args.hidden = item.hidden;
    args.dtype = item.dtype;
    args.stream = device->stream();
    args.input.data = input;
    args.norm_out.data = out;
    args.norm = {gamma, item.dtype, TANDEM_ROUNDING_BEFORE_GAMMA, 1e-5};
    if (options.pattern != "norm") {
      args.residual.data = residual;
      args.residual_out.data = residual;
    }
    if (options.pattern == "sandwich")
      args.pre_norm = args.norm;
    tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
    reduce.tokens = item.tokens;
    reduce.hidden = item.hidden;
    reduce.dtype = item.dtype;
    reduce.stream = device->stream();
    reduce.input.data = input;
    reduce.output.data = sum;
    reduce.flags = TANDEM_CALL_FALLBACK;

    std::fill(times.begin(), times.end(), -1.0);
    Device::Body body;
    switch (item.subject) {
    case Subject::Fused:
      // Above the limit the fused call is the fallback.
      if (item.tokens <=
          tandem_token_limit(h.workspace, item.hidden, item.dtype))
        body = [&](int) {
          return tandem_fused_all_reduce_norm(h.workspace, &args);
        };
      break;
    case Subject::Fallback:
      args.flags = TANDEM_CALL_FALLBACK;
      body = [&](int) {
        return tandem_fused_all_reduce_norm(h.workspace, &args);
      };
      break;
    case Subject::AllReduce:
      body = [&](int) { return tandem_all_reduce(h.workspace, &reduce); };
      break;
    case Subject::Norm:
      body = [&](int) { return tandem_add_rms_norm(h.workspace, &args); };
      break;
    case Subject::Link:
      if (peer && used % 16 == 0)
        body = [&](int) {
          device->copyToPeer(peer, input, used);
          return tandem_status(TANDEM_STATUS_OK);
        };
      break;
    }
    if (body) {
      wrong = device->measure(item.timing, callsOf(item, options.device),
                              options.samples, body, times.data());
      if (wrong.empty() && tandem_workspace_get_failure(h.workspace, &error))
        wrong = error.message;
      if (!wrong.empty())
        return std::string(nameOf(item.subject)) + ", " +
               std::to_string(item.tokens) + " tokens of " +
               std::to_string(item.hidden) + ": " + wrong;
    }
    for (int sample = 0; sample < options.samples; ++sample)
      timeAt(board, options, i, sample, rank) =
          times[static_cast<size_t>(sample)];
    if (rank == 0)
      board.done.store(static_cast<uint32_t>(i + 1));
  }
  // Nobody's memory may go while a peer stores to it.
  meet(board, options.ranks);
  return std::string();
}
