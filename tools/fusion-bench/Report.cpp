//===-- Report.cpp - Table, JSON and profile of fusion-bench --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

using namespace tandem::bench;

namespace {
struct Summary {
  double median = -1, least = -1, most = -1;
};
} // namespace

static const char *const dtypeNames[] = {"f32", "f16", "bf16"};

static Summary summarize(Board &board, const Options &options, size_t item) {
  std::vector<double> all;
  for (int sample = 0; sample < options.samples; ++sample) {
    // A sample takes as long as its slowest rank.
    double longest = -1;
    for (int rank = 0; rank < options.ranks; ++rank)
      longest = std::max(longest, timeAt(board, options, item, sample, rank));
    if (longest >= 0)
      all.push_back(longest);
  }
  if (all.empty())
    return Summary();
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all.front(), all.back()};
}

static std::string today() {
  time_t now = time(nullptr);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%d", gmtime(&now));
  return text;
}

static void printNumber(FILE *out, double value) {
  if (value < 0)
    fprintf(out, "null");
  else
    fprintf(out, "%.3f", value);
}

/// Device names are the driver's; what JSON can't hold as it is becomes '?'.
static std::string plain(const char *text) {
  std::string out;
  for (; *text; ++text)
    out += *text < 32 || *text == '"' || *text == '\\' ? '?' : *text;
  return out;
}

int tandem::bench::report(const Options &options, Board &board) {
  std::vector<Item> items = itemsOf(options);
  std::vector<Summary> summaries;
  summaries.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    summaries.push_back(summarize(board, options, i));

  printf(
      "%d ranks, %s, %s; microseconds a call: median of %d samples, each the "
      "maximum over the ranks\n",
      options.ranks, board.deviceName, options.pattern.c_str(),
      options.samples);
  printf("%s\n", board.defaults);
  if (board.note[0])
    printf("note: %s\n", board.note);
  constexpr size_t subjects = 5;
  for (size_t i = 0; i < items.size(); i += subjects) {
    const Item &item = items[i];
    bool first = i == 0 || items[i - 1].hidden != item.hidden ||
                 items[i - 1].dtype != item.dtype ||
                 items[i - 1].timing != item.timing;
    if (first)
      printf(
          "\nhidden %lld, %s, timing: %s\n%8s %20s %20s %10s %10s %10s %8s\n",
          static_cast<long long>(item.hidden), dtypeNames[item.dtype],
          nameOf(item.timing), "tokens", "fused", "fallback", "all_reduce",
          "norm", "link", "gain");
    printf("%8lld", static_cast<long long>(item.tokens));
    for (size_t k = 0; k < subjects; ++k) {
      const Summary &s = summaries[i + k];
      char text[64] = "-";
      if (s.median >= 0 && k < 2)
        snprintf(text, sizeof(text), "%.2f (%.2f-%.2f)", s.median, s.least,
                 s.most);
      else if (s.median >= 0)
        snprintf(text, sizeof(text), "%.2f", s.median);
      printf(" %*s", k < 2 ? 20 : 10, text);
    }
    if (summaries[i].median > 0 && summaries[i + 1].median > 0)
      printf(" %8.2f", summaries[i + 1].median / summaries[i].median);
    printf("\n");
  }

  if (!options.json.empty()) {
    FILE *out = fopen(options.json.c_str(), "w");
    if (!out) {
      fprintf(stderr, "fusion-bench: can't write '%s'\n", options.json.c_str());
      return 1;
    }
    fprintf(out,
            "{\"version\": 1, \"date\": \"%s\", \"device\": \"%s\", "
            "\"world_size\": %d, \"pattern\": \"%s\", \"samples\": %d,\n"
            " \"defaults\": \"%s\", \"unit\": \"us\", \"results\": [",
            today().c_str(), plain(board.deviceName).c_str(), options.ranks,
            options.pattern.c_str(), options.samples,
            plain(board.defaults).c_str());
    for (size_t i = 0; i < items.size(); ++i) {
      fprintf(
          out,
          "%s\n  {\"subject\": \"%s\", \"timing\": \"%s\", \"hidden\": %lld, "
          "\"dtype\": \"%s\", \"tokens\": %lld, \"calls\": %d, \"median\": ",
          i ? "," : "", nameOf(items[i].subject), nameOf(items[i].timing),
          static_cast<long long>(items[i].hidden), dtypeNames[items[i].dtype],
          static_cast<long long>(items[i].tokens),
          callsOf(items[i], options.device));
      printNumber(out, summaries[i].median);
      fprintf(out, ", \"min\": ");
      printNumber(out, summaries[i].least);
      fprintf(out, ", \"max\": ");
      printNumber(out, summaries[i].most);
      fprintf(out, "}");
    }
    fprintf(out, "\n]}\n");
    fclose(out);
  }

  if (!options.tune.empty()) {
    FILE *out = fopen(options.tune.c_str(), "w");
    if (!out) {
      fprintf(stderr, "fusion-bench: can't write '%s'\n", options.tune.c_str());
      return 1;
    }
    fprintf(out,
            "{\"version\": 1, \"date\": \"%s\", \"device\": \"%s\",\n"
            " \"limits\": [",
            today().c_str(), plain(board.deviceName).c_str());
    const char *separator = "";
    for (size_t i = 0; i < items.size(); i += subjects) {
      const Item &item = items[i];
      if (item.timing != options.timings.front() ||
          (i != 0 && items[i - 1].hidden == item.hidden &&
           items[i - 1].dtype == item.dtype &&
           items[i - 1].timing == item.timing))
        continue;
      // The last count up to which the fused call is never the slower one.
      int64_t limit = -1;
      for (size_t k = i;
           k < items.size() && items[k].hidden == item.hidden &&
           items[k].dtype == item.dtype && items[k].timing == item.timing;
           k += subjects) {
        if (summaries[k].median < 0 ||
            summaries[k].median > summaries[k + 1].median)
          break;
        limit = items[k].tokens;
      }
      fprintf(out,
              "%s\n  {\"world_size\": %d, \"hidden\": %lld, \"dtype\": \"%s\", "
              "\"max_tokens\": %lld}",
              separator, options.ranks, static_cast<long long>(item.hidden),
              dtypeNames[item.dtype], static_cast<long long>(limit));
      separator = ",";
    }
    fprintf(out, "\n]}\n");
    fclose(out);
  }
  return 0;
}
