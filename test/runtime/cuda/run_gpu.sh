#!/bin/sh
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs all of the CUDA backend's tests and measurements on a machine with GPUs, in
# parts, and writes what came of them to OUT.
#
# usage: run_gpu.sh BUILD OUT [KERNEL-PARTS [HOST-PARTS]]
#   BUILD   a build folder of the runtime, with its tests
#   PARTS   see run_kernels.sh and run_host.sh; "none" for none. "all" in place of
#           KERNEL-PARTS: all of both, the long forms too (by the times that the
#           parts took some seven minutes on two H200s)
# exit status: 0 only if every part that was asked for ran and passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
kernels=${3:-tests,bench}
host=${4:-quick}
if [ "$kernels" = all ]; then
  kernels=tests,calls,bench,kernels,sanitizer
  host=${4:-full}
fi
result=0
if [ "$kernels" != none ]; then
  sh "$here/run_kernels.sh" "$build" "$out" "$kernels" || result=1
fi
if [ "$host" != none ]; then
  group=$(find "$build" -type f -name runtime-cuda-group -perm -u+x | head -n 1)
  library=$(find "$build" -name libtandem_runtime.so | head -n 1)
  sh "$here/run_host.sh" "$group" "$library" "$out" "$host" || result=1
fi
exit $result
