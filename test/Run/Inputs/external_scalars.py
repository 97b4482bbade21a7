"""Compiles and runs models whose constants are scalars in external files.

usage: external_scalars.py FOLDER

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = pathlib.Path(sys.argv[1])
TYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int16,
         np.int32, np.int64)


def save(path, arrays):
    """An npz whose bf16 arrays are named as such."""
    types = [f"{n}=bf16" for n, a in arrays.items() if a.dtype == ml_dtypes.bfloat16]
    plain = {n: a.view(np.uint16) if f"{n}=bf16" in types else a for n, a in arrays.items()}
    np.savez(path, **plain, **({"__dtypes__": np.array(types)} if types else {}))


def main():
    for dtype in TYPES:
        name = np.dtype(dtype).name
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        x = np.arange(-6, 6).reshape(3, 4).astype(dtype)
        constants = {
            "scalar": np.array(3, dtype),
            "one": np.array([2], dtype),
            "yes": np.array(True),
            "no": np.array([False]),
        }
        nodes = [
            helper.make_node("Add", ["x", "scalar"], ["sum"]),
            helper.make_node("Mul", ["x", "one"], ["product"]),
            helper.make_node("Cast", ["yes"], ["1"], to=code),
            helper.make_node("Cast", ["no"], ["0"], to=code),
            helper.make_node("Add", ["sum", "1"], ["first"]),
            helper.make_node("Add", ["product", "0"], ["second"]),
        ]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "g", [value("x", code, ["n", 4])],
            [value(y, code, ["n", 4]) for y in ("first", "second")],
            [numpy_helper.from_array(a, n) for n, a in constants.items()])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        path = FOLDER / f"{name}.onnx"
        onnx.save_model(model, path, save_as_external_data=True,
                        location=f"{name}.data", size_threshold=0)
        save(FOLDER / "in.npz", {"x": x})
        save(FOLDER / "out.npz", {
            "first": (x + np.array(4, dtype)).astype(dtype),
            "second": (x * np.array(2, dtype)).astype(dtype),
        })
        done = subprocess.run(
            ["fusion-run", path, f"--input={FOLDER}/in.npz", f"--expect={FOLDER}/out.npz"],
            capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")


if __name__ == "__main__":
    main()
