//===- Group.cpp - The ranks of a session -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Group.h"

using namespace tandem::ort;

static const char *const kClosed = "the ranks of this session are closed";

void Group::close() {
  std::lock_guard<std::mutex> lock(mutex);
  closed = true;
  tandem_workspace_destroy(workspace);
  tandem_comm_destroy(comm);
  tandem_context_destroy(context);
  workspace = nullptr;
  comm = nullptr;
  context = nullptr;
}

static std::string print(tandem_status status, const tandem_error &why) {
  return std::string(tandem_status_name(status)) + ": " + why.message;
}

static std::string nameOf(int32_t where) {
  return where == Group::kHost ? "the host" : "GPU " + std::to_string(where);
}

tandem_status Group::open(tandem_error &why) {
  if (context)
    return TANDEM_STATUS_OK;
  tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
  desc.timeout_ms = options.timeoutMs;
  if (where != kHost) {
    desc.device = TANDEM_DEVICE_CUDA;
    desc.device_index = where;
  }
  return tandem_context_create(&desc, &context, &why);
}

bool Group::place(int32_t gpu, std::string &error) {
  std::lock_guard<std::mutex> lock(mutex);
  if (closed) {
    error = kClosed;
    return false;
  }
  if (placed && gpu != where) {
    error = "it runs on " + nameOf(gpu);
    error += ", and other collectives of this session on " + nameOf(where);
    return false;
  }
  placed = true;
  where = gpu;
  // Now, so that the error comes with the session, and kernels are loaded
  // before the first run.
  if (where == kHost)
    return true;
  tandem_error why = TANDEM_ERROR_INIT;
  tandem_status status = open(why);
  if (status != TANDEM_STATUS_OK)
    error = print(status, why);
  return status == TANDEM_STATUS_OK;
}

tandem_workspace *Group::get(int64_t hidden, tandem_dtype dtype,
                             std::string &error) {
  std::lock_guard<std::mutex> lock(mutex);
  if (closed) {
    error = kClosed;
    return nullptr;
  }
  if (workspace)
    return workspace;
  tandem_error why = TANDEM_ERROR_INIT;
  auto check = [&](tandem_status status) {
    if (status != TANDEM_STATUS_OK)
      error = print(status, why);
    return status == TANDEM_STATUS_OK;
  };
  if (!check(open(why)))
    return nullptr;
  if (!comm) {
    tandem_comm_desc desc = TANDEM_COMM_DESC_INIT;
    desc.rank = options.rank;
    desc.world = options.world;
    desc.name = options.rendezvous.c_str();
    if (!check(tandem_comm_create(context, &desc, &comm, &why)))
      return nullptr;
  }
  tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
  desc.max_tokens = options.maxTokens;
  desc.hidden = hidden;
  desc.dtype = dtype;
  desc.token_limit = options.tokenLimit;
  desc.flags = TANDEM_WORKSPACE_BATCH_INVARIANT;
  if (!options.signature.empty()) {
    desc.signature = options.signature.data();
    desc.signature_length = options.signature.size();
  }
  if (!check(tandem_workspace_create(comm, &desc, &workspace, &why)))
    return nullptr;
  return workspace;
}

bool Group::getCounters(tandem_counters &counters) {
  std::lock_guard<std::mutex> lock(mutex);
  return workspace && tandem_workspace_get_counters(workspace, &counters) ==
                          TANDEM_STATUS_OK;
}

tandem_status Group::getFailure(tandem_error &failure) {
  std::lock_guard<std::mutex> lock(mutex);
  return workspace ? tandem_workspace_get_failure(workspace, &failure)
                   : TANDEM_STATUS_OK;
}

std::string Group::describe(tandem_status status) {
  tandem_error why = TANDEM_ERROR_INIT;
  std::lock_guard<std::mutex> lock(mutex);
  std::string text = tandem_status_name(status);
  if (workspace &&
      tandem_workspace_get_failure(workspace, &why) != TANDEM_STATUS_OK)
    text += std::string(": ") + why.message;
  return text;
}
