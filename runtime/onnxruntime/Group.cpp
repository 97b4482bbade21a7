//===- Group.cpp - The ranks of a session -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Group.h"

using namespace tandem::ort;

Group::~Group() {
  tandem_workspace_destroy(workspace);
  tandem_comm_destroy(comm);
  tandem_context_destroy(context);
}

tandem_workspace *Group::get(int64_t hidden, tandem_dtype dtype,
                             std::string &error) {
  std::lock_guard<std::mutex> lock(mutex);
  if (workspace)
    return workspace;
  tandem_error why = TANDEM_ERROR_INIT;
  auto check = [&](tandem_status status) {
    if (status != TANDEM_STATUS_OK)
      error = std::string(tandem_status_name(status)) + ": " + why.message;
    return status == TANDEM_STATUS_OK;
  };
  if (!context) {
    tandem_context_desc desc = TANDEM_CONTEXT_DESC_INIT;
    desc.timeout_ms = options.timeoutMs;
    if (!check(tandem_context_create(&desc, &context, &why)))
      return nullptr;
  }
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

std::string Group::describe(tandem_status status) {
  tandem_error why = TANDEM_ERROR_INIT;
  std::lock_guard<std::mutex> lock(mutex);
  std::string text = tandem_status_name(status);
  if (workspace &&
      tandem_workspace_get_failure(workspace, &why) != TANDEM_STATUS_OK)
    text += std::string(": ") + why.message;
  return text;
}
