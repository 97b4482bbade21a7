#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports every ONNX model on this machine that imports, and compares.

The models are Debian's libonnx-testdata and the onnx package's backend tests.
A model must come back equal (compare_models.py says what that means), and pass
onnx's full check if it did before.

usage: roundtrip_sweep.py FUSION_TRANSLATE [--all] [--verbose]
(every fifth model, or all with --all or TANDEM_TEST_FULL=1)
"""

import collections
import concurrent.futures
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from compare_models import compare  # noqa: E402

import onnx  # noqa: E402
import onnx.checker  # noqa: E402

DEBIAN = pathlib.Path("/usr/share/libonnx-testdata")


def find_models():
    package = pathlib.Path(importlib.util.find_spec("onnx").submodule_search_locations[0])
    models = []
    for root in (DEBIAN, package / "backend" / "test" / "data"):
        models += sorted(root.rglob("*.onnx")) if root.is_dir() else []
    return models


def passes_check(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        return True, ""
    except Exception as error:  # the checker throws errors of several kinds
        return False, str(error).splitlines()[0]


def run(tool, path, folder, number):
    """Returns (kind, text); of equal models the text tells if the file is the same."""
    output = pathlib.Path(folder, f"{number}.onnx")
    command = [tool, "--export-onnx", str(path), "-o", output]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return "WRONG", "no end after 120 s"
    if done.returncode not in (0, 1):
        return "WRONG", f"exit status {done.returncode}"
    if done.returncode == 1:
        errors = [line for line in done.stderr.splitlines() if " error: " in line]
        if len(errors) == 0:
            return "WRONG", "exit status 1 without an error"
        if "needs opset" in errors[0]:
            return "old opset", errors[0]
        return "refused", errors[0]
    before = onnx.load(path, load_external_data=False)
    after = onnx.load(output, load_external_data=False)
    is_same = path.read_bytes() == output.read_bytes()
    output.unlink()
    was_good, _ = passes_check(before)
    is_good, why = passes_check(after)
    if was_good and not is_good:
        return "WRONG", f"passed the full check before, but now: {why}"
    if differences := compare(before, after):
        return "WRONG", differences[0]
    return "equal", "same" if is_same else ""


def main():
    tool = sys.argv[1]
    models = find_models()
    if os.environ.get("TANDEM_TEST_FULL", "") in ("", "0") and "--all" not in sys.argv:
        models = models[::5]
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(
                pool.map(lambda pair: (pair[1], *run(tool, pair[1], folder, pair[0])), enumerate(models))
            )
    counts = collections.Counter(kind for _, kind, _ in results)
    for path, kind, text in results:
        if kind == "WRONG" or (kind == "refused" and "--verbose" in sys.argv):
            print(kind, path, text)
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items())))
    print("of the equal, the same file:", sum(text == "same" for _, _, text in results))
    if counts["WRONG"] or (models and not counts["equal"]):
        print("FAIL")
        return 1
    print("PASS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
