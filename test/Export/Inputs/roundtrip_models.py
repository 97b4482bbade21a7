# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports each model of a folder without passes and compares.

usage: roundtrip_models.py FUSION_TRANSLATE FOLDER
"""

import pathlib
import subprocess
import sys

import onnx
import onnx.checker

from compare_models import compare


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    models = sorted(folder.glob("*.onnx"))
    equal = same = 0
    for path in models:
        output = folder / ("out_" + path.name)
        subprocess.run([tool, "--export-onnx", path, "-o", output], check=True, stderr=subprocess.DEVNULL)
        before, after = (onnx.load(p, load_external_data=False) for p in (path, output))
        differences = compare(before, after)
        is_same = path.read_bytes() == output.read_bytes()
        # Air's graph never passed: its exporter left an Identity of two types.
        if path.name != "glm45_air_tp2_graph.onnx" and "--no-check" not in sys.argv:
            onnx.checker.check_model(str(output), full_check=True)
        output.unlink()
        for text in differences[:5]:
            print(path.name, text)
        equal += not differences
        same += is_same
        print(f"{path.name}: {len(after.graph.node)} nodes, {'DIFFERENT' if differences else 'the same file' if is_same else 'equal'}")
    print(f"{equal} of {len(models)} models equal, {same} the same file")
    return equal != len(models)


if __name__ == "__main__":
    sys.exit(main())
