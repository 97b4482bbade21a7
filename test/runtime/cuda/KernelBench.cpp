//===-- KernelBench.cpp - Timing the CUDA kernels alone -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Both ranks in one process, without the C ABI, for trying variants of the
// kernels. What counts for users is measured by fusion-bench.
//
// A sample is a replay of one graph a rank: a kernel at which the ranks meet, a
// chain of calls, and a time stamp. A sample's time is the maximum over the
// ranks of what passed between, on each rank's own clock; printed is the median
// over the samples, a call.

#include "Ranks.h"

#include <dlfcn.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#define TANDEM_BENCH_NCCL 1
#endif

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

using namespace tandem::cuda;

namespace {
struct Sample {
  double median = 0, least = 0, most = 0;
};

#if defined(TANDEM_BENCH_NCCL)
/// NCCL of this machine, if there is one; not linked, so that the program runs
/// without it.
struct Nccl {
  decltype(&ncclCommInitAll) commInitAll = nullptr;
  decltype(&ncclAllReduce) allReduce = nullptr;
  decltype(&ncclGroupStart) groupStart = nullptr;
  decltype(&ncclGroupEnd) groupEnd = nullptr;
  ncclComm_t comms[2] = {};

  bool load() {
    const char *path = getenv("TANDEM_NCCL");
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
    if (!library)
      return false;
    commInitAll = reinterpret_cast<decltype(commInitAll)>(
        dlsym(library, "ncclCommInitAll"));
    allReduce =
        reinterpret_cast<decltype(allReduce)>(dlsym(library, "ncclAllReduce"));
    groupStart = reinterpret_cast<decltype(groupStart)>(
        dlsym(library, "ncclGroupStart"));
    groupEnd =
        reinterpret_cast<decltype(groupEnd)>(dlsym(library, "ncclGroupEnd"));
    int devices[2] = {0, 1};
    return commInitAll && allReduce && groupStart && groupEnd &&
           commInitAll(comms, 2, devices) == ncclSuccess;
  }
};

#endif

class Bench {
public:
  Bench(int64_t hidden, int64_t maxTokens, int sets)
      : hidden(hidden), sets(sets), devices(whyNoGpu(2).empty() ? 2 : 1),
        ranks(2, devices, uint64_t(maxTokens) * hidden * 2) {
    size_t bytes = size_t(maxTokens * hidden * 2);
    for (int rank = 0; rank < 2; ++rank) {
      for (auto *list : {&inputs, &residuals, &outs, &sums})
        for (int set = 0; set < sets; ++set) {
          list[0][rank].emplace_back(ranks.deviceOf(rank), bytes);
          // Ordinary bf16 numbers.
          TANDEM_CHECK_CUDA(
              cudaMemset(list[0][rank].back().get(), 0x3c, bytes));
        }
      // In bf16 or f32; and of a bias.
      gammas.emplace_back(ranks.deviceOf(rank), size_t(hidden) * 4);
      TANDEM_CHECK_CUDA(
          cudaMemset(gammas.back().get(), 0x3c, size_t(hidden) * 4));
      counters.emplace_back(ranks.deviceOf(rank), 256);
      TANDEM_CHECK_CUDA(cudaMemset(counters.back().get(), 0, 256));
      times.emplace_back(ranks.deviceOf(rank), 256);
      counterWords[rank] = reinterpret_cast<uint64_t *>(counters.back().get());
    }
  }

  CallArgs argsOf(int rank, int64_t tokens, int call) {
    int set = call % sets;
    CallArgs args = {};
    args.tokens = tokens;
    args.hidden = hidden;
    args.dtype = 2;
    args.input = {inputs[rank][size_t(set)].get(), hidden};
    args.residual = {residuals[rank][size_t(set)].get(), hidden};
    args.residualOut = args.residual;
    args.out = {outs[rank][size_t(set)].get(), hidden};
    args.norm = {gammas[size_t(rank)].get(), wide ? 0 : 2, 0, 1e-5f};
    if (sandwich)
      args.pre = args.norm;
    if (bias)
      args.bias = args.norm.gamma;
    if (sumOut)
      args.sumOut = {sums[rank][size_t(set)].get(), hidden};
    return args;
  }

  CallShape shapeOf(int64_t tokens) const {
    CallShape shape = {};
    shape.tokens = tokens;
    shape.hidden = hidden;
    shape.dtype = 2;
    shape.norm = true;
    int32_t gamma = wide ? 0 : 2;
    shape.variant = variantOf(bias, true, sandwich, true, 0, 0, gamma,
                              sandwich ? gamma : 0);
    return shape;
  }

  using Body = std::function<void(int rank, int call, cudaStream_t stream)>;

  /// `together`: body launches for both ranks at once, given rank -1.
  Sample measure(int calls, int samples, const Body &body,
                 bool together = false) {
    cudaGraphExec_t exec[2];
    for (int rank = 0; rank < 2; ++rank) {
      ranks.use(rank);
      TANDEM_CHECK_CUDA(cudaStreamBeginCapture(ranks.stream(rank),
                                               cudaStreamCaptureModeRelaxed));
      launchStart(counterWords, rank, 2, timeOf(rank), ranks.stream(rank));
      if (!together)
        for (int call = 0; call < calls; ++call)
          body(rank, call, ranks.stream(rank));
    }
    if (together)
      for (int call = 0; call < calls; ++call)
        body(-1, call, nullptr);
    for (int rank = 0; rank < 2; ++rank) {
      ranks.use(rank);
      launchStamp(timeOf(rank) + 1, ranks.stream(rank));
      cudaGraph_t graph;
      TANDEM_CHECK_CUDA(cudaStreamEndCapture(ranks.stream(rank), &graph));
      TANDEM_CHECK_CUDA(cudaGraphInstantiate(&exec[rank], graph, 0));
      TANDEM_CHECK_CUDA(cudaGraphDestroy(graph));
      TANDEM_CHECK_CUDA(cudaGraphUpload(exec[rank], ranks.stream(rank)));
    }
    std::vector<double> all;
    for (int i = 0; i < samples + 3; ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        ranks.use(rank);
        TANDEM_CHECK_CUDA(cudaGraphLaunch(exec[rank], ranks.stream(rank)));
      }
      double longest = 0;
      for (int rank = 0; rank < 2; ++rank) {
        ranks.use(rank);
        uint64_t t[2];
        TANDEM_CHECK_CUDA(cudaMemcpyAsync(
            t, timeOf(rank), 16, cudaMemcpyDeviceToHost, ranks.stream(rank)));
        TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(rank)));
        longest = std::max(longest, double(t[1] - t[0]));
      }
      if (i >= 3)
        all.push_back(longest / calls / 1000);
    }
    for (cudaGraphExec_t e : exec)
      cudaGraphExecDestroy(e);
    for (int rank = 0; rank < 2; ++rank)
      if (ranks.record(rank).state) {
        fprintf(stderr, "rank %d failed: status %d peer %d\n", rank,
                ranks.record(rank).status, ranks.record(rank).peer);
        exit(1);
      }
    std::sort(all.begin(), all.end());
    return {all[all.size() / 2], all.front(), all.back()};
  }

  Sample exchange(int64_t tokens, const Plan &plan, bool bulk, int calls,
                  int samples) {
    return measure(calls, samples,
                   [&](int rank, int call, cudaStream_t stream) {
                     Endpoint endpoint = ranks.endpoint(rank);
                     endpoint.bulkCopies = bulk;
                     endpoint.programmatic = programmatic;
                     endpoint.general = general;
                     TANDEM_CHECK_CUDA(launchExchange(
                         endpoint, argsOf(rank, tokens, call), plan, stream));
                   });
  }

  uint64_t *timeOf(int rank) {
    return reinterpret_cast<uint64_t *>(times[size_t(rank)].get());
  }

  const int64_t hidden;
  const int sets;
  const int devices;
  bool sandwich = false;
  bool bias = false;
  bool sumOut = false;
  /// Gammas in f32.
  bool wide = false;
  bool general = false;
  bool programmatic = true;
  Ranks ranks;
  std::vector<DeviceBuffer> inputs[2], residuals[2], outs[2], sums[2];
  std::vector<DeviceBuffer> gammas, counters, times;
  uint64_t *counterWords[2];
};

/// Lines unless `rows`.
struct Variant {
  std::string name;
  bool rows = false;
  /// Blocks a multiprocessor; 0: the plan's.
  uint32_t blocks = 0;
  /// The kernel that can do everything.
  bool general = false;
  /// Plan::spread; negative: the plan's.
  int spread = -1;
};

int callsOf(int64_t tokens) {
  return tokens <= 256 ? 40 : tokens <= 1024 ? 20 : 8;
}
} // namespace

int main(int argc, char **argv) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  std::string why = whyNoGpu(1);
  if (!why.empty()) {
    printf("skipped: %s\n", why.c_str());
    return 0;
  }
  bool all = argc > 1 && !strcmp(argv[1], "variants");
  int64_t hidden = argc > 2 ? atoll(argv[2]) : 4096;
  int samples = argc > 3 ? atoi(argv[3]) : 21;
  int sets = argc > 4 ? atoi(argv[4]) : 1;
  std::vector<int64_t> sizes{1,   4,   16,   32,   64,   128,
                             256, 512, 1024, 2048, 4096, 8192};
  if (argc > 5) {
    sizes.clear();
    for (int i = 5; i < argc; ++i)
      sizes.push_back(atoll(argv[i]));
  }
  Bench bench(hidden, sizes.back(), sets);
  Facts facts = bench.ranks.facts;
  printf("resident threads %u %u %u, %u multiprocessors\n",
         facts.residentThreads[0], facts.residentThreads[1],
         facts.residentThreads[2], facts.multiprocessors);

  std::vector<Variant> variants;
  variants.push_back({"plan"});
  if (all) {
    for (uint32_t blocks : {1, 2, 3, 4})
      variants.push_back(
          {std::to_string(blocks) + "/sm", false, blocks, false});
    for (int spread : {0, 2, 4, 8})
      variants.push_back(
          {"spread over " + std::to_string(spread), false, 0, false, spread});
    variants.push_back({"general", false, 0, true});
    variants.push_back({"rows", true, 0, false});
  }
  printf("%-16s", "hidden ");
  for (int64_t tokens : sizes)
    printf("%8lld", static_cast<long long>(tokens));
  printf("\n");
  auto line = [&](const std::string &name, auto each) {
    printf("%-16s", name.c_str());
    std::string spread;
    for (int64_t tokens : sizes) {
      Sample s = each(tokens);
      if (s.median > 0)
        printf("%8.2f", s.median);
      else
        printf("%8s", "-");
      char text[64];
      snprintf(text, sizeof(text), " %.2f-%.2f", s.least, s.most);
      spread += text;
    }
    printf("\n");
    if (getenv("TANDEM_BENCH_SPREAD"))
      printf("    %s\n", spread.c_str());
    fflush(stdout);
  };
  line("model x 1.12", [&](int64_t tokens) {
    return Sample{1.12 * (double(tokens * hidden * 2) / 360e3 + 2.9), 0, 0};
  });
  auto variantsOf = [&](const char *call) {
    for (const Variant &v : variants) {
      bench.general = v.general;
      line(call + v.name, [&](int64_t tokens) {
        Facts f = facts;
        f.tuning.lineLimit = v.rows ? 0 : ~uint64_t(0);
        Plan plan;
        if (planCall(f, bench.shapeOf(tokens), plan))
          return Sample();
        uint32_t sms = facts.multiprocessors / (3 - bench.devices);
        if (v.blocks) {
          uint32_t fit = facts.pairThreads[plan.shape.pairs / 2] / plan.block;
          if (v.blocks > fit)
            return Sample();
          plan.spread = 0;
          plan.grid = std::min(plan.rows, sms * v.blocks);
        }
        uint32_t spread = static_cast<uint32_t>(std::max(v.spread, 0));
        if (spread && (plan.shape.pairs != 1 ||
                       plan.rows * spread >
                           facts.clusterBlocks / uint32_t(3 - bench.devices)))
          return Sample();
        if (v.spread >= 0)
          plan.spread = spread;
        return bench.exchange(tokens, plan, v.rows, callsOf(tokens), samples);
      });
    }
    bench.general = false;
  };
  variantsOf("");
  if (all) {
    bench.sandwich = true;
    variantsOf("sandwich, ");
    bench.sandwich = false;
  }

  bench.programmatic = false;
  line("plan, no PDL", [&](int64_t tokens) {
    Plan plan;
    planCall(facts, bench.shapeOf(tokens), plan);
    return bench.exchange(tokens, plan, true, callsOf(tokens), samples);
  });
  bench.programmatic = true;
  struct {
    const char *name;
    bool sandwich, bias, sumOut, wide;
  } calls[] = {{"sandwich", true, false, false, false},
               {"bias", false, true, false, false},
               {"sum, too", false, false, true, false},
               {"f32 gamma", false, false, false, true},
               {"sandwich, f32", true, false, false, true},
               {"sandwich, all", true, true, true, true}};
  for (const auto &call : calls) {
    bench.sandwich = call.sandwich;
    bench.bias = call.bias;
    bench.sumOut = call.sumOut;
    bench.wide = call.wide;
    line(call.name, [&](int64_t tokens) {
      Plan plan;
      planCall(facts, bench.shapeOf(tokens), plan);
      return bench.exchange(tokens, plan, true, callsOf(tokens), samples);
    });
  }
  bench.sandwich = bench.bias = bench.sumOut = bench.wide = false;
  line("norm alone", [&](int64_t tokens) {
    return bench.measure(
        callsOf(tokens), samples, [&](int rank, int call, cudaStream_t stream) {
          TANDEM_CHECK_CUDA(
              launchNorm(bench.argsOf(rank, tokens, call),
                         planNorm(facts.multiprocessors, tokens, hidden, 2),
                         true, stream));
        });
  });
  line("link, stores", [&](int64_t tokens) {
    return bench.measure(
        callsOf(tokens), samples, [&](int rank, int, cudaStream_t stream) {
          launchLinkStores(bench.outs[1 - rank][0].get(),
                           bench.inputs[rank][0].get(),
                           uint64_t(tokens * hidden * 2),
                           uint32_t(std::min<int64_t>(264, tokens)), stream);
        });
  });
#if defined(TANDEM_BENCH_NCCL)
  Nccl nccl;
  if (bench.devices == 1)
    printf("one GPU: both ranks share it, so nothing here is a link's time\n");
  else if (nccl.load())
    for (bool norm : {false, true})
      line(norm ? "NCCL + norm" : "NCCL", [&](int64_t tokens) {
        return bench.measure(
            callsOf(tokens), samples,
            [&](int, int call, cudaStream_t) {
              nccl.groupStart();
              for (int rank = 0; rank < 2; ++rank) {
                CallArgs args = bench.argsOf(rank, tokens, call);
                nccl.allReduce(args.input.data, args.input.data,
                               size_t(tokens * hidden), ncclBfloat16, ncclSum,
                               nccl.comms[rank], bench.ranks.stream(rank));
              }
              nccl.groupEnd();
              for (int rank = 0; norm && rank < 2; ++rank) {
                bench.ranks.use(rank);
                TANDEM_CHECK_CUDA(launchNorm(
                    bench.argsOf(rank, tokens, call),
                    planNorm(facts.multiprocessors, tokens, hidden, 2), true,
                    bench.ranks.stream(rank)));
              }
            },
            true);
      });
  else
    printf("no NCCL: %s\n", dlerror());
  // A process that has a communicator of NCCL's launches kernels more slowly.
  if (nccl.comms[0])
    line("plan, NCCL there", [&](int64_t tokens) {
      Plan plan;
      planCall(facts, bench.shapeOf(tokens), plan);
      return bench.exchange(tokens, plan, true, callsOf(tokens), samples);
    });
#endif
  return 0;
}
