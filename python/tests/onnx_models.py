# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models, feeds and expected values for the tests of ONNX Runtime.

    python onnx_models.py FOLDER

writes the fused models to a folder. TANDEM_TEST_FUSED names it to the tests on a
machine that has no compiler of ours.
"""

import os
import pathlib
import subprocess
import sys

import numpy
import onnx

from conftest import BUILD, MODELS

#: Whole models, and their ranks.
CASES = [
    ("tp2_glm4_moe_f32_op21", 2),
    ("tp2_glm4_f32", 2),
    ("tp4_glm_f32_op20", 4),
    ("tp2_glm4_moe_f32", 2),
]


def limit_of(name):
    """A token limit between the two batches of feeds_of."""
    return 4 if name == "tp2_glm4_moe_f32" else 8


def fuse(model, output, *options):
    tool = BUILD / "bin/fusion-opt"
    done = subprocess.run(
        [tool, model, *options, "-o", output], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "fused 4 of 4" in done.stderr


def get_fused(folder, name, world, guard):
    """The paths of the ranks' fused models: ready-made ones, or made in `folder`."""
    ready = os.environ.get("TANDEM_TEST_FUSED")
    paths = [
        pathlib.Path(ready or folder, f"{name}.{guard}.rank{rank}.onnx") for rank in range(world)
    ]
    for rank, path in enumerate(paths):
        if not ready and not path.exists():
            fuse(MODELS / f"{name}.rank{rank}.onnx", path, f"--onnx-guard={guard}")
    return list(map(str, paths))


def get_models(folder, name, world, form):
    """The paths of the ranks' models: unfused, or fused with the guard `form`."""
    if form == "unfused":
        return [str(MODELS / f"{name}.rank{rank}.onnx") for rank in range(world)]
    return get_fused(folder, name, world, form)


def feeds_of(name, rank):
    """Two batches, one on each side of the limit, and what each must give. The model
    is causal: the first tokens of a row don't depend on the rest."""
    with numpy.load(MODELS / f"{name}.rank{rank}.npz") as file:
        arrays = dict(file)
    # The exporter left this one a cache for batch 1.
    rows = 1 if name == "tp2_glm4_moe_f32" else 2
    long = {key: value[:rows] for key, value in arrays.items()}
    short = {key: value[:1, :3] for key, value in arrays.items()}
    assert short["input_ids"].size == 3 and long["input_ids"].size == 6 * rows
    return [short, long]


def check_counters(first, second, form):
    """That both branches ran in one session: our kernel below the limit, and above it
    what the graph, or the op, has in its place."""
    assert second["failed"] == 0
    if form == "unfused":
        assert (second["fused"], second["fallback"], second["all_reduce"]) == (0, 0, 8)
        return
    assert (first["fused"], first["fallback"], first["all_reduce"]) == (4, 0, 0)
    assert second["fused"] == 4
    assert (second["fallback"], second["all_reduce"]) == ((0, 4) if form == "if" else (4, 0))


def make_model(nodes, inputs, outputs):
    """Inputs and outputs are (name, type, shape); the domains are those of nodes."""
    helper = onnx.helper
    infos = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    domains = dict.fromkeys(node.domain for node in nodes)
    opsets = [helper.make_opsetid(d, 1 if d else 21) for d in {"": None} | domains]
    graph = helper.make_graph(nodes, "g", *infos)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def make_call(op, inputs, outputs, **attributes):
    """A node of ours, with the attributes that all have."""
    known = dict(epsilon=1e-5, rounding="before_gamma", group="world", group_size=0)
    known |= dict(batch_invariant=0, max_tokens=-1) | attributes
    return onnx.helper.make_node(op, inputs, outputs, domain="ai.tandem", **known)


def rounded(values, dtype):
    return values.astype(dtype).astype("f4")


def half_model(tensor_type):
    """Our op and the all-reduce between Casts: all that ONNX Runtime's CPU kernels
    have of bf16 are Casts."""
    helper, proto = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", [name], [f"{name}_half"], to=tensor_type)
        for name in ("x", "residual", "gamma")
    ]
    nodes.append(
        make_call(
            "AllReduceAddRMSNorm", ["x_half", "residual_half", "gamma_half"],
            ["norm", "new", "sum"], max_tokens=4,
        )
    )  # fmt: skip
    nodes.append(helper.make_node("AllReduce", ["x_half"], ["reduced"], domain="com.microsoft"))
    outputs = ["norm", "new", "sum", "reduced"]
    nodes += [
        helper.make_node("Cast", [name], [f"{name}_out"], to=proto.FLOAT) for name in outputs
    ]
    rows = ["tokens", 64]
    inputs = [("x", proto.FLOAT, rows), ("residual", proto.FLOAT, rows), ("gamma", proto.FLOAT, [64])]
    return make_model(nodes, inputs, [(f"{name}_out", proto.FLOAT, rows) for name in outputs])


def half_feeds(dtype):
    """Of two ranks, with tokens on both sides of half_model's limit."""
    random = numpy.random.default_rng(1)
    gamma = rounded(random.standard_normal(64).astype("f4"), dtype)
    feeds = [[], []]
    for tokens in (3, 7):
        residual = rounded(random.standard_normal((tokens, 64)).astype("f4"), dtype)
        for rank in range(2):
            x = rounded(random.standard_normal((tokens, 64)).astype("f4"), dtype)
            feeds[rank].append({"x": x, "residual": residual, "gamma": gamma})
    return feeds


def check_half(feeds, results, dtype):
    """Sums are rounded once, the residual's sum once, and the norm before gamma and
    after it, on both sides of the limit."""
    import ml_dtypes

    for index in range(2):
        a, b = (feeds[rank][index] for rank in range(2))
        total = rounded(a["x"] + b["x"], dtype)
        new = rounded(total + a["residual"], dtype)
        wide = new.astype("f8")
        normed = wide / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + numpy.float32(1e-5))
        norm = rounded(rounded(normed, dtype) * a["gamma"], dtype)
        for result in results:
            outputs = result.outputs[index]
            assert numpy.array_equal(outputs["sum_out"], total)
            assert numpy.array_equal(outputs["reduced_out"], total)
            assert numpy.array_equal(outputs["new_out"], new)
            # The norm itself is in f32, so that it may round the other way.
            gap = numpy.abs(outputs["norm_out"] - norm)
            assert (gap <= float(ml_dtypes.finfo(dtype).eps) * 2 * numpy.abs(norm)).all()
            assert (gap == 0).mean() > 0.95
    counters = results[0].counters
    assert (counters[0]["fused"], counters[0]["fallback"]) == (1, 0)
    assert (counters[1]["fused"], counters[1]["fallback"]) == (1, 1)


if __name__ == "__main__":
    for model, ranks in CASES:
        for form in ("if", "op"):
            get_fused(sys.argv[1], model, ranks, form)
