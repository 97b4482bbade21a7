# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime's CUDA provider with our kernels on its stream: a process a rank, on
GPUs of their own or shared. Needs onnxruntime-gpu; on a machine without our compiler
TANDEM_TEST_FUSED (see onnx_models.py)."""

import json
import multiprocessing
import os
import pathlib
import queue
import subprocess
import sys
import time
import traceback
import uuid

import numpy
import onnx
import pytest

from conftest import BUILD
from onnx_models import (
    check_counters, check_half, feeds_of, get_models, half_feeds, half_model, limit_of, make_call,
    make_model,
)  # fmt: skip

onnxruntime = pytest.importorskip("onnxruntime")

from tandem import onnx_ranks, ort  # noqa: E402

if not (BUILD / "runtime/libtandem_onnxruntime.so").exists():
    pytest.skip("libtandem_onnxruntime.so was not built", allow_module_level=True)
if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
    pytest.skip("this ONNX Runtime has no CUDA", allow_module_level=True)
if onnx_ranks._count_gpus() < 1:
    pytest.skip("needs a GPU", allow_module_level=True)

#: As on the CPU.
TOLERANCE = 2e-6


def _serve(rank, tasks, results):
    while (task := tasks.get()) is not None:
        work, arguments = task
        try:
            results.put((rank, work(rank, *arguments), ""))
        except Exception:
            results.put((rank, None, traceback.format_exc()))


class Ranks:
    """Processes that stay, since it takes seconds to load what CUDA needs."""

    def __init__(self, world):
        self.world = world
        self.processes = []

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(self.world)]
        self.processes = [
            context.Process(target=_serve, args=(rank, tasks, self.results), daemon=True)
            for rank, tasks in enumerate(self.tasks)
        ]
        for process in self.processes:
            process.start()

    def run(self, work, *arguments, ranks=None, timeout=90):
        """What work(rank, *arguments) gives on each rank, or on those of `ranks`, which
        are all that are waited for."""
        if not self.processes:
            self.start()
        for tasks in self.tasks:
            tasks.put((work, arguments))
        awaited = list(range(self.world)) if ranks is None else ranks
        done = {}
        deadline = time.monotonic() + timeout
        try:
            while len(done) < len(awaited):
                try:
                    rank, result, error = self.results.get(timeout=1)
                except queue.Empty:
                    assert time.monotonic() < deadline, "the ranks hang"
                    for rank in awaited:
                        code = self.processes[rank].exitcode
                        assert code is None, f"rank {rank} ended with {code}"
                    continue
                assert not error, f"rank {rank}: {error}"
                done[rank] = result
        finally:
            # After an error the next test has new ones.
            if len(done) < self.world:
                self.close(0.1)
        return [done[rank] for rank in awaited]

    def close(self, patience=10):
        for tasks in self.tasks if self.processes else []:
            tasks.put(None)
        for process in self.processes:
            process.join(patience)
            if process.is_alive():
                process.kill()
                process.join()
        self.processes = []


@pytest.fixture(scope="module")
def two():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda")


def work_models(rank, models, feeds, rendezvous, limit=-1, device="cuda"):
    """What `tandem run` does on a rank."""
    job = onnx_ranks.Job(
        models[rank], "", feeds[rank], rank, len(models), rendezvous, 4096, limit, 30000, "", device,
    )  # fmt: skip
    return onnx_ranks._run(job)


def run_models(two, models, feeds, **options):
    return two.run(work_models, models, feeds, uuid.uuid4().hex, *options.values())


@pytest.mark.parametrize("form", ["unfused", "if", "op"])
@pytest.mark.parametrize("name", ["tp2_glm4_moe_f32_op21", "tp2_glm4_f32", "tp2_glm4_moe_f32"])
def test_logits(name, form, two, folder):
    models = get_models(folder, name, 2, form)
    feeds = [feeds_of(name, rank) for rank in range(2)]
    results = run_models(two, models, feeds, limit=limit_of(name))
    differences = [
        float(numpy.abs(outputs["logits"] - given["logits_full_model"]).max())
        for rank, result in enumerate(results)
        for given, outputs in zip(feeds[rank], result.outputs)
    ]
    print("largest difference", max(differences))
    assert max(differences) <= TOLERANCE
    for result in results:
        check_counters(*result.counters, form)


def test_more_ranks_than_gpus(folder):
    name = "tp4_glm_f32_op20"
    models = get_models(folder, name, 4, "if")
    feeds = [feeds_of(name, rank) for rank in range(4)]
    results = onnx_ranks.run_ranks(models, feeds, token_limit=limit_of(name), device="cuda")
    for rank, result in enumerate(results):
        for given, outputs in zip(feeds[rank], result.outputs):
            difference = numpy.abs(outputs["logits"] - given["logits_full_model"]).max()
            assert difference <= TOLERANCE
        check_counters(*result.counters, "if")


def tandem(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tandem", *map(str, arguments)], capture_output=True, text=True
    )


def test_commands(folder):
    name = "tp2_glm4_f32"
    plain = get_models(folder, name, 2, "unfused")[0].replace("rank0", "rank{rank}")
    fused = get_models(folder, name, 2, "if")[0].replace("rank0", "rank{rank}")
    done = tandem(
        "run", fused, "--ranks=2", "--device=cuda", f"--feeds={plain.replace('.onnx', '.npz')}",
        "--expect=logits=logits_full_model", f"--tolerance={TOLERANCE}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(2):
        assert f"rank {rank}, run 0: logits [2, 6, 128]; fused 4, not fused 0" in done.stdout
    done = tandem("check", plain, fused, "--ranks=2", "--device=cuda", "--int-max=20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 sites, 2 ranks, 1 runs; on rank 0 fused 4, not fused 0" in done.stdout
    assert "equal within the tolerance" in done.stdout


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(name, two, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = numpy.dtype(getattr(ml_dtypes, name, name))
    path = str(tmp_path / "half.onnx")
    onnx.save(half_model(onnx.helper.np_dtype_to_tensor_dtype(dtype)), path)
    feeds = half_feeds(dtype)
    check_half(feeds, run_models(two, [path, path], feeds), dtype)


def open_session(model, rank, rendezvous, options=None, limit=-1, **provider):
    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ranks = ort.register(
        options, rank=rank, world=2, rendezvous=rendezvous, timeout_ms=20000, token_limit=limit
    )
    cuda, settings = onnx_ranks.cuda_provider(rank)
    session = onnxruntime.InferenceSession(
        model, options, providers=[(cuda, settings | provider), "CPUExecutionProvider"]
    )
    return session, ranks


def work_profile(rank, models, feeds, rendezvous, folder, limit):
    """Runs and tells which provider ran which ops, and where the graph is that ran."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = f"{folder}/{rendezvous}.{rank}.onnx"
    options.enable_profiling = True
    options.profile_file_prefix = f"{folder}/{rendezvous}.{rank}"
    session, ranks = open_session(models[rank], rank, rendezvous, options, limit)
    names = [i.name for i in session.get_inputs()]
    for given in feeds[rank]:
        session.run(None, {name: given[name] for name in names})
        ranks.check()
    events = json.loads(pathlib.Path(session.end_profiling()).read_text())
    del session
    ranks.close()
    placed = {}
    for event in events:
        known = event.get("args", {})
        if event.get("cat") == "Node" and known.get("provider"):
            placed.setdefault(known["op_name"], set()).add(known["provider"])
    return placed, options.optimized_model_filepath


COLLECTIVES = {"AllReduce", "NcclAllReduce", "AllReducePlugin", "all_reduce", "wait_tensor"}


def is_ours(node):
    if node.domain == "ai.tandem":
        return not node.op_type.startswith("TokenLimit")
    return node.domain != "" and node.op_type in COLLECTIVES


def find_copies(graph, producers=None):
    """Of all nodes of ours, in branches too, how many there are, and the copies
    between host and GPU that touch one."""
    producers = dict(producers or {})
    producers |= {o: node for node in graph.node for o in node.output}
    ours, copies = 0, []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = find_copies(attribute.g, producers)
                ours, copies = ours + inner[0], copies + inner[1]
        ours += is_ours(node)
        for name in node.input:
            maker = producers.get(name)
            pair = [n for n in (maker, node) if n is not None]
            if any(n.op_type.startswith("Memcpy") for n in pair) and any(map(is_ours, pair)):
                copies.append((node.op_type, name))
    return ours, copies


@pytest.mark.parametrize("form", ["unfused", "if", "op"])
def test_nothing_is_copied_around_our_ops(form, two, folder):
    name = "tp2_glm4_f32"
    models = get_models(folder, name, 2, form)
    feeds = [feeds_of(name, rank) for rank in range(2)]
    for placed, path in two.run(
        work_profile, models, feeds, uuid.uuid4().hex, str(folder), limit_of(name)
    ):
        expected = {"unfused": {"AllReduce"}, "op": {"AllReduceRMSNormAddRMSNorm"}}
        expected["if"] = expected["unfused"] | expected["op"]
        for op in expected[form]:
            assert placed[op] == {"CUDAExecutionProvider"}, placed
        graph = onnx.load(path).graph
        assert find_copies(graph) == (8 if form == "if" else 4, [])
        # The limit's operands and its answer, which the host needs; ONNX Runtime appends
        # the provider's name to the latter's.
        copies = sorted(n.input[0] for n in graph.node if "Memcpy" in n.op_type)
        fits = "tandem/fits_CUDAExecutionProvider"
        limit = ["tandem/check", fits, "tandem/token_limit", "tandem/tokens"]
        assert copies == (limit if form == "if" else [])


def ops_model():
    """All kinds of ops of ours, with outputs that are left out."""
    rows, row, f32 = ["n", 64], [64], onnx.TensorProto.FLOAT
    make = onnx.helper.make_node
    nodes = [
        make_call("AllReduceRMSNorm", ["x", "gamma"], ["a0", "a1"]),
        make_call("AllReduceAddRMSNorm", ["x", "residual", "gamma"], ["b0"]),
        make_call(
            "AllReduceBiasRMSNormAddRMSNorm", ["x", "bias", "gamma", "residual", "gamma"],
            ["c0", "", "c2"], pre_epsilon=1e-6, pre_rounding="after_gamma",
        ),
        make_call("AllReduceAddRMSNorm_2", ["x", "residual", "gamma"], ["d0", "d1", "d2"], max_tokens=2),
        make("AllReduce", ["x"], ["e0"], domain="com.microsoft"),
        make("NcclAllReduce", ["x"], ["f0"], domain="com.microsoft"),
        make("AllReducePlugin", ["x"], ["g0"], domain="trt_edgellm", tp_size=2),
        make("all_reduce", ["x"], ["started"], domain="_c10d_functional", reduce_op="sum"),
        make("wait_tensor", ["started"], ["h0"], domain="_c10d_functional"),
    ]  # fmt: skip
    outputs = [o for node in nodes for o in node.output if o and o != "started"]
    inputs = [("x", f32, rows), ("residual", f32, rows), ("bias", f32, row), ("gamma", f32, row)]
    return make_model(nodes, inputs, [(o, f32, rows) for o in outputs])


def random_feeds(rank, tokens, step=0):
    common = numpy.random.default_rng(step)
    feeds = {name: common.standard_normal(64, "f4") for name in ("bias", "gamma")}
    feeds["residual"] = common.standard_normal((tokens, 64), "f4")
    feeds["x"] = numpy.random.default_rng([step, rank]).standard_normal((tokens, 64), "f4")
    return feeds


def test_every_op(two, tmp_path):
    path = str(tmp_path / "ops.onnx")
    onnx.save(ops_model(), path)
    feeds = [[random_feeds(rank, tokens) for tokens in (5, 0, 1)] for rank in range(2)]
    gpu = run_models(two, [path, path], feeds)
    host = run_models(two, [path, path], feeds, limit=-1, device="cpu")
    for mine, theirs in zip(gpu, host):
        assert mine.counters == [
            c | {"rounds": m["rounds"], "sleeps": m["sleeps"]}
            for c, m in zip(theirs.counters, mine.counters)
        ]
        for a, b in zip(mine.outputs, theirs.outputs):
            for name in a:
                assert a[name].shape == b[name].shape
                # Norms may round another way; sums and residuals may not.
                if name in ("a0", "b0", "c0", "d0"):
                    assert numpy.allclose(a[name], b[name], rtol=1e-5, atol=1e-6)
                else:
                    assert numpy.array_equal(a[name], b[name]), name
    for placed, optimized in two.run(
        work_profile, [path, path], feeds, uuid.uuid4().hex, str(tmp_path), -1
    ):
        assert len(placed) == 9 and set().union(*placed.values()) == {"CUDAExecutionProvider"}, placed
        assert find_copies(onnx.load(optimized).graph) == (9, [])


def work_graph(rank, model, rendezvous):
    session, ranks = open_session(model, rank, rendezvous, enable_cuda_graph="1")
    gpu = int(session.get_provider_options()["CUDAExecutionProvider"]["device_id"])
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value, "cuda", gpu)
        for name, value in random_feeds(rank, 5).items()
    }
    results = {
        name: onnxruntime.OrtValue.ortvalue_from_shape_and_type([5, 64], numpy.float32, "cuda", gpu)
        for name in [o.name for o in session.get_outputs()]
    }
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in results.items():
        binding.bind_ortvalue_output(name, value)
    outputs, counters = [], []
    for step in range(5):
        for name, value in random_feeds(rank, 5, step).items():
            values[name].update_inplace(value)
        session.run_with_iobinding(binding)
        ranks.check()
        outputs.append({name: value.numpy() for name, value in results.items()})
        counters.append(ranks.counters())
    del binding, session
    ranks.close()
    return outputs, counters


def test_cuda_graph(two, tmp_path):
    """The workspace is made in the first pass, which ONNX Runtime does not capture; all
    runs but the first are replays."""
    path = str(tmp_path / "ops.onnx")
    onnx.save(ops_model(), path)
    feeds = [[random_feeds(rank, 5, step) for step in range(5)] for rank in range(2)]
    host = run_models(two, [path, path], feeds, limit=-1, device="cpu")
    for rank, (outputs, counters) in enumerate(two.run(work_graph, path, uuid.uuid4().hex)):
        print("calls that the host made:", [c["fused"] for c in counters])
        assert counters[-1] == counters[0]
        for mine, theirs in zip(outputs, host[rank].outputs):
            for name in mine:
                assert numpy.allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-6), name


def work_mismatch(rank, model, rendezvous):
    session, ranks = open_session(model, rank, rendezvous)
    names = [i.name for i in session.get_inputs()]
    failures = []
    for tokens in (5, 3 + rank, 5):
        feeds = random_feeds(rank, tokens)
        for call in (lambda: session.run(None, {name: feeds[name] for name in names}), ranks.check):
            try:
                call()
                failures.append("")
            except Exception as error:
                failures.append(str(error))
    del session
    ranks.close()
    return failures


def test_ranks_that_differ(two, tmp_path):
    """The run that fails may end well, since it only launches; check() and the next
    run may not."""
    path = str(tmp_path / "ops.onnx")
    onnx.save(ops_model(), path)
    start = time.monotonic()
    for failures in two.run(work_mismatch, path, uuid.uuid4().hex):
        print(failures)
        assert failures[:2] == ["", ""]
        assert "TANDEM_STATUS_MISMATCH" in failures[3] and "tokens" in failures[3]
        assert "Status Message: " in failures[4] and "TANDEM_STATUS_MISMATCH" in failures[4]
    assert time.monotonic() - start < 20


def work_death(rank, model, rendezvous):
    session, ranks = open_session(model, rank, rendezvous)
    feeds = random_feeds(rank, 5)
    feeds = {i.name: feeds[i.name] for i in session.get_inputs()}
    session.run(None, feeds)
    ranks.check()
    if rank == 1:
        os._exit(0)
    failures = []
    start = time.monotonic()
    for call in (lambda: session.run(None, feeds), ranks.check, lambda: session.run(None, feeds)):
        try:
            call()
        except Exception as error:
            failures.append(str(error))
    return failures, time.monotonic() - start


def test_a_peer_that_dies(two, tmp_path):
    path = str(tmp_path / "ops.onnx")
    onnx.save(ops_model(), path)
    ((failures, seconds),) = two.run(work_death, path, uuid.uuid4().hex, ranks=[0])
    print(failures, seconds)
    assert failures and all("TANDEM_STATUS_PEER_DIED" in text for text in failures)
    assert "Status Message: " in failures[-1] and seconds < 10
