#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes random models with chains, fuses them, and runs both in onnx's evaluator.

Chains stand in the graph, in bodies of If and Loop and in functions that call
functions; names clash with the exporter's; opsets, types and guards vary. Fused
models must pass onnx's checks if the sources did, give the same outputs, reduce
the same values in the same order, and come back equal when they are read in
again. A model that fails stays in FOLDER.

usage: random_fused.py FUSION_OPT FOLDER [COUNT [SEED]]
(10 models, or 1000 with TANDEM_TEST_FULL=1)
"""

import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
import numpy  # noqa: E402
import onnx  # noqa: E402
import onnx.checker  # noqa: E402
import onnx.shape_inference  # noqa: E402
from compare_models import compare  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnx.reference.op_run import OpRun  # noqa: E402

HIDDEN = 8
CLASHING = ("tandem/v{}", "tandem/v{}/guard", "v{}_2", "tandem/limit", "tandem/limit_2", "v{}/norm", "tandem/shape", "f{}/r")
OPTIONS = (
    ["--onnx-guard=if"],
    ["--onnx-guard=op"],
    ["--tandem-fuse-pipeline=guard=function"],
    ["--tandem-fuse-pipeline=guard=none"],
    ["--tandem-fuse-pipeline=max-tokens=4", "--onnx-guard=op"],
    ["--tandem-fuse-pipeline=max-tokens=2"],
)


class Maker:
    def __init__(self, seed, folder):
        self.r = random.Random(seed)
        self.folder, self.seed = folder, seed
        self.count = 0
        self.names = set()
        self.opset = self.r.choice((13, 15, 17, 18, 19, 20, 21, 22, 23))
        self.type = self.r.choice((TensorProto.FLOAT,) * 3 + (TensorProto.FLOAT16, TensorProto.BFLOAT16))
        self.dtype = helper.tensor_dtype_to_np_dtype(self.type)
        self.domain = self.r.choice(("com.microsoft",) * 3 + ("",))
        self.initializers, self.functions = [], []
        self.external = self.chance(25)

    def chance(self, percent):
        return self.r.randrange(100) < percent

    def name(self, kind="v"):
        while True:
            self.count += 1
            name = self.r.choice(CLASHING).format(self.r.randrange(self.count)) if self.chance(15) else f"{kind}{self.count}"
            if name not in self.names:
                self.names.add(name)
                return name

    def node(self, nodes, op, inputs, outputs=1, name=None, **attributes):
        results = [self.name() for _ in range(outputs)]
        made = helper.make_node(op, inputs, results, **attributes)
        if self.chance(60):
            made.name = name or self.name("n")
        nodes.append(made)
        return results[0] if outputs == 1 else results

    def vector(self, nodes, scope):
        """A gamma or bias: an initializer, a Constant, or what a function is given."""
        if "vectors" in scope:
            return self.r.choice(scope["vectors"])
        if scope.get("kept") and self.chance(40):
            return self.r.choice(scope["kept"])
        values = numpy.array([self.r.uniform(0.5, 1.5) for _ in range(HIDDEN)]).astype(self.dtype)
        if self.chance(20):
            return self.node(nodes, "Constant", [], value=numpy_helper.from_array(values, ""))
        tensor = numpy_helper.from_array(values, self.name("w"))
        if self.external:
            path = self.folder / f"{self.seed}.bin"
            offset = path.stat().st_size if path.exists() else 0
            with path.open("ab") as file:
                file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in (("location", path.name), ("offset", offset), ("length", values.nbytes)):
                tensor.external_data.add(key=key, value=str(text))
        self.initializers.append(tensor)
        scope.setdefault("kept", []).append(tensor.name)
        return tensor.name

    def constant(self, nodes, value, kind=None):
        tensor = numpy_helper.from_array(numpy.array(value, helper.tensor_dtype_to_np_dtype(kind or self.type)))
        return self.node(nodes, "Constant", [], value=tensor)

    def norm(self, nodes, x, gamma):
        if self.opset >= 23 and self.chance(40):
            return self.node(nodes, "RMSNormalization", [x, gamma], epsilon=1e-5)
        is_half = self.type != TensorProto.FLOAT
        if is_half:
            x = self.node(nodes, "Cast", [x], to=TensorProto.FLOAT)
        square = self.node(nodes, "Mul", [x, x]) if self.chance(50) else self.node(
            nodes, "Pow", [x, self.constant(nodes, 2.0, TensorProto.FLOAT)])  # fmt: skip
        if self.opset >= 18:
            mean = self.node(nodes, "ReduceMean", [square, self.constant(nodes, [-1], TensorProto.INT64)], keepdims=1)
        else:
            mean = self.node(nodes, "ReduceMean", [square], axes=[-1], keepdims=1)
        root = self.node(nodes, "Sqrt", [self.node(nodes, "Add", [mean, self.constant(nodes, 1e-5, TensorProto.FLOAT)])])
        normed = self.node(nodes, "Div", [x, root])
        if is_half:
            normed = self.node(nodes, "Cast", [normed], to=self.type)
        return self.node(nodes, "Mul", self.r.sample([normed, gamma], 2))

    def reduce(self, nodes, x):
        if self.domain:
            return self.node(nodes, "AllReduce", [x], domain=self.domain)
        groups = self.r.choice(([0, 1], [0, 1], [2, 3]))
        return self.node(
            nodes, "DistCollective", [x], collective_operation="all_reduce", reduce_op="sum", nb_rank=4,
            group_size=2, groups=groups,
        )  # fmt: skip

    def chain(self, nodes, known, scope):
        value = self.reduce(nodes, self.r.choice(known))
        if self.chance(30):
            value = self.node(nodes, "Add", self.r.sample([value, self.vector(nodes, scope)], 2))
        if self.chance(25):
            value = self.norm(nodes, value, self.vector(nodes, scope))
        has_residual = self.chance(75)
        if has_residual:
            value = self.node(nodes, "Add", self.r.sample([value, self.r.choice(known)], 2))
        made = [value, self.norm(nodes, value, self.vector(nodes, scope))]
        return made if self.chance(70) else made[1:]

    def step(self, nodes, known, scope, depth):
        kind = self.r.randrange(12)
        if kind < 5:
            return self.chain(nodes, known, scope)
        if kind == 5:
            return [self.reduce(nodes, self.r.choice(known))]
        if kind == 6 and depth < 2 and "c" in scope:
            branches = [self.body(known, scope, depth + 1, [], 1) for _ in range(2)]
            return [self.node(nodes, "If", [scope["c"]], then_branch=branches[0], else_branch=branches[1])]
        if kind == 7 and depth < 2 and "c" in scope:
            trips = self.constant(nodes, 2, TensorProto.INT64)
            carried, index, flag = self.name(), self.name("i"), self.name("k")
            inputs = [
                helper.make_tensor_value_info(index, TensorProto.INT64, []),
                helper.make_tensor_value_info(flag, TensorProto.BOOL, []),
                helper.make_tensor_value_info(carried, self.type, ["b", HIDDEN]),
            ]
            body = self.body([*known, carried], scope, depth + 1, inputs, 1)
            # (With an omitted condition the evaluator takes what an omitted output was.)
            yes = self.constant(nodes, True, TensorProto.BOOL)
            return [self.node(nodes, "Loop", [trips, yes, self.r.choice(known)], body=body)]
        if kind in (8, 9) and self.functions and depth < 2:
            name, outputs = self.r.choice(self.functions)[:2]
            vectors = [self.vector(nodes, scope) for _ in range(2)]
            made = self.node(nodes, name, [self.r.choice(known), self.r.choice(known), *vectors], outputs, domain="local")
            return made if outputs > 1 else [made]
        if kind == 10:
            return [self.node(nodes, self.r.choice(("Neg", "Tanh", "Identity")), [self.r.choice(known)])]
        return [self.node(nodes, self.r.choice(("Add", "Mul")), self.r.choices(known, k=2))]

    def body(self, known, scope, depth, inputs, outputs):
        nodes, known = [], list(known)
        inner = {k: v for k, v in scope.items() if k != "kept"} | {"kept": list(scope.get("kept", []))}
        for _ in range(self.r.randrange(1, 4)):
            known += self.step(nodes, known, inner, depth)
        results = [self.node(nodes, "Tanh", [known[-1]]) for _ in range(outputs)]
        infos = [helper.make_tensor_value_info(r, self.type, ["b", HIDDEN]) for r in results]
        if inputs:
            flag = self.node(nodes, "Identity", [inputs[1].name])
            infos.insert(0, helper.make_tensor_value_info(flag, TensorProto.BOOL, []))
        return helper.make_graph(nodes, self.name("g"), inputs, infos)

    def function(self):
        inputs = [self.name("a") for _ in range(4)]
        nodes, known = [], inputs[:2]
        scope = {"vectors": inputs[2:]}
        for _ in range(self.r.randrange(1, 5)):
            known += self.step(nodes, known, scope, 1)
        outputs = self.r.sample(sorted({o for n in nodes for o in n.output} & set(known)), 1)
        if self.chance(40):
            outputs = list(dict.fromkeys([*outputs, known[-1]]))
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("local", 1)]
        name = f"F{len(self.functions)}"
        made = helper.make_function("local", name, inputs, outputs, nodes, opsets)
        self.functions.append((name, len(outputs), made))

    def model(self):
        for _ in range(self.r.choice((0, 0, 1, 2, 3))):
            self.function()
        inputs = [helper.make_tensor_value_info(self.name("x"), self.type, ["b", HIDDEN]) for _ in range(2)]
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        nodes, known = [], [i.name for i in inputs[:2]]
        # No bfloat16 came out of an If before opset 16.
        scope = {} if self.type == TensorProto.BFLOAT16 and self.opset < 16 else {"c": "c"}
        for _ in range(self.r.randrange(2, 8)):
            known += self.step(nodes, known, scope, 0)
        made = list(dict.fromkeys(known[2:]))
        outputs = list(dict.fromkeys([made[-1], *self.r.sample(made, min(len(made), 3))]))
        if self.chance(10):
            outputs.append(known[0])
        infos = [helper.make_tensor_value_info(o, self.type, ["b", HIDDEN]) for o in outputs]
        graph = helper.make_graph(nodes, "g", inputs, infos, self.initializers)
        if self.chance(50):
            for value in self.r.sample(made, len(made) // 2):
                if value not in outputs:
                    graph.value_info.append(helper.make_tensor_value_info(value, self.type, ["b", HIDDEN]))
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("local", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[f for *_, f in self.functions])


def evaluate(path, feeds):
    """The outputs, and what was reduced, in order."""
    model = onnx.load(path)
    reduced = []

    class AllReduce(OpRun):
        op_domain = "com.microsoft"

        def _run(self, x):
            reduced.append(x)
            return (x + x,)

    class DistCollective(OpRun):
        op_domain = ""

        def _run(self, x, collective_operation=None, reduce_op=None, nb_rank=None, group_size=None, groups=None):
            reduced.append(x * groups[0])
            return (x + x,)

    ops = [AllReduce, DistCollective]
    functions = {}
    left = list(model.functions)
    while left:
        before = len(left)
        for proto in list(left):
            # A function may call those that come after it.
            needed = {n.op_type for n in every_node(proto.node) if n.domain == "local"}
            if needed <= {name for domain, name in functions if domain == "local"}:
                known = list(functions.values())
                functions[proto.domain, proto.name] = ReferenceEvaluator(proto, functions=known, new_ops=ops)
                left.remove(proto)
        assert len(left) < before, "functions call each other"
    opsets = {o.domain: o.version for o in model.opset_import}
    session = ReferenceEvaluator(model.graph, opsets=opsets, functions=list(functions.values()), new_ops=ops)
    return session.run(None, feeds), reduced


def every_node(nodes):
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from every_node(attribute.g.node)


def check(path):
    model = onnx.load(path)
    try:
        onnx.checker.check_model(str(path), full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        return ""
    except Exception as error:
        return str(error).strip().splitlines()[0] or "?"


def are_close(first, second, tolerance):
    first, second = (numpy.asarray(x).astype("f8") for x in (first, second))
    if first.shape != second.shape:
        return False
    scale = numpy.abs(first).max(initial=1.0)
    return bool(numpy.all(numpy.abs(first - second) <= tolerance * scale)) or bool(numpy.isnan(first).any())


def run(tool, folder, seed):
    """Returns (what is wrong, number of fused sites)."""
    (folder / f"{seed}.bin").unlink(missing_ok=True)
    maker = Maker(seed, folder)
    model = maker.model()
    source = folder / f"{seed}.onnx"
    onnx.save(model, source)
    why = check(source)
    generator = numpy.random.default_rng(seed)
    feeds = {i.name: generator.standard_normal((3, HIDDEN)).astype(maker.dtype) for i in model.graph.input[:2]}
    feeds["c"] = numpy.array(bool(seed % 2))
    tolerance = {TensorProto.FLOAT: 2e-5, TensorProto.FLOAT16: 2e-2, TensorProto.BFLOAT16: 2e-1}[maker.type]
    try:
        expected, reduced = evaluate(source, feeds)
    except Exception as error:
        return f"{seed}: the source does not run: {type(error).__name__} {error}"[:300], 0
    fused = 0
    for options in random.Random(seed).sample(OPTIONS, 2):
        output, again = folder / f"{seed}.fused.onnx", folder / f"{seed}.again.onnx"
        bad = lambda what: f"{seed} {' '.join(options)}: {what}"[:400]  # noqa: E731, B023
        done = subprocess.run([*tool, source, *options, "-o", output], capture_output=True, text=True)
        if done.returncode:
            return bad(done.stderr), 0
        fused += int(re.search(r"fused (\d+) of", done.stderr)[1])
        if not why and (now := check(output)):
            return bad(f"passed the check before, now {now}"), 0
        nodes = list(every_node(onnx.load(output, load_external_data=False).graph.node))
        names = [n.name for n in nodes if n.name]
        if len(set(names)) != len(names) and len(set(n.name for n in every_node(model.graph.node) if n.name)) == len(
            [n for n in every_node(model.graph.node) if n.name]
        ):
            return bad("names of nodes are not unique"), 0
        try:
            outputs, now_reduced = evaluate(output, feeds)
        except Exception as error:
            return bad(f"does not run: {type(error).__name__} {error}"), 0
        if not all(are_close(a, b, tolerance) for a, b in zip(expected, outputs)):
            return bad("other outputs"), 0
        if len(reduced) != len(now_reduced):
            return bad(f"{len(reduced)} all-reduces became {len(now_reduced)}"), 0
        if not all(are_close(a, b, tolerance) for a, b in zip(reduced, now_reduced)):
            return bad("all-reduces in another order, or of other values"), 0
        guard = [o for o in options if "onnx-guard" in o]
        command = [*tool, output, "--pass-pipeline=builtin.module()", *guard, "-o", again]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return bad(f"read in again: {done.stderr}"), 0
        if output.read_bytes() != again.read_bytes():
            differences = compare(*(onnx.load(p, load_external_data=False) for p in (output, again)))
            if differences:
                return bad(f"read in again: {differences[0]}"), 0
        done = subprocess.run([*tool, output, *options, "-o", again], capture_output=True, text=True)
        if done.returncode:
            return bad(f"fused again: {done.stderr}"), 0
        outputs, now_reduced = evaluate(again, feeds)
        if len(reduced) != len(now_reduced) or not all(are_close(a, b, tolerance) for a, b in zip(expected, outputs)):
            return bad("fused again: other outputs or all-reduces"), 0
    for path in (source, output, again, folder / f"{seed}.bin"):
        path.unlink(missing_ok=True)
    return "", fused


def main():
    # The tool may have an option of its own.
    folder, tool = pathlib.Path(sys.argv[2]), [sys.argv[1]]
    full = os.environ.get("TANDEM_TEST_FULL", "") not in ("", "0")
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000 if full else 10
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        seeds = range(seed, seed + count)
        results = list(pool.map(run, [tool] * count, [folder] * count, seeds))
    problems = [what for what, _ in results if what]
    for problem in problems[:20]:
        print(problem)
    print(f"{count - len(problems)} of {count} fused models do the same; {sum(n for _, n in results)} sites")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
