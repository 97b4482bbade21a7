#!/bin/sh
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the importer's fuzz target and runs it.
#
# usage: run.sh [SECONDS] [BUILD]   (default: 1800 seconds, build-fuzz)
#
# PYTHON names a Python with the onnx package, which makes the seeds. corpus.tar.xz
# holds the inputs of earlier runs, which new ones join in BUILD/corpus; pack it
# anew after -set_cover_merge=1. Findings are BUILD/crash-*, and the exit status is not 0 then.

set -eu
seconds=${1:-1800}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build-fuzz}

cmake -S "$root" -B "$build" -G Ninja -DTANDEM_BUILD_FUZZERS=ON \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22
ninja -C "$build" import-fuzzer
mkdir -p "$build/corpus" "$build/seeds"
# What earlier runs found to be worth keeping.
tar -xJf "$root/test/fuzz/corpus.tar.xz" -C "$build/corpus"
"${PYTHON:-python3}" "$root/test/fuzz/make_seeds.py" "$build/seeds"
# Attributes live as long as their context, so leaks are not looked for.
ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
  exec "$build/bin/import-fuzzer" "$build/corpus" "$build/seeds" \
  -max_len=16384 -timeout=20 -rss_limit_mb=4096 \
  -max_total_time="$seconds" -artifact_prefix="$build/crash-" \
  -print_final_stats=1
