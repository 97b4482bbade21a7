#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs tandem-fuse-pipeline on every ONNX model that is installed here.

No model of Debian's libonnx-testdata or of the onnx package's backend tests has
an all-reduce before a norm, so each must come out as it was imported, to the
byte, and nothing may fuse.

usage: fuse_sweep.py TANDEM_FUSE_SWEEP
"""

import concurrent.futures
import os
import subprocess
import sys

import sweep


def run(tool, models):
    """The lines that the tool writes, or what is wrong."""
    text = "".join(f"{model}\n" for model in models)
    done = subprocess.run([tool], input=text, capture_output=True, text=True, errors="replace", timeout=600)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(models):
        # The next one was in work.
        lines.append(f"exit status {done.returncode} at 0 {models[len(lines)] if len(lines) < len(models) else '?'}")
    return lines


def main():
    tool = sys.argv[1]
    models = sweep.find_models()
    if not models:
        print("PASS: nothing to do, no test data is installed")
        return 0
    jobs = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        lines = sum(pool.map(lambda i: run(tool, models[i::jobs]), range(jobs)), [])
    same = [line for line in lines if line.startswith("same 0 ")]
    refused = [line for line in lines if line.startswith("refused 0 ")]
    bad = [line for line in lines if line not in same and line not in refused] if len(same) + len(refused) != len(lines) else []
    for line in bad:
        print(f"FAIL {line}")
    print(f"{len(models)} models: {len(same)} unchanged, {len(refused)} refused, {len(bad)} failed")
    return 1 if bad or len(lines) != len(models) or not same else 0


if __name__ == "__main__":
    sys.exit(main())
