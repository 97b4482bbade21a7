# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signatures of files that are read in again.

usage: signatures.py FOLDER FUSION_OPT
"""

import pathlib
import re
import subprocess
import sys

import onnx
from onnx.parser import parse_model

TEXT = """<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>
g (float[b,8] a, float[b,8] x) => (float[b,8] n, float[b,8] q)
<float[8] g = {1, 1, 1, 1, 1, 1, 1, 1}>
{
  t = com.microsoft.AllReduce (a)
  s = Add (t, x)
  n = RMSNormalization (s, g)
  q = com.microsoft.AllReduce (x)
}
"""


def main():
    folder, optimize = pathlib.Path(sys.argv[1]), sys.argv[2:]

    def run(source, output, *options):
        subprocess.run([*optimize, source, *options, "-o", output], check=True, stderr=subprocess.PIPE)

    def signature(path, *options):
        output = folder / "module.mlir"
        run(path, output, *options)
        return re.search(r"tandem\.signature = (\[.*?\])", output.read_text()).group(1)

    source, fused = folder / "source.onnx", folder / "fused.onnx"
    onnx.save(parse_model(TEXT), source)
    for guard, option in (
        ("op", ""),
        ("op", "max-tokens=64"),
        ("if", ""),
        ("if", "guard=none"),
        ("if", "guard=function"),
    ):
        options = [f"--tandem-fuse-pipeline={option}"] if option else []
        run(source, fused, f"--onnx-guard={guard}", *options)
        again = signature(fused)
        assert again == signature(source, *options), (guard, option, again)
        print(f"{guard}, {option}: {again}" if option else f"{guard}: {again}")

    # What the file says of itself is believed of guards alone.
    run(source, fused)
    model = onnx.load(fused)
    (said,) = [entry for entry in model.metadata_props if entry.key == "tandem.signature"]
    said.value = said.value.replace("x8x", "x16x")
    onnx.save(model, fused)
    print("of another file:", signature(fused))
    print("PASS")


if __name__ == "__main__":
    main()
