#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Long chains and a tree of additions, of both kinds, against NumPy.

usage: check_chains.py FOLDER
"""

import ctypes
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
COUNT = 500
LEAVES = 64


def write_chain(name, op):
    """t = x + y; t = t + y or y + t; ... and a value that two read."""
    dtype = f"tensor<?x8x{name}>"
    lines = [f"func.func @{name}(%x: {dtype} {{onnx.name = \"x\"}}, "
             f"%y: {dtype} {{onnx.name = \"y\"}}) -> ({dtype}, {dtype}) {{"]
    last = "%x"
    for i in range(COUNT):
        operands = (last, "%y") if i % 3 else ("%y", last)
        lines.append(f"  %t{i} = {op} {operands[0]}, {operands[1]} : {dtype}")
        last = f"%t{i}"
        if i == COUNT // 2:
            middle = last
    return "\n".join([*lines, f"  return {last}, {middle} : {dtype}, {dtype}", "}\n"])


def write_tree():
    dtype = "tensor<?x8xf32>"
    arguments = ", ".join(f"%x{i}: {dtype} {{onnx.name = \"x{i}\"}}" for i in range(LEAVES))
    lines = [f"func.func @tree({arguments}) -> {dtype} {{"]
    values = [f"%x{i}" for i in range(LEAVES)]
    number = 0
    while len(values) > 1:
        sums = []
        for a, b in zip(values[::2], values[1::2]):
            lines.append(f"  %t{number} = tandem.add {a}, {b} : {dtype}")
            sums.append(f"%t{number}")
            number += 1
        values = sums
    return "\n".join([*lines, f"  return {values[0]} : {dtype}", "}\n"])


def run(entry, inputs, outputs):
    def save(path, arrays):
        words = {k: v.view(np.uint16) if v.dtype == ml_dtypes.bfloat16 else v
                 for k, v in arrays.items()}
        names = [f"{k}=bf16" for k, v in arrays.items() if v.dtype == ml_dtypes.bfloat16]
        np.savez(path, **words, **({"__dtypes__": names} if names else {}))

    save(FOLDER / "in.npz", inputs)
    save(FOLDER / "out.npz", outputs)
    subprocess.run(["fusion-run", FOLDER / "chains.so", f"--entry={entry}",
                    f"--input={FOLDER}/in.npz", f"--expect={FOLDER}/out.npz",
                    "--tolerance=0"], check=True, stdout=subprocess.DEVNULL)


def main():
    source = FOLDER / "chains.mlir"
    source.write_text(write_chain("f32", "tandem.add") + write_chain("bf16", "arith.addf")
                      + write_tree())
    subprocess.run(["fusion-translate", "--compile", source, "-o", FOLDER / "chains.so"],
                   check=True, timeout=100)
    # What is a loop on the host is no other device's.
    module = ctypes.CDLL(str(FOLDER / "chains.so"))
    names = (ctypes.c_char * 1).in_dll(module, "tandem_module_device_functions")
    assert names.raw == b"\0", "an addition runs on the host"
    random = np.random.default_rng(7)
    for name, dtype in (("f32", np.float32), ("bf16", ml_dtypes.bfloat16)):
        x, y = (random.standard_normal((3, 8)).astype(np.float32).astype(dtype)
                for _ in range(2))
        t, results = x, {}
        for i in range(COUNT):
            t = (t.astype(np.float32) + y.astype(np.float32)).astype(dtype)
            if i == COUNT // 2:
                results["result1"] = t
        run(name, {"x": x, "y": y}, {"result0": t, **results})
    leaves = [random.standard_normal((5, 8)).astype(np.float32) for _ in range(LEAVES)]
    values = leaves
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2])]
    run("tree", {f"x{i}": v for i, v in enumerate(leaves)}, {"result0": values[0]})


if __name__ == "__main__":
    main()
