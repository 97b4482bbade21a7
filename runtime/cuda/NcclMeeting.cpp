//===-- NcclMeeting.cpp - How the ranks of an ncclComm_t meet -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclMeeting.h"

#include "CudaDevice.h"
#include "Memory.h"
#include "Nccl.h"
#include "OwnStream.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cuda;

namespace {
/// Where a rank is, and where rank 0 would meet the others.
struct Whereabouts {
  uint8_t host[128];
  tandem_unique_id id;
  NcclId ncclId;
};

/// The control plane through an NCCL communicator of our own.
class NcclRemote final : public Remote {
public:
  NcclRemote(std::shared_ptr<const Gpu> gpu, int rank, int world)
      : gpu(std::move(gpu)), rank(rank), world(world) {}
  ~NcclRemote() override;
  Error open(const std::shared_ptr<const NcclApi> &api, const NcclId &id,
             Deadline deadline);
  Error allGather(const std::string &mine, std::vector<std::string> &all,
                  Deadline deadline) override;

private:
  Error gather(const void *mine, size_t bytes, std::string &all,
               Deadline deadline);

  std::shared_ptr<const Gpu> gpu;
  const int rank, world;
  ForkGuard fork;
  std::shared_ptr<NcclComm> nccl;
  OwnStream stream;
};
} // namespace

NcclRemote::~NcclRemote() {
  if (!fork.valid() || !fork.inOwner()) {
    stream.forget();
    if (nccl)
      nccl->forget();
    return;
  }
  GpuScope scope(*gpu);
  RelaxedCapture relaxed;
  nccl.reset();
  stream.reset();
}

Error NcclRemote::open(const std::shared_ptr<const NcclApi> &api,
                       const NcclId &id, Deadline deadline) {
  if (!fork.valid())
    return makeError(TANDEM_STATUS_OUT_OF_MEMORY, -1, "no page to map");
  if (Error e = stream.make())
    return e;
  return NcclComm::create(api, id, rank, world, deadline, nccl);
}

/// `bytes` of every rank, one after another.
Error NcclRemote::gather(const void *mine, size_t bytes, std::string &all,
                         Deadline deadline) {
  DeviceMemory buffer;
  const size_t total = bytes * static_cast<size_t>(world);
  if (Error e = buffer.allocate(total + bytes))
    return e;
  char *gathered = static_cast<char *>(buffer.get());
  char *shown = gathered + total;
  all.resize(total);
  const char *const action = "agreeing through NCCL";
  auto look = [&] { return nccl->lookForErrors(action); };
  Error error = stream.copy(shown, mine, bytes, cudaMemcpyHostToDevice);
  if (!error)
    error = nccl->allGather(shown, gathered, bytes, stream.get());
  if (!error)
    error = stream.wait(deadline, action, look);
  if (!error)
    error = stream.copy(&all[0], gathered, total, cudaMemcpyDeviceToHost);
  if (!error)
    error = stream.wait(deadline, action, look);
  if (error)
    nccl->abort();
  return error;
}

Error NcclRemote::allGather(const std::string &mine,
                            std::vector<std::string> &all, Deadline deadline) {
  GpuScope scope(*gpu);
  RelaxedCapture relaxed;
  // Sizes first, then what is padded to the largest.
  uint64_t size = mine.size();
  std::string sizes, bodies;
  if (Error e = gather(&size, sizeof(size), sizes, deadline))
    return e;
  std::vector<uint64_t> each(static_cast<size_t>(world));
  memcpy(each.data(), sizes.data(), sizes.size());
  uint64_t most = *std::max_element(each.begin(), each.end());
  if (most > uint64_t(1) << 30)
    return makeError(TANDEM_STATUS_INTERNAL, -1, "a message is too long");
  all.assign(each.size(), std::string());
  if (most == 0)
    return Error();
  std::string padded = mine;
  padded.resize(most);
  if (Error e = gather(padded.data(), most, bodies, deadline))
    return e;
  for (size_t r = 0; r < each.size(); ++r)
    all[r] = bodies.substr(r * most, each[r]);
  return Error();
}

/// Equal for processes that reach each other's abstract sockets.
static void describeHost(uint8_t (&out)[128]) {
  char boot[40] = {};
  UniqueFd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (fd)
    (void)!read(fd.get(), boot, sizeof(boot) - 1);
  struct stat net = {};
  (void)stat("/proc/self/ns/net", &net);
  memcpy(out, boot, 36);
  memcpy(out + 40, &net.st_ino, 8);
  uint64_t user = geteuid();
  memcpy(out + 48, &user, 8);
  // For containers that look alike and can't reach each other, and for tests.
  if (const char *name = getenv("TANDEM_HOST_ID"))
    snprintf(reinterpret_cast<char *>(out) + 56, sizeof(out) - 56, "%s", name);
}

Error tandem::meetThroughNccl(Device &device, void *ncclComm,
                              const Settings &settings, Deadline deadline,
                              int &rank, int &world, Meeting &meeting) {
  if (device.kind() != TANDEM_DEVICE_CUDA)
    return makeError(TANDEM_STATUS_UNSUPPORTED, -1,
                     "a communicator from an ncclComm_t needs a context for "
                     "CUDA");
  const Gpu &gpu = *gpuOf(device);
  if (!ncclComm)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1, "nccl_comm is NULL");
  std::shared_ptr<const NcclApi> api;
  if (Error e = loadNccl(settings.ncclLibrary, api))
    return e;
  int itsRank = -1, itsWorld = 0, itsGpu = -1;
  if (Error e = api->failure(api->commCount(ncclComm, &itsWorld), ncclComm,
                             "asking nccl_comm for its world"))
    return e;
  if (Error e = api->failure(api->commUserRank(ncclComm, &itsRank), ncclComm,
                             "asking nccl_comm for its rank"))
    return e;
  if (Error e = api->failure(api->commCuDevice(ncclComm, &itsGpu), ncclComm,
                             "asking nccl_comm for its GPU"))
    return e;
  if (itsGpu != gpu.index)
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "nccl_comm is on GPU %d, the context on GPU %d", itsGpu,
                     gpu.index);
  if ((rank != 0 || world != 1) && (rank != itsRank || world != itsWorld))
    return makeError(TANDEM_STATUS_INVALID_ARGUMENT, -1,
                     "rank %d of %d is asked for, nccl_comm has rank %d of %d",
                     rank, world, itsRank, itsWorld);
  rank = itsRank;
  world = itsWorld;
  if (world == 1)
    return Error();

  Whereabouts mine = {};
  describeHost(mine.host);
  if (rank == 0) {
    if (Error e = makeUniqueId(mine.id))
      return e;
    if (Error e = api->failure(api->getUniqueId(&mine.ncclId), nullptr,
                               "making an id for NCCL"))
      return e;
  }
  GpuScope scope(gpu);
  RelaxedCapture relaxed;
  std::vector<Whereabouts> all(static_cast<size_t>(world));
  auto buffer = std::make_unique<DeviceMemory>();
  if (Error e = buffer->allocate(sizeof(mine) * static_cast<size_t>(world + 1)))
    return e;
  char *gathered = static_cast<char *>(buffer->get());
  char *shown = gathered + sizeof(mine) * static_cast<size_t>(world);
  OwnStream stream;
  if (Error e = stream.make())
    return e;
  const char *const action = "ncclAllGather on nccl_comm";
  Error error = stream.copy(shown, &mine, sizeof(mine), cudaMemcpyHostToDevice);
  if (!error)
    error = api->failure(api->allGather(shown, gathered, sizeof(mine),
                                        ncclTypeBytes, ncclComm, stream.get()),
                         ncclComm, action);
  if (!error)
    error = stream.wait(deadline, action);
  if (error.status == TANDEM_STATUS_TIMEOUT) {
    // It is the caller's communicator, so what was enqueued can't be taken
    // back: its memory stays.
    (void)buffer.release();
    return makeError(TANDEM_STATUS_TIMEOUT, -1,
                     "the ranks of nccl_comm did not all come in time");
  }
  if (!error)
    error = stream.copy(all.data(), gathered, sizeof(mine) * all.size(),
                        cudaMemcpyDeviceToHost);
  if (!error)
    error = stream.wait(deadline, action);
  if (error)
    return error;
  bool apart = false;
  for (int r = 0; r < world; ++r)
    if (memcmp(all[static_cast<size_t>(r)].host, all[0].host,
               sizeof(mine.host)) != 0)
      apart = true;
  if (apart) {
    auto remote = std::make_unique<NcclRemote>(gpuOf(device), rank, world);
    if (Error e = remote->open(api, all[0].ncclId, deadline))
      return e;
    meeting.remote = std::move(remote);
    return Error();
  }
  Place place;
  if (Error e = placeOfUniqueId(all[0].id, place))
    return e;
  return meet(place, rank, world, deadline, meeting);
}
