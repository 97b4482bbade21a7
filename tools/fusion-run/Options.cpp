//===- Options.cpp - The command line of fusion-run -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "tandem/OnnxOps/PrintableText.h"
#include "tandem/Runtime/tandem.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace tandem::run;
using mlir::tandem::makePrintable;

static const char help[] =
    R"help(fusion-run: runs a compiled model on several ranks and compares.

Usage: fusion-run MODEL [OPTION...]

MODEL is a shared object made by fusion-translate --compile, or an .onnx, .mlir
or .mlirbc file, which is compiled first (by the fusion-translate that lies
beside this program). In MODEL and in the names of npz files, {rank} stands for
the rank; a name without it is the same file for all ranks, as is right for
models without weights or with equal ones.

  --entry=NAME        The function to run. Default: main.
  --ranks=N           Start N processes, one a rank. Default: 1. Under mpirun or
                      torchrun this process is one of theirs, and starts none.
  --device=cpu|cuda   Where to run. Default: cpu.
  --input=NPZ         The arguments, by their names. Others are ignored.
  --output=NPZ        Write the results, by their names; without {rank} those of
                      rank 0.
  --expect=NPZ        Compare each result with the array of its name.
  --tolerance=T       How far a result x may be from its expected value e:
                      |x - e| <= T + T * |e|. Default: 1e-5 for f32, 1e-3 for
                      f16, 1e-2 for bf16, 1e-12 for f64, 0 for integers.
  --times             Run the function --repeat=N more times (20) and print the
                      median, least and greatest time.
  --counters          Print how often the runtime took which path.
  --max-tokens=N      Room in the workspaces. Default: what the arguments need.
  --timeout=MS        How long to wait for other ranks, in milliseconds.
  --rendezvous=NAME   The name by which ranks that mpirun or torchrun started
                      find each other. Default: made from their job.
  --compile-flag=F    A flag for fusion-translate --compile, e.g.
                      --compile-flag=--cpu=native. May be given repeatedly.
  --version           Print the version.

bf16 arrays are stored as uint16; a list of strings named __dtypes__ in the same
file says so: numpy.savez(f, x=bits, __dtypes__=["x=bf16"]).

Exit status: 0 if all went well, 1 otherwise, with an error on standard error
that names the rank, and, for a comparison, the result and the index.
)help";

static bool parseNumber(const std::string &text, int64_t least, int64_t most,
                        int64_t &value) {
  char *end = nullptr;
  errno = 0;
  value = strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0 && value >= least &&
         value <= most;
}

static Parsed fail(const std::string &message) {
  fprintf(stderr, "fusion-run: error: %s (see fusion-run --help)\n",
          makePrintable(message).c_str());
  return Parsed::Error;
}

Parsed tandem::run::parseOptions(int argc, char **argv, Options &options) {
  bool wantsTimes = false;
  int64_t repeat = -1;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.size() < 2 || argument[0] != '-') {
      if (!options.model.empty())
        return fail("two models are named: '" + options.model + "' and '" +
                    argument + "'");
      options.model = argument;
      continue;
    }
    std::string name = argument.substr(argument[1] == '-' ? 2 : 1), value;
    size_t equals = name.find('=');
    bool hasValue = equals != std::string::npos;
    if (hasValue) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "help" || name == "h") {
      fputs(help, stdout);
      return Parsed::Exit;
    }
    if (name == "version") {
      uint32_t abi = tandem_abi_version();
      printf("fusion-run (Tandem) " TANDEM_VERSION "\nruntime ABI %u.%u\n",
             abi >> 16, abi & 0xffff);
      return Parsed::Exit;
    }
    if (name == "times" || name == "counters") {
      if (hasValue)
        return fail("--" + name + " takes no value");
      (name == "times" ? wantsTimes : options.showsCounters) = true;
      continue;
    }
    static const char *const known[] = {
        "entry",      "ranks",   "device",     "input",
        "output",     "expect",  "tolerance",  "repeat",
        "max-tokens", "timeout", "rendezvous", "compile-flag"};
    bool isKnown = false;
    for (const char *one : known)
      isKnown |= name == one;
    if (!isKnown)
      return fail("there is no option '" + argument + "'");
    // As with other tools, the value may be the next argument.
    if (!hasValue) {
      if (i + 1 == argc)
        return fail("--" + name + " needs a value");
      value = argv[++i];
    }
    int64_t number = 0;
    auto wrong = [&](const char *what) {
      return fail("--" + name + " must be " + what + ", not '" + value + "'");
    };
    if (name == "entry") {
      options.entry = value;
    } else if (name == "ranks") {
      if (!parseNumber(value, 1, TANDEM_MAX_WORLD, number))
        return wrong("a number of ranks from 1 to 128");
      options.ranks = static_cast<int>(number);
    } else if (name == "device") {
      if (value != "cpu" && value != "cuda")
        return wrong("cpu or cuda");
      options.isCuda = value == "cuda";
    } else if (name == "input") {
      options.input = value;
    } else if (name == "output") {
      options.output = value;
    } else if (name == "expect") {
      options.expect = value;
    } else if (name == "tolerance") {
      char *end = nullptr;
      options.tolerance = strtod(value.c_str(), &end);
      if (value.empty() || *end || !(options.tolerance >= 0) ||
          std::isinf(options.tolerance))
        return wrong("a number of at least 0");
    } else if (name == "repeat") {
      if (!parseNumber(value, 1, 1000000000, repeat))
        return wrong("a number of runs");
    } else if (name == "max-tokens") {
      if (!parseNumber(value, 0, INT64_MAX, options.maxTokens))
        return wrong("a number of tokens");
    } else if (name == "timeout") {
      if (!parseNumber(value, 1, INT32_MAX, options.timeoutMs))
        return wrong("a number of milliseconds");
    } else if (name == "rendezvous") {
      if (value.empty() || value.size() > 48 ||
          value.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
                                  "rstuvwxyz0123456789._-") !=
              std::string::npos)
        return wrong("up to 48 letters, digits, '.', '_' and '-'");
      options.rendezvous = value;
    } else {
      options.compileFlags.push_back(value);
    }
  }
  if (options.model.empty())
    return fail("no model is named");
  if (repeat > 0 && !wantsTimes)
    return fail("--repeat is for --times");
  if (wantsTimes)
    options.repeat = repeat > 0 ? static_cast<int>(repeat) : 20;
  if (options.tolerance >= 0 && options.expect.empty())
    return fail("--tolerance is for --expect");
  return Parsed::Run;
}

std::string tandem::run::forRank(const std::string &path, int rank) {
  std::string result;
  for (size_t at = 0;;) {
    size_t mark = path.find("{rank}", at);
    result += path.substr(at, mark - at);
    if (mark == std::string::npos)
      return result;
    result += std::to_string(rank);
    at = mark + 6;
  }
}

bool tandem::run::hasRank(const std::string &path) {
  return path.find("{rank}") != std::string::npos;
}

/// Whether the file's name says "rank" and a number.
static bool isOfOneRank(const std::string &path) {
  size_t slash = path.rfind('/');
  for (size_t at = slash == std::string::npos ? 0 : slash + 1;
       (at = path.find("rank", at)) != std::string::npos;) {
    at += 4;
    size_t digit = at;
    while (digit < path.size() && strchr("-_.", path[digit]))
      ++digit;
    if (digit < path.size() && isdigit(static_cast<unsigned char>(path[digit])))
      return !hasRank(path);
  }
  return false;
}

std::string tandem::run::listFilesOfOneRank(const Options &options) {
  std::string list;
  for (const std::string *path :
       {&options.model, &options.input, &options.expect})
    if (isOfOneRank(*path))
      list += (list.empty() ? "'" : ", '") + *path + "'";
  return list;
}
