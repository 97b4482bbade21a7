# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with functions of their own: there and back, and fused.

usage: functions.py FUSION_TRANSLATE FUSION_OPT FOLDER
"""

import pathlib
import subprocess
import sys

import numpy
import onnx
from onnx import helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from run_reference import AllReduce

from compare_models import compare

HEAD = '<ir_version: 10, opset_import: ["" : 20, "local" : 1]>\n'
ROUND_TRIPS = {
    # Functions in functions, attributes and their defaults, outputs that are inputs,
    # an input that is not read, a function that nobody calls.
    "nested": HEAD + """
g (float[4] x, float[4] unused) => (float[4] y, float[4] z, float[4] w) {
  [call] y, z = local.F <alpha = 0.5> (x, unused)
  w = local.G (y)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
F <alpha, beta: float = 2.0> (a, b) => (c, d) {
  [inner] t = local.G (a)
  u = local.E <k: float = @alpha, l: float = @beta> (t)
  c = local.P (u)
  d = Neg (c)
}
<domain: "local", opset_import: ["" : 20]>
G (a) => (b) { b = Abs (a) }
<domain: "local", opset_import: ["" : 20]>
P (a) => (a) { }
<domain: "local", opset_import: ["" : 20]>
E <k, l> (a) => (b) {
  c = Elu <alpha: float = @k> (a)
  b = LeakyRelu <alpha: float = @l> (c)
}
<domain: "local", opset_import: ["" : 18]>
Never (a) => (b) { b = Abs (a) }
""",
    # A function for another opset than the model: its nodes may mean other things.
    "opset": HEAD + """
g (float[4,3] x) => (float[4,1] y) { y = local.F (x) }
<domain: "local", opset_import: ["" : 13]>
F (a) => (b) { b = ReduceMax <axes = [1]> (a) }
""",
    # Calls in bodies, and bodies in functions.
    "control": HEAD + """
g (bool c, float[4] x) => (float[4] y, float[4] w) {
  y = If (c) <
    then_branch = t () => (float[4] a) { [n] a = local.F (x, c) },
    else_branch = e () => (float[4] a) { [n] a = local.H (x) }
  >
  [again] w = local.F (x, c)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
F (a, c) => (b) {
  b = If (c) <
    then_branch = t () => (q) { q = local.H (a) },
    else_branch = e () => (q) { q = Identity (a) }
  >
}
<domain: "local", opset_import: ["" : 20]>
H (a) => (b) {
  k = Constant <value = float[2] {1, 2}> ()
  s = ReduceSum (k)
  b = Mul (a, s)
}
""",
    # Calls without names, of the same value twice, and with outputs left out.
    "unnamed": HEAD + """
g (float[4] x) => (float[4] y, float[4] x2) {
  a = local.F (x, x)
  b,  = local.Two (a)
  , c = local.Two (b)
  y = Add (b, c)
  x2 = local.Pass (x)
}
<domain: "local", opset_import: ["" : 20]>
F (a, c) => (b) { b = Add (c, a) }
<domain: "local", opset_import: ["" : 20]>
Two (a) => (b, c) {
  b = Neg (a)
  c = Abs (b)
}
<domain: "local", opset_import: ["" : 20]>
Pass (a) => (a) { u = Neg (a) }
""",
    # A function in the place of an op of ONNX, whose `to` is a number like any other.
    "cast": HEAD + """
g (float[4] x) => (float[4] y) { [c] y = Cast <to = 1> (x) }
<domain: "", opset_import: ["" : 20]>
Cast <to> (a) => (b) { b = Neg (a) }
""",
    # An input that is not read has the name of what another call was inlined to.
    "unread": HEAD + """
g (float[4] x) => (float[4] y) {
  [cc] t = local.F (x)
  [k] "cc/p" = Neg (t)
  [u] y = local.U (t, "cc/p")
}
<domain: "local", opset_import: ["" : 20]>
F (a) => (q) {
  p = Neg (a)
  q = Abs (p)
}
<domain: "local", opset_import: ["" : 20]>
U (a, b) => (q) { q = Neg (a) }
""",
    # Calls that leave no node, and outputs that are what the caller left out.
    "nothing": HEAD + """
g (float[4] x) => (float[4] y) {
  [gone]  = local.Nothing (x)
  [absent] a, b = local.Absent (x, )
  [uses] c = local.Uses (b, a)
  y = Clip (c, b)
}
<domain: "local", opset_import: ["" : 20]>
Nothing (x) => (x) { }
<domain: "local", opset_import: ["" : 20, "local" : 1]>
Absent (x, o) => (y, o) {
  y = Neg (x)
   = local.Nothing (o)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
Uses (o, x) => (y) {
  p, q = local.Absent (x, o)
  y = Clip (p, , q)
}
""",
    # Domains that only the function has.
    "domains": HEAD + """
g (float[4] x) => (float[4] y) { y = local.F (x) }
<domain: "local", opset_import: ["" : 20, "com.microsoft" : 1, "ai.onnx.ml" : 3]>
F (a) => (b) { b = com.microsoft.Gelu (a) }
""",
}

# What only computes may stand anywhere; what may communicate keeps its order.
ORDER = """<ir_version: 10, opset_import: ["" : 20, "local" : 1, "com.microsoft" : 1]>
g (float[4] x) => (float[4] y, float[4] z) { y, z = local.F (x) }
<domain: "local", opset_import: ["" : 20, "com.microsoft" : 1]>
F (a) => (b, c) {
  k = Constant <value_float = 2.0> ()
  l = Constant <value_float = 3.0> ()
  p = Mul (a, k)
  q = Sub (a, l)
  b = com.microsoft.AllReduce (p)
  c = com.microsoft.AllReduce (q)
}
"""

# The sum needs the first result of a call whose second op communicates.
BETWEEN = """<ir_version: 10, opset_import: ["" : 23, "local" : 1, "com.microsoft" : 1]>
g (float[b,8] a, float[b,8] x) => (float[b,8] n, float[b,8] q)
<float[8] g = {1, 1, 1, 1, 1, 1, 1, 1}>
{
  [first] t = com.microsoft.AllReduce (a)
  [call] p, q = local.F (x)
  [add] s = Add (t, p)
  [norm] n = local.Norm (s, g)
}
<domain: "local", opset_import: ["" : 23, "com.microsoft" : 1]>
F (x) => (p, q) {
  p = Neg (x)
  [second] q = LAST (x)
}
<domain: "local", opset_import: ["" : 23]>
Norm (x, g) => (o) { o = RMSNormalization (x, g) }
<domain: "local", opset_import: ["" : 23, "local" : 1]>
Spare (x, g) => (o) { o = local.Norm (x, g) }
<domain: "local", opset_import: ["" : 23, "local" : 1]>
Spare2 (x, g) => (o) { o = local.Spare (x, g) }
"""

# Chains in a function, from one into another, and functions that no chain touches.
FUSED = """<ir_version: 10, opset_import: ["" : 20, "local" : 1, "com.microsoft" : 1]>
g (float[b,8] x, float[b,8] h) => (float[b,8] n, float[b,8] s, float[b,8] u)
<float[8,8] w = {WEIGHTS}, float[8] gain = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  [layer0] n0, h0 = local.Layer (x, h, w, gain)
  [layer1] n1, h1 = local.Layer (n0, h0, w, gain)
  [act] a = local.Act (n1)
  [sum] r = local.Reduce (a, w)
  s = Add (r, h1)
  [norm] n = local.Norm (s, gain)
  [plain] u = local.Plain (s, gain)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
Layer (x, h, w, gain) => (n, s) {
  [act] a = local.Act (x)
  [reduce] r = local.Reduce (a, w)
  [add] s = Add (h, r)
  [norm] n = local.Norm (s, gain)
}
<domain: "local", opset_import: ["" : 20]>
Act (x) => (y) {
  t = Tanh (x)
  y = Mul (t, t)
}
<domain: "local", opset_import: ["" : 20, "com.microsoft" : 1]>
Reduce (x, w) => (y) {
  p = MatMul (x, w)
  y = com.microsoft.AllReduce (p)
}
<domain: "local", opset_import: ["" : OPSET]>
Norm (x, gain) => (y) {
  two = Constant <value_float = 2.0> ()
  q = Pow (x, two)
  last = Constant <value_ints = [-1]> ()
  m = ReduceMean <keepdims = 1> (q, last)
  e = Constant <value_float = 1e-5> ()
  d = Add (m, e)
  root = Sqrt (d)
  z = Div (x, root)
  y = Mul (z, gain)
}
<domain: "local", opset_import: ["" : PLAIN]>
Plain (x, gain) => (y) {
  two = Constant <value_float = 2.0> ()
  q = Pow (x, two)
  last = Constant <value_ints = [-1]> ()
  m = ReduceMean <keepdims = 1> (q, last)
  e = Constant <value_float = 1e-5> ()
  d = Add (m, e)
  root = Sqrt (d)
  z = Div (x, root)
  y = Mul (z, gain)
}
"""


BODY = HEAD + """
g (float[4] x, bool c) => (float[4] y) { [call] y = local.F <z = 1, b = [1], a = "s"> (x, c) }
<domain: "local", opset_import: ["" : 20]>
F <body> (x, c) => (y) {
  y = If (c) <else_branch = e () => (q) { q = Identity (x) }>
}
"""


def calls_with_bodies():
    """Calls with graphs, with external data, and with attributes in an order of their own."""
    values = numpy.arange(80, dtype="f4")
    tensors = [onnx.numpy_helper.from_array(values, "v"), helper.make_tensor("w", 1, [80], values)]
    node = helper.make_node("Add", ["v", "w"], ["o"], name="n", doc_string="why")
    body = helper.make_graph([node], "b", [], [helper.make_tensor_value_info("o", 1, [80])], tensors)
    reference = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH, ref_attr_name="body")
    outside = onnx.TensorProto(dims=[3], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="nowhere")
    for attributes in ({"body": body, "more": [body, body]}, {"body": body, "t": outside}):
        model = parse_model(BODY)
        model.functions[0].node[0].attribute.append(reference)
        model.graph.node[0].attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
        yield "body_" + list(attributes)[1], model


def run(path, feeds):
    model = onnx.load(path)
    AllReduce.calls = 0
    functions = {}
    # A function may call those that come after it.
    left = list(model.functions)
    while left:
        for proto in list(left):
            needed = {n.op_type for n in proto.node if n.domain == "local"}
            if needed <= set(functions):
                known = list(functions.values())
                functions[proto.name] = ReferenceEvaluator(proto, functions=known, new_ops=[AllReduce])
                left.remove(proto)
    opsets = {o.domain: o.version for o in model.opset_import}
    session = ReferenceEvaluator(model.graph, opsets=opsets, functions=list(functions.values()), new_ops=[AllReduce])
    return session.run(None, feeds), AllReduce.calls


def main():
    # The last may have an option of its own.
    folder, translate, *optimize = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    models = [*((name, parse_model(text)) for name, text in ROUND_TRIPS.items()), *calls_with_bodies()]
    for name, model in models:
        source, output = folder / f"{name}.onnx", folder / f"{name}.out.onnx"
        onnx.save(model, source)
        for path in (source, folder / f"{name}.mlir"):
            # From the file, and through MLIR's text.
            if path != source:
                subprocess.run([translate, "--import-onnx", source, "-o", path], check=True)
            subprocess.run([translate, "--export-onnx", path, "-o", output], check=True)
            differences = compare(model, onnx.load(output, load_external_data=False))
            assert not differences, (name, differences)
    print(f"{len(models)} models with functions come back equal")

    # What somebody changed is not written as a call of what it was.
    text = (folder / "nested.mlir").read_text()
    (folder / "changed.mlir").write_text(text.replace('"onnx.Abs"', '"onnx.Sqrt"'))
    subprocess.run([translate, "--export-onnx", folder / "changed.mlir", "-o", output], check=True)
    changed = onnx.load(output)
    nodes = [n.op_type for n in changed.graph.node]
    assert nodes == ["Sqrt", "E", "P", "Neg", "Sqrt"], nodes
    assert [f.name for f in changed.functions] == ["P", "E", "Never"], changed.functions

    onnx.save(parse_model(ORDER), folder / "order.onnx")
    subprocess.run([translate, "--import-onnx", folder / "order.onnx", "-o", folder / "order.mlir"], check=True)
    text = (folder / "order.mlir").read_text()
    for what, count in (("onnx.Constant", 1), ("onnx.Mul|onnx.Sub", 1), ("onnx.Custom", 6)):
        # Two ops change places.
        lines = text.splitlines()
        first, second = (i for i, line in enumerate(lines) if any(f'"{w}"' in line for w in what.split("|")))
        lines[first], lines[second] = lines[second], lines[first]
        (folder / "swapped.mlir").write_text("\n".join(lines))
        subprocess.run([translate, "--export-onnx", folder / "swapped.mlir", "-o", output], check=True)
        assert len(onnx.load(output).graph.node) == count, what
    print("calls are told by what they compute")

    # A call does not carry a collective past the fused op. Functions that nobody calls
    # keep those that they call.
    for last, expected in (
        ("com.microsoft.AllReduce", ["Neg", "AllReduceAddRMSNorm", "AllReduce"]),
        ("Abs", ["F", "AllReduceAddRMSNorm"]),
    ):
        onnx.save(parse_model(BETWEEN.replace("LAST", last)), folder / "between.onnx")
        subprocess.run(
            [*optimize, folder / "between.onnx", "--onnx-guard=op", "-o", output], check=True, stderr=subprocess.PIPE
        )
        between = onnx.load(output)
        onnx.checker.check_model(between)
        assert [n.op_type for n in between.graph.node] == expected, between.graph
        kept = [f.name for f in between.functions if f.name != "F"]
        assert kept == ["Norm", "Spare", "Spare2", "AllReduceAddRMSNorm"], kept
    print("collectives keep their order")

    random = numpy.random.default_rng(0)
    weights = ", ".join(f"{x:.4f}" for x in random.standard_normal(64))
    text = FUSED.replace("WEIGHTS", weights)
    # A norm that does not fuse is restored, so its call comes back: it must where its
    # nodes are of another opset (of which onnx's check wants none here).
    source = folder / "plain.onnx"
    onnx.save(parse_model(text.replace("PLAIN", "18").replace("OPSET", "20")), source)
    output = folder / "plain.out.onnx"
    subprocess.run([*optimize, source, "-o", output], check=True, stderr=subprocess.PIPE)
    (plain,) = [f for f in onnx.load(output).functions if f.name == "Plain"]
    assert plain in onnx.load(source).functions
    text = text.replace("PLAIN", "20")
    source = folder / "chains.onnx"
    onnx.save(parse_model(text.replace("OPSET", "20")), source)
    # Inference does not know the all-reduce, so there is no full check of these.
    onnx.checker.check_model(str(source))
    feeds = {name: random.standard_normal((3, 8)).astype("f4") for name in ("x", "h")}
    expected, calls = run(source, feeds)
    assert calls == 3
    for options in (["--onnx-guard=if"], ["--onnx-guard=op"], ["--tandem-fuse-pipeline=guard=function"]):
        output = folder / "fused.onnx"
        done = subprocess.run([*optimize, source, *options, "-o", output], check=True, stderr=subprocess.PIPE)
        assert b"fused 3 of 3" in done.stderr, done.stderr
        onnx.checker.check_model(str(output))
        outputs, calls = run(output, feeds)
        gap = max(float(numpy.abs(a - b).max()) for a, b in zip(expected, outputs))
        assert calls == 3 and gap < 1e-6, (calls, gap)
        fused = onnx.load(output)
        called = sorted(n.name for n in fused.graph.node if n.domain == "local")
        print(options[0], "functions:", *sorted(f.name for f in fused.functions), "calls:", *called)

    # Names of what was inlined give way: to those of another call with the same
    # name, and to those that the file itself has.
    twice = parse_model(text.replace("OPSET", "20").replace("[layer1]", "[layer0]"))
    taken = parse_model(text.replace("OPSET", "20"))
    name = "layer0/reduce/p"
    taken.graph.input[1].name = taken.graph.node[0].input[1] = name
    for model, inputs in ((twice, feeds), (taken, {"x": feeds["x"], name: feeds["h"]})):
        onnx.save(model, source)
        for options in (["--onnx-guard=if"], ["--onnx-guard=op"]):
            subprocess.run([*optimize, source, *options, "-o", output], check=True, stderr=subprocess.PIPE)
            onnx.checker.check_model(str(output))
            outputs, calls = run(output, inputs)
            assert calls == 3 and all(numpy.allclose(a, b, atol=1e-6) for a, b in zip(expected, outputs))
            assert [i.name for i in onnx.load(output).graph.input] == list(inputs)
    print("names that clash are told apart")

    # A function for another opset: the product beside the all-reduce becomes the
    # model's, as it is the same op in both.
    reduce = 'Reduce (x, w) => (y) {\n  p = MatMul (x, w)'
    assert reduce in text

    def old(opset, body):
        model = parse_model(text.replace("OPSET", "20").replace(
            f'["" : 20, "com.microsoft" : 1]>\n{reduce}', f'["" : {opset}, "com.microsoft" : 1]>\n{body}'))  # fmt: skip
        onnx.save(model, folder / "old.onnx")
        subprocess.run([*optimize, folder / "old.onnx", "--pass-pipeline=builtin.module()", "-o", output], check=True)
        assert not compare(model, onnx.load(output))
        return subprocess.run([*optimize, folder / "old.onnx", "-o", output], capture_output=True, text=True)

    done = old(14, reduce.replace("p =", "zero = Constant <value_float = 0.0> ()\n m =") + "\n  p = Sub (m, zero)")
    assert done.returncode == 0 and "fused 3 of 3" in done.stderr, done.stderr
    onnx.checker.check_model(onnx.load(output))
    outputs, calls = run(output, feeds)
    assert calls == 3 and all(numpy.allclose(a, b, atol=1e-6) for a, b in zip(expected, outputs))
    # Other ops can't, nor can those in a body.
    for opset, body in (
        (18, reduce.replace("p =", "m =") + "\n  z = ReduceMax (m)\n  p = Add (m, z)"),
        (19, reduce.replace("p =", "m =") + """
          yes = Constant <value = bool {1}> ()
          p = If (yes) <then_branch = t () => (q) { q = Neg (m) },
                        else_branch = e () => (q) { z = ReduceMax (m)\n q = Add (m, z) }>"""),
    ):  # fmt: skip
        done = old(opset, body)
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        assert done.returncode == 1 and len(errors) == 1, done.stderr
        print(errors[0])
    print("PASS")


if __name__ == "__main__":
    main()
