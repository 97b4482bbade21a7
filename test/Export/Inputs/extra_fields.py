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


def tensor_type(dims):
    return helper.make_tensor_type_proto(1, dims).tensor_type


def value(name, dims):
    return helper.make_tensor_value_info(name, 1, dims)


def defaults(graph):
    graph.input.extend([value("d1", [1]), value("d2", [1])])
    return [helper.make_tensor(name, 1, [1], [2.0]) for name in ("d2", "d0", "d1")]


def with_constants():
    node = helper.make_node("Add", ["p", "q"], ["r"])
    inputs = [value("p", [4]), value("q", [4]), value("k", [2, 4])]
    made = helper.make_graph([node], "b", inputs, [value("r", [4])], [helper.make_tensor("q", 1, [4], [1.0, 2, 3, 4])])
    made.sparse_initializer.append(sparse("k"))
    return made


def loop():
    flag = helper.make_tensor_value_info("k", TensorProto.BOOL, [])
    trip = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    initial = helper.make_tensor("v", 1, [1, 8], [0.0] * 8)
    body = helper.make_graph([], "b", [trip, flag, value("v", [None, 8])], [flag, value("v", [None, None])], [initial])
    return helper.make_node("Loop", ["", "c", "x"], ["zl"], body=body)


def ordered(output, names):
    made = helper.make_node("Ordered", [], [output], domain="my")
    made.attribute.extend(helper.make_attribute(name, 1) for name in names)
    return made


def external(**entries):
    made = TensorProto(data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "nowhere.bin"), *entries.items()):
        made.external_data.add(key=key, value=text)
    return made


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
    "sparse initializer that is an input": lambda m: (
        m.graph.sparse_initializer.append(sparse("zi")),
        m.graph.input.add(name="zi").type.tensor_type.CopyFrom(tensor_type([2, 4])),
    ),
    "initializers in another order than inputs": lambda m: m.graph.initializer.extend(defaults(m.graph)),
    "values that say less": lambda m: (
        m.graph.value_info.extend([value("o", None), value("s", [None, 8])]),
        attribute(m, 5).g.output[0].type.tensor_type.ClearField("shape"),
        attribute(m, 5, 1).g.output[0].ClearField("type"),
    ),
    "values in another order": lambda m: m.graph.value_info.insert(0, value("k", [2])),
    "values that no node computes": lambda m: m.graph.value_info.extend(
        [value("dead", [3, "z"]), value("x", ["b"]), value("n", ["b", 8]), onnx.ValueInfoProto(name="bare")]
    ),
    "values of a body that are not its own": lambda m: attribute(m, 5).g.value_info.extend([value("s", ["b", 8]), value("w", [8])]),
    "outputs that are inputs": lambda m: (
        m.graph.output.append(value("x", [None, 8])),
        attribute(m, 5, 1).g.node.pop(),
        attribute(m, 5, 1).g.output[0].CopyFrom(value("h", [None, 8])),
    ),
    "body's inputs that are constants": lambda m: add_node(m, "Foo", [], ["zg"], domain="my", g=with_constants()),
    "a value for an input that is fed": lambda m: m.graph.node.append(loop()),
    "attributes in orders of their own": lambda m: m.graph.node.extend(
        ordered(out, names) for out, names in (("o1", "cab"), ("o2", "ca"), ("o3", "acd"), ("o4", "xyz"))
    ),
    "spelled domains": lambda m: (m.opset_import.reverse(), setattr(m.graph.node[1], "domain", "ai.onnx"), m.graph.node[2].ClearField("doc_string")),
    "metadata in an order of its own": lambda m: [
        place.metadata_props.add(key=key, value="v") for place in (m, m.graph) for key in "cab"
    ],
    "empty texts": lambda m: (setattr(m, "doc_string", ""), setattr(m, "producer_name", ""), setattr(m.graph, "doc_string", "")),
    "external data of an attribute": lambda m: add_node(
        m, "Foo", [], ["zx"], domain="my", one=external(length="12"), some=[external(offset="08"), external(key="k")]
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
        differences = compare(model, onnx.load(output, load_external_data=False))
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
    assert not compare(everything, onnx.load(output, load_external_data=False))
    everything = onnx.load(output, load_external_data=False)
    done = subprocess.run([*optimize, source, "-o", output], check=True, stderr=subprocess.PIPE)
    assert b"fused 1 of 1" in done.stderr, done.stderr
    fused = onnx.load(output, load_external_data=False)
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
