"""Writes m.onnx: a block whose norm has all of its constants in m.data.

usage: external_constants.py FOLDER

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    constants = {
        "gamma": np.linspace(0, 2, 32, dtype=np.float32),
        "two": np.array(2, np.int64),
        "axes": np.array([-1], np.int64),
        "eps": np.array([1e-5], np.float32),
        "one": np.array(1, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("AllReduce", ["x"], ["sum"], domain="com.microsoft"),
        node("Add", ["sum", "res"], ["h"]),
        node("Pow", ["h", "two"], ["square"]),
        node("ReduceMean", ["square", "axes"], ["mean"], keepdims=1),
        node("Add", ["mean", "eps"], ["shifted"]),
        node("Sqrt", ["shifted"], ["root"]),
        node("Div", ["one", "root"], ["inverse"]),
        node("Mul", ["h", "inverse"], ["normed"]),
        node("Mul", ["normed", "gamma"], ["y"]),
        node("Constant", [], ["bias"], name="bias",
             value=numpy_helper.from_array(np.arange(8, dtype=np.float16), "bias_value")),
    ]
    value = helper.make_tensor_value_info
    rows = ["n", 32]
    graph = helper.make_graph(
        nodes, "g", [value(n, TensorProto.FLOAT, rows) for n in ("x", "res")],
        [value(n, TensorProto.FLOAT, rows) for n in ("y", "h")]
        + [value("bias", TensorProto.FLOAT16, [8])],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
        # All shapes: none needs the values of the axes.
        value_info=[value(n, TensorProto.FLOAT, ["n", size]) for n, size in (
            ("sum", 32), ("square", 32), ("mean", 1), ("shifted", 1), ("root", 1),
            ("inverse", 1), ("normed", 32))])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save_model(model, f"{sys.argv[1]}/m.onnx", save_as_external_data=True,
                    location="m.data", size_threshold=0, convert_attribute=True)


if __name__ == "__main__":
    main()
