//===-- fusion-bench.cpp - Times the fused op and its fallback ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::bench;

static const char *const help =
    "Times the fused all-reduce + add + RMSNorm against its fallback.\n\n"
    "usage: fusion-bench [options]\n"
    "  --device=cpu|cuda   default: cuda\n"
    "  --ranks=N           processes, 1 to 8; a GPU each (2)\n"
    "  --hidden=N,...      hidden sizes (4096)\n"
    "  --tokens=N,...      token counts, ascending (1,4,16,...,8192)\n"
    "  --dtype=T,...       f32, f16, bf16 (bf16)\n"
    "  --pattern=P         add_norm, norm or sandwich (add_norm)\n"
    "  --timing=T,...      chain, neighbours, cold, skew (chain)\n"
    "  --samples=N         replays that count (21)\n"
    "  --json=FILE         writes all figures\n"
    "  --tune=FILE         writes the profile that limits= reads\n"
    "  --progress          shows on standard error how far it is\n"
    "  --version           prints the version and that of the runtime's ABI\n";

static bool fail(const std::string &message) {
  fprintf(stderr, "fusion-bench: %s\n", message.c_str());
  return false;
}

static std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

static bool parseNumber(const std::string &text, int64_t least, int64_t most,
                        int64_t &out) {
  char *end = nullptr;
  errno = 0;
  long long value = strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < least || value > most)
    return false;
  out = value;
  return true;
}

static bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    std::string value =
        equals == std::string::npos ? "" : argument.substr(equals + 1);
    auto bad = [&](const char *wanted) {
      return fail("'" + argument + "': " + wanted);
    };
    int64_t number = 0;
    if (name == "--progress" && equals == std::string::npos) {
      options.progress = true;
    } else if (name == "--device") {
      if (value != "cpu" && value != "cuda")
        return bad("the device is cpu or cuda");
      options.device = value == "cpu" ? TANDEM_DEVICE_CPU : TANDEM_DEVICE_CUDA;
    } else if (name == "--ranks") {
      if (!parseNumber(value, 1, maxRanks, number))
        return bad("ranks are a number from 1 to 8");
      options.ranks = static_cast<int>(number);
    } else if (name == "--samples") {
      if (!parseNumber(value, 1, 100000, number))
        return bad("samples are a number from 1 to 100000");
      options.samples = static_cast<int>(number);
    } else if (name == "--hidden" || name == "--tokens") {
      std::vector<int64_t> &list =
          name == "--hidden" ? options.hidden : options.tokens;
      list.clear();
      for (const std::string &part : split(value)) {
        if (!parseNumber(part, 1, 1 << 24, number))
          return bad("takes numbers from 1 to 16777216, separated by commas");
        list.push_back(number);
      }
      if (name == "--tokens" && !std::is_sorted(list.begin(), list.end()))
        return bad("token counts must ascend");
    } else if (name == "--dtype") {
      options.dtypes.clear();
      for (const std::string &part : split(value)) {
        if (part != "f32" && part != "f16" && part != "bf16")
          return bad("types are f32, f16 and bf16");
        options.dtypes.push_back(part == "f32"   ? TANDEM_DTYPE_F32
                                 : part == "f16" ? TANDEM_DTYPE_F16
                                                 : TANDEM_DTYPE_BF16);
      }
    } else if (name == "--pattern") {
      if (value != "add_norm" && value != "norm" && value != "sandwich")
        return bad("patterns are add_norm, norm and sandwich");
      options.pattern = value;
    } else if (name == "--timing") {
      options.timings.clear();
      for (const std::string &part : split(value)) {
        bool known = false;
        for (Timing timing :
             {Timing::Chain, Timing::Neighbours, Timing::Cold, Timing::Skew})
          if (part == nameOf(timing)) {
            options.timings.push_back(timing);
            known = true;
          }
        if (!known)
          return bad("timings are chain, neighbours, cold and skew");
      }
    } else if (name == "--json" && !value.empty()) {
      options.json = value;
    } else if (name == "--tune" && !value.empty()) {
      options.tune = value;
    } else {
      return fail("unknown option '" + argument + "'; --help lists them");
    }
  }
  if (options.device == TANDEM_DEVICE_CPU &&
      options.timings != std::vector<Timing>{Timing::Chain})
    return fail("the CPU backend is timed by --timing=chain alone");
  return true;
}

int main(int argc, char **argv) {
  if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    printf("%s", help);
    return 0;
  }
  if (argc == 2 && !strcmp(argv[1], "--version")) {
    uint32_t abi = tandem_abi_version();
    printf("fusion-bench (Tandem) " TANDEM_VERSION "\nruntime ABI %u.%u\n",
           abi >> 16, abi & 0xffff);
    return 0;
  }
  Options options;
  if (!parse(argc, argv, options))
    return 1;
  size_t bytes = boardBytes(options);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail("no memory for the results"), 1;
  Board &board = *new (memory) Board();
  std::string group = "fusion-bench-" + std::to_string(getpid());

  // Before anything of CUDA is touched: it doesn't survive fork.
  fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    pid_t child = fork();
    if (child == 0) {
      std::string wrong = runRank(options, board, rank, group);
      if (!wrong.empty()) {
        strncpy(board.error[rank], wrong.c_str(),
                sizeof(board.error[rank]) - 1);
        board.failed.store(1);
      }
      fflush(nullptr);
      _exit(wrong.empty() ? 0 : 1);
    }
    if (child < 0)
      return fail("can't start a process"), 1;
    children.push_back(child);
  }

  bool good = true;
  size_t left = children.size(), count = itemsOf(options).size();
  while (left != 0) {
    int status = 0;
    pid_t ended = waitpid(-1, &status, options.progress ? WNOHANG : 0);
    if (ended > 0) {
      --left;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        // The others find out by themselves, through the runtime.
        good = false;
        board.failed.store(1);
      }
    } else if (ended == 0) {
      fprintf(stderr, "\r%u of %zu", board.done.load(), count);
      usleep(200000);
    }
  }
  if (options.progress)
    fprintf(stderr, "\r%u of %zu\n", board.done.load(), count);
  if (!good) {
    // One message: the first rank that has a cause of its own.
    for (int rank = 0; rank < options.ranks; ++rank)
      if (board.error[rank][0])
        return fail("rank " + std::to_string(rank) + ": " + board.error[rank]),
               1;
    return fail("a rank's process ended unexpectedly"), 1;
  }
  return report(options, board);
}
