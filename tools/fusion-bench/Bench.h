//===-- Bench.h - What fusion-bench measures --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONBENCH_BENCH_H
#define TANDEM_TOOLS_FUSIONBENCH_BENCH_H

#include "tandem/Runtime/tandem.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem {
namespace bench {

constexpr int maxRanks = 8;

/// What is timed.
enum class Subject { Fused, Fallback, AllReduce, Norm, Link };
/// How: (a) a chain of calls in a graph; (b) between ordinary kernels, whose
/// time is subtracted; (c) with cold caches; (d) with ranks that come at
/// different times.
enum class Timing { Chain, Neighbours, Cold, Skew };

const char *nameOf(Subject subject);
const char *nameOf(Timing timing);

struct Options {
  tandem_device device = TANDEM_DEVICE_CUDA;
  int ranks = 2;
  std::vector<int64_t> hidden{4096};
  std::vector<int64_t> tokens{1,   4,   16,   32,   64,   128,
                              256, 512, 1024, 2048, 4096, 8192};
  std::vector<tandem_dtype> dtypes{TANDEM_DTYPE_BF16};
  std::vector<Timing> timings{Timing::Chain};
  /// "add_norm", "norm" or "sandwich".
  std::string pattern = "add_norm";
  int samples = 21;
  std::string json;
  std::string tune;
  bool progress = false;
};

/// A row of the table: everything about one size.
struct Item {
  int64_t hidden;
  int64_t tokens;
  tandem_dtype dtype;
  Timing timing;
  Subject subject;
};
/// In the order in which all ranks measure them.
std::vector<Item> itemsOf(const Options &options);

/// Bytes of one operand.
uint64_t bytesOf(const Item &item);
/// Calls of a sample.
int callsOf(const Item &item, tandem_device device);

/// Shared by the ranks' processes and the one that prints.
struct Board {
  /// Where ranks meet on the device if they can't in each other's memory; every
  /// device can reach this.
  uint64_t starts[maxRanks][16];
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> generation;
  /// Items that rank 0 is done with.
  std::atomic<uint32_t> done;
  std::atomic<uint32_t> failed;
  char deviceName[128];
  char note[512];
  /// tandem_workspace_get_defaults.
  char defaults[256];
  char error[maxRanks][512];
  /// Addresses of each rank's memory for its peers (cudaIpc): what is copied
  /// to, and where ranks meet; of the latter 1 where it could open all others'.
  char handles[maxRanks][64];
  char startHandles[maxRanks][64];
  char canMeet[maxRanks];
  /// Microseconds a call: [item][sample][rank]; negative: not measured.
  double times[1];
};
size_t boardBytes(const Options &options);
double &timeAt(Board &board, const Options &options, size_t item, int sample,
               int rank);

/// Waits for all ranks on the host; false once one has failed.
bool meet(Board &board, int ranks);

/// One rank's device, in its process.
class Device {
public:
  virtual ~Device() = default;
  /// "" or what is wrong. Called first.
  virtual std::string open(Board &board, int rank, int ranks) = 0;
  virtual void *allocate(uint64_t bytes) = 0;
  /// Fills with small ordinary numbers of any type.
  virtual void fill(void *memory, uint64_t bytes) = 0;
  virtual void *stream() = 0;
  /// The peer's memory at the link's far end, or null.
  virtual void *peerMemory(void *own, uint64_t bytes) = 0;
  virtual void copyToPeer(void *to, const void *from, uint64_t bytes) = 0;

  using Body = std::function<tandem_status(int call)>;
  /// Microseconds a call of each sample, all ranks starting together.
  virtual std::string measure(Timing timing, int calls, int samples,
                              const Body &body, double *out) = 0;
};
std::unique_ptr<Device> makeCpuDevice();
/// Null in a build without CUDA.
std::unique_ptr<Device> makeCudaDevice();

/// A rank's whole run; "" or what went wrong.
std::string runRank(const Options &options, Board &board, int rank,
                    const std::string &group);

/// Prints the table, writes JSON and profile. Returns an exit status.
int report(const Options &options, Board &board);

} // namespace bench
} // namespace tandem

#endif
