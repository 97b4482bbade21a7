# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole GLM models in ONNX Runtime: a process and a session a rank, our kernels in
them; and the commands run and check."""

import os
import shutil
import subprocess
import sys

import numpy
import onnx
import pytest

from conftest import BUILD, MODELS

onnxruntime = pytest.importorskip("onnxruntime")

from tandem import onnx_ranks, ort  # noqa: E402
from tandem.onnx_ranks import RankFailure, run_ranks  # noqa: E402

if not (BUILD / "runtime/libtandem_onnxruntime.so").exists():
    pytest.skip("libtandem_onnxruntime.so was not built", allow_module_level=True)

TOLERANCE = 2e-6
LIMIT = 8


def fuse(model, output, *options):
    tool = BUILD / "bin/fusion-opt"
    done = subprocess.run(
        [tool, model, *options, "-o", output], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "fused 4 of 4" in done.stderr


def tandem(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tandem", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


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


@pytest.fixture(scope="module")
def fused_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")

    def get(name, world, guard):
        paths = [folder / f"{name}.{guard}.rank{rank}.onnx" for rank in range(world)]
        for rank, path in enumerate(paths):
            if not path.exists():
                fuse(MODELS / f"{name}.rank{rank}.onnx", path, f"--onnx-guard={guard}")
        return list(map(str, paths))

    return get


CASES = [
    ("tp2_glm4_moe_f32_op21", 2),
    ("tp2_glm4_f32", 2),
    ("tp4_glm_f32_op20", 4),
    ("tp2_glm4_moe_f32", 2),
]


@pytest.mark.parametrize("form", ["unfused", "if", "op"])
@pytest.mark.parametrize("name, world", CASES)
def test_logits(name, world, form, fused_models):
    if form == "op" and world == 4 and os.environ.get("TANDEM_TEST_FULL") != "1":
        pytest.skip("only with TANDEM_TEST_FULL=1, to save time")
    if form == "unfused":
        models = [str(MODELS / f"{name}.rank{rank}.onnx") for rank in range(world)]
    else:
        models = fused_models(name, world, form)
    feeds = [feeds_of(name, rank) for rank in range(world)]
    limit = 4 if name == "tp2_glm4_moe_f32" else LIMIT
    results = run_ranks(models, feeds, token_limit=limit)
    for rank, result in enumerate(results):
        for given, outputs in zip(feeds[rank], result.outputs):
            difference = numpy.abs(outputs["logits"] - given["logits_full_model"]).max()
            assert difference <= TOLERANCE
        first, second = result.counters
        assert second["failed"] == 0
        if form == "unfused":
            assert (second["fused"], second["fallback"], second["all_reduce"]) == (0, 0, 8)
            continue
        # Both branches in one session: our kernel below the limit, and above it
        # what the graph, or the op, has in its place.
        assert (first["fused"], first["fallback"], first["all_reduce"]) == (4, 0, 0)
        assert second["fused"] == 4
        assert (second["fallback"], second["all_reduce"]) == (
            (0, 4) if form == "if" else (4, 0)
        )


def test_ranks_matter(fused_models):
    """The sums come from both ranks: a rank alone gives what it gives alone."""
    models = fused_models("tp2_glm4_f32", 2, "if")
    feeds = feeds_of("tp2_glm4_f32", 0)
    (alone,) = run_ranks(models[:1], [feeds])
    logits = alone.outputs[1]["logits"]
    assert numpy.abs(logits - feeds[1]["logits_identity_allreduce"]).max() <= TOLERANCE
    assert numpy.abs(logits - feeds[1]["logits_full_model"]).max() > 0.1


def test_run(fused_models, tmp_path):
    fused_models("tp2_glm4_moe_f32_op21", 2, "if")
    pattern = fused_models("tp2_glm4_moe_f32_op21", 2, "if")[0].replace(
        "rank0", "rank{rank}"
    )
    feeds = str(MODELS / "tp2_glm4_moe_f32_op21.rank{rank}.npz")
    done = tandem(
        "run", pattern, "--ranks=2", f"--feeds={feeds}", "--expect=logits=logits_full_model",
        "--tolerance=2e-6", "--output", tmp_path / "out.rank{rank}.npz",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank}, run 0: logits [2, 6, 128]; fused 4, not fused 0" in done.stdout
        with numpy.load(tmp_path / f"out.rank{rank}.npz") as file:
            assert file["logits"].shape == (2, 6, 128)
    done = tandem(
        "run", pattern, "--ranks=2", f"--feeds={feeds}",
        "--expect=logits=logits_identity_allreduce", "--tolerance=2e-6",
    )  # fmt: skip
    assert done.returncode == 1 and "MORE than 2e-06" in done.stdout


def test_check(fused_models, tmp_path):
    name = "tp2_glm4_f32"
    pattern = fused_models(name, 2, "if")[0].replace("rank0", "rank{rank}")
    original = MODELS / f"{name}.rank{{rank}}.onnx"
    done = tandem("check", original, pattern, "--ranks=2", "--int-max=20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 sites, 2 ranks, 1 runs; on rank 0 fused 4, not fused 0" in done.stdout
    assert "equal within the tolerance" in done.stdout

    # What would prove nothing is said.
    done = tandem("check", original, original, "--ranks=2", "--int-max=20")
    assert done.returncode == 0 and "has no fused site, so nothing fused was compared" in done.stderr
    done = tandem("check", original, pattern, "--ranks=2", "--size", "bacth=4")
    assert done.returncode == 1
    assert "--size names 'bacth', which is no dim of the inputs; there are 'batch', 'seq'" in done.stderr

    # A wrong epsilon from the third site on, in both ranks.
    for rank in range(2):
        model = onnx.load(pattern.replace("{rank}", str(rank)))
        sites = [n for n in model.graph.node if n.name.endswith("/guard")]
        (call,) = [n for n in sites[2].attribute[0].g.node if n.domain == "ai.tandem"]
        next(a for a in call.attribute if a.name == "epsilon").f = 0.5
        onnx.save(model, tmp_path / f"wrong.rank{rank}.onnx")
    done = tandem("check", original, tmp_path / "wrong.rank{rank}.onnx", "--ranks=2", "--int-max=20")
    assert done.returncode == 1, done.stderr
    assert f"the first that is larger: '{sites[2].output[0]}' (at {sites[2].name}, rank 0" in done.stdout


def test_check_compares_what_was_decided(tmp_path):
    name = "tp2_glm4_f32"
    for rank, limit in enumerate((8, 9)):
        fuse(
            MODELS / f"{name}.rank{rank}.onnx",
            tmp_path / f"f.rank{rank}.onnx",
            f"--tandem-fuse-pipeline=max-tokens={limit}",
        )
    done = tandem("check", MODELS / f"{name}.rank{{rank}}.onnx", tmp_path / "f.rank{rank}.onnx", "--ranks=2")
    assert done.returncode == 1
    assert "the ranks' files differ at collective 0" in done.stdout
    assert "tokens <= 8" in done.stdout and "tokens <= 9" in done.stdout


def test_signatures_are_compared_by_the_runtime():
    name = "tp2_glm4_f32"
    models = [str(MODELS / f"{name}.rank{rank}.onnx") for rank in range(2)]
    feeds = [feeds_of(name, rank)[:1] for rank in range(2)]
    with pytest.raises(RankFailure, match="MISMATCH"):
        run_ranks(models, feeds, signatures=["a site", "another"])


def test_bodies_run_without_our_library(fused_models, tmp_path):
    """A runtime that does not know the domain inlines the bodies. The only op that
    ONNX Runtime lacks then is the source's own all-reduce: here Identity."""
    path = fused_models("tp2_glm4_moe_f32_op21", 2, "if")[0]
    model = onnx.load(path)

    def replace(nodes):
        for node in nodes:
            if node.op_type == "AllReduce":
                node.op_type, node.domain = "Identity", ""
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    replace(attribute.g.node)

    replace(model.graph.node)
    for function in model.functions:
        replace(function.node)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = feeds_of("tp2_glm4_moe_f32_op21", 0)[1]
    names = [i.name for i in session.get_inputs()]
    (logits,) = session.run(None, {name: feeds[name] for name in names})
    assert numpy.abs(logits - feeds["logits_identity_allreduce"]).max() <= TOLERANCE


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(rank=2, world=2), "tandem.rank is '2', not a number from 0 to 1"),
        (dict(rank=0, world=500), "tandem.world is '500', not a number from 1 to 128"),
        (dict(max_tokens=0), "tandem.max_tokens is '0', not a number from 1"),
        (dict(token_limit="few"), "tandem.token_limit is 'few', not a number"),
    ],
)
def test_bad_options(arguments, message):
    with pytest.raises(Exception, match=message):
        ort.register(onnxruntime.SessionOptions(), **arguments)


def test_a_rank_that_does_not_come(fused_models):
    models = fused_models("tp2_glm4_f32", 2, "op")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ranks = ort.register(options, rank=0, world=2, rendezvous=f"alone-{os.getpid()}", timeout_ms=300)
    session = onnxruntime.InferenceSession(models[0], options, providers=["CPUExecutionProvider"])
    feeds = feeds_of("tp2_glm4_f32", 0)[0]
    with pytest.raises(Exception, match="AllReduceRMSNormAddRMSNorm: TANDEM_STATUS_TIMEOUT"):
        session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    assert ranks.counters()["fused"] == 0
    del session
    ranks.close()


def test_groups_must_fit(fused_models, tmp_path):
    model = onnx.load(fused_models("tp2_glm4_f32", 2, "op")[0])
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.domain == "ai.tandem" and attribute.name == "group_size":
                attribute.i = 3
    options = onnxruntime.SessionOptions()
    ort.register(options, rank=0, world=2)
    with pytest.raises(Exception, match="its group has 3 ranks, and this session's 2"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("run", "no.rank{rank}.onnx", "--ranks=2", "--feeds=x.npz"), "there is no model 'no.rank0.onnx'"),
        (("run", "no.onnx", "--ranks=2", "--feeds=x.npz"), "'no.onnx' has no {rank} in it"),
        (("run", "no.onnx", "--ranks=0", "--feeds=x.npz"), "--ranks is 0"),
        (("run", "no.onnx", "--feeds=x.npz", "--expect=y"), "--expect is 'y', not OUTPUT=KEY"),
        (("check", "no.onnx", "no.onnx"), "there is no model 'no.onnx'"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    done = tandem(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("tandem: error: ") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def rounded(values, dtype):
    return values.astype(dtype).astype("f4")


def half_model(path, tensor_type, opsets):
    """Our op and the all-reduce between Casts: all that ONNX Runtime's CPU kernels
    have of bf16 are Casts."""
    helper, proto = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", [name], [f"{name}_half"], to=tensor_type)
        for name in ("x", "residual", "gamma")
    ]
    nodes += [
        helper.make_node(
            "AllReduceAddRMSNorm", ["x_half", "residual_half", "gamma_half"], ["norm", "new", "sum"],
            domain="ai.tandem", epsilon=1e-5, rounding="before_gamma", group="world",
            group_size=0, batch_invariant=0, max_tokens=4,
        ),
        helper.make_node("AllReduce", ["x_half"], ["reduced"], domain="com.microsoft"),
    ]  # fmt: skip
    outputs = ["norm", "new", "sum", "reduced"]
    nodes += [
        helper.make_node("Cast", [name], [f"{name}_out"], to=proto.FLOAT) for name in outputs
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [
            helper.make_tensor_value_info("x", proto.FLOAT, ["tokens", 64]),
            helper.make_tensor_value_info("residual", proto.FLOAT, ["tokens", 64]),
            helper.make_tensor_value_info("gamma", proto.FLOAT, [64]),
        ],
        [helper.make_tensor_value_info(f"{n}_out", proto.FLOAT, ["tokens", 64]) for n in outputs],
    )
    opsets = [helper.make_opsetid(*pair) for pair in opsets]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(name, tmp_path):
    """Sums are rounded once, the residual's sum once, and the norm before gamma and
    after it, on both sides of the limit."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = numpy.dtype(getattr(ml_dtypes, name, name))
    tensor_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    path = str(tmp_path / "half.onnx")
    half_model(path, tensor_type, [("", 21), ("ai.tandem", 1), ("com.microsoft", 1)])
    random = numpy.random.default_rng(1)
    gamma = rounded(random.standard_normal(64).astype("f4"), dtype)
    feeds = [[], []]
    for tokens in (3, 7):
        residual = rounded(random.standard_normal((tokens, 64)).astype("f4"), dtype)
        for rank in range(2):
            x = rounded(random.standard_normal((tokens, 64)).astype("f4"), dtype)
            feeds[rank].append({"x": x, "residual": residual, "gamma": gamma})
    results = run_ranks([path, path], feeds)
    for index in range(2):
        a, b = (feeds[rank][index] for rank in range(2))
        total = rounded(a["x"] + b["x"], dtype)
        new = rounded(total + a["residual"], dtype)
        wide = new.astype("f8")
        normed = wide / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + numpy.float32(1e-5))
        norm = rounded(rounded(normed, dtype) * gamma, dtype)
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


def test_f16_model(tmp_path):
    """A whole model in f16: its MatMuls are in f32 in ONNX Runtime, our ops are not.
    Both ranks have the same shard."""
    for rank in range(2):
        shutil.copy(MODELS / "glm4_moe_script_f16.onnx", tmp_path / f"m.rank{rank}.onnx")
        fuse(tmp_path / f"m.rank{rank}.onnx", tmp_path / f"f.rank{rank}.onnx")
    done = tandem(
        "check", tmp_path / "m.rank{rank}.onnx", tmp_path / "f.rank{rank}.onnx", "--ranks=2",
        "--tolerance=2e-3",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 sites, 2 ranks, 1 runs; on rank 0 fused 4, not fused 0" in done.stdout


def test_cuda_needs_a_package_that_has_it(fused_models, tmp_path):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    model = fused_models("tp2_glm4_f32", 2, "if")[0]
    feeds = MODELS / "tp2_glm4_f32.rank0.npz"
    done = tandem("run", model, f"--feeds={feeds}", "--device=cuda")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "this ONNX Runtime has no CUDA (install onnxruntime-gpu)" in done.stderr


def test_cuda_that_does_not_start(monkeypatch):
    """A package with CUDA on a machine without it."""
    monkeypatch.setattr(
        onnxruntime, "get_available_providers",
        lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
    )  # fmt: skip
    model = helper_model([onnx.helper.make_node("Neg", ["x"], ["y"])])
    job = onnx_ranks.Job(model, "", [], 0, 1, "no-cuda", 8, -1, 1000, "", "cuda")
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        with pytest.raises(RankFailure, match="could not start its CUDA provider"):
            onnx_ranks._run(job)


def helper_model(nodes):
    helper, proto = onnx.helper, onnx.TensorProto
    values = [helper.make_tensor_value_info(name, proto.FLOAT, ["n", 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    domains = dict.fromkeys(node.domain for node in nodes)
    opsets = [helper.make_opsetid(d, 1 if d else 21) for d in {"": None} | domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def respell(model):
    """Spells each of the first three all-reduces in another way."""
    helper = onnx.helper
    found = [node for node in model.graph.node if node.op_type == "AllReduce"]
    plugin, nccl, functional = found[:3]
    plugin.op_type, plugin.domain = "AllReducePlugin", "trt_edgellm"
    plugin.attribute.append(helper.make_attribute("tp_size", 2))
    nccl.op_type = "NcclAllReduce"
    functional.op_type, functional.domain = "all_reduce", "_c10d_functional"
    functional.attribute.append(helper.make_attribute("reduce_op", "sum"))
    functional.attribute.append(helper.make_attribute("group_name", "0"))
    waited = functional.output[0]
    functional.output[0] = "started"
    place = list(model.graph.node).index(functional) + 1
    wait = helper.make_node("wait_tensor", ["started"], [waited], domain="_c10d_functional")
    model.graph.node.insert(place, wait)
    for domain in ("trt_edgellm", "_c10d_functional"):
        model.opset_import.add(domain=domain, version=1)


def test_spellings(tmp_path):
    """All-reduces as other exporters write them, as they are and in fused models."""
    name = "tp2_glm4_f32"
    plain, fused = ([str(tmp_path / f"{kind}.rank{r}.onnx") for r in range(2)] for kind in "pf")
    for rank in range(2):
        model = onnx.load(MODELS / f"{name}.rank{rank}.onnx")
        respell(model)
        onnx.save(model, plain[rank])
        fuse(plain[rank], fused[rank])
    feeds = [feeds_of(name, rank) for rank in range(2)]
    for models in (plain, fused):
        results = run_ranks(models, feeds, token_limit=LIMIT)
        for rank, result in enumerate(results):
            for given, outputs in zip(feeds[rank], result.outputs):
                difference = numpy.abs(outputs["logits"] - given["logits_full_model"]).max()
                assert difference <= TOLERANCE
            counts = result.counters[-1]
            fusions = 0 if models is plain else 4
            assert (counts["fused"], counts["all_reduce"]) == (fusions, 8 - fusions)


def test_a_spelling_that_stays_in_bodies(tmp_path):
    """DistCollective, which ONNX Runtime refuses, in function bodies alone."""
    name = "tp2_glm4_f32"
    models = [str(tmp_path / f"op.rank{rank}.onnx") for rank in range(2)]
    for rank in range(2):
        model = onnx.load(MODELS / f"{name}.rank{rank}.onnx")
        for node in model.graph.node:
            if node.op_type == "AllReduce":
                node.op_type, node.domain = "DistCollective", ""
                for key, value in {"collective_operation": "all_reduce", "reduce_op": "sum"}.items():
                    node.attribute.append(onnx.helper.make_attribute(key, value))
        onnx.save(model, tmp_path / "plain.onnx")
        fuse(tmp_path / "plain.onnx", models[rank], "--onnx-guard=op")
    feeds = [feeds_of(name, rank)[:1] for rank in range(2)]
    for rank, result in enumerate(run_ranks(models, feeds)):
        difference = numpy.abs(result.outputs[0]["logits"] - feeds[rank][0]["logits_full_model"])
        assert difference.max() <= TOLERANCE
    fuse(tmp_path / "plain.onnx", tmp_path / "if.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ort.register(options, rank=0, world=2)
    with pytest.raises(Exception, match="No Op registered for DistCollective"):
        onnxruntime.InferenceSession(tmp_path / "if.onnx", options)


@pytest.mark.parametrize(
    "op, domain, attributes, message",
    [
        ("AllReducePlugin", "trt_edgellm", {"tp_size": 4}, "its group has 4 ranks, and this session's 1"),
        ("NcclAllReduce", "com.microsoft", {"group_type": 3}, "its group_type is 3, and a session has one group"),
        ("all_reduce", "_c10d_functional", {"reduce_op": "max"}, "its reduce_op is 'max', not 'sum'"),
        ("all_reduce", "_c10d_functional", {}, "reduce_op"),
        ("AllGather", "com.microsoft", {}, "AllGather"),
        ("AllReduce", "my.domain", {}, r"my\.domain.*AllReduce.*is not a registered function/op"),
        ("DistCollective", "", {"collective_operation": "all_reduce"}, "No Op registered for DistCollective"),
    ],
)  # fmt: skip
def test_collectives_that_the_session_can_not_serve(op, domain, attributes, message):
    node = onnx.helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ort.register(options)
    with pytest.raises(Exception, match=message):
        onnxruntime.InferenceSession(helper_model([node]), options, providers=["CPUExecutionProvider"])


def test_feeds_that_lack_an_input(tmp_path):
    numpy.savez(tmp_path / "few.npz", input_ids=numpy.zeros((1, 2), "int64"))
    done = tandem(
        "run", MODELS / "tp2_glm4_f32.rank{rank}.onnx", "--ranks=2", f"--feeds={tmp_path}/few.npz"
    )
    assert done.returncode == 1
    assert "the feeds have no 'attention_mask', which the model needs" in done.stderr
