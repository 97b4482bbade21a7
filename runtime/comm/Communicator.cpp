//===-- Communicator.cpp - A group of ranks and how it agrees -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <cerrno>
#include <cstring>
#include <poll.h>

using namespace tandem;

/// An answer that is an error for all.
static constexpr uint32_t failureFrame = 0xffff;
/// The same, after which the ranks are out of step for good.
static constexpr uint32_t brokenFrame = 0xfffe;
/// See Rendezvous.cpp.
static constexpr int64_t graceMs = 500;

static const char *nameOf(uint32_t op) {
  switch (static_cast<ControlOp>(op)) {
  case ControlOp::Barrier:
    return "tandem_comm_barrier";
  case ControlOp::WorkspaceVote:
  case ControlOp::WorkspaceOffer:
  case ControlOp::WorkspaceCommit:
    return "tandem_workspace_create";
  case ControlOp::SetFusion:
    return "tandem_workspace_set_fusion";
  }
  return "an unknown collective";
}

static std::string packError(Error error) {
  error.clearRest();
  return std::string(reinterpret_cast<const char *>(&error), sizeof(error));
}

static Error unpackError(const std::string &bytes) {
  Error error;
  if (bytes.size() != sizeof(error))
    return makeError(TANDEM_STATUS_INTERNAL, 0, "an error of the wrong size");
  memcpy(&error, bytes.data(), sizeof(error));
  error.message[sizeof(error.message) - 1] = '\0';
  return error;
}

bool Communicator::isDead(int peer, int waitMs) const {
  if (peer >= static_cast<int>(meeting.pidfds.size()) || !meeting.pidfds[peer])
    return false;
  pollfd p = {meeting.pidfds[peer].get(), POLLIN, 0};
  return poll(&p, 1, waitMs) > 0;
}

void Communicator::spoil(const Error &cause) {
  std::lock_guard<std::mutex> guard(spoiltMutex);
  if (!spoilt)
    spoilt = cause;
}

Error Communicator::spoiltBy() const {
  std::lock_guard<std::mutex> guard(spoiltMutex);
  return spoilt;
}

/// Says what a connection's error means for `peer`. A process that is killed
/// closes its sockets a moment before it counts as ended.
Error Communicator::lost(int peer, const Error &cause) const {
  if (cause.status != TANDEM_STATUS_PEER_LEFT) {
    Error e = cause;
    e.peer = peer;
    return e;
  }
  if (isDead(peer, /*waitMs=*/200))
    return makeError(TANDEM_STATUS_PEER_DIED, peer,
                     "the process of rank %d ended", peer);
  return makeError(TANDEM_STATUS_PEER_LEFT, peer,
                   "rank %d destroyed its communicator", peer);
}

Error Communicator::agree(std::unique_lock<std::mutex> &lock, ControlOp op,
                          const std::string &said, const std::vector<int> &fds,
                          const Decide &decide, Frame &answer,
                          Deadline deadline) {
  (void)lock;
  ++sequence;
  Error error;
  if (world == 1) {
    std::vector<Said> all(1);
    all[0].body = said;
    std::vector<int> shown;
    answer.body.clear();
    error = decide(all, answer.body, shown);
  } else if (meeting.remote) {
    error = agreeFarApart(op, said, decide, answer, deadline);
  } else if (rank == 0) {
    error = agreeAsHub(op, said, decide, answer, deadline);
  } else {
    error = agreeAsSpoke(op, said, fds, answer, deadline);
  }
  if (rank == 0)
    answer.sequence = sequence;
  if (error && error.reporter < 0)
    error.reporter = rank;
  return error;
}

/// What a spoke says goes behind the time it still waits.
static std::string withTimeLeft(const std::string &said, Deadline deadline) {
  int64_t left = deadline.never() ? 0 : deadline.leftMs(INT64_MAX) + 1;
  return std::string(reinterpret_cast<const char *>(&left), sizeof(left)) +
         said;
}

Error Communicator::collect(ControlOp op, std::vector<Said> &said,
                            Deadline &deadline) {
  std::vector<bool> has(world, false);
  has[0] = true;
  int missing = world - 1;
  while (missing > 0) {
    std::vector<pollfd> polled;
    std::vector<int> ranks;
    for (int r = 1; r < world; ++r)
      if (!has[r]) {
        polled.push_back({meeting.channels[r].fd(), POLLIN, 0});
        polled.push_back({meeting.pidfds[r].get(), POLLIN, 0});
        ranks.push_back(r);
      }
    int n = poll(polled.data(), polled.size(),
                 static_cast<int>(deadline.leftMs(1000)));
    if (n < 0 && errno != EINTR)
      return makeSystemError(errno, "poll");
    if (n <= 0) {
      if (!deadline.passed())
        continue;
      return makeError(TANDEM_STATUS_TIMEOUT, ranks[0],
                       "rank %d did not come to %s in time", ranks[0],
                       nameOf(static_cast<uint32_t>(op)));
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      int r = ranks[i];
      if (!polled[2 * i].revents) {
        if (polled[2 * i + 1].revents)
          return makeError(TANDEM_STATUS_PEER_DIED, r,
                           "the process of rank %d ended", r);
        continue;
      }
      Frame frame;
      if (Error e = meeting.channels[r].recv(frame, deadline))
        return lost(r, e);
      if (frame.type != static_cast<uint32_t>(op) ||
          frame.sequence != sequence || frame.body.size() < sizeof(int64_t))
        return makeError(TANDEM_STATUS_MISMATCH, r,
                         "rank %d is in %s (its collective %llu), rank 0 in %s "
                         "(its collective %llu)",
                         r, nameOf(frame.type),
                         static_cast<unsigned long long>(frame.sequence),
                         nameOf(static_cast<uint32_t>(op)),
                         static_cast<unsigned long long>(sequence));
      int64_t left;
      memcpy(&left, frame.body.data(), sizeof(left));
      if (left > 0)
        deadline = deadline.min(Deadline::in(left));
      said[r].body = frame.body.substr(sizeof(left));
      said[r].fds = std::move(frame.fds);
      has[r] = true;
      --missing;
    }
  }
  return Error();
}

Error Communicator::agreeAsHub(ControlOp op, const std::string &mine,
                               const Decide &decide, Frame &answer,
                               Deadline deadline) {
  Error error = spoiltBy();
  std::vector<Said> said(world);
  said[0].body = mine;
  answer.body.clear();
  bool inStep = false;
  std::vector<int> fds;
  if (!error) {
    error = collect(op, said, deadline);
    inStep = !error;
  }
  if (!error)
    error = decide(said, answer.body, fds);
  if (error && error.reporter < 0)
    error.reporter = 0;
  uint32_t type = !error   ? static_cast<uint32_t>(op)
                  : inStep ? failureFrame
                           : brokenFrame;
  std::string body = error ? packError(error) : answer.body;
  if (error)
    fds.clear();
  // A rank that is gone by now shows in the next round or call.
  for (int r = 1; r < world; ++r)
    (void)meeting.channels[r].send(type, sequence, body, fds,
                                   Deadline::in(2000));
  if (error && !inStep)
    spoil(error);
  return error;
}

/// The same without sockets. What goes wrong does so on all ranks, or ends at
/// the deadline.
Error Communicator::agreeFarApart(ControlOp op, const std::string &mine,
                                  const Decide &decide, Frame &answer,
                                  Deadline deadline) {
  if (Error e = spoiltBy())
    return e;
  struct Head {
    uint64_t sequence;
    uint32_t type;
    uint32_t unused;
  };
  auto pack = [&](uint32_t type, const std::string &body) {
    Head head = {sequence, type, 0};
    return std::string(reinterpret_cast<const char *>(&head), sizeof(head)) +
           body;
  };
  auto unpack = [&](const std::string &text, Head &head) {
    if (text.size() < sizeof(head))
      return false;
    memcpy(&head, text.data(), sizeof(head));
    return true;
  };
  std::vector<std::string> all;
  Error error = meeting.remote->allGather(pack(static_cast<uint32_t>(op), mine),
                                          all, deadline);
  std::vector<Said> said(static_cast<size_t>(world));
  for (int r = 0; !error && r < world; ++r) {
    Head head = {};
    const std::string &text = all[static_cast<size_t>(r)];
    if (!unpack(text, head) || head.type != static_cast<uint32_t>(op) ||
        head.sequence != sequence)
      error = makeError(TANDEM_STATUS_MISMATCH, r,
                        "rank %d is in %s (its collective %llu), rank %d in %s "
                        "(its collective %llu)",
                        r, nameOf(head.type),
                        static_cast<unsigned long long>(head.sequence), rank,
                        nameOf(static_cast<uint32_t>(op)),
                        static_cast<unsigned long long>(sequence));
    else
      said[static_cast<size_t>(r)].body = text.substr(sizeof(head));
  }
  Error decided;
  answer.body.clear();
  answer.fds.clear();
  std::string word;
  if (!error && rank == 0) {
    std::vector<int> none;
    decided = decide(said, answer.body, none);
    if (decided && decided.reporter < 0)
      decided.reporter = 0;
    word = decided ? pack(failureFrame, packError(decided))
                   : pack(static_cast<uint32_t>(op), answer.body);
  }
  if (!error)
    error = meeting.remote->allGather(word, all, deadline);
  if (error) {
    spoil(error);
    return error;
  }
  if (rank == 0)
    return decided;
  Head head = {};
  if (!unpack(all[0], head))
    return makeError(TANDEM_STATUS_INTERNAL, 0, "an answer without a head");
  answer.sequence = head.sequence;
  answer.type = head.type;
  answer.body = all[0].substr(sizeof(head));
  return head.type == failureFrame ? unpackError(answer.body) : Error();
}

Error Communicator::agreeAsSpoke(ControlOp op, const std::string &mine,
                                 const std::vector<int> &fds, Frame &answer,
                                 Deadline deadline) {
  if (Error e = spoiltBy())
    return e;
  Channel &hub = meeting.channels[0];
  Deadline late = deadline.plus(graceMs);
  Error error;
  // Even if this fails, rank 0 may have left word why.
  (void)hub.send(static_cast<uint32_t>(op), sequence,
                 withTimeLeft(mine, deadline), fds, late);
  pollfd polled[2] = {{hub.fd(), POLLIN, 0},
                      {meeting.pidfds[0].get(), POLLIN, 0}};
  for (;;) {
    int n = poll(polled, 2, static_cast<int>(late.leftMs(1000)));
    if (n < 0 && errno != EINTR) {
      error = makeSystemError(errno, "poll");
      break;
    }
    if (n > 0 && polled[0].revents) {
      if (Error e = hub.recv(answer, late))
        error = lost(0, e);
      break;
    }
    if (n > 0) {
      error =
          makeError(TANDEM_STATUS_PEER_DIED, 0, "the process of rank 0 ended");
      break;
    }
    if (late.passed()) {
      error = makeError(TANDEM_STATUS_TIMEOUT, 0,
                        "rank 0 did not come to %s in time",
                        nameOf(static_cast<uint32_t>(op)));
      break;
    }
  }
  if (!error && answer.type == failureFrame)
    return unpackError(answer.body);
  if (!error && answer.type == brokenFrame) {
    error = unpackError(answer.body);
    // To itself a rank is not missing, but late.
    if (error.status == TANDEM_STATUS_TIMEOUT && error.peer == rank) {
      error = makeError(TANDEM_STATUS_TIMEOUT, rank,
                        "rank %d, this one, came to %s when rank 0 had stopped "
                        "waiting for it",
                        rank, nameOf(static_cast<uint32_t>(op)));
      error.reporter = 0;
    }
  }
  if (!error &&
      (answer.type != static_cast<uint32_t>(op) || answer.sequence != sequence))
    error = makeError(TANDEM_STATUS_INTERNAL, 0, "an answer out of step");
  if (error)
    spoil(error);
  return error;
}
