# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DECLARED_SIZES FOLDER: for some values of a chain, a model that declares five rows
for that value alone (FOLDER/VALUE.onnx), and inputs with 3 to 6 rows with the results;
and models in which such a value lies elsewhere (see below)."""

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


def save(name: str, nodes: list, inputs: list, outputs: list, values: list = []) -> None:
    weights = [("gamma", gamma), ("bias", bias), ("axis", np.array([0]))]
    graph = helper.make_graph(
        nodes,
        name,
        inputs,
        outputs,
        [numpy_helper.from_array(value, name) for name, value in weights],
        value_info=values,
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / f"{name}.onnx"
    )


def reduce(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node("AllReduce", [source], [target], target, domain="com.microsoft")


def norm(source: str) -> onnx.NodeProto:
    return helper.make_node("RMSNormalization", [source, "gamma"], ["y"], "norm", epsilon=EPS)


def normed(hidden: np.ndarray) -> np.ndarray:
    return hidden / np.sqrt((hidden**2).mean(-1, keepdims=True) + EPS) * gamma


# A value that is an output, too, and is reduced under a type that says more.
save(
    "shared",
    [
        helper.make_node("Add", ["x", "residual"], ["s"], "add"),
        helper.make_node("Identity", ["s"], ["q"], "identity"),
        reduce("q", "y"),
    ],
    [info("x"), info("residual")],
    [info("y", 5), info("s")],
    [info("q", 5)],
)
# One row, to be broadcast by a residual of five: only the guard's other side fits.
save(
    "broadcast",
    [
        reduce("x", "sum"),
        helper.make_node("Add", ["sum", "bias"], ["biased"], "add_bias"),
        helper.make_node("Add", ["biased", "residual"], ["hidden"], "add"),
        norm("hidden"),
    ],
    [info("x"), info("residual", 5)],
    [info("y", 5), info("biased")],
)
# Behind reshapes.
save(
    "squeezed",
    [
        helper.make_node("Add", ["x", "residual"], ["s"], "add"),
        reduce("s", "sum"),
        helper.make_node("Unsqueeze", ["sum", "axis"], ["three"], "unsqueeze"),
        helper.make_node("Squeeze", ["three", "axis"], ["two"], "squeeze"),
        helper.make_node("Add", ["two", "residual"], ["hidden"], "add_squeezed"),
        norm("hidden"),
    ],
    [info("x"), info("residual")],
    [info("y")],
    [info("two", 5)],
)
x, residual = rng.standard_normal((2, 5, H)).astype(np.float32)
s = np.float64(x) + residual
for rows in (1, 5):
    np.savez(folder / f"x{rows}.npz", x=x[:rows], residual=residual)
    biased = np.float64(x[:rows]) * RANKS + bias
    np.savez(
        folder / f"broadcast{rows}.npz",
        y=np.float32(normed(biased + residual)),
        biased=np.float32(biased),
    )
np.savez(folder / "shared5.npz", y=np.float32(s * RANKS), s=np.float32(s))
np.savez(folder / "squeezed5.npz", y=np.float32(normed(s * RANKS + residual)))
