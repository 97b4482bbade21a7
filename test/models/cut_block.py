#!/usr/bin/env python3
"""Cuts one layer's MLP block out of a tensor-parallel ONNX graph.

usage: cut_block.py MODEL.onnx [--layer=N] -o BLOCK.onnx
       cut_block.py MODEL.onnx --inputs=A,B --outputs=C,D -o BLOCK.onnx

The block begins at the input of the all-reduce behind the layer's attention and
ends with the norm behind the all-reduce of its MLP: all_reduce, add, norm, MLP,
all_reduce, add, norm (with the norms before the adds where the model has such).
Its results are the norm's and the new residual. With --inputs and --outputs it
is whatever lies between these values.

Needs the onnx package. External data stays where it is: write the block into
the model's folder.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import sys

import onnx


def producers(graph):
    """The node that makes each value."""
    return {name: node for node in graph.node for name in node.output if name}


def users(graph, name):
    """The nodes that use a value, in order."""
    return [node for node in graph.node if name in node.input]


def reaches(graph, name, target, through=16):
    """Whether `target` is made from `name` by at most `through` nodes."""
    frontier = {name}
    for _ in range(through):
        made = set()
        for node in graph.node:
            if frontier & set(node.input):
                made |= set(node.output)
        if target in made:
            return True
        frontier = made
    return False


def end_of_norm(graph, value):
    """The result of the norm that `value` goes into: the RMSNormalization, or
    the Mul by a weight that ends the decomposed form."""
    weights = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        # A weight that several layers share goes through an Identity.
        if node.op_type == "Constant" or (
            node.op_type == "Identity" and node.input[0] in weights
        ):
            weights.add(node.output[0])
    for node in users(graph, value):
        if node.op_type in ("RMSNormalization", "SimplifiedLayerNormalization"):
            return node.output[0]
    for node in graph.node:
        if (
            node.op_type == "Mul"
            and set(node.input) & weights
            and any(
                user.op_type in ("Pow", "Cast") for user in users(graph, value)
            )
            and reaches(graph, value, node.output[0], through=9)
        ):
            return node.output[0]
    sys.exit(f"cut_block.py: error: no norm follows '{value}'")


def find_block(graph, layer):
    """Inputs and outputs of the layer's block."""
    reduces = [node for node in graph.node if node.op_type == "AllReduce"]
    if not 0 <= 2 * layer < len(reduces) - 1:
        sys.exit(
            f"cut_block.py: error: there is no layer {layer}: the graph has "
            f"{len(reduces)} all-reduces, two a layer"
        )
    first, second = reduces[2 * layer], reduces[2 * layer + 1]

    def add_behind(node):
        value = node.output[0]
        while True:
            for user in users(graph, value):
                if user.op_type == "Add":
                    return user, value
            value = end_of_norm(graph, value)  # the sandwich's

    add, branch = add_behind(first)
    residual = next(name for name in add.input if name != branch)
    last, _ = add_behind(second)
    new_residual = last.output[0]
    return [first.input[0], residual], [
        end_of_norm(graph, new_residual),
        new_residual,
    ]


def cut(model, inputs, outputs):
    """The part of the model between these values, as a model."""
    graph = model.graph
    made_by = producers(graph)
    known = {info.name: info for info in graph.value_info}
    known.update({info.name: info for info in graph.input})
    known.update({info.name: info for info in graph.output})
    needed, todo = set(), list(outputs)
    free = set(inputs)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    kept_weights = set()
    while todo:
        name = todo.pop()
        if name in free or not name:
            continue
        if name in weights:
            kept_weights.add(name)
        elif name not in made_by:
            sys.exit(
                f"cut_block.py: error: the block also needs '{name}', an input "
                "of the model; name it in --inputs"
            )
        elif id(made_by[name]) not in needed:
            needed.add(id(made_by[name]))
            todo.extend(made_by[name].input)
    nodes = [node for node in graph.node if id(node) in needed]
    # Of a node with several outputs some may be there for others only.
    infos = []
    for name in [*inputs, *outputs]:
        if name not in known:
            sys.exit(
                f"cut_block.py: error: the type of '{name}' is not in the "
                "file; run onnx.shape_inference first"
            )
        infos.append(known[name])
    block = onnx.helper.make_graph(
        nodes,
        "block",
        infos[: len(inputs)],
        infos[len(inputs):],
        initializer=[weights[name] for name in sorted(kept_weights)],
        value_info=[
            known[name]
            for node in nodes
            for name in node.output
            if name in known and name not in outputs
        ],
    )
    result = onnx.helper.make_model(block, opset_imports=model.opset_import)
    result.ir_version = model.ir_version
    return result


def main():
    """Reads the command line and writes the block."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--inputs")
    parser.add_argument("--outputs")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    model = onnx.load(arguments.model, load_external_data=False)
    if bool(arguments.inputs) != bool(arguments.outputs):
        parser.error("--inputs and --outputs belong together")
    if arguments.inputs:
        inputs = arguments.inputs.split(",")
        outputs = arguments.outputs.split(",")
    else:
        inputs, outputs = find_block(model.graph, arguments.layer)
    block = cut(model, inputs, outputs)
    onnx.save(block, arguments.output)
    print(
        f"{arguments.output}: {len(block.graph.node)} nodes, "
        f"{' '.join(inputs)} -> {' '.join(outputs)}"
    )


if __name__ == "__main__":
    main()
