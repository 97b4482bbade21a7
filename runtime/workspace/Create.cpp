//===-- Create.cpp - How the ranks agree on a workspace -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Workspace.h"

#include "Signature.h"
#include "cpu/CpuBackend.h"
#include "cpu/Memory.h"

#include <cstdio>
#include <cstring>

using namespace tandem;

namespace {
/// What a rank says first; its signature follows.
struct Vote {
  int64_t maxTokens;
  int64_t hidden;
  int64_t tokenLimit;
  int32_t dtype;
  uint32_t flags;
  uint32_t hasSignature;
  /// Why this rank can't have the fused path; OK: it can.
  int32_t refusal;
  char reason[sizeof(Agreement::reason)];
  /// Why this rank can't have a workspace at all.
  Error fatal;
};

/// Rank 0's word. The shared memory's descriptor comes with it.
struct Decision {
  uint32_t fused;
  uint32_t done;
  int64_t maxTokens;
  int64_t tokenLimit;
  char reason[sizeof(Agreement::reason)];
};
} // namespace

template <typename T>
static std::string pack(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

template <typename T>
static bool unpack(const std::string &bytes, T &value) {
  if (bytes.size() < sizeof(value))
    return false;
  memcpy(static_cast<void *>(&value), bytes.data(), sizeof(value));
  return true;
}

static Error shortMessage(int rank) {
  return makeError(TANDEM_STATUS_INTERNAL, rank,
                   "a message of rank %d has the wrong size", rank);
}

static const char *dtypeName(int32_t dtype) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return dtype >= 0 && dtype < 3 ? names[dtype] : "unknown";
}

//===----------------------------------------------------------------------===//
// Rank 0's decisions
//===----------------------------------------------------------------------===//

/// Names the first thing that must be equal and isn't.
static Error compareVotes(const Vote &first, const Vote &other, int rank) {
  if (other.hidden != first.hidden)
    return makeError(TANDEM_STATUS_MISMATCH, rank,
                     "workspace: rank %d has hidden %lld, rank 0 has %lld",
                     rank, static_cast<long long>(other.hidden),
                     static_cast<long long>(first.hidden));
  if (other.dtype != first.dtype)
    return makeError(TANDEM_STATUS_MISMATCH, rank,
                     "workspace: rank %d has dtype %s, rank 0 has %s", rank,
                     dtypeName(other.dtype), dtypeName(first.dtype));
  uint32_t differing =
      (other.flags ^ first.flags) & TANDEM_WORKSPACE_BATCH_INVARIANT;
  if (differing)
    return makeError(TANDEM_STATUS_MISMATCH, rank,
                     "workspace: rank %d %s batch-invariant, rank 0 %s", rank,
                     other.flags & differing ? "is" : "isn't",
                     first.flags & differing ? "is" : "isn't");
  if (other.hasSignature != first.hasSignature)
    return makeError(TANDEM_STATUS_MISMATCH, rank,
                     "workspace: rank %d has %s signature, rank 0 has %s", rank,
                     other.hasSignature ? "a" : "no",
                     first.hasSignature ? "one" : "none");
  return Error();
}

/// Makes one decision of everybody's vote.
static Error decide(std::vector<std::string> &said, Decision &decision,
                    int32_t &refusal, bool &required, Vote &first) {
  decision = Decision();
  decision.fused = 1;
  decision.tokenLimit = -1;
  refusal = TANDEM_STATUS_OK;
  required = false;
  std::string firstSignature;
  // A rank that can't take part says so before anything else is compared: its
  // other words may be noise.
  for (size_t r = 0; r < said.size(); ++r) {
    Vote vote;
    int rank = static_cast<int>(r);
    if (!unpack(said[r], vote))
      return shortMessage(rank);
    if (vote.fatal) {
      Error error = makeError(vote.fatal.status, rank, "rank %d: %.400s", rank,
                              vote.fatal.message);
      error.reporter = rank;
      return error;
    }
  }
  for (size_t r = 0; r < said.size(); ++r) {
    Vote vote;
    int rank = static_cast<int>(r);
    (void)unpack(said[r], vote);
    std::string signature = said[r].substr(sizeof(vote));
    if (r == 0) {
      first = vote;
      firstSignature = signature;
      decision.maxTokens = vote.maxTokens;
    }
    if (Error e = compareVotes(first, vote, rank))
      return e;
    if (Error e = compareSignatures(firstSignature, signature, rank))
      return e;
    if (vote.maxTokens < decision.maxTokens)
      decision.maxTokens = vote.maxTokens;
    if (vote.tokenLimit >= 0 &&
        (decision.tokenLimit < 0 || vote.tokenLimit < decision.tokenLimit))
      decision.tokenLimit = vote.tokenLimit;
    required |= (vote.flags & TANDEM_WORKSPACE_REQUIRE_FUSED) != 0;
    if (vote.refusal != TANDEM_STATUS_OK && decision.fused) {
      decision.fused = 0;
      refusal = vote.refusal;
      vote.reason[sizeof(vote.reason) - 1] = '\0';
      snprintf(decision.reason, sizeof(decision.reason), "rank %d: %.230s",
               rank, vote.reason);
    }
  }
  return Error();
}

/// Allocates what a decision needs, taking the fused path back if it must.
static Error allocate(int world, const Vote &vote, Decision &decision,
                      int32_t &refusal, UniqueFd &fd) {
  WorkspacePlan plan;
  if (Error e = planWorkspace(world, decision.maxTokens, vote.hidden,
                              vote.dtype, plan))
    return e;
  if (world == 1)
    return Error();
  if (decision.fused) {
    Error error = makeSharedFile(plan.fused.bytes, fd);
    if (!error)
      return Error();
    decision.fused = 0;
    refusal = error.status;
    snprintf(decision.reason, sizeof(decision.reason), "rank 0: %.230s",
             error.message);
  }
  return makeSharedFile(plan.fallback.bytes, fd);
}

static Error refuse(int32_t refusal, const Decision &decision) {
  return makeError(refusal, -1, "no fused path, which was required: %s",
                   decision.reason);
}

//===----------------------------------------------------------------------===//
// Every rank's part
//===----------------------------------------------------------------------===//

/// Looks at the memory there is, and fills in what this rank has to say.
static void castVote(const Communicator &comm, const Settings &settings,
                     const tandem_workspace_desc &desc, Vote &vote) {
  vote.maxTokens = desc.max_tokens;
  vote.hidden = desc.hidden;
  vote.tokenLimit = desc.token_limit;
  vote.dtype = desc.dtype;
  vote.flags = desc.flags;
  vote.hasSignature = desc.signature != nullptr;
  auto refuseFused = [&](int32_t status, const char *text) {
    if (vote.refusal != TANDEM_STATUS_OK)
      return;
    vote.refusal = status;
    snprintf(vote.reason, sizeof(vote.reason), "%s", text);
  };

  if (Error e = comm.spoiltBy()) {
    vote.fatal = e;
    return;
  }
  constexpr uint32_t known =
      TANDEM_WORKSPACE_REQUIRE_FUSED | TANDEM_WORKSPACE_BATCH_INVARIANT;
  WorkspacePlan plan;
  Error error =
      planWorkspace(comm.world, desc.max_tokens, desc.hidden, desc.dtype, plan);
  if (!error && (desc.flags & ~known))
    error = makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                      "flags has bits 0x%x that this runtime doesn't know",
                      desc.flags & ~known);
  if (!error && desc.token_limit < -1)
    error = makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                      "token_limit is %lld, less than -1",
                      static_cast<long long>(desc.token_limit));
  if (error) {
    vote.fatal = error;
    return;
  }
  if (settings.disableFusion)
    refuseFused(TANDEM_STATUS_UNSUPPORTED,
                "fusion is switched off by TANDEM_DISABLE_FUSION");
  if (desc.max_tokens == 0)
    refuseFused(TANDEM_STATUS_UNSUPPORTED, "max_tokens is 0");

  const char *why;
  uint64_t available = availableMemory(settings.memoryLimit, why);
  uint64_t fallback = plan.fallback.bytes + plan.privateBytes;
  uint64_t fused = plan.fused.bytes + plan.privateBytes;
  char text[sizeof(vote.reason)];
  auto tooMuch = [&](uint64_t needed) {
    snprintf(text, sizeof(text), "a workspace needs %llu bytes, %llu are %s",
             static_cast<unsigned long long>(needed),
             static_cast<unsigned long long>(available), why);
  };
  if (fallback > available) {
    tooMuch(fallback);
    vote.fatal = makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1, "%s", text);
  } else if (fused > available) {
    tooMuch(fused);
    refuseFused(TANDEM_STATUS_OUT_OF_MEMORY, text);
  }
}

/// Builds this rank's side of a decision.
static Error build(tandem_workspace &workspace, const Decision &decision,
                   const tandem_workspace_desc &desc, int fd) {
  Communicator &comm = *workspace.comm;
  WorkspacePlan plan;
  if (Error e = planWorkspace(comm.world, decision.maxTokens, desc.hidden,
                              desc.dtype, plan))
    return e;
  Agreement &agreed = workspace.agreed;
  agreed.fused = decision.fused != 0;
  agreed.fusedBytes = decision.fused ? plan.askedBytes : 0;
  agreed.tokenLimit = decision.tokenLimit;
  agreed.batchInvariant = (desc.flags & TANDEM_WORKSPACE_BATCH_INVARIANT) != 0;
  agreed.privateBytes = plan.privateBytes;
  memcpy(agreed.reason, decision.reason, sizeof(agreed.reason));
  agreed.reason[sizeof(agreed.reason) - 1] = '\0';
  const Layout &layout = decision.fused ? plan.fused : plan.fallback;
  agreed.sharedBytes = layout.bytes;
  return createCpuBackend(workspace.comm, layout, plan.rowBytes, fd,
                          workspace.timeoutMs, workspace.failure,
                          workspace.backend);
}

Error tandem::createWorkspace(const std::shared_ptr<Communicator> &comm,
                              const Settings &settings,
                              const tandem_workspace_desc &desc,
                              std::unique_ptr<tandem_workspace> &workspace) {
  auto made = std::make_unique<tandem_workspace>();
  made->comm = comm;
  made->timeoutMs = desc.timeout_ms;
  Deadline deadline = Deadline::in(desc.timeout_ms);

  Vote mine = {};
  castVote(*comm, settings, desc, mine);
  mine.fatal.clearRest();
  std::string said = pack(mine);
  if (desc.signature)
    said.append(desc.signature, desc.signature_length);

  auto lock = comm->begin();
  Frame answer;
  // Rank 0's own, through all rounds.
  Decision decided;
  Vote first;
  int32_t refusal;
  bool required;
  UniqueFd file;
  Error error = comm->agree(
      lock, ControlOp::WorkspaceVote, said,
      [&](std::vector<std::string> &votes, std::string &word,
          std::vector<int> &fds) -> Error {
        if (Error e = decide(votes, decided, refusal, required, first))
          return e;
        if (required && !decided.fused)
          return refuse(refusal, decided);
        if (Error e = allocate(comm->world, first, decided, refusal, file))
          return e;
        if (required && !decided.fused)
          return refuse(refusal, decided);
        if (file)
          fds.push_back(file.get());
        word = pack(decided);
        return Error();
      },
      answer, deadline);

  // All build what was decided, and all must have; else all try without the
  // fused path's memory, once.
  for (int attempt = 0; !error && attempt < 2; ++attempt) {
    Decision decision;
    if (!unpack(answer.body, decision))
      return shortMessage(0);
    int fd = comm->rank == 0      ? file.get()
             : answer.fds.empty() ? -1
                                  : answer.fds[0].get();
    Error built = build(*made, decision, desc, fd);
    built.clearRest();
    error = comm->agree(
        lock, ControlOp::WorkspaceCommit, pack(built),
        [&](std::vector<std::string> &results, std::string &word,
            std::vector<int> &fds) -> Error {
          for (size_t r = 0; r < results.size(); ++r) {
            Error result;
            int rank = static_cast<int>(r);
            if (!unpack(results[r], result))
              return shortMessage(rank);
            if (!result)
              continue;
            Error failed = makeError(result.status, rank, "rank %d: %.400s",
                                     rank, result.message);
            failed.reporter = rank;
            if (!decided.fused || required)
              return failed;
            decided.fused = 0;
            snprintf(decided.reason, sizeof(decided.reason), "%.250s",
                     failed.message);
            file.reset();
            if (Error e = allocate(comm->world, first, decided, refusal, file))
              return e;
            if (file)
              fds.push_back(file.get());
            word = pack(decided);
            return Error();
          }
          decided.done = 1;
          word = pack(decided);
          return Error();
        },
        answer, deadline);
    if (!error && !unpack(answer.body, decision))
      return shortMessage(0);
    if (error || decision.done)
      break;
    made->backend.reset();
  }
  if (error) {
    made->backend.reset();
    return error;
  }
  made->id = answer.sequence;
  workspace = std::move(made);
  return Error();
}

Error tandem::agreeOnFusion(tandem_workspace &workspace, bool enabled) {
  struct Wish {
    uint64_t id;
    uint32_t enabled;
    uint32_t unused;
  };
  Communicator &comm = *workspace.comm;
  auto lock = comm.begin();
  Frame answer;
  Error error = comm.agree(
      lock, ControlOp::SetFusion, pack(Wish{workspace.id, enabled, 0}),
      [&](std::vector<std::string> &wishes, std::string &word,
          std::vector<int> &) -> Error {
        uint32_t on = 1;
        for (size_t r = 0; r < wishes.size(); ++r) {
          Wish wish;
          int rank = static_cast<int>(r);
          if (!unpack(wishes[r], wish))
            return shortMessage(rank);
          if (wish.id != workspace.id)
            return makeError(TANDEM_STATUS_MISMATCH, rank,
                             "tandem_workspace_set_fusion: rank %d means "
                             "another workspace than rank 0",
                             rank);
          on &= wish.enabled;
        }
        word = pack(on);
        return Error();
      },
      answer, Deadline::in(workspace.timeoutMs));
  if (error)
    return error;
  uint32_t on;
  if (!unpack(answer.body, on))
    return shortMessage(0);
  workspace.fusionOn.store(on != 0, std::memory_order_release);
  return Error();
}
