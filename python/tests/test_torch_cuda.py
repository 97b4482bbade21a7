# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.torch on two GPUs, a process each with nccl."""

import glob
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import pytest
from torch_ranks import torch

if len(glob.glob("/dev/nvidia[0-9]*")) < 2:
    pytest.skip("needs two GPUs", allow_module_level=True)

import torch.distributed as dist  # noqa: E402

import tandem.torch as tt  # noqa: E402
from tandem import _capi  # noqa: E402
from test_torch_compile import LIMIT as SMALL, close, hf_norm, make_model, near as near_model  # noqa: E402
from tandem.runtime import RuntimeFailure, Status  # noqa: E402
from test_torch_ops import reference, run_page  # noqa: E402

HIDDEN, LIMIT = 4096, 256
FUSED = torch.ops.tandem.fused_all_reduce_add_rms_norm


def _body(rank, folder, work):
    torch.cuda.set_device(rank)
    try:
        dist.init_process_group(
            "nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2
        )
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor{rank}"
        with torch.inference_mode():
            result = work(rank)
        torch.cuda.synchronize()
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        result = "".join(traceback.format_exception(error))
        pathlib.Path(folder, f"failed{rank}").write_text(result)
        os._exit(1)
    pathlib.Path(folder, f"result{rank}").write_text(json.dumps(result))


def on_gpus(work, timeout=240):
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=_body, args=(r, folder, work)) for r in range(2)]
        for process in ranks:
            process.start()
        deadline = time.monotonic() + timeout
        for process in ranks:
            process.join(max(0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
        failures = [path.read_text() for path in pathlib.Path(folder).glob("failed*")]
        codes = [process.exitcode for process in ranks]
        assert not failures and codes == [0, 0], "\n".join([*failures, str(codes)])
        return [json.loads(pathlib.Path(folder, f"result{r}").read_text()) for r in range(2)]


def draw(seed, *shape, dtype=torch.bfloat16):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype).cuda()


def make_group(dtype=torch.bfloat16, **more):
    return tt.init_group(max_tokens=LIMIT, hidden=HIDDEN, dtype=dtype, **more)


def near(ours, theirs):
    # NCCL adds in another order; one unit in the last place of the sum.
    tolerance = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}
    torch.testing.assert_close(ours, theirs, rtol=tolerance[ours.dtype], atol=1e-3)


def variants(rank):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        with make_group(dtype) as group:
            assert group.info().fused and group.device == torch.device("cuda", rank)
            assert group.token_limit() == LIMIT
            for tokens in ((1,), (2, 5), (128,), (LIMIT + 44,), (0,)):
                inputs = [draw(r, *tokens, HIDDEN, dtype=dtype) for r in range(2)]
                residual = draw(7, *tokens, HIDDEN, dtype=dtype)
                gamma, bias, pre = (draw(8 + i, HIDDEN, dtype=dtype) for i in range(3))
                for kept, more in (
                    (residual, {}),
                    (None, {"rounding": "after_gamma"}),
                    (residual, {"bias": bias}),
                    (residual, {"pre_gamma": pre, "pre_epsilon": 1e-6}),
                ):
                    want = reference(inputs, kept, gamma, 1e-5, **more)
                    got = FUSED.sum(inputs[rank], kept, gamma, 1e-5, "0", **more)
                    for ours, theirs in zip(got, want):
                        near(ours, theirs)
                    if kept is not None:
                        place = kept.clone()
                        norm = tt.fused_all_reduce_add_rms_norm_(
                            inputs[rank], place, gamma, 1e-5, group, **more
                        )
                        near(norm, want[0])
                        near(place, want[1])
                    fallen = FUSED.norm(
                        inputs[rank], kept, gamma, 1e-5, "0", fallback=True, **more
                    )
                    near(fallen, want[0])
            counters = group.counters()
            assert counters["fused"] > 0 and counters["fallback"] > 0
            assert counters["failed"] == 0


def test_variants():
    on_gpus(variants)


def bad_calls(rank):
    with make_group() as group:
        x, gamma = draw(rank, 4, HIDDEN), draw(1, HIDDEN)
        there = torch.ones(4, HIDDEN, dtype=torch.bfloat16, device=f"cuda:{1 - rank}")
        freed = x.clone()
        freed.untyped_storage().resize_(0)
        for kind, text, bad in (
            (ValueError, "input is on cpu, group '0' on cuda", lambda: tt.all_reduce(x.cpu(), "0")),
            (ValueError, "input is on cuda:", lambda: tt.all_reduce(there, "0")),
            (ValueError, "residual is on cuda:", lambda: FUSED(x, there, gamma, 1e-5, "0")),
            (ValueError, "gamma is on cpu", lambda: FUSED(x, x, gamma.cpu(), 1e-5, "0")),
            (TypeError, "input has torch.float64", lambda: tt.all_reduce(x.double(), "0")),
            (TypeError, "residual has torch.float32", lambda: FUSED(x, x.float(), gamma, 1e-5, "0")),
            (ValueError, r"residual has the shape", lambda: FUSED(x, x[0], gamma, 1e-5, "0")),
            (ValueError, r"gamma has the shape", lambda: FUSED(x, x, gamma[1:], 1e-5, "0")),
            (ValueError, "memory of input has been freed", lambda: tt.all_reduce(freed, "0")),
            (ValueError, "memory of an operand", lambda: FUSED(x, freed, gamma, 1e-5, "0")),
            (ValueError, "rows with gaps may have", lambda: FUSED(
                draw(0, 4 * LIMIT, HIDDEN + 8)[:, :HIDDEN], None, gamma, 1e-5, "0")),
        ):
            with pytest.raises((kind, NotImplementedError), match=text):
                bad()
        gaps = draw(rank, 4, 2 * HIDDEN)[:, HIDDEN:]
        close(FUSED.norm(gaps, None, gamma, 1e-5, "0"),
              FUSED.norm(gaps.contiguous(), None, gamma, 1e-5, "0"))
        assert group.counters()["failed"] == 0
    with pytest.raises(RuntimeError, match="there is no group '0'"):
        tt.all_reduce(x, group)
    for options in ({"hidden": HIDDEN * (rank + 1)}, {"dtype": (x.dtype, torch.float16)[rank]}):
        given = dict(max_tokens=LIMIT, hidden=HIDDEN, dtype=x.dtype) | options
        with pytest.raises(RuntimeFailure, match=next(iter(options))) as caught:
            tt.init_group(**given)
        assert caught.value.status == Status.MISMATCH
    with pytest.raises(Exception, match="(?i)device|ordinal"):
        make_group(device=f"cuda:{torch.cuda.device_count()}")
    # All of that has left nothing behind, and the smallest number of tokens holds.
    with tt.init_group(max_tokens=LIMIT + rank, hidden=HIDDEN, dtype=x.dtype) as group:
        assert group.token_limit() == LIMIT
        assert torch.equal(tt.all_reduce(torch.ones_like(x), group), torch.full_like(x, 2))


def test_bad_calls():
    on_gpus(bad_calls)


def test_page(tmp_path):
    run_page(tmp_path)


def graphs(rank):
    group = make_group()
    gamma = draw(1, HIDDEN)

    def capture(tokens):
        x, r = draw(rank, tokens, HIDDEN), draw(5, tokens, HIDDEN)
        FUSED(x, r, gamma, 1e-5, "0")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y, s = FUSED(x, r, gamma, 1e-5, "0")
            z, s = FUSED(y, s, gamma, 1e-5, "0")
        return graph, (x, r), (z, s)

    def check(captured, seed):
        graph, (x, r), out = captured
        x.copy_(draw(seed + rank, *x.shape))
        graph.replay()
        y, s = FUSED(x, r, gamma, 1e-5, "0")
        for ours, theirs in zip(out, FUSED(y, s, gamma, 1e-5, "0")):
            assert torch.equal(ours, theirs)
        both = [draw(seed + i, *x.shape) for i in range(2)]
        near(y, reference(both, r, gamma, 1e-5)[0])

    sizes = [capture(tokens) for tokens in (1, 17, LIMIT + 1)]
    for i in range(20):
        check(sizes[i % 3 if i % 2 else 0], 10 * i)
    # On a stream of its own, behind work that is still going on.
    x, r = draw(rank, 64, HIDDEN), draw(5, 64, HIDDEN)
    want = FUSED(x * 3, r, gamma, 1e-5, "0")[0]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        got = FUSED(x * 3, r, gamma, 1e-5, "0")[0]
    stream.synchronize()
    assert torch.equal(got, want)
    # Asleep, the memory is there for others; awake, graphs are captured anew.
    del sizes
    torch.cuda.synchronize()
    before, shared = torch.cuda.mem_get_info()[0], group.info().shared_bytes
    group.sleep()
    freed = torch.cuda.mem_get_info()[0] - before
    assert freed >= shared > 8 << 20, (freed, shared)
    with pytest.raises(RuntimeError, match="is asleep"):
        FUSED(x, r, gamma, 1e-5, "0")
    group.wake()
    captured = capture(9)
    for i in range(5):
        check(captured, 1000 + i)
    del captured
    group.close()
    return freed


def test_graphs():
    on_gpus(graphs)


SCRIPT = """
import sys, torch, torch.distributed as dist, tandem.torch
rank, store = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=2)
group = tandem.torch.init_group(max_tokens=4, hidden=4096, dtype=torch.bfloat16)
x = torch.ones(2, 4096, dtype=torch.bfloat16, device="cuda")
with torch.inference_mode():
    tandem.torch.all_reduce(x, group)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tandem.torch.all_reduce(x, group)
    for _ in range(100):
        graph.replay()
if rank == 1:
    print(y.float().sum().item())  # Rank 0 ends while its replays are running.
"""


def test_interpreter_exit(tmp_path):
    """Nothing is closed, and nobody waits: the processes end by themselves."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert [out for out, _ in outputs] == ["", "16384.0\n"]
    assert not any("andem" in err for _, err in outputs), outputs


def forked(rank):
    group = make_group()
    x = draw(rank, 2, HIDDEN)
    torch.cuda.synchronize()
    child = os.fork()
    if child == 0:
        try:
            group.barrier()
        except RuntimeError as error:
            os._exit(7 if "made by the parent" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    tt.all_reduce(x, group)
    torch.cuda.synchronize()
    group.close()


def test_fork():
    on_gpus(forked)


def differing(rank):
    group = make_group(timeout_ms=5000)
    with pytest.raises(RuntimeError, match="group '0': TANDEM_STATUS_MISMATCH"):
        for _ in range(50):  # The kernels find it; a later call says it.
            FUSED.norm(draw(0, 2 + rank, HIDDEN), None, draw(1, HIDDEN), 1e-5, "0")
            torch.cuda.synchronize()
    group.close()
    with make_group() as group:
        assert tt.all_reduce(draw(0, 2, HIDDEN), group).isfinite().all()


def test_ranks_that_disagree():
    on_gpus(differing)


def compiled(rank):
    try:
        _capi.library()
    except ImportError:
        return "no compiler"
    model = make_model(rank).cuda()
    small = dict(max_tokens=SMALL, hidden=64, dtype=torch.bfloat16)
    found = {}
    with tt.init_group(**small) as group:
        for mode, dynamic in ((None, True), ("reduce-overhead", False)):
            torch._dynamo.reset()
            tt.clear_reports()
            ours = tt.compile(model, fullgraph=True, mode=mode, dynamic=dynamic)
            for seed, tokens in enumerate((6, 6, 6, SMALL + 4 if dynamic else 6)):
                x = draw(seed, 1, tokens, 64)
                near_model(ours(x).clone(), model(x))
            found[str(mode)] = [str(report) for report in tt.reports()]
        del ours
        torch._dynamo.reset()
        assert group.counters()["failed"] == 0
    return found


def test_compile():
    results = on_gpus(compiled)
    if results[0] == "no compiler":
        pytest.skip("needs libTandemC")
    for found in results:
        assert set(found) == {"None", "reduce-overhead"}
        for reports in found.values():
            assert reports == ["fused 4 of 4 all-reduces (0 missed)"]


def op_in_reduce_overhead(rank):
    """The op itself under torch.compile's CUDA graphs; needs no compiler library."""
    with make_group() as group:
        gamma = draw(1, HIDDEN)

        def step(x, r):
            y, r = tt.fused_all_reduce_add_rms_norm(x * 2, r, gamma, 1e-5, "0")
            return tt.fused_all_reduce_add_rms_norm(y + 1, r, gamma, 1e-5, "0")

        ours = torch.compile(step, fullgraph=True, mode="reduce-overhead")
        for seed in range(5):
            x, r = draw(seed + rank, 8, HIDDEN), draw(99, 8, HIDDEN)
            torch.compiler.cudagraph_mark_step_begin()
            got = [value.clone() for value in ours(x, r)]
            for a, b in zip(got, step(x, r)):
                close(a, b)
        torch._dynamo.reset()
        counters = group.counters()
        assert counters["failed"] == 0
        # Replays aren't counted: fewer calls than were made.
        assert 10 <= counters["fused"] < 20
        return counters["fused"]


def test_op_in_reduce_overhead():
    on_gpus(op_in_reduce_overhead)


def times(rank):
    """Microseconds: of the calling thread, and of a call in a chain in a graph."""
    group = tt.init_group(max_tokens=2048, hidden=HIDDEN, dtype=torch.bfloat16)
    gamma = draw(1, HIDDEN)
    found = {}

    def host(call, count=200, rounds=7):
        samples = []
        for _ in range(rounds):
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            samples.append((time.perf_counter() - start) / count * 1e6)
        return sorted(samples)[rounds // 2]

    def chain(call, count=50, rounds=11):
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        samples = []
        for _ in range(rounds):
            dist.barrier()
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) / count * 1e3)
        return sorted(samples)[rounds // 2]

    def plain(x, r):
        dist.all_reduce(x)
        return hf_norm(x + r, gamma)

    for tokens in (1, 32, 128, 1024):
        x, r = draw(rank, tokens, HIDDEN), draw(5, tokens, HIDDEN)
        calls = {
            "fused": lambda: FUSED(x, r, gamma, 1e-5, "0"),
            "in place": lambda: tt.fused_all_reduce_add_rms_norm_(x, r, gamma, 1e-5, group),
            "eager": lambda: plain(x, r),
        }
        found[tokens] = {}
        for name, call in calls.items():
            host(call, 20, 2)
            found[tokens][name] = [round(host(call), 2), round(chain(call), 2)]
    group.close()
    return found


@pytest.mark.skipif("TANDEM_TORCH_TIMES" not in os.environ, reason="TANDEM_TORCH_TIMES=1 measures")
def test_times(capsys):
    results = on_gpus(times)
    with capsys.disabled():
        print("\n[host us a call, us a call of a chain in a graph]", json.dumps(results[0]))
