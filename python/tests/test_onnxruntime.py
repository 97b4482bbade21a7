# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole GLM models in ONNX Runtime: a process and a session a rank, our kernels in
them; and the commands run and check."""

import ctypes
import os
import shutil
import subprocess
import sys

import numpy
import onnx
import pytest

from conftest import BUILD, MODELS
from onnx_models import (
    CASES, check_counters, check_half, feeds_of, fuse, get_fused, get_models, half_feeds,
    half_model, limit_of, make_model,
)  # fmt: skip

onnxruntime = pytest.importorskip("onnxruntime")

from tandem import onnx_ranks, ort, runtime  # noqa: E402
from tandem.onnx_ranks import RankFailure, run_ranks  # noqa: E402

if not (BUILD / "runtime/libtandem_onnxruntime.so").exists():
    pytest.skip("libtandem_onnxruntime.so was not built", allow_module_level=True)

TOLERANCE = 2e-6


def tandem(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tandem", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def fused_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fused")


@pytest.fixture(scope="module")
def fused_models(fused_folder):
    def get(name, world, guard):
        return get_fused(fused_folder, name, world, guard)

    return get


@pytest.mark.parametrize("form", ["unfused", "if", "op"])
@pytest.mark.parametrize("name, world", CASES)
def test_logits(name, world, form, fused_folder):
    if form == "op" and world == 4 and os.environ.get("TANDEM_TEST_FULL") != "1":
        pytest.skip("only with TANDEM_TEST_FULL=1, to save time")
    models = get_models(fused_folder, name, world, form)
    feeds = [feeds_of(name, rank) for rank in range(world)]
    results = run_ranks(models, feeds, token_limit=limit_of(name))
    for rank, result in enumerate(results):
        for given, outputs in zip(feeds[rank], result.outputs):
            difference = numpy.abs(outputs["logits"] - given["logits_full_model"]).max()
            assert difference <= TOLERANCE
        check_counters(*result.counters, form)


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


def test_close_comes_after_the_session():
    node = onnx.helper.make_node("AllReduce", ["x"], ["y"], domain="com.microsoft")
    options = onnxruntime.SessionOptions()
    ranks = ort.register(options)
    session = onnxruntime.InferenceSession(
        helper_model([node]), options, providers=["CPUExecutionProvider"]
    )
    (value,) = session.get_inputs()
    del session
    with pytest.raises(ValueError, match="the session of these ranks has not ended"):
        ranks.close()
    del value
    ranks.close()
    ranks.close()
    # The ops are still the options'.
    options.log_severity_level = 4
    with pytest.raises(Exception, match="AllReduce: the ranks of this session are closed"):
        onnxruntime.InferenceSession(helper_model([node]), options)


def test_close_comes_before_a_session():
    node = onnx.helper.make_node("AllReduce", ["x"], ["y"], domain="com.microsoft")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ranks = ort.register(options)
    ranks.close()
    with pytest.raises(Exception, match="AllReduce: the ranks of this session are closed"):
        onnxruntime.InferenceSession(helper_model([node]), options)
    for call in (ranks.check, ranks.counters):
        with pytest.raises(ValueError, match="these ranks are closed"):
            call()


def test_jobs_have_rendezvous_of_their_own(monkeypatch):
    names = []
    for port, run in [("", ""), ("29500", ""), ("29501", ""), ("29500", "a" * 500), ("29500", "b")]:
        monkeypatch.setenv("MASTER_PORT", port)
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", run)
        names.append(ort._default_rendezvous())
        assert names[-1] == ort._default_rendezvous() and len(names[-1]) < 64
    assert names[0] == "onnxruntime" and len(set(names)) == len(names)


def external_model(folder):
    """x + w, with w in a file of its own; the model's bytes."""
    weight = onnx.numpy_helper.from_array(numpy.arange(64, dtype="f4"), "w")
    model = onnx.load_from_string(helper_model([onnx.helper.make_node("Add", ["x", "w"], ["y"])]))
    model.graph.initializer.append(weight)
    onnx.save(
        model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    return onnx.load(folder / "m.onnx", load_external_data=False)


def test_external_data(tmp_path, monkeypatch):
    from tandem.commands.check import folder_of

    model = external_model(tmp_path)
    assert folder_of(model, str(tmp_path / "m.onnx")) == str(tmp_path)
    plain = onnx.load_from_string(helper_model([onnx.helper.make_node("Neg", ["x"], ["y"])]))
    assert folder_of(plain, str(tmp_path / "m.onnx")) == ""
    job = onnx_ranks.Job(
        model.SerializeToString(), str(tmp_path), [{"x": numpy.zeros((1, 64), "f4")}],
        0, 1, "external", 8, -1, 1000, "", "cpu",
    )  # fmt: skip
    (outputs,) = onnx_ranks._run(job).outputs
    assert (outputs["y"] == numpy.arange(64, dtype="f4")).all()
    monkeypatch.setattr(onnxruntime, "__version__", "1.20.1")
    with pytest.raises(RankFailure, match="needs ONNX Runtime 1.21 or newer here, and this is 1.20.1"):
        onnx_ranks._run(job)
    # Others have no need of it.
    job.model, job.folder = plain.SerializeToString(), ""
    onnx_ranks._run(job)


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


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(name, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = numpy.dtype(getattr(ml_dtypes, name, name))
    path = str(tmp_path / "half.onnx")
    onnx.save(half_model(onnx.helper.np_dtype_to_tensor_dtype(dtype)), path)
    feeds = half_feeds(dtype)
    check_half(feeds, run_ranks([path, path], feeds), dtype)


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


class CustomOp(ctypes.Structure):
    """What ONNX Runtime reads of an op of ours, as far as it is looked at here."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("create_kernel", ctypes.c_void_p),
        ("name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("provider", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("others", ctypes.c_void_p * 13),
        (
            "create_kernel_v2",
            ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 3, ctypes.POINTER(ctypes.c_void_p)),
        ),
    ]


class FakeOnnxRuntime:
    """ONNX Runtime's C API, as far as registering and making kernels goes: a CUDA
    provider on a machine that need not have one."""

    def __init__(self, version, identity="", fails=None):
        """`fails`: the place of an entry, and the number of its call that fails."""
        self.ops, self.error, self.domains, self.added, self.released = [], "", [], [], []
        self.fails, self.calls = fails, {}
        pointer, number = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
        out = ctypes.POINTER(pointer)

        def make_domain(name, domain):
            self.domains.append(name.decode())
            domain[0] = len(self.domains)

        def make_status(code, message):
            self.error = message.decode()
            return 1

        def give_text(options, key, text, size):
            if text:
                ctypes.memmove(text, identity.encode() + b"\0", len(identity) + 1)
            size[0] = len(identity) + 1

        def has_entry(options, key, has):
            has[0] = int(bool(identity) and key == b"tandem.id")

        entries = {
            0: ((ctypes.c_int, ctypes.c_char_p), make_status),
            26: ((ctypes.c_char_p, out), make_domain),
            27: ((pointer, pointer), lambda d, op: self.ops.append((self.domains[d - 1], op))),
            28: ((pointer, pointer), lambda options, domain: self.added.append(domain)),
            101: ((pointer,), self.released.append),
            # The CUDA provider's GPU, by its allocator.
            72: ((pointer, number), lambda memory, device: device.__setitem__(0, 0)),
            77: ((pointer, out), lambda allocator, memory: memory.__setitem__(0, 1)),
            132: ((pointer,), lambda allocator: None),
            237: ((pointer, ctypes.c_char_p, number), has_entry),
            238: (
                (pointer, ctypes.c_char_p, pointer, ctypes.POINTER(ctypes.c_size_t)),
                give_text,
            ),
            278: ((pointer, ctypes.c_int, out), lambda info, kind, allocator: allocator.__setitem__(0, 1)),
        }
        self.kept = []
        self.table = (pointer * 300)()
        for place, (arguments, function) in entries.items():
            counted = self.count(place, function)
            self.table[place] = self.keep(ctypes.CFUNCTYPE(pointer, *arguments)(counted))
        text = ctypes.create_string_buffer(version.encode())
        self.base = (pointer * 2)(
            self.keep(ctypes.CFUNCTYPE(pointer, ctypes.c_uint32)(lambda v: ctypes.addressof(self.table))),
            self.keep(ctypes.CFUNCTYPE(pointer)(lambda: ctypes.addressof(text))),
        )
        self.library = ctypes.CDLL(str(BUILD / "runtime/libtandem_onnxruntime.so"))
        self.library.RegisterCustomOps.restype = pointer
        self.status = self.library.RegisterCustomOps(None, self.base)
        assert fails or not self.status, self.error

    def count(self, place, function):
        def call(*arguments):
            self.calls[place] = self.calls.get(place, 0) + 1
            failed = (place, self.calls[place]) == self.fails
            return 2 if failed else function(*arguments)

        return call

    def keep(self, function):
        self.kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p)

    def providers(self):
        """The providers of each op."""
        found = {}
        for domain, op in self.ops:
            op = CustomOp.from_address(op)
            name = op.name(ctypes.addressof(op)).decode()
            provider = op.provider(ctypes.addressof(op)).decode()
            found.setdefault((domain, name), []).append(provider.removesuffix("ExecutionProvider"))
        return found

    def make_kernel(self, name, provider):
        """Makes a kernel of the first such op; returns the error."""
        self.error = ""
        for _, address in self.ops:
            op = CustomOp.from_address(address)
            if (op.name(address), op.provider(address)) == (name, provider + b"ExecutionProvider"):
                kernel = ctypes.c_void_p()
                op.create_kernel_v2(address, self.table, None, ctypes.byref(kernel))
                return self.error
        raise LookupError(name)


def runtime_has_cuda():
    try:
        runtime.Context(runtime.Device.CUDA)
    except runtime.RuntimeFailure as failure:
        return "built without" not in str(failure)
    return True


@pytest.mark.parametrize("version", ["1.17.3", "1.32.0", "2.1.0"])
def test_ops_are_registered_for_both_providers(version):
    """But the limit, whose result the host needs; and from the version on that says
    which GPU a kernel is on."""
    expected = ["CPU", "CUDA"] if runtime_has_cuda() and version != "1.17.3" else ["CPU"]
    found = FakeOnnxRuntime(version).providers()
    assert len(found) == 4 * 7 + 5
    for (domain, name), providers in found.items():
        limit = name.startswith("TokenLimit")
        assert providers == (["CPU"] if limit else expected * 3), (domain, name)


@pytest.mark.parametrize("place, call", [(26, 2), (27, 40), (28, 1), (28, 3)])
def test_a_registration_that_fails_leaves_nothing(place, call):
    """Making a domain, adding an op to it, and it to the options: the id is free, and
    the domains that the options haven't are released."""
    fake = FakeOnnxRuntime("1.32.0", "mine", (place, call))
    assert fake.status == 2
    made = list(range(1, len(fake.domains) + 1))
    assert fake.added == made[: call - 1 if place == 28 else 0]
    assert sorted(fake.added + fake.released) == made
    assert fake.library.tandem_onnxruntime_close(b"mine") == 1
    again = FakeOnnxRuntime("1.32.0", "mine")
    assert again.released == [] and again.added
    # The options of the one that failed may still have ops of its.
    if fake.added:
        assert fake.make_kernel(b"AllReduce", b"CPU") == ""
    # An id that is another session's: the status is the only thing made.
    taken = FakeOnnxRuntime("1.32.0", "mine", (0, 1))
    assert taken.status == 2 and taken.domains == []
    assert again.library.tandem_onnxruntime_close(b"mine") == 0
    error = again.make_kernel(b"AllReduce", b"CPU")
    assert error == "AllReduce: the ranks of this session are closed"


def test_sessions_that_are_not_there():
    library = FakeOnnxRuntime("1.32.0").library
    failure = runtime._error()
    assert library.tandem_onnxruntime_failure(b"nobody", ctypes.byref(failure)) == 1
    assert failure.message == b"there is no session 'nobody'"
    counters = runtime._Counters(ctypes.sizeof(runtime._Counters))
    assert library.tandem_onnxruntime_counters(b"nobody", ctypes.byref(counters)) == 1
    assert library.tandem_onnxruntime_close(b"nobody") == 1


def test_collectives_of_a_session_run_on_one_device():
    if not runtime_has_cuda():
        pytest.skip("the runtime was built without CUDA")
    fake = FakeOnnxRuntime("1.32.0")
    assert fake.make_kernel(b"AllReduce", b"CPU") == ""
    assert fake.make_kernel(b"NcclAllReduce", b"CUDA") == (
        "NcclAllReduce: it runs on GPU 0, and other collectives of this session on the host"
    )


def test_a_gpu_that_is_not_there():
    if not runtime_has_cuda():
        pytest.skip("the runtime was built without CUDA")
    if onnx_ranks._count_gpus():
        pytest.skip("this machine has a GPU")
    error = FakeOnnxRuntime("1.32.0").make_kernel(b"AllReduce", b"CUDA")
    assert error.startswith("AllReduce: TANDEM_STATUS_UNSUPPORTED: ")


def test_cuda_needs_a_package_that_has_it(fused_models, tmp_path):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    model = fused_models("tp2_glm4_f32", 2, "if")[0]
    feeds = MODELS / "tp2_glm4_f32.rank0.npz"
    done = tandem("run", model, f"--feeds={feeds}", "--device=cuda")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "this ONNX Runtime has no CUDA (install onnxruntime-gpu)" in done.stderr


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_cuda_that_does_not_start(monkeypatch):
    """A package with CUDA on a machine without it."""
    if onnx_ranks._count_gpus():
        pytest.skip("this machine has a GPU")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers",
        lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
    )  # fmt: skip
    model = helper_model([onnx.helper.make_node("Neg", ["x"], ["y"])])
    job = onnx_ranks.Job(model, "", [], 0, 1, "no-cuda", 8, -1, 1000, "", "cuda")
    with pytest.raises(RankFailure, match="could not start its CUDA provider"):
        onnx_ranks._run(job)


def helper_model(nodes):
    values = [(name, onnx.TensorProto.FLOAT, ["n", 64]) for name in "xy"]
    return make_model(nodes, values[:1], values[1:]).SerializeToString()


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
        results = run_ranks(models, feeds, token_limit=limit_of(name))
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
