#!/bin/sh
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the kernels' tests and measurements on a machine with GPUs and writes what
# came of it to OUT; run_host.sh does the host side.
#
# usage: run_kernels.sh BUILD OUT [PARTS]
#   BUILD   a build folder of the runtime
#   PARTS   of: tests calls bench kernels sanitizer, separated by commas
#           (tests,bench). calls: a million calls. bench: FlashInfer, too, where
#           flashinfer-python is importable.
# exit status: 0 only if every part that was asked for ran and passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
python=${PYTHON:-python3}
parts=${3:-tests,bench}
mkdir -p "$out"
find_program() { find "$build" -type f -name "$1" -perm -u+x | head -n 1; }

result=0
part() { # name seconds command...
  name=$1
  seconds=$2
  shift 2
  timeout "$seconds" "$@" >"$out/kernels-$name.log" 2>&1
  code=$?
  echo "$name: exit $code"
  if [ $code -ne 0 ]; then
    result=1
    tail -n 40 "$out/kernels-$name.log"
  elif grep -q -i skipped "$out/kernels-$name.log"; then
    echo "$name: not everything ran:"
    grep -i skipped "$out/kernels-$name.log" | head -n 20
    result=1
  fi
}
for p in $(echo "$parts" | tr , ' '); do
  case $p in
  tests)
    part tests 900 "$(find_program runtime-cuda-kernels)" \
      --gtest_output="json:$out/kernels.json"
    ;;
  calls)
    part calls 300 env TANDEM_TEST_FULL=1 "$(find_program runtime-cuda-kernels)" \
      --gtest_filter='*InterleavedAtRandom*'
    ;;
  bench)
    part bench 300 "$(find_program fusion-bench)" \
      --timing=chain,neighbours,cold,skew --json="$out/bench.json" \
      --tune="$out/profile.json"
    cat "$out/kernels-bench.log"
    # Says so where there is none.
    timeout 300 "$python" "$here/../../../python/tandem/_flashinfer.py" \
      "$out/bench.json"
    ;;
  kernels)
    for hidden in 2048 4096 5120 7168; do
      part "variants-$hidden" 120 "$(find_program runtime-cuda-bench)" \
        variants $hidden
      cat "$out/kernels-variants-$hidden.log"
    done
    ;;
  sanitizer)
    # Calls in graphs: launches one by one wait for each other there. memcheck
    # doesn't get anywhere with the large ones (docs/cuda.md).
    part memcheck 120 compute-sanitizer --tool memcheck --error-exitcode 9 \
      "$(find_program runtime-cuda-kernels)" \
      --gtest_filter='*GraphsAndEager*:*AnyLength*:*LinesAreWhole*'
    part racecheck 120 compute-sanitizer --tool racecheck --error-exitcode 9 \
      "$(find_program runtime-cuda-kernels)" \
      --gtest_filter='*Captured*:*AnyLength*'
    ;;
  *)
    echo "no part '$p'"
    exit 2
    ;;
  esac
done
exit $result
