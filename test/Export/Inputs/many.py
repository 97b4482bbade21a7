# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of much of one thing: a node's attributes, calls' unread inputs.

usage: many.py FOLDER
"""

import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

out = Path(sys.argv[1])


def save(name, nodes, inputs, outputs, domain, functions=()):
    graph = helper.make_graph(
        nodes,
        "g",
        *(
            [
                helper.make_tensor_value_info(value, TensorProto.FLOAT, [3])
                for value in values
            ]
            for values in (inputs, outputs)
        ),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=8, functions=list(functions)
    )
    onnx.save(model, out / f"{name}.onnx")


node = helper.make_node("Op", ["x"], ["y"], domain="my.ops")
for i in range(16000):
    node.attribute.append(helper.make_attribute(f"a{16000 - i:06d}", i))
save("attributes", [node], ["x"], ["y"], "my.ops")

function = helper.make_function(
    "local",
    "F",
    ["a", "b"],
    ["o"],
    [helper.make_node("Neg", ["a"], ["o"])],
    [helper.make_opsetid("", 17)],
)
numbers = range(24000)
calls = [
    helper.make_node("F", ["x0", f"x{i}"], [f"y{i}"], domain="local") for i in numbers
]
save("calls", calls, [f"x{i}" for i in numbers], ["y0"], "local", [function])
