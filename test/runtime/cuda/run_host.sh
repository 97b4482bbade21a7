#!/bin/sh
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the host side's tests on a machine with GPUs and writes what came of it:
# OUT/host.json, OUT/host.md and the logs.
#
# usage: run_host.sh GROUP_TEST LIBRARY OUT [quick|full|PARTS]
#   GROUP_TEST  the program runtime-cuda-group
#   LIBRARY     libtandem_runtime.so
#   PARTS       of: groups faults memory matrix, separated by commas
# exit status: 0 only if every part that was asked for ran and passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tests=$1
library=$2
out=$3
parts=${4:-quick}
python=${PYTHON:-python3}
mkdir -p "$out"

case $parts in
quick) parts=groups,faults,memory,matrix ;;
full)
  parts=groups,faults,memory,matrix
  TANDEM_TEST_FULL=1
  export TANDEM_TEST_FULL
  ;;
esac

result=0
gtest_part() { # name filter seconds
  timeout "$3" "$tests" --gtest_filter="$2" \
    --gtest_output="json:$out/host-$1.json" >"$out/host-$1.log" 2>&1
  code=$?
  echo "$1: exit $code"
  [ $code -eq 0 ] || { result=1; tail -n 40 "$out/host-$1.log"; }
}
for part in $(echo "$parts" | tr , ' '); do
  case $part in
  groups)
    gtest_part groups "CudaContext.*:CudaGroup.*:CudaGraph.*-*SaysWhy*" 300
    ;;
  faults) gtest_part faults "CudaFault.*" 400 ;;
  memory) gtest_part memory "CudaMemory.*" 500 ;;
  matrix)
    full=
    [ "${TANDEM_TEST_FULL:-}" = 1 ] && full=--full
    timeout 500 "$python" "$here/../matrix_test.py" "$library" --device=cuda \
      --worlds="${TANDEM_MATRIX_WORLDS:-1,2}" $full >"$out/host-matrix.log" 2>&1
    code=$?
    echo "matrix: exit $code"
    [ $code -eq 0 ] || result=1
    tail -n 20 "$out/host-matrix.log"
    ;;
  *)
    echo "no part '$part'"
    exit 2
    ;;
  esac
done

"$python" - "$out" "$parts" <<'PYTHON'
import json, os, sys

out, parts = sys.argv[1], sys.argv[2].split(",")
rows, whole = [], {}
for part in parts:
    path = os.path.join(out, f"host-{part}.json")
    if part == "matrix":
        path = os.path.join(out, "host-matrix.log")
        lines = open(path).read().splitlines() if os.path.exists(path) else []
        last = lines[-1] if lines else "did not run"
        state = "passed" if last.endswith(" 0 failures") else "FAILED"
        if last.startswith("skipped"):
            state = "skipped"
        rows.append(("matrix", state, last))
        whole["matrix"] = lines[-20:]
        continue
    if not os.path.exists(path):
        rows.append((part, "FAILED", "ended before its report was written"))
        continue
    report = json.load(open(path))
    whole[part] = report
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            state = "FAILED" if test.get("failures") else "passed"
            if test.get("result") == "SKIPPED":
                state = "skipped"
            rows.append((f"{suite['name']}.{test['name']}", state, test["time"]))
json.dump(whole, open(os.path.join(out, "host.json"), "w"), indent=1)
with open(os.path.join(out, "host.md"), "w") as file:
    file.write("| test | result | time or note |\n|---|---|---|\n")
    for row in rows:
        file.write("| " + " | ".join(row) + " |\n")
print(open(os.path.join(out, "host.md")).read())
PYTHON
exit $result
