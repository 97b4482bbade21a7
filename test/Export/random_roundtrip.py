#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes random models of odd parts, and sends each there and back.

All must come back equal (compare_models.py says what that means), and pass onnx's
check if they did before. A model that differs stays in FOLDER.

usage: random_roundtrip.py FUSION_TRANSLATE FOLDER [COUNT [SEED]]
(40 models, or 2000 with TANDEM_TEST_FULL=1)
"""

import concurrent.futures
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from compare_models import compare  # noqa: E402

import numpy  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

UNARY = ("Neg", "Abs", "Identity", "Relu", "Sigmoid", "Tanh", "Exp")
BINARY = ("Add", "Mul", "Sub")
PARTS = ("a", "w", "x/y", "l.0", "b c", "ü", "q\"", "s'", "p,q", "t:0", "n\nl", "%0", "@m", "\\", "tandem/x")
TYPES = [
    t
    for t in TensorProto.DataType.values()
    if t not in (TensorProto.UNDEFINED, TensorProto.STRING)
]


class Maker:
    def __init__(self, seed, folder):
        self.r = random.Random(seed)
        self.seed, self.folder = seed, folder
        self.count = 0
        self.opset = self.r.choice((7, 9, 11, 13, 15, 17, 18, 19, 20, 21, 22, 23))
        self.functions, self.sequences = [], []
        self.empty_docs = self.r.choice((0, 20, 80, 100))
        self.external = None
        # (The checker wants the domains of nodes as the opsets spell them.)
        self.spells = self.chance(20)

    def chance(self, percent):
        return self.r.randrange(100) < percent

    def name(self):
        self.count += 1
        return f"{self.r.choice(PARTS)}{self.count}"

    def shape(self):
        return [self.r.randrange(1, 4) for _ in range(self.r.randrange(3))]

    def metadata(self, thing, percent=20):
        if self.chance(percent):
            keys = self.r.sample(PARTS, self.r.randrange(1, 3))
            for key in keys:
                thing.metadata_props.add(key=key, value=self.r.choice(PARTS) * self.r.randrange(4))

    def texts(self, thing, percent=15):
        """Documentation and metadata."""
        if self.chance(percent):
            thing.doc_string = self.name()
        self.metadata(thing, percent)

    def denote(self, t, percent=20):
        """Denotations of a type and its dims."""
        if not self.chance(percent):
            return
        if self.chance(50):
            t.denotation = self.r.choice(("IMAGE", "TENSOR", "é"))
        kind = t.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            return self.denote(getattr(t, kind).elem_type, 100)
        for dim in t.tensor_type.shape.dim:
            if self.chance(50):
                dim.denotation = self.r.choice(("DATA_BATCH", "é"))

    def describe(self, value):
        self.texts(value)
        self.denote(value.type)
        return value

    def finish(self, node):
        if self.chance(60):
            node.name = self.name()
        if self.spells and not node.domain:
            node.domain = self.r.choice(("", "ai.onnx")) if self.chance(20) else ""
        # Most of a model's nodes have an empty doc_string, or most have none.
        if self.chance(self.empty_docs):
            node.doc_string = ""
        self.texts(node)
        for attribute in node.attribute:
            if self.chance(10):
                attribute.doc_string = self.name()
        return node

    def dims(self):
        return [self.r.choice((2, None, "n", "a,b", "é")) for _ in range(self.r.randrange(3))]

    def sparse(self, name):
        dims = [self.r.randrange(1, 5) for _ in range(self.r.randrange(1, 4))]
        size = int(numpy.prod(dims))
        places = sorted(self.r.sample(range(size), self.r.randrange(size + 1)))
        kind = self.r.choice((TensorProto.FLOAT, TensorProto.INT64, TensorProto.BFLOAT16))
        values = helper.make_tensor(name, kind, [len(places)], [1 + i for i in range(len(places))])
        indices = numpy.array(places, "int64")
        if self.chance(50):
            indices = numpy.array(numpy.unravel_index(indices, dims), "int64").T.reshape(len(places), len(dims))
        indices = numpy_helper.from_array(indices, self.name()) if self.chance(50) else helper.make_tensor(
            "", TensorProto.INT64, indices.shape, indices.reshape(-1).tolist())  # fmt: skip
        self.texts(values)
        return helper.make_sparse_tensor(values, indices, dims), kind

    def quantize(self, graph, names):
        if names and self.chance(15):
            annotation = graph.quantization_annotation.add(tensor_name=self.r.choice(names))
            annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=self.r.choice(names))

    def tensor(self, name, kind=TensorProto.FLOAT, external=True):
        shape = self.shape()
        if self.chance(10):
            shape = [self.r.choice((0, 65, 200))]
        count = int(numpy.prod(shape))
        made = self.plain_tensor(name, kind, shape, count, external)
        self.texts(made)
        return made

    def plain_tensor(self, name, kind, shape, count, external):
        if kind == TensorProto.STRING:
            return helper.make_tensor(name, kind, shape, [self.r.choice(PARTS) for _ in range(count)])
        if kind == TensorProto.FLOAT and external and self.chance(20) and self.folder:
            return self.external_tensor(name, shape, count)
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if self.chance(30):
            values = [self.r.choice((0, 1))] * count
        else:
            values = [self.r.randrange(2 if kind in (TensorProto.BOOL,) else 4) for _ in range(count)]
        array = numpy.array(values).astype(dtype).reshape(shape)
        if kind == TensorProto.FLOAT and self.chance(30):
            array = numpy.full_like(array, self.r.choice((float("nan"), float("-inf"), -0.0, 1e-42)))
        if self.chance(50):
            return numpy_helper.from_array(array, name)
        return helper.make_tensor(name, kind, shape, array.reshape(-1).tolist())

    def external_tensor(self, name, shape, count):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        if self.external is None:
            self.external = f"{self.seed}.bin"
            (self.folder / self.external).write_bytes(bytes(4096))
        tensor.external_data.add(key="location", value=self.external)
        if self.chance(70):
            tensor.external_data.add(key="offset", value=str(4 * self.r.randrange(100)))
        if self.chance(70):
            tensor.external_data.add(key="length", value=str(4 * count))
        if self.chance(20):
            tensor.external_data.add(key="checksum", value="0" * 40)
        return tensor

    def attributes(self):
        choices = {
            "i": self.r.choice((0, -1, 2**63 - 1)),
            "f": self.r.choice((0.5, float("nan"), float("-inf"), -0.0)),
            "s": self.r.choice(PARTS).encode() + self.r.choice((b"", b"\xff\x00")),
            "ints": [1, -2],
            "floats": [0.5, -0.0],
            "strings": [b"", b"x\xfe"],
            "t": self.tensor(self.r.choice(("", self.name())), self.r.choice((*TYPES, TensorProto.STRING))),
            "tp": self.type(),
            "tps": [self.type(), self.type()],
            "tensors": [self.tensor(""), self.tensor(self.name(), TensorProto.BOOL)],
            "sparse": self.sparse(self.name())[0],
            "sparses": [self.sparse("")[0] for _ in range(2)],
            "long name é": 3,
        }
        names = self.r.sample(sorted(choices), self.r.randrange(4))
        return {name: choices[name] for name in names}

    def type(self):
        made = helper.make_tensor_type_proto(1, self.dims())
        if self.chance(40):
            made = self.r.choice((helper.make_sequence_type_proto, helper.make_optional_type_proto))(made)
        self.denote(made)
        return made

    def graph(self, nodes, name, inputs, outputs, initializers):
        """A body, with what it may have beside these."""
        made = helper.make_graph(nodes, name, inputs, outputs, initializers)
        for value in (*made.input, *made.output):
            self.describe(value)
        self.metadata(made)
        names = [o for node in nodes for o in node.output if o]
        self.quantize(made, names)
        taken = {o.name for o in made.output}
        for value in self.r.sample(names, min(len(names), 2)):
            if value not in taken and self.chance(30):
                self.texts(made.value_info.add(name=value), 60)
        if self.chance(15):
            made.sparse_initializer.append(self.sparse(self.name())[0])
        # Of values that no node computes, and such as have a type elsewhere.
        for value in ("dead", *(v.name for v in (*made.input, *made.output) if v.HasField("type"))):
            if self.chance(7) and value not in {v.name for v in made.value_info}:
                self.describe(self.r.choice((made.value_info.add, lambda name: made.value_info.insert(
                    0, onnx.ValueInfoProto(name=name)) or made.value_info[0]))(name=value)).type.CopyFrom(self.type())  # fmt: skip
        return made

    def closed(self):
        """A body that reads nothing from outside, with inputs that are constants."""
        tensors = [self.tensor(self.name()) for _ in range(2)]
        nodes, known = [], [t.name for t in tensors]
        for _ in range(self.r.randrange(3)):
            known += self.step(nodes, known, depth=2)
        inputs = [helper.make_tensor_value_info(t.name, 1, self.r.choice((None, list(t.dims)))) for t in tensors if self.chance(40)]
        outputs = [helper.make_tensor_value_info(self.r.choice(known), 1, None)]
        if self.chance(30):
            outputs[0].ClearField("type")
        return self.graph(nodes, "c", inputs, outputs, tensors)

    def inner(self, floats, size):
        """A body that captures values; its outputs are `size` floats."""
        nodes, initializers = [], []
        known = list(floats)
        if self.chance(40):
            initializers.append(self.tensor(self.name()))
            known.append(initializers[-1].name)
        for _ in range(self.r.randrange(1, 4)):
            known += self.step(nodes, known, depth=1)
        # Now and then a value from outside, with a type of its own.
        outputs = [self.r.choice(floats) if self.chance(20) else self.name() for _ in range(size)]
        outputs = list(dict.fromkeys(outputs)) if len(set(outputs)) == size else [self.name() for _ in range(size)]
        for output in outputs:
            if output not in floats:
                nodes.append(self.finish(helper.make_node("Identity", [self.r.choice(known)], [output])))
        values = [helper.make_tensor_value_info(o, 1, None) for o in outputs]
        for value in values:
            if self.chance(20):
                value.ClearField("type")
        return nodes, values, initializers

    def step(self, nodes, floats, depth=0):
        """Adds a node or some; returns the new float values."""
        kind = self.r.randrange(15)
        pick = lambda: self.r.choice(floats)  # noqa: E731
        out = self.name()
        if kind < 3:
            nodes.append(helper.make_node(self.r.choice(UNARY), [pick()], [out]))
        elif kind < 5:
            nodes.append(helper.make_node(self.r.choice(BINARY), [pick(), pick()], [out]))
        elif kind == 5:
            nodes.append(helper.make_node("Constant", [], [out], value=self.tensor("")))
        elif kind == 6 and self.opset >= 12:
            nodes.append(helper.make_node("Constant", [], [out], **self.r.choice((
                {"value_float": 0.5}, {"value_floats": [1.0, 2.0]}))))
            if self.chance(20):
                sparse, kind = self.sparse(self.r.choice(("", self.name())))
                nodes[-1] = helper.make_node("Constant", [], [out], sparse_value=sparse)
                if kind != TensorProto.FLOAT:
                    self.finish(nodes[-1])
                    return []
        elif kind == 7:
            node = helper.make_node("Odd.Op-1", [pick(), "", pick()], [out, "", self.name()], domain="my.ops")
            for name, value in self.attributes().items():
                node.attribute.append(helper.make_attribute(name, value))
            if self.chance(20) and depth == 0:
                node.attribute.append(helper.make_attribute("body", self.closed()))
            nodes.append(node)
        elif kind == 8 and depth < 2:
            flag = self.name()
            nodes.append(helper.make_node("Constant", [], [flag], value=helper.make_tensor("", TensorProto.BOOL, [], [True])))
            branches = []
            for _ in range(2):
                body, values, initializers = self.inner(floats, 1)
                graph = self.graph(body, self.r.choice(("b", "b", "b", "", "é")), [], values, initializers)
                if self.chance(20):
                    graph.doc_string = "doc"
                branches.append(graph)
            nodes.append(helper.make_node("If", [flag], [out], then_branch=branches[0], else_branch=branches[1]))
        elif kind == 9 and depth < 2 and self.opset >= 11:
            trips, going, stay, step = (self.name() for _ in range(4))
            nodes.append(helper.make_node("Constant", [], [trips], value=helper.make_tensor("", TensorProto.INT64, [], [2])))
            carried = self.name()
            body, values, initializers = self.inner([*floats, carried], 2)
            body.insert(0, helper.make_node("Identity", [going], [stay]))
            graph = self.graph(
                body, "loop",
                [helper.make_tensor_value_info(step, TensorProto.INT64, []),
                 helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                 helper.make_tensor_value_info(carried, 1, None)],
                [helper.make_tensor_value_info(stay, TensorProto.BOOL, []), *values], initializers,
            )  # fmt: skip
            nodes.append(helper.make_node("Loop", [trips, "", pick()], [out, self.name()], body=graph))
        elif kind == 10 and self.opset >= 11:
            sequence, index = self.name(), self.name()
            nodes.append(helper.make_node("SequenceConstruct", [pick(), pick()], [sequence]))
            if depth == 0:
                self.sequences.append(sequence)
            nodes.append(helper.make_node("Constant", [], [index], value=helper.make_tensor("", TensorProto.INT64, [], [0])))
            nodes.append(helper.make_node("SequenceAt", [sequence, index], [out]))
        elif kind == 11 and self.opset >= 15:
            maybe = self.name()
            nodes.append(helper.make_node("Optional", [pick()], [maybe]))
            nodes.append(helper.make_node("OptionalGetElement", [maybe], [out]))
        elif kind >= 12 and self.functions and self.opset >= 13:
            function, inputs, outputs = self.r.choice(self.functions)
            given = [pick() for _ in range(inputs)]
            if inputs > 1 and self.chance(20):
                given[-1] = ""
            results = [out, *("" if self.chance(30) else self.name() for _ in range(outputs - 1))]
            node = helper.make_node(function.name, given, results, domain=function.domain)
            if self.chance(50):
                node.attribute.append(helper.make_attribute("slope", 0.25))
            if self.chance(20) and depth == 0:
                node.attribute.append(helper.make_attribute("body", self.closed()))
            if self.chance(20):
                node.attribute.append(helper.make_attribute("a", self.tensor("")))
            nodes.append(node)
            if not function.node:
                # An output may be what was left out.
                self.finish(node)
                return [out] if given[0] else []
        else:
            nodes.append(helper.make_node("Neg", [pick()], [out]))
        self.finish(nodes[-1])
        return [out]

    def empty_function(self):
        """Its outputs are its inputs."""
        inputs = [self.name() for _ in range(self.r.randrange(1, 3))]
        opsets = [helper.make_opsetid("", self.opset)]
        outputs = inputs[: self.r.randrange(1, 3)]
        made = helper.make_function("local", f"E{len(self.functions)}", inputs, outputs, [], opsets, ["slope", "body", "a"])
        self.functions.append((made, len(inputs), len(outputs)))

    def function(self):
        if self.chance(25):
            return self.empty_function()
        inputs = [self.name() for _ in range(self.r.randrange(1, 3))]
        nodes, known = [], [inputs[0]]
        for _ in range(self.r.randrange(3)):
            known += self.step(nodes, known, depth=1)
        leaky = self.name()
        node = helper.make_node("LeakyRelu", [known[-1]], [leaky])
        reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
        node.attribute.append(reference)
        nodes.append(node)
        known.append(leaky)
        outputs = list(dict.fromkeys([leaky, self.r.choice(known)]))
        name = f"F{len(self.functions)}{self.r.choice(PARTS)}"
        opset = self.opset if self.chance(80) else 16
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my.ops", 1), helper.make_opsetid("local", 1)]
        function = helper.make_function("local", name, inputs, outputs, nodes, opsets, ["slope"] if self.chance(50) else [])
        if not function.attribute:
            function.attribute_proto.append(helper.make_attribute("slope", 0.5))
        if self.chance(30):
            function.doc_string = "what it does"
        self.functions.append((function, len(inputs), len(outputs)))

    def model(self):
        if self.opset >= 13:
            for _ in range(self.r.randrange(4)):
                self.function()
        inputs, initializers, floats = [], [], []
        for _ in range(self.r.randrange(1, 4)):
            name = self.name()
            inputs.append(helper.make_tensor_value_info(name, 1, self.dims() if self.chance(90) else None))
            floats.append(name)
        for _ in range(self.r.randrange(5)):
            kind = self.r.choice((TensorProto.FLOAT, TensorProto.FLOAT, *TYPES, TensorProto.STRING))
            tensor = self.tensor(self.name(), kind)
            initializers.append(tensor)
            if kind == TensorProto.FLOAT:
                floats.append(tensor.name)
            if self.chance(20):
                inputs.append(helper.make_tensor_value_info(tensor.name, kind, list(tensor.dims)))
        sparse = []
        if self.chance(15):
            tensor, kind = self.sparse(self.name())
            sparse.append(tensor)
            inputs.append(helper.make_tensor_value_info(tensor.values.name, kind, list(tensor.dims)))
        self.r.shuffle(inputs)
        nodes = []
        for _ in range(self.r.randrange(1, 14)):
            floats += self.step(nodes, floats)
        if self.chance(15):
            self.r.shuffle(nodes)
        made = [o for node in nodes for o in node.output if o and o in floats]
        names = self.r.sample(made, min(len(made), 3))
        if self.chance(30):
            outputs = [helper.make_tensor_value_info(name, 1, None) for name in names]
        else:
            # The checker wants shapes, and this op may give any.
            outputs = [helper.make_tensor_value_info(self.name(), 1, [None, 2, "n"]) for _ in names]
            for name, output in zip(names, outputs):
                nodes.append(self.finish(helper.make_node("Out", [name], [output.name], domain="my.ops")))
        for sequence in self.sequences[:1]:
            element = helper.make_tensor_type_proto(1, ["n", None])
            outputs.append(helper.make_value_info(sequence, helper.make_sequence_type_proto(element)))
        graph = self.graph(nodes, self.r.choice(("g", "g", "g", "", "n\nl")), inputs, outputs, initializers)
        graph.sparse_initializer.extend(sparse)
        # The checker tells "ai.onnx" and "" apart in functions.
        ours = "" if self.functions else self.r.choice(("", "ai.onnx"))
        opsets = [helper.make_opsetid(*pair) for pair in ((ours, self.opset), ("my.ops", 1), ("local", 1))]
        self.r.shuffle(opsets)
        if self.chance(20):
            for opset in opsets:
                if not opset.domain:
                    opset.ClearField("domain")
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=10, functions=[f for f, _, _ in self.functions]
        )
        self.metadata(model)
        return model


def passes(path):
    try:
        onnx.checker.check_model(str(path))
        return True
    except Exception:
        return False


def run(tool, folder, seed):
    model = Maker(seed, folder).model()
    source, output = folder / f"{seed}.onnx", folder / f"{seed}.out.onnx"
    onnx.save(model, source)
    arguments = {"capture_output": True, "text": True, "errors": "replace"}
    given = source
    if seed % 5 == 0:
        # Through MLIR's text.
        given = folder / f"{seed}.mlir"
        done = subprocess.run([tool, "--import-onnx", source, "-o", given], **arguments)
        if done.returncode:
            given = source
    done = subprocess.run([tool, "--export-onnx", given, "-o", output], **arguments)
    if done.returncode == 1 and "do not broadcast" in done.stderr:
        return ""  # not a model
    if done.returncode:
        return f"{seed}: {done.stderr[:300]}"
    differences = compare(model, onnx.load(output, load_external_data=False))
    if differences:
        return f"{seed}: {differences[0]}"
    if passes(source) and not passes(output):
        return f"{seed}: passed the check before"
    source.unlink()
    output.unlink()
    return ""


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    full = os.environ.get("TANDEM_TEST_FULL", "") not in ("", "0")
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000 if full else 40
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for p in pool.map(lambda s: run(tool, folder, s), range(seed, seed + count)) if p]
    for problem in problems[:20]:
        print(problem)
    print(f"{count - len(problems)} of {count} random models equal")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
