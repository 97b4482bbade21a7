# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad models, and exactly what is said about each.

usage: errors.py FUSION_TRANSLATE FOLDER

Every case must end with exit status 1 and these lines on standard error, each
after "PATH:", and nothing on standard output; within 300 seconds (of a loaded machine) and 2 GiB.
"""

import os
import pathlib
import resource
import subprocess
import sys

import onnx
from onnx import TensorProto, helper, parser

HEADER = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]>\n'
CASES = []


def case(name, *errors):
    """The function makes the model (or its bytes) in a folder of its own. After `True`, the error only has to begin so."""

    def add(make):
        CASES.append((name, make, errors))
        return make

    return add


def text(name, body, *errors, header=HEADER):
    case(name, *errors)(lambda folder: parser.parse_model(header + body))


def tensor_case(name, error, change):
    """A model whose initializer w, float[2], `change` spoils."""

    def make(folder):
        model = parser.parse_model(HEADER + "g (float[2] x) => (y) <float[2] w = {1, 2}> { y = Add (x, w) }")
        change(model.graph.initializer[0])
        return model

    case(name, f" error: initializer 'w' {error}")(make)


def external_case(name, error, location, prepare=None, **fields):
    """A model whose w is external, and needed as the shape of a Reshape."""

    def make(folder):
        model = parser.parse_model(HEADER + "g (float[n,4] x) => (y) <int64[2] w = {2, 2}> { y = Reshape (x, w) }")
        tensor = model.graph.initializer[0]
        del tensor.int64_data[:]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **fields}.items():
            if value is not None:
                tensor.external_data.add(key=key, value=value)
        if prepare:
            prepare(folder)
        return model

    case(name, error)(make)


# --- Files ---------------------------------------------------------------------

case("empty", " error: the file is empty")(lambda folder: b"")
case("lfs", " error: this is a Git LFS pointer, not the model: fetch the file with 'git lfs pull'")(
    lambda folder: b"version https://git-lfs.github.com/spec/v1\n"
)
case(
    "text",
    " error: the file is damaged or not an ONNX model: unknown wire type 4 at byte 0 of 18",
)(lambda folder: b"this is not a mode")
case("other_message", " error: this is not an ONNX model: it has no IR version and no graph")(
    lambda folder: b"\x12\x02hi"
)


@case(
    "truncated",
    " error: the file is truncated or damaged: a field of 8 bytes has only 3 left at byte 2 of 7",
)
def truncated(folder):
    return field(1, 10) + b"\x3a\x08\x0a\x06\x0a"


@case(
    "truncated_node",
    " error: the file is truncated or damaged: a field of 4 bytes has only 2 left at byte 19 of 23, graph 0, node 1",
)
def truncated_node(folder):
    good = field(1, b"x") + field(4, b"Neg")
    bad = field(1, b"x") + b"\x22\x04Ne"
    return field(1, 10) + field(7, field(1, good) + field(1, bad))


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """One field of protobuf's wire format: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


@case("nested", " error: the file is damaged or not an ONNX model: protobuf cannot parse it")
def nested(folder):
    # Types within types within types: deeper than protobuf goes.
    model = parser.parse_model(HEADER + "g (float[2] x) => (y) { y = Neg (x) }")
    inner = model.graph.input[0].type
    for _ in range(80):
        outer = onnx.TypeProto()
        outer.sequence_type.elem_type.CopyFrom(inner)
        inner = outer
    model.graph.input[0].type.CopyFrom(inner)
    return model.SerializeToString()


def damaged_node(nodes):
    """A model of these serialized nodes; the type in the damaged one cannot be parsed."""
    damaged = field(1, b"x") + field(2, b"d") + field(4, b"Neg") + field(5, field(1, b"a") + field(14, b"\xff"))
    neg = field(4, b"Neg")
    made = {"d": damaged, "x": field(1, b"x") + field(2, b"y") + neg, "u": field(1, b"later") + field(2, b"z") + neg}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]).SerializeToString()
    # Its output may be computed behind the node that ends the import.
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]).SerializeToString()
    return field(1, 10) + field(8, field(1, b"") + field(2, 20)) + field(
        7, b"".join(field(1, made[node]) for node in nodes) + field(11, x) + field(12, y))


@case("damaged_node", " error: the file is damaged or not an ONNX model: protobuf cannot parse node #1")
def damaged_second(folder):
    return damaged_node("xd")


@case("damaged_first", " error: the file is damaged or not an ONNX model: protobuf cannot parse node #0")
def damaged_first(folder):
    return damaged_node("dx")


@case("damaged_unsorted", " error: the file is damaged or not an ONNX model: protobuf cannot parse node #2")
def damaged_behind_unsorted(folder):
    return damaged_node("xud")


@case("nested_graphs", " error: messages are nested more than 100 deep", True)
def nested_graphs(folder):
    graph = b""
    for _ in range(50):
        # A node with an attribute that is a graph.
        graph = field(1, field(5, field(6, graph)))
    return field(1, 10) + field(7, graph)


@case(
    "many_empty",
    " error: the file holds 2000001 messages in 4000007 bytes, nearly all of them empty; refusing to spend memory on them",
)
def many_empty(folder):
    return field(1, 10) + field(7, field(1, b"") * 2000000)


# A default says what the declared type leaves open.
@case("default_type", "1:1: error: node #0 (Add): operands have different element types, int64 and float")
def default_type(folder):
    model = parser.parse_model(HEADER + "g (int64[n] x, float[n] w) => (y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    if not any(value.name == "w" for value in model.graph.input):
        model.graph.input.add(name="w").type.tensor_type.shape.dim.add(dim_param="n")
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.UNDEFINED
    return model


# --- Versions and domains --------------------------------------------------------

NEG = "g (float[2] x) => (y) { y = Neg (x) }"
text("old_ir", NEG, " error: the model has IR version 2; this importer reads versions 3 to 14",
     header='<ir_version: 2, opset_import: ["" : 20]>')
text("new_ir", NEG, " error: the model has IR version 99; this importer reads versions 3 to 14",
     header='<ir_version: 99, opset_import: ["" : 20]>')
text("old_opset", NEG, " error: the model needs opset 6 of ai.onnx; this importer reads opsets 7 to 28",
     header='<ir_version: 10, opset_import: ["" : 6]>')
text("new_opset", NEG, " error: the model needs opset 29 of ai.onnx; this importer reads opsets 7 to 28",
     header='<ir_version: 10, opset_import: ["" : 29]>')
text("two_opsets", NEG, " error: the model declares opsets 20 and 21 of ai.onnx",
     header='<ir_version: 10, opset_import: ["" : 20, "ai.onnx" : 21]>')


@case("no_opset", " error: the model declares no opset")
def no_opset(folder):
    model = parser.parse_model(HEADER + NEG)
    del model.opset_import[:]
    return model


@case("no_graph", " error: the model has no graph")
def no_graph(folder):
    model = parser.parse_model(HEADER + NEG)
    model.ClearField("graph")
    return model


# Everything that is wrong is told in one run.
text(
    "domains",
    "g (float[2] x) => (y) { a = foo.Bar (x) [second] b = baz.Qux (a) y = Neg (nowhere) }",
    "1:1: error: node #0 (foo::Bar): its domain 'foo' is not among the opsets that the model declares",
    "2:1: error: node #1 'second' (baz::Qux): its domain 'baz' is not among the opsets that the model declares",
    "3:1: error: node #2 (Neg): input 0 'nowhere' is not defined anywhere",
)
text("onnx_domain", NEG, "1:1: error: node #0 (Neg): its domain 'ai.onnx' is not among the opsets that the model declares",
     header='<ir_version: 10, opset_import: ["my" : 1]>')


@case(
    "too_many",
    *(f"{i + 1}:1: error: node #{i} (Neg): input 0 'a{i}' is not defined anywhere" for i in range(20)),
    " error: too many errors; the rest is not shown",
)
def too_many(folder):
    nodes = [helper.make_node("Neg", [f"a{i}"], [f"b{i}"]) for i in range(100)]
    return make_model(nodes)


def make_model(nodes, initializers=(), functions=()):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "g", [x], [], list(initializers))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets, functions=list(functions))


# --- Graphs ----------------------------------------------------------------------

text("cycle", "g (float[2] x) => (a) { a = Add (x, c) [second] b = Neg (a) c = Abs (b) d = Exp (a) }",
     " error: the graph has a cycle of 3 nodes: node #0 (Add), node #2 (Abs), node #1 'second' (Neg)")
text("own_input", "g (float[2] x) => (a) { a = Add (x, a) }",
     " error: the graph has a cycle of 1 node: node #0 (Add)")
text("cycle_through_body", """g (bool c) => (a) { a = If (c) <
       then_branch = t () => (float[2] b) { b = Neg (a) },
       else_branch = e () => (float[2] d) { d = Constant <value_floats = [1.0, 2.0]> () }> }""",
     " error: the graph has a cycle of 1 node: node #0 (If)")
text("twice", "g (float[2] x) => (a) { a = Neg (x) a = Abs (x) }",
     " error: value 'a' is defined twice, by node #0 and by node #1")
text("twice_input", "g (float[2] x) => (x) { x = Neg (x) }",
     " error: value 'x' is defined twice, by a graph input and by node #0")
text("no_output", "g (float[2] x) => (float[2] z) { a = Neg (x) }",
     " error: graph output 'z' is not computed by any node")
text("undefined_in_body", """g (bool c, float[2] x) => (a) { [choose] a = If (c) <
       then_branch = t () => (float[2] b) { [inner] b = Neg (nothing) },
       else_branch = e () => (float[2] d) { d = Abs (x) }> }""",
     "1:1: error: node #0 'inner' (Neg) in then_branch of node #0 'choose': input 0 'nothing' is not defined anywhere")
text("branches", """g (bool c, float[2] x) => (a) { a = If (c) <
       then_branch = t () => (float[2] b, float[2] x) { b = Neg (x) },
       else_branch = e () => (float[2] d) { d = Abs (x) }> }""",
     "1:1: error: node #0 (If): then_branch has 2 outputs, but the node needs 1")
text("no_branch", "g (bool c) => (a) { a = If (c) }",
     "1:1: error: node #0 (If): attribute 'then_branch' must be a graph",
     "1:1: error: node #0 (If): attribute 'else_branch' must be a graph")
text("loop_inputs", """g (int64 n, bool c, float[2] x) => (a) { a = Loop (n, c, x) <
       body = b (int64 i, bool k) => (bool k2, float[2] y) { k2 = Identity (k) y = Neg (x) }> }""",
     "1:1: error: node #0 (Loop): body has 2 inputs, but the node feeds 3")
text("scan_count", """g (float[2] x) => (a) { a = Scan <num_scan_inputs = 5,
       body = b (float i) => (float o) { o = Neg (i) }> (x) }""",
     "1:1: error: node #0 (Scan): attribute 'num_scan_inputs' is 5, but the node has 1 inputs")


@case("no_op_type", "1:1: error: node #0: it has no op type")
def no_op_type(folder):
    return make_model([helper.make_node("", ["x"], ["y"])])


# --- Attributes --------------------------------------------------------------------

def attribute_case(name, error, op, **attributes):
    def make(folder):
        return make_model([helper.make_node(op, ["x"], ["y"], **attributes)])

    case(name, f"1:1: error: node #0 ({op}): {error}")(make)


attribute_case("wrong_kind", "attribute 'axis' must be an integer", "Softmax", axis="last")
attribute_case("wrong_epsilon", "attribute 'epsilon' must be a float", "LayerNormalization", epsilon=1)
attribute_case("wrong_list", "attribute 'perm' must be a list of integers", "Transpose", perm=1)
attribute_case("no_to", "attribute 'to' is missing", "Cast")
attribute_case("bad_to", "attribute 'to' is 99, which is not an element type", "Cast", to=99)
attribute_case("our_name", "attribute 'tandem.outputs' has a name that the import uses itself", "Neg", **{"tandem.outputs": 1})
attribute_case("bad_axis", "axis 3 is out of range for rank 1", "LayerNormalization", axis=3)
attribute_case("axis_twice", "axis 0 is named twice", "ReduceMean", axes=[0, 0])


def attribute_proto_case(title, error, **fields):
    def make(folder):
        node = helper.make_node("Foo", ["x"], ["y"], domain="my")
        node.attribute.add(**fields)
        return make_model([node])

    case(title, f"1:1: error: node #0 (my::Foo): {error}")(make)


INT = onnx.AttributeProto.INT
attribute_proto_case("kind_mismatch", "attribute 'a' says that it is an integer, but holds a string", name="a", type=INT, s=b"x")
attribute_proto_case("no_type", "attribute 'a' has no type", name="a", i=1)
attribute_proto_case("no_name", "an attribute has no name", type=INT, i=1)
attribute_proto_case("no_value", "attribute 'a' has no value", name="a", type=onnx.AttributeProto.TENSOR)
attribute_proto_case("sparse", "attribute 'a' is a sparse tensor whose tensor of values has no element type", name="a",
                     type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=onnx.SparseTensorProto())
attribute_proto_case("outside_function", "attribute 'a' refers to 'b', but is in no function", name="a", type=INT, ref_attr_name="b")
attribute_proto_case("custom_name", "attribute 'domain_name' has a name that the import uses itself", name="domain_name", type=INT)
attribute_proto_case("bad_tensor", "attribute 'a' has 0 entries in float_data, but its type needs 3", name="a",
                     type=onnx.AttributeProto.TENSOR, t=TensorProto(data_type=1, dims=[3]))


@case("given_twice", "1:1: error: node #0 (Neg): attribute 'a' is given twice")
def given_twice(folder):
    node = helper.make_node("Neg", ["x"], ["y"], a=1)
    node.attribute.add(name="a", type=INT, i=2)
    return make_model([node])


text("constant_none", "g () => (y) { y = Constant () }",
     "1:1: error: node #0 (Constant): a Constant has one attribute, one output and no input")
text("constant_kind", "g () => (y) { y = Constant <value_int = 1.5> () }",
     "1:1: error: node #0 (Constant): attribute 'value_int' must be an integer")
text("constant_name", "g () => (y) { y = Constant <number = 1> () }",
     "1:1: error: node #0 (Constant): attribute 'number' is not one that a Constant has")

# --- Types and shapes ----------------------------------------------------------------

text("types_differ", "g (float[2] x, float16[2] z) => (y) { [sum] y = Add (x, z) }",
     "1:1: error: node #0 'sum' (Add): operands have different element types, float and float16")
text("no_broadcast", "g (float[2] x, float[3] z) => (y) { y = Add (x, z) }",
     "1:1: error: node #0 (Add): dimensions 2 and 3 do not broadcast")
text("product", "g (float[2,3] x, float[4,2] z) => (y) { y = MatMul (x, z) }",
     "1:1: error: node #0 (MatMul): inner dimensions of the product: 3 and 4 differ")
text("reshape", "g (float[2,3] x) => (y) { s = Constant <value_ints = [4, 2]> () y = Reshape (x, s) }",
     "2:1: error: node #1 (Reshape): cannot reshape 6 elements to 8")
text("declared_type", "g (float[2] x) => (float16[2] y) { y = Neg (x) }",
     "1:1: error: node #0 (Neg): output 'y' is declared as tensor<2xf16>, but is tensor<2xf32>")
text("declared_rank", "g (float[2] x) => (float[2,1] y) { y = Neg (x) }",
     "1:1: error: node #0 (Neg): output 'y' is declared as tensor<2x1xf32>, but is tensor<2xf32>")
text("split_zero", "g (float[2] x) => (a) { s = Constant <value_ints = [1]> () a, b = Split (x, s) }",
     "2:1: error: node #1 (Split): it has 2 outputs, but is split into 1")
text("step_zero", "g (float[2] x) => (y) { z = Constant <value_ints = [0]> () y = Slice (x, z, z, z, z) }",
     "2:1: error: node #1 (Slice): a step is 0")
text("huge_result", "g () => (y) { s = Constant <value_ints = [4611686018427387904, 4]> () y = ConstantOfShape (s) }",
     "2:1: error: node #1 (ConstantOfShape): output 'y' has more bytes than 64 bits can count")


def input_case(name, error, change):
    def make(folder):
        model = make_model([helper.make_node("Neg", ["x"], ["y"])])
        change(model.graph.input[0].type.tensor_type)
        return model

    case(name, f" error: graph input 'x' {error}")(make)


input_case("negative_dim", "is declared with the negative dimension -1", lambda t: setattr(t.shape.dim[0], "dim_value", -1))
input_case("unknown_type", "is declared with the unknown element type 77", lambda t: setattr(t, "elem_type", 77))
input_case("huge_dims", "has more bytes than 64 bits can count", lambda t: [t.shape.dim.add(dim_value=2**40) for _ in range(2)])
input_case("huge_rank", "is declared with 100001 dimensions; at most 64 are read", lambda t: [t.shape.dim.add(dim_value=1) for _ in range(100000)])
input_case("long_name", "is declared with a dimension whose name has 1000 characters; at most 256 are read", lambda t: setattr(t.shape.dim[0], "dim_param", "n" * 1000))

# --- Tensors ---------------------------------------------------------------------------


def set_dims(*dims):
    def change(tensor):
        tensor.dims[:] = dims

    return change


def set_raw(raw):
    def change(tensor):
        del tensor.float_data[:]
        tensor.raw_data = raw

    return change


tensor_case("negative_tensor", "has the negative dimension -2", set_dims(-2))
tensor_case("huge_tensor", "has more elements than 64 bits can count", set_dims(2**62, 2**62))
tensor_case("huge_bytes", "has more bytes than 64 bits can count", set_dims(2**62))
tensor_case("huge_after_zero", "has more elements than 64 bits can count", set_dims(0, 2**62, 2**62))
tensor_case("absurd_tensor", "has 2 entries in float_data, but its type needs 1099511627776", set_dims(2**40))
tensor_case("short_raw", "has 7 bytes of raw data, but its type needs 8", set_raw(bytes(7)))
tensor_case("long_raw", "has 9 bytes of raw data, but its type needs 8", set_raw(bytes(9)))
tensor_case("tensor_type", "has the unknown element type 99", lambda t: setattr(t, "data_type", 99))
tensor_case("tensor_untyped", "has no element type", lambda t: setattr(t, "data_type", 0))
tensor_case("raw_strings", "holds strings, which cannot be raw data", lambda t: (setattr(t, "data_type", 8), setattr(t, "raw_data", b"ab")))
tensor_case("segment", "is stored in segments, which no version of ONNX defines", lambda t: setattr(t.segment, "begin", 0))


@case(
    "input_and_initializer",
    " error: graph input 'w' is declared as tensor<2x!onnx.String>, but its initializer is tensor<2xf32>",
)
def input_and_initializer(folder):
    model = make_model([], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.STRING, [2]))
    return model


def sparse_case(name, message, dims, values, indices, shape, tensor_name="s"):
    @case(name, f" error: {message}")
    def build(folder):
        model = parser.parse_model(HEADER + NEG)
        sparse = model.graph.sparse_initializer.add(dims=dims)
        sparse.values.CopyFrom(helper.make_tensor(tensor_name, TensorProto.FLOAT, *values))
        if indices is not None:
            sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, shape, indices))
        return model


SPARSE = "initializer 's' is a sparse tensor "
sparse_case("sparse_unnamed", "a sparse initializer has no name", [4], ([1], [1.0]), [0], [1], "")
sparse_case("sparse_scalar", SPARSE + "of 0 dimensions; 1 to 64 are read", [], ([1], [1.0]), [0], [1])
sparse_case("sparse_no_size", SPARSE + "with the dimension 0", [4, 0], ([1], [1.0]), [0], [1])
sparse_case("sparse_too_large", SPARSE + "with the dimension 4294967296, too large with the others", [2**32] * 2, ([1], [1.0]), [0], [1])
sparse_case("sparse_matrix", SPARSE + "whose values have 2 dimensions, not one", [4], ([1, 1], [1.0]), [0], [1])
sparse_case("sparse_without_indices", SPARSE + "whose tensor of indices has no element type", [4], ([1], [1.0]), None, [])
sparse_case("sparse_few_indices", SPARSE + "whose indices are not int64, one or 2 for each of its 2 values", [4, 4], ([2], [1.0, 2.0]), [0], [1])
sparse_case("sparse_outside", SPARSE + "whose indices are out of range or not in order", [4], ([1], [1.0]), [4], [1])
sparse_case("sparse_column_outside", SPARSE + "whose indices are out of range or not in order", [4, 2], ([1], [1.0]), [0, 2], [1, 2])
sparse_case("sparse_not_in_order", SPARSE + "whose indices are out of range or not in order", [4], ([2], [1.0, 2.0]), [2, 2], [2])


@case("unnamed_initializer", " error: an initializer has no name")
def unnamed_initializer(folder):
    return make_model([], [helper.make_tensor("", TensorProto.FLOAT, [1], [1.0])])


@case("initializer_twice", " error: value 'w' is defined twice, by an initializer and by an initializer")
def initializer_twice(folder):
    return make_model([], [helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])] * 2)


@case("default_twice", " error: value 'x' is defined twice, by an initializer and by an initializer")
def default_twice(folder):
    return make_model([], [helper.make_tensor("x", TensorProto.FLOAT, [2], [1.0, 2.0])] * 2)


@case("default_dense_and_sparse", " error: value 'x' is defined twice, by an initializer and by an initializer")
def default_dense_and_sparse(folder):
    model = make_model([], [helper.make_tensor("x", TensorProto.FLOAT, [2], [1.0, 2.0])])
    places = helper.make_tensor("", TensorProto.INT64, [1], [1])
    values = helper.make_tensor("x", TensorProto.FLOAT, [1], [1.0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    return model


# --- External data ------------------------------------------------------------------------

AT = " error: initializer 'w' has the external data location "
external_case("absolute", AT + "'/etc/passwd', which is an absolute path; it must be relative to the model's folder", "/etc/passwd")
external_case("drive", AT + "'C:\\w', which is an absolute path; it must be relative to the model's folder", "C:\\w")
external_case("parent", AT + "'a/../../w', which contains '..'; it must stay in the model's folder", "a/../../w")
external_case("parent_windows", AT + "'a\\..\\w', which contains '..'; it must stay in the model's folder", "a\\..\\w")
external_case("empty_location", AT + "'', which is empty", "")
external_case("nul", AT + "'w\\x00', which contains a NUL character", "w\0")
external_case("no_location", " error: initializer 'w' is stored externally, but has no location", None)
external_case("bad_offset", " error: initializer 'w' has the external data offset '-4', which is not a number of bytes", "w", offset="-4")
external_case("bad_length", " error: initializer 'w' has the external data length '1e3', which is not a number of bytes", "w", length="1e3")
external_case("other_length", " error: initializer 'w' has 15 bytes of external data, but its type needs 16", "w", length="15")
NEEDED = "1:1: error: node #0 (Reshape): 'w' is needed, but its external data file 'DIR/w' "
external_case("missing_file", NEEDED + "cannot be read: No such file or directory", "w")
external_case("short_file", NEEDED + "is too short: it has 20 bytes, and the tensor needs 16 from byte 8", "w",
              lambda folder: (folder / "w").write_bytes(bytes(20)), offset="8")
external_case("past_end", NEEDED + "is too short: it has 20 bytes, and the tensor needs 16 from byte 9223372036854775807", "w",
              lambda folder: (folder / "w").write_bytes(bytes(20)), offset=str(2**63 - 1))
external_case("directory", NEEDED + "is not a regular file", "w", lambda folder: (folder / "w").mkdir())
external_case("folder", NEEDED.replace("DIR/w", "DIR/.") + "is not a regular file", ".")
external_case("fifo", NEEDED + "is not a regular file", "w", lambda folder: os.mkfifo(folder / "w"))
external_case("link", AT + "'w', which is a symbolic link that leads out of the model's folder, to '/etc/hostname'; links are followed if --external-data-dir names the folder they are in", "w",
              lambda folder: (folder / "w").symlink_to("/etc/hostname"))
external_case("link_folder", AT + "'in/hostname', which is a symbolic link that leads out of the model's folder, to '/etc/hostname'; links are followed if --external-data-dir names the folder they are in", "in/hostname",
              lambda folder: (folder / "in").symlink_to("/etc"))

# --- Functions --------------------------------------------------------------------------------


def functions_case(name, *errors):
    def add(body):
        text(name, "g (float[2] x) => (y) { [call] y = my.f (x) }\n" + body, *errors)

    return add


functions_case("recursion", "1:1: error: node #0 (my::f) in function 'my::f' called by node #0 'call': the function calls itself")(
    '<opset_import: ["my" : 1], domain: "my"> f (a) => (b) { b = my.f (a) }'
)
functions_case(
    "mutual",
    "1:1: error: node #0 (my::f) in function 'my::h' called by node #0 in function 'my::f' called by node #0 'call': the function calls itself",
)(
    '<opset_import: ["my" : 1], domain: "my"> f (a) => (b) { b = my.h (a) }\n'
    '<opset_import: ["my" : 1], domain: "my"> h (a) => (b) { b = my.f (a) }'
)
functions_case("function_output", "1:1: error: node #0 'call' (my::f): the function's output 'b' is not computed by any of its nodes")(
    '<opset_import: ["" : 20], domain: "my"> f (a) => (b) { c = Neg (a) }'
)
functions_case("function_inputs", "1:1: error: node #0 'call' (my::f): the function has 0 inputs and 1 outputs, but the node has 1 and 1")(
    '<opset_import: ["" : 20], domain: "my"> f () => (b) { b = Constant <value_int = 1> () }'
)
functions_case("function_twice", " error: function 'my::f' is defined twice")(
    '<opset_import: ["" : 20], domain: "my"> f (a) => (b) { b = Neg (a) }\n'
    '<opset_import: ["" : 20], domain: "my"> f (a) => (b) { b = Neg (a) }'
)
functions_case("function_opset", " error: function 'my::f' needs opset 5 of ai.onnx; this importer reads opsets 7 to 28")(
    '<opset_import: ["" : 5], domain: "my"> f (a) => (b) { b = Neg (a) }'
)
functions_case(
    "reference_kind",
    "1:1: error: node #0 (Softmax) in function 'my::f' called by node #0 'call': attribute 'axis' must be an integer, but the function's caller gives a string",
)(
    '<opset_import: ["" : 20], domain: "my"> f <how: string = "x"> (a) => (b) { b = Softmax <axis : int = @how> (a) }'
)
# Each function calls the next one ten times: ten to the twelfth nodes.
functions_case("bomb", " error: importing this model needs memory out of proportion to its size; nested functions or long dimension names multiply")(
    "\n".join(
        f'<opset_import: ["" : 20, "my" : 1], domain: "my"> {name} (a0) => (a10) {{ '
        + " ".join(f"a{i + 1} = {callee} (a{i})" for i in range(10))
        + " }"
        for name, callee in [("f", "my.f1")] + [(f"f{i}", f"my.f{i + 1}") for i in range(1, 12)] + [("f12", "Neg")]
    )
)


@case("deep", "1:1: error: node #0 (my::f64) in function", True)
def deep(folder):
    opsets = [helper.make_opsetid("my", 1), helper.make_opsetid("", 20)]
    functions = [
        helper.make_function("my", f"f{i}", ["a"], ["b"], [helper.make_node(f"f{i + 1}", ["a"], ["b"], domain="my")], opsets)
        for i in range(200)
    ]
    functions.append(helper.make_function("my", "f200", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets))
    return make_model([helper.make_node("f0", ["x"], ["y"], domain="my")], functions=functions)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    failures = 0
    names = [name for name, _, _ in CASES]
    assert len(names) == len(set(names)), "two cases have one name"
    for name, make, errors in CASES:
        place = folder / name
        place.mkdir(parents=True)
        model = make(place)
        path = place / "model.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        try:
            done = subprocess.run(
                [tool, "--import-onnx", str(path)], capture_output=True, text=True, timeout=300, preexec_fn=limit
            )
        except subprocess.TimeoutExpired:
            print(f"FAIL {name}: no end after 300 s")
            failures += 1
            continue
        lines = [
            line.replace(str(place), "DIR").replace("DIR/model.onnx:", "", 1) for line in done.stderr.splitlines()
        ]
        if errors[-1] is True:
            good = len(lines) == 1 and lines[0].startswith(errors[0])
        else:
            good = lines == list(errors)
        if done.returncode != 1 or done.stdout or not good:
            failures += 1
            print(f"FAIL {name}: exit status {done.returncode}")
            for line in errors:
                print(f"  expected: {line}")
            for line in lines[:25]:
                print(f"  got:      {line}")
    print(f"{len(CASES)} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
