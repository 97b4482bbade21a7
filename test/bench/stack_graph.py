#!/usr/bin/env python3
"""Writes an ONNX graph that holds another one several times, in a row.

usage: stack_graph.py MODEL COPIES OUTPUT

Every copy has its own names. Copy k+1 does not embed tokens of its own: the
value behind its embedding is the hidden state in which copy k ends, so that
the result is one model of COPIES times the layers. The weights stay
references.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import onnx


def hidden_state_ends(graph):
    """The names of the hidden state at the graph's begin and end: what the
    first all-reduce's Add adds to, and what the last one's Add gives."""
    reduced = [n.output[0] for n in graph.node if n.op_type == "AllReduce"]
    adds = {}
    for node in graph.node:
        if node.op_type == "Add":
            for name in node.input:
                adds.setdefault(name, node)
    first, last = adds[reduced[0]], adds[reduced[-1]]
    begin = [name for name in first.input if name != reduced[0]]
    return begin[0], last.output[0]


def stack(model, copies):
    """The graph of `model`, `copies` times over."""
    stacked = onnx.ModelProto()
    stacked.CopyFrom(model)
    source = model.graph
    graph = stacked.graph
    for field in ("node", "initializer", "value_info", "output"):
        graph.ClearField(field)
    begin, end = hidden_state_ends(source)
    inputs = {value.name for value in source.input}
    previous_end = None
    for copy in range(copies):

        def rename(name):
            if not name or name in inputs:
                return name
            if name == begin and previous_end is not None:
                return previous_end
            return f"{name}.{copy}"

        for node in source.node:
            if previous_end is not None and begin in node.output:
                continue
            new = graph.node.add()
            new.CopyFrom(node)
            new.name = f"{node.name}.{copy}"
            new.input[:] = [rename(name) for name in node.input]
            new.output[:] = [rename(name) for name in node.output]
        for field in ("initializer", "value_info", "output"):
            for value in getattr(source, field):
                if value.name == begin and previous_end is not None:
                    continue
                new = getattr(graph, field).add()
                new.CopyFrom(value)
                new.name = rename(value.name)
        previous_end = f"{end}.{copy}"
    return stacked


def main():
    """Reads, stacks, writes."""
    path, copies, output = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    model = onnx.load(path, load_external_data=False)
    with open(output, "wb") as file:
        file.write(stack(model, copies).SerializeToString())


if __name__ == "__main__":
    main()
