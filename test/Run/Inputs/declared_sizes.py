# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DECLARED_SIZES FOLDER: for some values of a chain, a model that declares five rows
for that value alone (FOLDER/VALUE.onnx), and inputs with 3 to 6 rows with the results."""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(sys.argv[1])
H, RANKS, EPS = 32, 2, 1e-5
rng = np.random.default_rng(1)
gamma, bias = rng.standard_normal((2, H)).astype(np.float32)


def info(name: str, rows: str | int = "n") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, H])


for declared in ("biased", "hidden", "y"):
    nodes = [
        helper.make_node("AllReduce", ["x"], ["sum"], "reduce", domain="com.microsoft"),
        helper.make_node("Add", ["sum", "bias"], ["biased"], "add_bias"),
        helper.make_node("Add", ["biased", "residual"], ["hidden"], "add"),
        helper.make_node(
            "RMSNormalization", ["hidden", "gamma"], ["y"], "norm", epsilon=EPS
        ),
    ]
    rows = {declared: 5}
    graph = helper.make_graph(
        nodes,
        "declared",
        [info("x"), info("residual")],
        [info(name, rows.get(name, "n")) for name in ("y", "hidden")],
        [numpy_helper.from_array(gamma, "gamma"), numpy_helper.from_array(bias, "bias")],
        value_info=[info(name, rows[name]) for name in ("biased",) if name in rows],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, folder / f"{declared}.onnx")

for n in range(3, 7):
    x, residual = rng.standard_normal((2, n, H)).astype(np.float32)
    hidden = np.float64(x) * RANKS + bias + residual
    y = hidden / np.sqrt((hidden**2).mean(-1, keepdims=True) + EPS) * gamma
    np.savez(folder / f"in{n}.npz", x=x, residual=residual)
    np.savez(folder / f"out{n}.npz", y=np.float32(y), hidden=np.float32(hidden))
