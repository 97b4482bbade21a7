//===- parse_onnx.cpp - Time a plain protobuf parse -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// parse_onnx FILE [RUNS]: reads the model into memory, parses it RUNS times
// with protobuf's own parser, and prints the median in milliseconds: what any
// importer that uses protobuf pays at least.
//
//===----------------------------------------------------------------------===//

#include "tandem_onnx/onnx.pb.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

int main(int argc, char **argv) {
  int runs = argc > 2 ? std::atoi(argv[2]) : 15;
  if (argc < 2 || runs < 1) {
    std::fprintf(stderr, "usage: parse_onnx FILE [RUNS]\n");
    return 1;
  }
  std::ifstream file(argv[1], std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)),
                    std::istreambuf_iterator<char>());
  std::vector<double> times;
  for (int run = 0; run != runs; ++run) {
    auto begin = std::chrono::steady_clock::now();
    tandem_onnx::ModelProto model;
    if (bytes.empty() || !model.ParseFromString(bytes)) {
      std::fprintf(stderr, "parse_onnx: cannot parse '%s'\n", argv[1]);
      return 1;
    }
    std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  std::printf("%.3f\n", times[times.size() / 2]);
  return 0;
}
