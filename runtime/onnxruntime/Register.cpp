//===- Register.cpp - The library's entry points -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// RegisterCustomOps is what ONNX Runtime calls. The ranks come from the session
// options' config entries:
//
//   tandem.rank, tandem.world     which rank of how many this session is
//   tandem.rendezvous             the name at which the ranks meet
//   tandem.max_tokens             room of the workspace, in tokens (4096)
//   tandem.token_limit            above this many tokens nothing is fused
//   tandem.timeout_ms             how long a rank waits for the others
//   tandem.signature              compared across the ranks
//   tandem.id                     the session's name in the C interface,
//                                 tandem/Runtime/onnxruntime.h
//
//===----------------------------------------------------------------------===//

#include "CustomOps.h"
#include "tandem/Runtime/onnxruntime.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

using namespace tandem::ort;

namespace {

/// A session's ops. ONNX Runtime keeps pointers to them, in the session and in
/// the options of which it was made.
struct Registration {
  explicit Registration(GroupOptions options) : group(std::move(options)) {}
  Group group;
  std::vector<DomainOps> domains;
};

/// All there are, by id: only the user knows when a session has ended.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Registration>> entries;
  /// Closed ones: nobody says when the options are gone, and another session
  /// may be made of them.
  std::vector<std::shared_ptr<Registration>> closed;
  uint64_t next = 0;
};

} // namespace

static Registry &registry() {
  static Registry *theRegistry = new Registry();
  return *theRegistry;
}

static std::shared_ptr<Registration> find(const char *id) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto entry = registry().entries.find(id ? id : "");
  return entry == registry().entries.end() ? nullptr : entry->second;
}

static bool toNumber(const std::string &text, int64_t &value) {
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno)
    return false;
  value = number;
  return true;
}

/// Whether our ops can serve ONNX Runtime's CUDA provider.
static bool canServeCuda(const ApiBase &base) {
#ifdef TANDEM_RUNTIME_CUDA
  // In 1.N.P, N is the API's version.
  char *end = nullptr;
  unsigned long major = std::strtoul(base.getVersionString(), &end, 10);
  unsigned long minor = *end == '.' ? std::strtoul(end + 1, nullptr, 10) : 0;
  return major > 1 || (major == 1 && minor >= kCudaApiVersion);
#else
  return (void)base, false;
#endif
}

static Status *readOptions(const Api &api, const SessionOptions *session,
                           GroupOptions &options, std::string &id) {
  auto text = [&](const char *key, std::string &value) {
    return api.getConfig(session, key, value);
  };
  auto number = [&](const char *key, int64_t &value, int64_t least,
                    int64_t most) -> Status * {
    std::string given;
    if (Status *status = text(key, given))
      return status;
    if (given.empty())
      return nullptr;
    if (toNumber(given, value) && value >= least && value <= most)
      return nullptr;
    std::string why = std::string("session option ") + key + " is '" + given +
                      "', not a number from " + std::to_string(least) + " to " +
                      std::to_string(most);
    return api.makeStatus(kFail, why.c_str());
  };
  int64_t world = 1, rank = 0;
  if (Status *status = number("tandem.world", world, 1, TANDEM_MAX_WORLD))
    return status;
  if (Status *status = number("tandem.rank", rank, 0, world - 1))
    return status;
  options.world = static_cast<int32_t>(world);
  options.rank = static_cast<int32_t>(rank);
  if (Status *status =
          number("tandem.max_tokens", options.maxTokens, 1, INT64_MAX))
    return status;
  if (Status *status =
          number("tandem.token_limit", options.tokenLimit, -1, INT64_MAX))
    return status;
  if (Status *status =
          number("tandem.timeout_ms", options.timeoutMs, -1, INT64_MAX))
    return status;
  std::string rendezvous;
  if (Status *status = text("tandem.rendezvous", rendezvous))
    return status;
  if (!rendezvous.empty())
    options.rendezvous = rendezvous;
  if (Status *status = text("tandem.signature", options.signature))
    return status;
  return text("tandem.id", id);
}

/// Gives the options our ops; `numAdded` counts the domains that they then
/// refer to, also after an error.
static Status *addDomains(const Api &api, SessionOptions *options,
                          const std::vector<DomainOps> &domains,
                          size_t &numAdded) {
  std::vector<Domain *> made;
  Status *status = nullptr;
  for (const DomainOps &ours : domains) {
    Domain *domain = nullptr;
    status = api.makeDomain(ours.domain.c_str(), &domain);
    if (status)
      break;
    made.push_back(domain);
    for (const std::unique_ptr<Op> &op : ours.ops)
      if (!status)
        status = api.add(domain, static_cast<const CustomOp *>(op.get()));
    if (status)
      break;
  }
  while (!status && numAdded < made.size()) {
    status = api.add(options, made[numAdded]);
    numAdded += !status;
  }
  // The options keep pointers to those that they have.
  for (size_t i = numAdded; i < made.size(); ++i)
    api.release(made[i]);
  return status;
}

extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): ONNX Runtime's name for it.
TANDEM_API Status *RegisterCustomOps(SessionOptions *options,
                                     const ApiBase *base) {
  Api api(base->getApi(kApiVersion));
  if (!api) // ONNX Runtime before 1.17; it has printed so.
    return Api(base->getApi(1))
        .makeStatus(kFail, "Tandem's ops need ONNX Runtime 1.17 or newer");
  GroupOptions group;
  std::string id;
  if (Status *status = readOptions(api, options, group, id))
    return status;
  auto entry = std::make_shared<Registration>(std::move(group));
  entry->domains = makeOps(entry->group, canServeCuda(*base));
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    if (id.empty())
      id = "#" + std::to_string(registry().next++);
    if (!registry().entries.try_emplace(id, entry).second) {
      std::string why =
          "session option tandem.id: '" + id + "' is the id of another session";
      return api.makeStatus(kFail, why.c_str());
    }
  }
  size_t numAdded = 0;
  Status *status = addDomains(api, options, entry->domains, numAdded);
  if (!status)
    return nullptr;
  // The id is free again. What the options already have must stay.
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().entries.erase(id);
  if (numAdded != 0)
    registry().closed.push_back(std::move(entry));
  return status;
}

TANDEM_API int tandem_onnxruntime_counters(const char *id,
                                           tandem_counters *counters) {
  std::shared_ptr<Registration> entry = find(id);
  if (!entry)
    return TANDEM_ONNXRUNTIME_NO_SESSION;
  return entry->group.getCounters(*counters) ? TANDEM_ONNXRUNTIME_OK
                                             : TANDEM_ONNXRUNTIME_NOT_NOW;
}

TANDEM_API tandem_status tandem_onnxruntime_failure(const char *id,
                                                    tandem_error *failure) {
  if (std::shared_ptr<Registration> entry = find(id))
    return entry->group.getFailure(*failure);
  failure->status = TANDEM_STATUS_INVALID_ARGUMENT;
  failure->reporter = failure->peer = -1;
  std::snprintf(failure->message, sizeof(failure->message),
                "there is no session '%s'", id ? id : "");
  return TANDEM_STATUS_INVALID_ARGUMENT;
}

TANDEM_API int tandem_onnxruntime_close(const char *id) {
  std::shared_ptr<Registration> ended;
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    auto entry = registry().entries.find(id ? id : "");
    if (entry == registry().entries.end())
      return TANDEM_ONNXRUNTIME_NO_SESSION;
    // It would use what is gone.
    if (entry->second->group.isInUse())
      return TANDEM_ONNXRUNTIME_NOT_NOW;
    ended = entry->second;
    registry().closed.push_back(ended);
    registry().entries.erase(entry);
  }
  // Takes its time, and needs nothing of other sessions.
  ended->group.close();
  return TANDEM_ONNXRUNTIME_OK;
}

} // extern "C"
