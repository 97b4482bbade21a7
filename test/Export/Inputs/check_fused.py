# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a fused model beside its source and counts our ops in it.

What passed onnx's full check and strict shape inference before must pass now,
names must be unique, and weights must be there as often as before.

usage: check_fused.py SOURCE.onnx FUSED.onnx
"""

import collections
import sys

import onnx
import onnx.checker
import onnx.shape_inference


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def passes(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        return True
    except Exception as error:
        return str(error)


def check(*paths):
    source, fused = (onnx.load(path, load_external_data=False) for path in paths)
    if passes(source) is True:
        assert passes(fused) is True, passes(fused)
    nodes = [node for graph in graphs(fused.graph) for node in graph.node]
    names = collections.Counter(node.name for node in nodes if node.name)
    assert max(names.values()) == 1, names.most_common(3)
    outputs = collections.Counter(o for node in nodes for o in node.output if o)
    assert max(outputs.values()) == 1, outputs.most_common(3)
    assert all(not graph.initializer for graph in list(graphs(fused.graph))[1:])
    assert {t.name for t in fused.graph.initializer} <= {t.name for t in source.graph.initializer}
    assert "tandem.signature" in {p.key for p in fused.metadata_props}
    ours = collections.Counter(n.op_type for n in nodes if n.domain == "ai.tandem" or n.op_type == "If")
    limits = {a.i for n in nodes for a in n.attribute if a.name == "max_tokens" and n.domain == "ai.tandem"}
    print(
        "functions:", " ".join(sorted(f.name for f in fused.functions)) + ";",
        "nodes:", ", ".join(f"{name} {count}" for name, count in sorted(ours.items())) + ";",
        "limits:", " ".join(map(str, sorted(limits))),
    )  # fmt: skip


if __name__ == "__main__":
    check(*sys.argv[1:3])
