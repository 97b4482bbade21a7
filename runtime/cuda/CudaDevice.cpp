//===-- CudaDevice.cpp - A GPU as a device --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "CudaBackend.h"
#include "cpu/Layout.h"
#include "workspace/Workspace.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cuda;

namespace {
/// What a rank's GPU has to say.
struct CudaVote {
  Uuid uuid;
  uint32_t protocol;
  /// 0: no NCCL.
  int32_t ncclVersion;
  /// Communicators in the pool, by bit, and those among them that are free.
  uint64_t pool;
  uint64_t freePool;
  uint32_t multiprocessors;
  uint32_t residentThreads[3];
  uint32_t pairThreads[3];
  uint32_t clusterBlocks;
  uint32_t maxBlocks;
  uint8_t bulkCopies;
  uint8_t canShare;
  /// What an earlier self-test found: 0 not known, 1 lines are torn, 2 whole.
  uint8_t lines;
  uint8_t spare;
  /// The GPU's name.
  char name[64];
  char ncclReason[160];
};
static_assert(sizeof(CudaVote) <= sizeof(DeviceVote::words), "has to fit");

/// What rank 0 makes of it.
struct CudaTerms {
  Facts facts;
  Defaults defaults;
  NcclId ncclId;
  /// There are shared regions.
  uint8_t direct;
  uint8_t nccl;
  uint8_t freshNccl;
  /// As in the vote.
  uint8_t lines;
  uint32_t ncclIndex;
  char ncclReason[200];
};
static_assert(sizeof(CudaTerms) <= sizeof(Terms::words), "has to fit");

/// What a rank shows its peers.
struct CudaOffer {
  Uuid uuid;
  uint64_t regionSize;
  char name[40];
};
} // namespace

template <typename T, size_t N>
static T wordsOf(const uint8_t (&words)[N]) {
  T value;
  memcpy(static_cast<void *>(&value), words, sizeof(value));
  return value;
}
template <typename T, size_t N>
static void putWords(uint8_t (&words)[N], const T &value) {
  memcpy(words, static_cast<const void *>(&value), sizeof(value));
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

namespace {
class CudaDevice final : public Device {
public:
  CudaDevice(std::shared_ptr<const Gpu> gpu, const KernelFacts &kernels)
      : gpu(std::move(gpu)), kernels(kernels) {}
  tandem_device kind() const override { return TANDEM_DEVICE_CUDA; }
  Error queryBytes(int32_t world, const tandem_workspace_desc &desc,
                   tandem_workspace_bytes &bytes) override;
  Error join(const std::shared_ptr<Communicator> &comm,
             const Settings &settings,
             std::shared_ptr<DeviceGroup> &group) override;

  const std::shared_ptr<const Gpu> gpu;
  const KernelFacts kernels;
};

/// Sizes, from a description.
struct Sizes {
  uint64_t asked = 0;
  uint64_t rowBytes = 0;
  uint64_t fusedCapacity = 0;
  uint64_t fusedRegion = 0;
  uint64_t orderedRegion = 0;
  uint64_t scratch = 0;
};
} // namespace

static Error sizesOf(const Gpu &gpu, int32_t world, int64_t maxTokens,
                     int64_t hidden, tandem_dtype dtype, Sizes &sizes) {
  WorkspacePlan plan;
  if (Error e = planWorkspace(world, maxTokens, hidden, dtype, plan))
    return e;
  sizes = Sizes();
  sizes.asked = plan.askedBytes;
  sizes.rowBytes = plan.rowBytes;
  sizes.fusedCapacity = std::max(plan.askedBytes, plan.rowBytes);
  constexpr uint64_t most = uint64_t(1) << 40;
  if (sizes.fusedCapacity >= most)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "max_tokens %lld x hidden %lld: %llu bytes are more than "
                     "any GPU has",
                     static_cast<long long>(maxTokens),
                     static_cast<long long>(hidden),
                     static_cast<unsigned long long>(sizes.fusedCapacity));
  sizes.scratch = scratchBytesFor(world, plan.rowBytes, plan.askedBytes);
  if (world < 2 || world > maxWorld || !gpu.noSharing.empty())
    return Error();
  if (Error e = sharedSize(
          gpu, regionBytes(static_cast<uint32_t>(world), sizes.fusedCapacity),
          sizes.fusedRegion))
    return e;
  return sharedSize(gpu,
                    regionBytes(static_cast<uint32_t>(world), plan.rowBytes),
                    sizes.orderedRegion);
}

Error CudaDevice::queryBytes(int32_t world, const tandem_workspace_desc &desc,
                             tandem_workspace_bytes &bytes) {
  Sizes sizes;
  if (Error e =
          sizesOf(*gpu, world, desc.max_tokens, desc.hidden, desc.dtype, sizes))
    return e;
  bytes.shared_bytes = sizes.fusedRegion;
  bytes.private_bytes = sizes.scratch;
  bytes.fallback_shared_bytes = sizes.orderedRegion;
  return Error();
}

//===----------------------------------------------------------------------===//
// The group
//===----------------------------------------------------------------------===//

namespace {
class CudaGroup final : public DeviceGroup,
                        public std::enable_shared_from_this<CudaGroup> {
public:
  CudaGroup(std::shared_ptr<Communicator> comm, std::shared_ptr<const Gpu> gpu,
            const KernelFacts &kernels, const Settings &settings)
      : comm(std::move(comm)), gpu(gpu), kernels(kernels), settings(settings),
        monitor(std::make_shared<Monitor>(std::move(gpu))) {}
  ~CudaGroup() override;

  Error vote(const tandem_workspace_desc &desc, DeviceVote &vote) override;
  Error decide(const std::vector<DeviceVote> &votes,
               const tandem_workspace_desc &desc, Terms &terms) override;
  bool retreat(int step, const Error &cause, Terms &terms) override;
  std::unique_ptr<WorkspaceMaker>
  begin(const Terms &terms, const tandem_workspace_desc &desc) override;

  /// Takes the pool's communicator `index`, or fills its place.
  Error takeNccl(const CudaTerms &terms, Deadline deadline,
                 std::shared_ptr<NcclComm> &nccl);
  void releaseNccl(uint32_t index);

  const std::shared_ptr<Communicator> comm;
  const std::shared_ptr<const Gpu> gpu;
  const KernelFacts kernels;
  const Settings settings;
  const std::shared_ptr<Monitor> monitor;

  /// What a self-test between these GPUs found; see CudaVote.
  std::atomic<uint8_t> lines{0};

private:
  void findNccl();

  struct Place {
    std::shared_ptr<NcclComm> comm;
    bool taken = false;
  };
  static constexpr uint32_t numPlaces = 64;
  std::mutex mutex;
  Place pool[numPlaces];
  bool lookedForNccl = false;
  std::shared_ptr<const NcclApi> api;
  std::string noNccl;
};
} // namespace

CudaGroup::~CudaGroup() {
  if (!comm->fork.inOwner()) {
    monitor->forget();
    for (Place &place : pool)
      if (place.comm)
        place.comm->forget();
    return;
  }
  monitor->stop();
  GpuScope scope(*gpu);
  RelaxedCapture relaxed;
  for (Place &place : pool)
    place.comm.reset();
}

/// Opens NCCL, once.
void CudaGroup::findNccl() {
  std::lock_guard<std::mutex> guard(mutex);
  if (lookedForNccl)
    return;
  lookedForNccl = true;
  if (settings.disableNccl)
    noNccl = "NCCL is switched off by TANDEM_DISABLE_NCCL";
  else if (Error e = loadNccl(settings.ncclLibrary, api))
    noNccl = e.message;
}

Error CudaGroup::vote(const tandem_workspace_desc &desc, DeviceVote &vote) {
  Sizes sizes;
  if (Error e = sizesOf(*gpu, comm->world, desc.max_tokens, desc.hidden,
                        desc.dtype, sizes))
    return e;
  CudaVote mine = {};
  mine.uuid = gpu->uuid;
  mine.protocol = deviceProtocol;
  snprintf(mine.name, sizeof(mine.name), "%s", gpu->name);
  mine.multiprocessors = kernels.multiprocessors;
  std::copy(std::begin(kernels.residentThreads),
            std::end(kernels.residentThreads), mine.residentThreads);
  std::copy(std::begin(kernels.pairThreads), std::end(kernels.pairThreads),
            mine.pairThreads);
  mine.clusterBlocks = kernels.clusterBlocks;
  mine.bulkCopies = kernels.bulkCopies;
  mine.maxBlocks = static_cast<uint32_t>(desc.max_blocks);
  mine.lines = lines.load();
  mine.canShare = 1;
  auto refuse = [&](tandem_status status, const char *why) {
    mine.canShare = 0;
    vote.refusal = status;
    snprintf(vote.reason, sizeof(vote.reason), "%.250s", why);
  };
  if (comm->isRemote())
    refuse(TANDEM_STATUS_UNSUPPORTED, "the ranks are on several hosts");
  else if (comm->world > maxWorld)
    refuse(TANDEM_STATUS_UNSUPPORTED, "the fused path takes worlds of 2 to 8");
  else if (comm->world > 1 && settings.disableSharing)
    refuse(TANDEM_STATUS_UNSUPPORTED,
           "shared GPU memory is switched off by TANDEM_DISABLE_SHARING");
  else if (comm->world > 1 && !gpu->noSharing.empty())
    refuse(TANDEM_STATUS_UNSUPPORTED, gpu->noSharing.c_str());
  uint64_t available;
  const char *why;
  if (Error e =
          cuda::availableMemory(*gpu, settings.memoryLimit, available, why))
    return e;
  uint64_t needed = sizes.fusedRegion + sizes.scratch;
  auto tooMuch = [&](uint64_t bytes) {
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1,
                     "a workspace needs %llu bytes, %llu are %s",
                     static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(available), why);
  };
  if (sizes.orderedRegion + sizes.scratch > available)
    return tooMuch(sizes.orderedRegion + sizes.scratch);
  if (mine.canShare && needed > available)
    refuse(TANDEM_STATUS_OUT_OF_MEMORY, tooMuch(needed).message);
  if (comm->world > 1) {
    findNccl();
    if (api)
      mine.ncclVersion = api->version;
    snprintf(mine.ncclReason, sizeof(mine.ncclReason), "%.150s",
             noNccl.c_str());
    std::lock_guard<std::mutex> guard(mutex);
    for (uint32_t i = 0; i < numPlaces; ++i) {
      if (pool[i].comm || pool[i].taken)
        mine.pool |= uint64_t(1) << i;
      if (pool[i].comm && !pool[i].taken)
        mine.freePool |= uint64_t(1) << i;
    }
  }
  putWords(vote.words, mine);
  return Error();
}

Error CudaGroup::decide(const std::vector<DeviceVote> &votes,
                        const tandem_workspace_desc &desc, Terms &terms) {
  CudaTerms mine = {};
  const int world = comm->world;
  Facts &facts = mine.facts;
  facts.world = static_cast<uint32_t>(world);
  std::vector<CudaVote> all;
  all.reserve(votes.size());
  for (const DeviceVote &vote : votes)
    all.push_back(wordsOf<CudaVote>(vote.words));
  facts.multiprocessors = all[0].multiprocessors;
  std::copy(std::begin(all[0].residentThreads),
            std::end(all[0].residentThreads), facts.residentThreads);
  std::copy(std::begin(all[0].pairThreads), std::end(all[0].pairThreads),
            facts.pairThreads);
  facts.clusterBlocks = all[0].clusterBlocks;
  facts.bulkCopies = true;
  mine.direct = world > 1;
  mine.nccl = world > 1;
  mine.lines = all[0].lines;
  uint64_t free = ~uint64_t(0), used = 0;
  std::vector<std::string> names;
  bool shared = false;
  auto noNcclBecause = [&](int rank, const char *why) {
    if (!mine.nccl)
      return;
    mine.nccl = 0;
    snprintf(mine.ncclReason, sizeof(mine.ncclReason), "rank %d: %.180s", rank,
             why);
  };
  auto notFused = [&](int rank, const char *why) {
    mine.direct = 0;
    if (!terms.fused)
      return;
    terms.fused = 0;
    snprintf(terms.reason, sizeof(terms.reason), "rank %d: %.230s", rank, why);
  };
  for (int r = 0; r < world; ++r) {
    const CudaVote &vote = all[static_cast<size_t>(r)];
    facts.multiprocessors =
        std::min(facts.multiprocessors, vote.multiprocessors);
    for (size_t i = 0; i < std::size(vote.residentThreads); ++i) {
      facts.residentThreads[i] =
          std::min(facts.residentThreads[i], vote.residentThreads[i]);
      facts.pairThreads[i] =
          std::min(facts.pairThreads[i], vote.pairThreads[i]);
    }
    facts.clusterBlocks = std::min(facts.clusterBlocks, vote.clusterBlocks);
    facts.bulkCopies = facts.bulkCopies && vote.bulkCopies;
    if (vote.maxBlocks &&
        (!facts.maxBlocks || vote.maxBlocks < facts.maxBlocks))
      facts.maxBlocks = vote.maxBlocks;
    if (vote.lines != mine.lines)
      mine.lines = 0;
    if (vote.protocol != all[0].protocol)
      notFused(r, "its device protocol is of another version than rank 0's");
    if (!vote.canShare)
      notFused(r, votes[static_cast<size_t>(r)].reason);
    if (vote.ncclVersion == 0)
      noNcclBecause(r, vote.ncclReason);
    else if (vote.ncclVersion != all[0].ncclVersion)
      noNcclBecause(r, "its NCCL is of another version than rank 0's");
    names.emplace_back(vote.name, strnlen(vote.name, sizeof(vote.name)));
    for (int p = 0; p < r; ++p)
      if (all[static_cast<size_t>(p)].uuid == vote.uuid) {
        shared = true;
        char text[96];
        snprintf(text, sizeof(text),
                 "it shares its GPU with rank %d, which NCCL refuses", p);
        if (!settings.ncclSharesGpus)
          noNcclBecause(r, text);
      }
    free &= vote.freePool;
    used |= vote.pool;
  }
  mine.defaults = defaultsFor(names, shared);
  if (world > 1)
    facts.tuning = defaultTuning(facts.world, facts.bulkCopies);
  facts.wholeLines = mine.lines == 2;
  if (mine.nccl) {
    if (free) {
      mine.ncclIndex = static_cast<uint32_t>(__builtin_ctzll(free));
    } else if (~used) {
      mine.ncclIndex = static_cast<uint32_t>(__builtin_ctzll(~used));
      mine.freshNccl = 1;
      if (Error e = api->failure(api->getUniqueId(&mine.ncclId), nullptr,
                                 "making an id for NCCL"))
        noNcclBecause(0, e.message);
    } else {
      noNcclBecause(0, "64 workspaces with NCCL at a time are the most");
    }
  }
  if (!terms.fused && mine.direct) {
    // Shared regions are worth their bytes only where NCCL doesn't do.
    const bool invariant = desc.flags & TANDEM_WORKSPACE_BATCH_INVARIANT;
    mine.direct = !mine.nccl || invariant;
  }
  if (world > 1 && !mine.direct && !mine.nccl)
    return makeError(
        TANDEM_STATUS_UNSUPPORTED, -1,
        "there is no way between the GPUs: no shared memory (%.180s) "
        "and no NCCL (%.180s)",
        terms.reason, mine.ncclReason);
  if (terms.fused && world > 1 && !mine.nccl)
    snprintf(terms.reason, sizeof(terms.reason),
             "the fallback is a rank-ordered sum: %.200s", mine.ncclReason);
  putWords(terms.words, mine);
  return Error();
}

bool CudaGroup::retreat(int step, const Error &cause, Terms &terms) {
  CudaTerms mine = wordsOf<CudaTerms>(terms.words);
  constexpr int ncclStep = 1;
  if (step == ncclStep) {
    if (!mine.nccl || !mine.direct)
      return false;
    mine.nccl = 0;
    snprintf(mine.ncclReason, sizeof(mine.ncclReason), "%.190s", cause.message);
    if (terms.fused)
      snprintf(terms.reason, sizeof(terms.reason),
               "the fallback is a rank-ordered sum: %.200s", mine.ncclReason);
  } else {
    if (!mine.direct || !mine.nccl)
      return false;
    // What there was in the pool may have been in use for a moment.
    mine.direct = 0;
    terms.fused = 0;
    snprintf(terms.reason, sizeof(terms.reason), "%.250s", cause.message);
    if (mine.freshNccl && api->getUniqueId(&mine.ncclId) != ncclCodeSuccess)
      return false;
  }
  putWords(terms.words, mine);
  return true;
}

Error CudaGroup::takeNccl(const CudaTerms &terms, Deadline deadline,
                          std::shared_ptr<NcclComm> &nccl) {
  Place &place = pool[terms.ncclIndex];
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (!terms.freshNccl) {
      if (!place.comm || place.taken)
        return makeError(TANDEM_STATUS_INTERNAL, -1,
                         "an NCCL communicator that was free is not");
      place.taken = true;
      nccl = place.comm;
      return Error();
    }
    place.taken = true;
  }
  Error error = caught([&] {
    return NcclComm::create(api, terms.ncclId, comm->rank, comm->world,
                            deadline, nccl);
  });
  std::lock_guard<std::mutex> guard(mutex);
  place.comm = nccl;
  if (error)
    place.taken = false;
  return error;
}

void CudaGroup::releaseNccl(uint32_t index) {
  std::shared_ptr<NcclComm> gone;
  std::lock_guard<std::mutex> guard(mutex);
  Place &place = pool[index];
  place.taken = false;
  if (place.comm && place.comm->aborted())
    gone = std::move(place.comm);
}

//===----------------------------------------------------------------------===//
// Making a workspace
//===----------------------------------------------------------------------===//

namespace {
class CudaMaker final : public WorkspaceMaker {
public:
  CudaMaker(std::shared_ptr<CudaGroup> group, const Terms &terms,
            const tandem_workspace_desc &desc);

  Error offer(std::string &body, std::vector<UniqueFd> &fds) override;
  /// Maps, NCCL, a test of the lines, and the backend.
  int numSteps() const override { return 4; }
  Error build(int step, Offers &offers, tandem_workspace &workspace,
              Deadline deadline, uint64_t &result) override;

private:
  Error map(Offers &offers);
  Error testLines(Deadline deadline, uint64_t &whole);
  Error clearRegion();
  Error finish(tandem_workspace &workspace, uint64_t wholeLines);

  std::shared_ptr<CudaGroup> group;
  const CudaTerms mine;
  Sizes sizes;
  Error planned;
  std::unique_ptr<Resources> held = std::make_unique<Resources>();
};
} // namespace

CudaMaker::CudaMaker(std::shared_ptr<CudaGroup> group, const Terms &terms,
                     const tandem_workspace_desc &desc)
    : group(std::move(group)), mine(wordsOf<CudaTerms>(terms.words)) {
  const std::shared_ptr<Communicator> &comm = this->group->comm;
  planned = sizesOf(*this->group->gpu, comm->world, terms.maxTokens,
                    desc.hidden, desc.dtype, sizes);
  Resources &r = *held;
  r.gpu = this->group->gpu;
  r.comm = comm;
  r.monitor = this->group->monitor;
  r.facts = mine.facts;
  r.defaults = mine.defaults;
  r.facts.capacity = terms.fused ? sizes.fusedCapacity : sizes.rowBytes;
  r.direct = mine.direct;
  r.rowBytes = sizes.rowBytes;
  r.fusedBytes = terms.fused ? sizes.asked : 0;
  r.timeoutMs = desc.timeout_ms;
  r.programmatic = this->group->kernels.programmatic;
  r.checkCalls = this->group->settings.checkCalls;
  r.hangDump = this->group->settings.hangDump;
  r.scratchBytes = sizes.scratch;
}

/// For work of one's own that waits for nobody; the GPU may be busy.
static Deadline ownWorkDeadline() { return Deadline::in(60000); }

/// Zeroes one's own region, counters before the wrap. No peer may use it yet.
Error CudaMaker::clearRegion() {
  Resources &r = *held;
  SharedRegion &own = r.regions[r.comm->rank];
  Control control = {};
  control.epoch = firstEpoch;
  // A year is as good as never.
  constexpr int64_t year = int64_t(365) * 24 * 3600 * 1000;
  control.deadline =
      static_cast<uint64_t>(std::min(r.timeoutMs, year)) * 1000000;
  Error error =
      cudaFailure(cudaMemsetAsync(own.get(), 0, own.size(), r.ownStream.get()),
                  "clearing shared memory");
  if (!error)
    error = r.ownStream.copy(own.get(), &control, sizeof(control),
                             cudaMemcpyHostToDevice);
  if (!error)
    error = r.ownStream.wait(ownWorkDeadline(), "preparing shared memory");
  memset(r.pinned.get(), 0, sizeof(HostRecord));
  return error;
}

Error CudaMaker::offer(std::string &body, std::vector<UniqueFd> &fds) {
  if (planned)
    return planned;
  Resources &r = *held;
  const int rank = r.comm->rank, world = r.comm->world;
  GpuScope scope(*r.gpu);
  RelaxedCapture relaxed;
  if (Error e = r.scratch.allocate(r.scratchBytes))
    return e;
  if (Error e = r.pinned.allocate(sizeof(Resources::Page)))
    return e;
  if (Error e = r.ownStream.make())
    return e;
  if (world == 1)
    return Error();
  // Rank 0's first descriptor is that of the memory on the host.
  if (rank == 0 && !r.comm->isRemote()) {
    UniqueFd file;
    if (Error e = makeSharedFile(HostSegment::bytes(world), file))
      return e;
    fds.push_back(std::move(file));
  }
  CudaOffer offer = {};
  offer.uuid = r.gpu->uuid;
  snprintf(offer.name, sizeof(offer.name), "%.39s", r.gpu->name);
  if (r.direct) {
    UniqueFd fd;
    if (Error e = r.regions[rank].allocate(
            r.gpu, regionBytes(static_cast<uint32_t>(world), r.facts.capacity),
            fd))
      return e;
    if (Error e = clearRegion())
      return e;
    offer.regionSize = r.regions[rank].size();
    fds.push_back(std::move(fd));
  }
  body.assign(reinterpret_cast<const char *>(&offer), sizeof(offer));
  return Error();
}

/// Maps what the others have.
Error CudaMaker::map(Offers &offers) {
  Resources &r = *held;
  const int rank = r.comm->rank, world = r.comm->world;
  if (world == 1 || r.comm->isRemote())
    return Error();
  if (offers.fds[0].empty())
    return makeError(TANDEM_STATUS_INTERNAL, 0,
                     "no shared memory came from rank 0");
  if (Error e = r.host.map(offers.fds[0][0].get(), HostSegment::bytes(world)))
    return e;
  r.segment()->ranks[rank].last.pid.store(static_cast<int32_t>(getpid()));
  if (!r.direct)
    return Error();
  for (int p = 0; p < world; ++p) {
    if (p == rank)
      continue;
    const size_t at = static_cast<size_t>(p);
    CudaOffer offer;
    const std::vector<UniqueFd> &fds = offers.fds[at];
    const size_t numFds = p == 0 ? 2 : 1;
    if (offers.bodies[at].size() != sizeof(offer) || fds.size() != numFds)
      return makeError(TANDEM_STATUS_INTERNAL, p,
                       "an offer of rank %d has the wrong size", p);
    memcpy(static_cast<void *>(&offer), offers.bodies[at].data(),
           sizeof(offer));
    offer.name[sizeof(offer.name) - 1] = '\0';
    // A GPU that this process doesn't see can still be reached; then only
    // trying tells.
    int visible = findGpu(offer.uuid), can = 1;
    if (visible >= 0 && visible != r.gpu->index &&
        cudaDeviceCanAccessPeer(&can, r.gpu->index, visible) == cudaSuccess &&
        !can)
      return makeError(
          TANDEM_STATUS_UNSUPPORTED, p,
          "its GPU (%s) has no access to rank %d's (%s): no NVLink "
          "or PCIe path between them",
          r.gpu->name, p, offer.name);
    if (Error e =
            r.regions[p].open(r.gpu, fds.back().get(), offer.regionSize)) {
      Error named =
          makeError(e.status, p, "rank %d's memory: %.300s", p, e.message);
      return named;
    }
  }
  Endpoint &endpoint = r.endpoint;
  endpoint.rank = rank;
  for (int p = 0; p < world; ++p)
    endpoint.regions[p] = r.regions[p].get();
  endpoint.record = static_cast<HostRecord *>(r.pinned.onDevice());
  endpoint.layout =
      layOutRegion(static_cast<uint32_t>(world), r.facts.capacity);
  endpoint.bulkCopies = r.facts.bulkCopies;
  endpoint.programmatic = r.programmatic;
  return Error();
}

/// Every rank stores lines to all and looks at what comes. `whole`: 2 if lines
/// arrive whole, else 1.
Error CudaMaker::testLines(Deadline deadline, uint64_t &whole) {
  Resources &r = *held;
  DeviceMemory result;
  if (Error e = result.allocate(sizeof(SelfTestResult)))
    return e;
  constexpr uint32_t rounds = 200;
  uint64_t patience =
      static_cast<uint64_t>(std::max<int64_t>(deadline.leftMs(10000), 1)) *
      1000000;
  SelfTestResult found = {};
  const char *const action = "testing the lines";
  cudaStream_t stream = r.ownStream.get();
  Error error = cudaFailure(
      cudaMemsetAsync(result.get(), 0, sizeof(SelfTestResult), stream), action);
  if (!error)
    error = cudaFailure(
        launchSelfTest(r.endpoint, rounds, patience,
                       static_cast<SelfTestResult *>(result.get()), stream),
        action);
  // The kernel has a deadline of its own.
  if (!error)
    error = r.ownStream.wait(ownWorkDeadline(), action);
  if (!error)
    error = r.ownStream.copy(&found, result.get(), sizeof(found),
                             cudaMemcpyDeviceToHost);
  if (!error)
    error = r.ownStream.wait(ownWorkDeadline(), action);
  if (error)
    return error;
  for (int p = 0; p < r.comm->world; ++p)
    if (found.missing >> p & 1)
      return makeError(TANDEM_STATUS_UNSUPPORTED, p,
                       "what rank %d stores to its memory doesn't arrive", p);
  whole = found.torn == 0 ? 2 : 1;
  return Error();
}

Error CudaMaker::build(int step, Offers &offers, tandem_workspace &workspace,
                       Deadline deadline, uint64_t &result) {
  Resources &r = *held;
  GpuScope scope(*r.gpu);
  RelaxedCapture relaxed;
  switch (step) {
  case 0:
    return map(offers);
  case 1: {
    if (!mine.nccl)
      return Error();
    if (Error e = group->takeNccl(mine, deadline, r.nccl))
      return e;
    std::shared_ptr<CudaGroup> owner = group;
    uint32_t index = mine.ncclIndex;
    r.releaseNccl = [owner, index] { owner->releaseNccl(index); };
    return Error();
  }
  case 2:
    // All ranks have found the same before, or all test.
    result = mine.lines;
    if (!r.direct || mine.lines != 0)
      return Error();
    return testLines(deadline, result);
  default:
    // The least of what the ranks said.
    return finish(workspace, result);
  }
}

Error CudaMaker::finish(tandem_workspace &workspace, uint64_t lines) {
  Resources &r = *held;
  if (r.direct) {
    group->lines.store(static_cast<uint8_t>(lines));
    r.facts.wholeLines = lines == 2;
    if (mine.lines == 0)
      if (Error e = clearRegion())
        return e;
  }
  Agreement &agreed = workspace.agreed;
  agreed.fusedBytes = r.fusedBytes;
  agreed.sharedBytes = r.direct ? r.regions[r.comm->rank].size() : 0;
  agreed.privateBytes = r.scratchBytes;
  workspace.backend = makeCudaBackend(std::move(held), workspace.failure);
  return Error();
}

std::unique_ptr<WorkspaceMaker>
CudaGroup::begin(const Terms &terms, const tandem_workspace_desc &desc) {
  return std::make_unique<CudaMaker>(shared_from_this(), terms, desc);
}

Error CudaDevice::join(const std::shared_ptr<Communicator> &comm,
                       const Settings &settings,
                       std::shared_ptr<DeviceGroup> &group) {
  group = std::make_shared<CudaGroup>(comm, gpu, kernels, settings);
  return Error();
}

Error tandem::makeCudaDevice(int index, std::shared_ptr<Device> &device) {
  std::shared_ptr<const Gpu> gpu;
  if (Error e = openGpu(index, gpu))
    return e;
  GpuScope scope(*gpu);
  KernelFacts kernels = {};
  if (cudaError_t code = loadKernels(kernels)) {
    char action[96];
    snprintf(action, sizeof(action), "loading the kernels for %.40s (sm_%d)",
             gpu->name, gpu->capability);
    return cudaFailure(code, action);
  }
  device = std::make_shared<CudaDevice>(std::move(gpu), kernels);
  return Error();
}

const std::shared_ptr<const Gpu> &tandem::gpuOf(const Device &device) {
  return static_cast<const CudaDevice &>(device).gpu;
}
