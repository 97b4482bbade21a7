#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports every ONNX model that is installed on this machine.

Each model of Debian's libonnx-testdata and of the onnx package's backend tests
must either import, with types that onnx's own shape inference agrees with
where both know them, or be refused with one-line errors. A crash, a hang or
noise on standard output is a failure.

usage: sweep.py FUSION_TRANSLATE [--all] [--refused]
(every fifth model, or all with --all or TANDEM_TEST_FULL=1; --refused lists what was
refused)
"""

import collections
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

DEBIAN = pathlib.Path("/usr/share/libonnx-testdata")
ERROR_LINE = re.compile(r"^.*\.onnx:(\d+:1:)? (error|warning): .+$")


def find_models():
    roots = [DEBIAN]
    spec = importlib.util.find_spec("onnx")
    if spec is not None:
        package = pathlib.Path(spec.submodule_search_locations[0])
        roots.append(package / "backend" / "test" / "data")
    models = []
    for root in roots:
        found = sorted(root.rglob("*.onnx")) if root.is_dir() else []
        print(f"{root}: {len(found)} models" if found else f"{root}: skipped, not installed")
        models += found
    return models


def run(tool, model):
    """Returns (model, exit status, text of what is wrong or "", first error)."""
    command = [tool, "--import-onnx", str(model), "-o", os.devnull]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except subprocess.TimeoutExpired:
        return model, None, "no end after 60 s", ""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if " error: " in line]
    wrong = ""
    if done.returncode not in (0, 1):
        wrong = f"exit status {done.returncode}"
    elif done.returncode == 0 and errors:
        wrong = "an error, but exit status 0"
    elif done.returncode == 1 and not errors:
        wrong = "exit status 1 without an error"
    elif done.stdout:
        wrong = "text on standard output"
    elif any(not ERROR_LINE.match(line) for line in lines):
        wrong = "a line that is no diagnostic"
    return model, done.returncode, wrong, (lines or [""])[0]


def main():
    tool = sys.argv[1]
    models = find_models()
    if os.environ.get("TANDEM_TEST_FULL", "") in ("", "0") and "--all" not in sys.argv:
        models = models[::5]
    if not models:
        print("PASS: nothing to do, no test data is installed")
        return 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda model: run(tool, model), models))
    bad = [r for r in results if r[2]]
    refused = [r for r in results if r[1] == 1 and not r[2]]
    for model, _, wrong, line in bad:
        print(f"FAIL {model}: {wrong}: {line}")
    if "--refused" in sys.argv:
        for model, _, _, line in refused:
            print(f"refused: {line}")
    reasons = collections.Counter(re.sub(r"'[^']*'|\d+|^.*?error: ", "*", r[3]) for r in refused)
    for reason, count in reasons.most_common():
        print(f"  {count} refused: {reason}")
    print(f"{len(models)} models: {len(models) - len(refused) - len(bad)} imported, {len(refused)} refused, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
