//===-- Create.cpp - How the ranks agree on a workspace -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Workspace.h"

#include "Signature.h"
#include "cpu/Layout.h"

#include <algorithm>
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
  int32_t deviceKind;
  DeviceVote device;
  /// Why this rank can't have a workspace at all.
  Error fatal;
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
  if (other.deviceKind != first.deviceKind)
    return makeError(TANDEM_STATUS_MISMATCH, rank,
                     "workspace: rank %d is on %s, rank 0 on %s", rank,
                     deviceName(other.deviceKind),
                     deviceName(first.deviceKind));
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
static Error decide(std::vector<Communicator::Said> &said, DeviceGroup &device,
                    const tandem_workspace_desc &desc, Terms &terms,
                    int32_t &refusal, bool &required) {
  terms = Terms();
  terms.fused = 1;
  terms.tokenLimit = -1;
  refusal = TANDEM_STATUS_OK;
  required = false;
  std::vector<Vote> votes(said.size());
  // A rank that can't take part says so before anything else is compared: its
  // other words may be noise.
  for (size_t r = 0; r < said.size(); ++r) {
    Vote &vote = votes[r];
    int rank = static_cast<int>(r);
    if (!unpack(said[r].body, vote))
      return shortMessage(rank);
    if (vote.fatal) {
      Error error = makeError(vote.fatal.status, rank, "rank %d: %.400s", rank,
                              vote.fatal.message);
      error.reporter = rank;
      return error;
    }
  }
  std::vector<DeviceVote> deviceVotes;
  std::string firstSignature = said[0].body.substr(sizeof(Vote));
  terms.maxTokens = votes[0].maxTokens;
  for (size_t r = 0; r < said.size(); ++r) {
    Vote &vote = votes[r];
    int rank = static_cast<int>(r);
    if (Error e = compareVotes(votes[0], vote, rank))
      return e;
    if (Error e = compareSignatures(firstSignature,
                                    said[r].body.substr(sizeof(Vote)), rank))
      return e;
    if (vote.maxTokens < terms.maxTokens)
      terms.maxTokens = vote.maxTokens;
    if (vote.tokenLimit >= 0 &&
        (terms.tokenLimit < 0 || vote.tokenLimit < terms.tokenLimit))
      terms.tokenLimit = vote.tokenLimit;
    required |= (vote.flags & TANDEM_WORKSPACE_REQUIRE_FUSED) != 0;
    if (vote.device.refusal != TANDEM_STATUS_OK && terms.fused) {
      terms.fused = 0;
      refusal = vote.device.refusal;
      vote.device.reason[sizeof(vote.device.reason) - 1] = '\0';
      snprintf(terms.reason, sizeof(terms.reason), "rank %d: %.230s", rank,
               vote.device.reason);
    }
    deviceVotes.push_back(vote.device);
  }
  // Whatever else there is to say, this is what was asked.
  if (required && !terms.fused)
    return Error();
  bool before = terms.fused != 0;
  if (Error e = device.decide(deviceVotes, desc, terms))
    return e;
  if (before && !terms.fused)
    refusal = TANDEM_STATUS_UNSUPPORTED;
  return Error();
}

static Error refuse(int32_t refusal, const Terms &terms) {
  return makeError(refusal, -1, "no fused path, which was required: %s",
                   terms.reason);
}

bool tandem::retreatFromFused(const Error &cause, Terms &terms) {
  if (!terms.fused)
    return false;
  terms.fused = 0;
  snprintf(terms.reason, sizeof(terms.reason), "%.250s", cause.message);
  return true;
}

/// Looks through what the ranks made of a step. The first failure leads to
/// other terms, or to the end.
static Error judge(const std::vector<Communicator::Said> &said, int step,
                   DeviceGroup &device, bool required, Terms &terms,
                   bool &again) {
  again = false;
  for (size_t r = 0; r < said.size(); ++r) {
    Error result;
    int rank = static_cast<int>(r);
    if (!unpack(said[r].body, result))
      return shortMessage(rank);
    if (!result)
      continue;
    Error failed =
        makeError(result.status, rank, "rank %d: %.400s", rank, result.message);
    failed.reporter = rank;
    bool fused = terms.fused != 0;
    if (!device.retreat(step, failed, terms))
      return failed;
    if (required && fused && !terms.fused)
      return refuse(failed.status, terms);
    again = true;
    return Error();
  }
  return Error();
}

//===----------------------------------------------------------------------===//
// Every rank's part
//===----------------------------------------------------------------------===//

/// Fills in what this rank has to say.
static void castVote(const Communicator &comm, DeviceGroup &device,
                     const Settings &settings,
                     const tandem_workspace_desc &desc, Vote &vote) {
  vote.maxTokens = desc.max_tokens;
  vote.hidden = desc.hidden;
  vote.tokenLimit = desc.token_limit;
  vote.dtype = desc.dtype;
  vote.flags = desc.flags;
  vote.hasSignature = desc.signature != nullptr;
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
  if (!error)
    error = caught([&] { return device.vote(desc, vote.device); });
  if (error) {
    vote.fatal = error;
    return;
  }
  auto refuseFused = [&](const char *text) {
    vote.device.refusal = TANDEM_STATUS_UNSUPPORTED;
    snprintf(vote.device.reason, sizeof(vote.device.reason), "%s", text);
  };
  // These come before whatever the device had against it.
  if (settings.disableFusion)
    refuseFused("fusion is switched off by TANDEM_DISABLE_FUSION");
  else if (desc.max_tokens == 0)
    refuseFused("max_tokens is 0");
}

/// The bodies behind the terms of an answer to offers.
static std::string packOffers(const std::vector<Communicator::Said> &said) {
  std::string all;
  for (const Communicator::Said &one : said) {
    uint64_t sizes[2] = {one.body.size() - sizeof(Error), one.fds.size()};
    all += pack(sizes);
    all.append(one.body, sizeof(Error), std::string::npos);
  }
  return all;
}

/// Takes them apart, and deals `fds` out.
static bool unpackOffers(const std::string &all, size_t at, int world,
                         std::vector<UniqueFd> &fds, Offers &offers) {
  offers = Offers();
  offers.fds.resize(static_cast<size_t>(world));
  size_t fd = 0;
  for (int r = 0; r < world; ++r) {
    uint64_t sizes[2];
    if (all.size() < at || !unpack(all.substr(at, sizeof(sizes)), sizes))
      return false;
    at += sizeof(sizes);
    if (all.size() - at < sizes[0] || fds.size() - fd < sizes[1])
      return false;
    offers.bodies.push_back(all.substr(at, sizes[0]));
    at += sizes[0];
    for (uint64_t i = 0; i < sizes[1]; ++i)
      offers.fds[static_cast<size_t>(r)].push_back(std::move(fds[fd++]));
  }
  return true;
}

namespace {
/// One rank's part in making a workspace.
struct Creation {
  Communicator &comm;
  DeviceGroup &device;
  const tandem_workspace_desc &desc;
  std::unique_lock<std::mutex> lock;
  Deadline deadline;
  Terms terms = {};
  /// Rank 0's alone.
  bool required = false;
  int32_t refusal = TANDEM_STATUS_OK;

  Error vote(const Vote &mine);
  Error exchange(std::unique_ptr<WorkspaceMaker> &maker, Offers &offers,
                 bool &again);
  Error commit(const Error &built, uint64_t result, int step, bool last,
               uint64_t &sequence, bool &again);
};
} // namespace

Error Creation::vote(const Vote &mine) {
  std::string said = pack(mine);
  if (desc.signature)
    said.append(desc.signature, desc.signature_length);
  Frame answer;
  Error error = comm.agree(
      lock, ControlOp::WorkspaceVote, said, {},
      [&](std::vector<Communicator::Said> &votes, std::string &word,
          std::vector<int> &) -> Error {
        Terms decided;
        if (Error e = caught([&] {
              return decide(votes, device, desc, decided, refusal, required);
            }))
          return e;
        if (required && !decided.fused)
          return refuse(refusal, decided);
        word = pack(decided);
        return Error();
      },
      answer, deadline);
  if (!error && !unpack(answer.body, terms))
    return shortMessage(0);
  return error;
}

/// Makes the maker, and shows everybody what everybody has. `again`: with other
/// terms.
Error Creation::exchange(std::unique_ptr<WorkspaceMaker> &maker, Offers &offers,
                         bool &again) {
  std::string body;
  std::vector<UniqueFd> fds;
  Error offered = caught([&] {
    maker = device.begin(terms, desc);
    return maker->offer(body, fds);
  });
  offered.clearRest();
  if (offered)
    body.clear();
  // Between hosts they are lost.
  if (offered || comm.isRemote())
    fds.clear();
  std::vector<int> shown;
  shown.reserve(fds.size());
  for (const UniqueFd &fd : fds)
    shown.push_back(fd.get());
  Frame answer;
  std::vector<UniqueFd> dealt;
  Error error = comm.agree(
      lock, ControlOp::WorkspaceOffer, pack(offered) + body, shown,
      [&](std::vector<Communicator::Said> &said, std::string &word,
          std::vector<int> &all) -> Error {
        Terms now = terms;
        if (Error e = judge(said, offerStep, device, required, now, again))
          return e;
        now.again = again;
        word = pack(now);
        if (again)
          return Error();
        // Rank 0's own are dealt out like the others'.
        said[0].fds = std::move(fds);
        word += packOffers(said);
        for (Communicator::Said &one : said)
          for (UniqueFd &fd : one.fds) {
            all.push_back(fd.get());
            dealt.push_back(std::move(fd));
          }
        return Error();
      },
      answer, deadline);
  if (error)
    return error;
  if (!unpack(answer.body, terms))
    return shortMessage(0);
  again = terms.again != 0;
  terms.again = 0;
  if (again)
    return Error();
  if (comm.rank != 0)
    dealt = std::move(answer.fds);
  if (!unpackOffers(answer.body, sizeof(Terms), comm.world, dealt, offers))
    return shortMessage(0);
  return Error();
}

/// Hears whether all ranks have done a step.
Error Creation::commit(const Error &built, uint64_t result, int step, bool last,
                       uint64_t &sequence, bool &again) {
  Error mine = built;
  mine.clearRest();
  Frame answer;
  Error error = comm.agree(
      lock, ControlOp::WorkspaceCommit, pack(mine) + pack(result), {},
      [&](std::vector<Communicator::Said> &said, std::string &word,
          std::vector<int> &) -> Error {
        Terms now = terms;
        if (Error e = judge(said, step, device, required, now, again))
          return e;
        now.again = again;
        now.done = last && !again;
        now.result = ~uint64_t(0);
        for (size_t r = 0; r < said.size(); ++r) {
          uint64_t one;
          if (!unpack(said[r].body.substr(sizeof(Error)), one))
            return shortMessage(static_cast<int>(r));
          now.result = std::min(now.result, one);
        }
        word = pack(now);
        return Error();
      },
      answer, deadline);
  if (error)
    return error;
  if (!unpack(answer.body, terms))
    return shortMessage(0);
  again = terms.again != 0;
  terms.again = 0;
  sequence = answer.sequence;
  return Error();
}

Error tandem::createWorkspace(const std::shared_ptr<Communicator> &comm,
                              const std::shared_ptr<DeviceGroup> &device,
                              tandem_device kind, const Settings &settings,
                              const tandem_workspace_desc &desc,
                              std::unique_ptr<tandem_workspace> &workspace) {
  auto made = std::make_unique<tandem_workspace>();
  made->comm = comm;
  made->device = device;
  made->timeoutMs = desc.timeout_ms;
  auto mine = std::make_unique<Vote>();
  memset(static_cast<void *>(mine.get()), 0, sizeof(Vote));
  mine->fatal = Error();
  mine->deviceKind = kind;
  castVote(*comm, *device, settings, desc, *mine);
  mine->fatal.clearRest();

  Creation creation{*comm, *device, desc, comm->begin(),
                    Deadline::in(desc.timeout_ms)};
  if (Error e = creation.vote(*mine))
    return e;
  // All build what was decided, and all must have; else all try again with
  // less, as often as there is something to do without.
  for (;;) {
    std::unique_ptr<WorkspaceMaker> maker;
    Offers offers;
    bool again = false;
    if (Error e = creation.exchange(maker, offers, again))
      return e;
    for (int step = 0; !again && step < maker->numSteps(); ++step) {
      Agreement &agreed = made->agreed;
      agreed.fused = creation.terms.fused != 0;
      agreed.tokenLimit = creation.terms.tokenLimit;
      agreed.batchInvariant =
          (desc.flags & TANDEM_WORKSPACE_BATCH_INVARIANT) != 0;
      memcpy(agreed.reason, creation.terms.reason, sizeof(agreed.reason));
      agreed.reason[sizeof(agreed.reason) - 1] = '\0';
      uint64_t result = step == 0 ? 0 : creation.terms.result;
      Error built = caught([&] {
        return maker->build(step, offers, *made, creation.deadline, result);
      });
      if (Error e =
              creation.commit(built, result, step,
                              step + 1 == maker->numSteps(), made->id, again)) {
        made->backend.reset();
        return e;
      }
    }
    if (creation.terms.done) {
      workspace = std::move(made);
      return Error();
    }
    made->backend.reset();
  }
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
      lock, ControlOp::SetFusion, pack(Wish{workspace.id, enabled, 0}), {},
      [&](std::vector<Communicator::Said> &wishes, std::string &word,
          std::vector<int> &) -> Error {
        uint32_t on = 1;
        for (size_t r = 0; r < wishes.size(); ++r) {
          Wish wish;
          int rank = static_cast<int>(r);
          if (!unpack(wishes[r].body, wish))
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
