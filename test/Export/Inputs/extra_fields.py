# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Documentation, metadata, denotations, sparse tensors: there and back, each apart,
and beside a chain that fuses.

usage: extra_fields.py FOLDER FUSION_TRANSLATE FUSION_OPT
"""

import pathlib
import subprocess
import sys

import onnx
from onnx import TensorProto, helper
from onnx.parser import parse_model

from compare_models import compare

TEXT = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1, "my" : 1]>
g (bool c, float[b,8] x, float[b,8] h) => (float[b,8] n, float[b,8] s, seq(float[b]) q)
<float[8] gain = {1, 2, 3, 4, 5, 6, 7, 8}, float[b,8] r> {
  r = com.microsoft.AllReduce (x)
  s = Add (r, h)
  n = com.microsoft.SimplifiedLayerNormalization (s, gain)
  k = Constant <value = float[2] {1, 2}> ()
  o = my.Foo <t: tensor = float[1] {1}, p: type_proto = float[b]> (x)
  y = If (c) <
    then_branch = t () => (float[b,8] a) <float[8] w = {0, 0, 0, 0, 0, 0, 0, 1}> { a = Add (x, w) },
    else_branch = e () => (float[b,8] a) { a = Neg (x) }
  >
  q = SequenceConstruct (x, y)
}
"""


def describe(thing):
    thing.doc_string = "what it is"
    thing.metadata_props.add(key="b", value="1")
    thing.metadata_props.add(key="a", value="2")


def sparse(name="", linear=True):
    values = helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("", TensorProto.INT64, [2], [1, 6]) if linear else helper.make_tensor(
        "at", TensorProto.INT64, [2, 2], [0, 1, 1, 2])  # fmt: skip
    return helper.make_sparse_tensor(values, places, [2, 4])


def attribute(model, node, index=0):
    return model.graph.node[node].attribute[index]


def denote(model):
    model.graph.input[1].type.denotation = "TENSOR"
    model.graph.input[1].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.value_info[0].type.tensor_type.shape.dim[1].denotation = "é"
    model.graph.output[2].type.sequence_type.elem_type.tensor_type.shape.dim[0].denotation = "x"
    attribute(model, 4, 1).tp.tensor_type.shape.dim[0].denotation = "y"


def add_node(model, *arguments, **attributes):
    model.graph.node.append(helper.make_node(*arguments, **attributes))


def annotate(graph):
    annotation = graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")


# What a model may have, each put into a copy of the same one.
PARTS = {
    "input": lambda m: describe(m.graph.input[2]),
    "output": lambda m: describe(m.graph.output[0]),
    "value": lambda m: describe(m.graph.value_info[0]),
    "value without a type": lambda m: describe(m.graph.value_info.add(name="y")),
    "body's input and output": lambda m: describe(attribute(m, 5).g.output[0]),
    "body": lambda m: attribute(m, 5).g.metadata_props.add(key="k", value="v"),
    "body's tensor": lambda m: describe(attribute(m, 5).g.initializer[0]),
    "body's quantization": lambda m: annotate(attribute(m, 5, 1).g),
    "quantization": lambda m: annotate(m.graph),
    "initializer": lambda m: describe(m.graph.initializer[0]),
    "tensor of a Constant": lambda m: describe(attribute(m, 3).t),
    "name of a Constant's tensor": lambda m: setattr(attribute(m, 3).t, "name", "k"),
    "tensor of an attribute": lambda m: describe(attribute(m, 4).t),
    "attribute": lambda m: setattr(attribute(m, 4), "doc_string", "why"),
    "attribute that is a body": lambda m: setattr(attribute(m, 5), "doc_string", "why"),
    "denotations": denote,
    "sparse initializer": lambda m: m.graph.sparse_initializer.append(sparse("z")),
    "sparse initializer that is described": lambda m: (
        m.graph.sparse_initializer.append(sparse("zd")),
        describe(m.graph.value_info.add(name="zd")),
    ),
    "metadata without a key": lambda m: (
        m.metadata_props.add(key="", value="x"),
        m.graph.metadata_props.add(key="", value="y"),
    ),
    "sparse initializer of a body": lambda m: attribute(m, 5, 1).g.sparse_initializer.append(sparse("zb", False)),
    "sparse Constant": lambda m: add_node(m, "Constant", [], ["zc"], sparse_value=sparse("v", False)),
    "sparse attributes": lambda m: add_node(
        m, "Foo", [], ["zf"], domain="my", one=sparse("1"), some=[sparse(), sparse("", False)]
    ),
}  # fmt: skip


def main():
    folder, translate, *optimize = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    plain = parse_model(TEXT)
    source, text, output = (folder / name for name in ("m.onnx", "m.mlir", "out.onnx"))
    everything = parse_model(TEXT)
    for name, change in PARTS.items():
        model = parse_model(TEXT)
        change(model)
        change(everything)
        assert compare(model, plain), f"the comparison does not see: {name}"
        onnx.save(model, source)
        subprocess.run([translate, "--import-onnx", source, "-o", text], check=True)
        subprocess.run([translate, "--export-onnx", text, "-o", output], check=True)
        differences = compare(model, onnx.load(output))
        assert not differences, (name, differences)
    print(f"{len(PARTS)} parts come back")

    # Models without them keep nothing for them.
    onnx.save(plain, source)
    subprocess.run([translate, "--import-onnx", source, "-o", text], check=True)
    kept = text.read_text()
    # (The name of a dim of a sequence's elements and of an attribute's type is such a part.)
    assert "tandem.kinds" not in kept and "extra =" not in kept.replace("graph_extra =", "").replace("tandem.extra =", "").replace("node_extra =", "")

    # What the chain does not touch stays as it was when it fuses.
    onnx.save(everything, source)
    subprocess.run([translate, "--export-onnx", source, "-o", output], check=True)
    assert not compare(everything, onnx.load(output))
    everything = onnx.load(output)
    done = subprocess.run([*optimize, source, "-o", output], check=True, stderr=subprocess.PIPE)
    assert b"fused 1 of 1" in done.stderr, done.stderr
    fused = onnx.load(output)
    for field in ("input", "output", "initializer", "sparse_initializer", "quantization_annotation"):
        assert list(getattr(fused.graph, field)) == list(getattr(everything.graph, field)), field
    nodes = {node.output[0]: node for node in fused.graph.node}
    for node in everything.graph.node[3:]:
        assert nodes[node.output[0]] == node, node
    # The sum is within the branches now, and so is not described any more.
    assert "r" not in {value.name for value in fused.graph.value_info}
    print("PASS")


if __name__ == "__main__":
    main()
