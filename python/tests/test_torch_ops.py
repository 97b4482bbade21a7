# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.torch's groups and ops, on CPUs: two processes with gloo."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from torch_ranks import HIDDEN, LIMIT, no_grad, on_ranks, torch  # noqa: F401

import tandem.torch as tt
from tandem.runtime import RuntimeFailure, Status
from conftest import ROOT

FUSED = torch.ops.tandem.fused_all_reduce_add_rms_norm


def make_group(dtype=torch.float32, **more):
    return tt.init_group(max_tokens=LIMIT, hidden=HIDDEN, dtype=dtype, **more)


def draw(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def norm(x, gamma, epsilon, rounding):
    """In float64, but for the roundings that are promised."""
    wide = x.double()
    scaled = wide / (wide.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()
    if rounding == "before_gamma":
        scaled = scaled.to(x.dtype).double()
    return (scaled * gamma.double()).to(x.dtype)


def reference(inputs, residual, gamma, epsilon, bias=None, pre_gamma=None,
              pre_epsilon=0.0, rounding="before_gamma", pre_rounding="before_gamma"):
    s = sum(x.float() for x in inputs).to(inputs[0].dtype)
    sum_ = s
    if bias is not None:
        s = (s.float() + bias.float()).to(s.dtype)
    if pre_gamma is not None:
        s = norm(s, pre_gamma, pre_epsilon, pre_rounding)
    r = s if residual is None else (s.float() + residual.float()).to(s.dtype)
    return norm(r, gamma, epsilon, rounding), r, sum_


def assert_close(ours, theirs):
    """Equal but for one unit in the last place of a few elements."""
    tolerance = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
    torch.testing.assert_close(ours, theirs, rtol=tolerance[ours.dtype], atol=1e-6)


VARIANTS = {
    "plain": {},
    "after gamma": {"rounding": "after_gamma"},
    "bias": {"bias": True},
    "sandwich": {"pre_gamma": True, "pre_epsilon": 1e-6, "pre_rounding": "after_gamma"},
    "no residual": {"residual": None},
}


def all_variants(rank, dtype):
    group = make_group(dtype)
    assert (group.rank, group.world, group.name) == (rank, 2, "0")
    assert group.token_limit() == LIMIT and group.info().fused
    calls = 0
    for tokens in ((5,), (2, 8), (LIMIT + 1,), (3, 2, 7), (0,)):
        inputs = [draw(r, *tokens, HIDDEN, dtype=dtype) for r in range(2)]
        residual = draw(7, *tokens, HIDDEN, dtype=dtype)
        gamma, more = draw(8, HIDDEN).to(dtype), {}
        for name, options in VARIANTS.items():
            options = dict(options)
            kept = options.pop("residual", residual)
            more = {
                key: draw(9 + i, HIDDEN, dtype=dtype)
                for i, key in enumerate(("bias", "pre_gamma"))
                if options.pop(key, False)
            } | options
            want = reference(inputs, kept, gamma, 1e-5, **more)
            mine = inputs[rank].clone()
            got = tt.fused_all_reduce_add_rms_norm(mine, kept, gamma, 1e-5, group, **more)
            three = FUSED.sum(mine, kept, gamma, 1e-5, "0", **more)
            one = FUSED.norm(mine, kept, gamma, 1e-5, "0", **more)
            fallen = FUSED(mine, kept, gamma, 1e-5, "0", fallback=True, **more)
            assert torch.equal(mine, inputs[rank])
            for ours, theirs in zip(three, want):
                assert ours.shape == mine.shape
                assert_close(ours, theirs)
            assert torch.equal(got[0], three[0]) and torch.equal(got[1], three[1])
            assert torch.equal(one, three[0]) and torch.equal(fallen[0], three[0])
            assert torch.equal(three[2], want[2])
            if kept is not None:
                place = kept.clone()
                again = tt.fused_all_reduce_add_rms_norm_(
                    mine, place, gamma, 1e-5, group, **more
                )
                assert torch.equal(again, three[0]) and torch.equal(place, three[1])
            calls += 4 + (kept is not None)
        total = tt.all_reduce(inputs[rank], group)
        assert torch.equal(total, (inputs[0].float() + inputs[1].float()).to(dtype))
        mine = inputs[rank].clone()
        assert tt.all_reduce_(mine, "0") is mine and torch.equal(mine, total)
    counters = group.counters()
    assert counters["all_reduce"] == 8 and counters["failed"] == 0
    assert counters["fused"] + counters["fallback"] == calls * 4 // 5
    group.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_all_variants(dtype):
    on_ranks(all_variants, dtype)


def strides(rank):
    with make_group() as group:
        gamma = torch.ones(HIDDEN)
        wide = draw(rank, 6, 2 * HIDDEN)
        plain = FUSED(wide[:, :HIDDEN].contiguous(), None, gamma, 1e-5, "0")
        gaps = FUSED(wide[:, :HIDDEN], None, gamma, 1e-5, "0")
        assert torch.equal(plain[0], gaps[0]) and gaps[0].is_contiguous()
        batched = wide.view(2, 3, 2 * HIDDEN)[..., :HIDDEN]
        assert torch.equal(FUSED.norm(batched, None, gamma, 1e-5, "0").view(6, -1), plain[0])
        # A residual with gaps, in place.
        held = wide.clone()
        FUSED_ = torch.ops.tandem.fused_all_reduce_add_rms_norm_
        FUSED_(torch.zeros(6, HIDDEN), held[:, HIDDEN:], gamma, 1e-5, "0")
        assert torch.equal(held, wide)
        # One row's distance means nothing; one element off is no reason.
        FUSED.norm(wide[:1, :HIDDEN], None, gamma, 1e-5, "0")
        odd = torch.empty(6 * HIDDEN + 1)[1:].view(6, HIDDEN).copy_(wide[:, :HIDDEN])
        assert torch.equal(FUSED.norm(odd, None, gamma, 1e-5, "0"), plain[0])
        for what, bad in {
            "in one piece": draw(0, HIDDEN, 6).t(),
            "at equal distances": draw(0, 2, 4, HIDDEN)[:, :3],
            "overlap": draw(0, 1, HIDDEN).expand(6, HIDDEN),
        }.items():
            with pytest.raises(ValueError, match=what):
                FUSED.norm(bad, None, gamma, 1e-5, "0")


def test_strides():
    on_ranks(strides)


def bad_calls(rank):
    group = make_group(torch.bfloat16)
    x = draw(rank, 4, HIDDEN, dtype=torch.bfloat16)
    gamma = torch.ones(HIDDEN)
    other = torch.ones(HIDDEN, dtype=torch.float64)
    call = tt.fused_all_reduce_add_rms_norm
    in_place = tt.fused_all_reduce_add_rms_norm_
    meta = torch.empty(4, HIDDEN, device="meta", dtype=x.dtype)
    freed = x.clone()
    freed.untyped_storage().resize_(0)
    for kind, text, bad in (
        (RuntimeError, "no group 'tp' .there is '0'", lambda: call(x, x, gamma, 1e-5, "tp")),
        (TypeError, "group is int", lambda: call(x, x, gamma, 1e-5, 5)),
        (TypeError, "input is NoneType, not a Tensor", lambda: call(None, x, gamma, 1e-5, group)),
        (TypeError, "gamma is list, not a Tensor", lambda: call(x, x, [1.0], 1e-5, group)),
        (TypeError, "residual is NoneType", lambda: tt.fused_all_reduce_add_rms_norm_(x, None, gamma, 1e-5, group)),
        (TypeError, "input is NoneType", lambda: tt.all_reduce(None, group)),
        (TypeError, "input is float", lambda: tt.all_reduce_(1.0, group)),
        (TypeError, "input has torch.float64", lambda: call(x.double(), None, gamma, 1e-5, group)),
        (TypeError, "input has torch.int64", lambda: call(x.long(), None, gamma, 1e-5, group)),
        (TypeError, "residual has torch.float32", lambda: call(x, x.float(), gamma, 1e-5, group)),
        (ValueError, r"residual has the shape \[64\]", lambda: call(x, x[0], gamma, 1e-5, group)),
        (TypeError, "gamma has torch.float64", lambda: call(x, x, other, 1e-5, group)),
        (ValueError, r"gamma has the shape \[63\]", lambda: call(x, x, gamma[1:], 1e-5, group)),
        (ValueError, r"gamma has the shape \[1, 64\]",
         lambda: call(x, x, gamma[None], 1e-5, group)),
        (ValueError, "gamma must be contiguous",
         lambda: call(x, x, torch.ones(2 * HIDDEN)[::2], 1e-5, group)),
        (TypeError, "bias has torch.float32, not torch.bfloat16",
         lambda: call(x, x, gamma, 1e-5, group, bias=gamma)),
        (ValueError, "pre_gamma has the shape",
         lambda: call(x, x, gamma, 1e-5, group, pre_gamma=gamma[1:])),
        (ValueError, "epsilon is -1", lambda: call(x, x, gamma, -1.0, group)),
        (ValueError, "epsilon is nan", lambda: call(x, x, gamma, float("nan"), group)),
        (ValueError, "rounding is 'never'",
         lambda: call(x, x, gamma, 1e-5, group, rounding="never")),
        (ValueError, "without batch_invariant",
         lambda: call(x, x, gamma, 1e-5, group, batch_invariant=True)),
        (ValueError, "input has no dimensions", lambda: call(x[0, 0], None, gamma, 1e-5, group)),
        (ValueError, "262144 bytes.*|a row of input has 262146",
         lambda: call(x.new_zeros(1, 131073), None, x.new_zeros(131073), 1e-5, group)),
        (ValueError, "residual, which is written to, overlaps input",
         lambda: in_place(x, x, gamma, 1e-5, group)),
        (ValueError, "input must be contiguous", lambda: tt.all_reduce(x.t(), group)),
        (ValueError, "memory of input has been freed", lambda: tt.all_reduce(freed, group)),
        (ValueError, "memory of an operand", lambda: call(x, freed, gamma, 1e-5, group)),
        (NotImplementedError, "SparseCPU", lambda: tt.all_reduce(x.to_sparse(), group)),
        (Exception, "meta|Meta", lambda: call(x, meta, gamma, 1e-5, group)),
        (Exception, "Tensor", lambda: call([1.0], x, gamma, 1e-5, group)),
    ):
        with pytest.raises(kind, match=text):
            bad()
    with torch.enable_grad():
        with pytest.raises(RuntimeError, match="gamma requires grad.*no_grad"):
            call(x, x, torch.nn.Parameter(gamma), 1e-5, group)
        with pytest.raises(RuntimeError, match="input requires grad"):
            tt.all_reduce(x.clone().requires_grad_(), group)
        call(x, x, gamma, 1e-5, group)  # Nobody wants a gradient.
    empty = FUSED.norm(x[:, :0], None, gamma[:0], 1e-5, "0")
    assert empty.shape == (4, 0)
    # None of this has disturbed the group.
    assert torch.equal(tt.all_reduce(torch.ones(2, 3), group), torch.full((2, 3), 2.0))
    assert group.counters()["failed"] == 0
    with pytest.raises(ValueError, match="there is a group '0' already"):
        make_group()
    group.close()
    group.close()
    assert group.closed and tt.groups() == []
    for bad in (group, "0"):
        with pytest.raises(RuntimeError, match="there is no group '0'"):
            call(x, x, gamma, 1e-5, bad)
    with pytest.raises(RuntimeError, match="group '0' is closed"):
        group.info()
    with pytest.raises(RuntimeError, match="group '0' is closed"):
        group.wake()


def test_bad_calls():
    on_ranks(bad_calls)


def bad_groups(rank):
    for kind, text, options in (
        (TypeError, "dtype is torch.float64", {"dtype": torch.float64}),
        (TypeError, "dtype is 'bf16'", {"dtype": "bf16"}),
        (TypeError, "float", {"max_tokens": 1.5}),
        (TypeError, "name is int", {"name": 5}),
        (ValueError, "device is meta", {"device": "meta"}),
        (RuntimeFailure, "hidden is 0", {"hidden": 0}),
    ):
        given = dict(max_tokens=LIMIT, hidden=HIDDEN, dtype=torch.float32) | options
        with pytest.raises(kind, match=text):
            tt.init_group(**given)
    # One rank is wrong: both say so.
    with pytest.raises((RuntimeError, TypeError), match="dtype is torch.float64"):
        make_group(torch.float64 if rank else torch.float32)
    with pytest.raises(RuntimeError, match="rank 1 calls the group 'b', rank 0 'a'"):
        make_group(name="ab"[rank])
    for options in (
        {"hidden": HIDDEN * (rank + 1)},
        {"dtype": (torch.bfloat16, torch.float16)[rank]},
    ):
        given = dict(max_tokens=LIMIT, hidden=HIDDEN, dtype=torch.float32) | options
        with pytest.raises(RuntimeFailure, match=next(iter(options))) as caught:
            tt.init_group(**given)
        assert caught.value.status == Status.MISMATCH
    # The smallest number of tokens holds.
    with tt.init_group(max_tokens=LIMIT + rank, hidden=HIDDEN, dtype=torch.float32) as group:
        assert group.token_limit() == LIMIT
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="cuda|CUDA|driver|NVIDIA"):
            make_group(device="cuda")
    alone = torch.distributed.new_group([0])
    if rank == 1:
        with pytest.raises(ValueError, match="isn't in the process group"):
            make_group(process_group=alone)
    else:
        with tt.init_group(alone, max_tokens=4, hidden=8, dtype=torch.float32) as group:
            assert group.world == 1
            x = draw(0, 4, 8)
            assert torch.equal(tt.all_reduce(x, group), x)
    with make_group() as group:  # All of that has left nothing behind.
        assert tt.get_group("0") is group


def test_bad_groups():
    on_ranks(bad_groups)


def test_no_process_group():
    with pytest.raises(RuntimeError, match="init_process_group"):
        make_group()
    with pytest.raises(RuntimeError, match="there is no group 'x' .there is none"):
        tt.get_group("x")


def writing(rank):
    """Autograd must see that a tensor that it has saved was written to."""
    with make_group():
        for write in (
            lambda x: tt.all_reduce_(x, "0"),
            lambda x: tt.fused_all_reduce_add_rms_norm_(
                draw(1, 4, HIDDEN), x, torch.ones(HIDDEN), 1e-5, "0"
            ),
        ):
            with torch.enable_grad():
                saved, weight = draw(0, 4, HIDDEN), torch.ones(4, HIDDEN, requires_grad=True)
                loss = (saved * weight).sum()
                write(saved)
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    loss.backward()
            with torch.inference_mode():
                write(draw(0, 4, HIDDEN))


def test_writing_is_seen():
    on_ranks(writing, world=1)


def sleeping(rank):
    group = make_group()
    x, gamma = draw(rank, 4, HIDDEN), torch.ones(HIDDEN)
    before = FUSED(x, None, gamma, 1e-5, "0")
    group.set_fusion(False)
    for _ in range(2):
        group.sleep()
        assert group.asleep
        with pytest.raises(RuntimeError, match="group '0' is asleep"):
            FUSED(x, None, gamma, 1e-5, "0")
        with pytest.raises(RuntimeError, match="is asleep"):
            group.sleep()
        group.barrier()
        group.wake()
        with pytest.raises(RuntimeError, match="group '0' is open"):
            group.wake()
        assert group.token_limit() == -1  # As it was before.
    group.set_fusion(True)
    after = FUSED(x, None, gamma, 1e-5, "0")
    assert torch.equal(before[0], after[0]) and group.counters()["fused"] == 1
    group.sleep()
    group.close()


def test_sleep():
    on_ranks(sleeping)


def other_thread(rank):
    """Rank 0 comes late, and rank 1 waits for it in another thread."""
    group = make_group()
    x = torch.ones(2, HIDDEN)
    if rank == 1:
        entered, results = threading.Event(), []

        def wait():
            entered.set()
            results.append(tt.all_reduce(x, group))

        thread = threading.Thread(target=wait)
        thread.start()
        entered.wait()
        with pytest.raises(RuntimeError, match="in use by another thread"):
            for _ in range(1000):
                if not group._lock.locked():
                    threading.Event().wait(0.001)
                    continue
                tt.all_reduce(x, group)
        group._communicator.barrier()
        thread.join()
        assert torch.equal(results[0], x * 2)
    else:
        group._communicator.barrier()
        tt.all_reduce(x, group)
    assert torch.equal(tt.all_reduce(x, group), x * 2)
    group.close()


def test_other_thread():
    on_ranks(other_thread)


def forked(rank):
    group = make_group()
    child = os.fork()
    if child == 0:
        try:
            tt.all_reduce(torch.ones(2, HIDDEN), group)
        except RuntimeError as error:
            os._exit(7 if "made by the parent" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert torch.equal(tt.all_reduce(torch.ones(3), group), torch.full((3,), 2.0))
    group.close()


def test_fork():
    on_ranks(forked)


def failing(rank):
    group = make_group(timeout_ms=5000)
    gamma = torch.ones(HIDDEN)
    with pytest.raises(RuntimeError, match="group '0': TANDEM_STATUS_MISMATCH.*tokens"):
        FUSED(draw(0, 2 + rank, HIDDEN), None, gamma, 1e-5, "0")
    with pytest.raises(RuntimeError, match="MISMATCH"):  # It stays so,
        tt.all_reduce(gamma, group)
    group.close()
    with make_group() as group:  # and a new one works.
        tt.all_reduce(gamma, group)
        torch.distributed.barrier()


def test_ranks_that_disagree():
    on_ranks(failing)


def leaving(rank):
    group = make_group(timeout_ms=5000)
    if rank == 1:
        group.close()
    torch.distributed.barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match="PEER_LEFT"):
            tt.all_reduce(torch.ones(4), group)


def test_a_rank_that_closes():
    on_ranks(leaving)


def without_gloo(out):
    """PyTorch before 2.11 says on stdout which ranks gloo has connected."""
    return "".join(
        line for line in out.splitlines(True) if not line.startswith("[Gloo]")
    )


SCRIPT = """
import sys, torch, torch.distributed as dist, tandem.torch
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
group = tandem.torch.init_group(max_tokens=4, hidden=8, dtype=torch.float32)
with torch.inference_mode():
    print(tandem.torch.all_reduce(torch.ones(2, 8), group).sum().item())
if rank == 1:
    group = None  # Dropped, while it is still known by its name.
"""


def test_interpreter_exit(tmp_path):
    """Nothing is closed: the processes end by themselves, in silence."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=120)
        assert (rank.returncode, without_gloo(out)) == (0, "32.0\n"), err
        assert "tandem" not in err.lower(), err


def run_page(folder, **environment):
    """The program of docs/embedding/pytorch.md prints what the page says."""
    page = (ROOT / "docs/embedding/pytorch.md").read_text()
    program, rest = page.split("```python\n")[1].split("```", 1)
    (folder / "half.py").write_text(program)
    (folder / "env/bin").mkdir(parents=True)
    (folder / "env/bin/torchrun").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run --standalone "$@"\n'
    )
    (folder / "env/bin/torchrun").chmod(0o755)
    command = rest.split("```sh\n")[1].split("```")[0]
    printed = rest.split("prints\n\n```\n")[1].split("```")[0]
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        # A graph from a cache has no report, and the other rank may have put it there.
        env=dict(
            os.environ,
            OMP_NUM_THREADS="1",
            TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
            **environment,
        ),
        timeout=500,
    )
    assert (done.returncode, without_gloo(done.stdout)) == (0, printed), done.stderr


def test_page(tmp_path):
    run_page(tmp_path, CUDA_VISIBLE_DEVICES="")


def test_op_checks():
    """PyTorch's own checks of schema, fake and tracing; a world of one needs no
    peer."""
    on_ranks(op_checks, world=1)


def op_checks(rank):
    with make_group():
        x, gamma = draw(0, 3, HIDDEN), draw(1, HIDDEN)
        tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        for op, residual in (
            (FUSED.default, x + 1),
            (FUSED.norm, None),
            (FUSED.sum, x + 1),
            (torch.ops.tandem.fused_all_reduce_add_rms_norm_.default, x + 1),
        ):
            torch.library.opcheck(op, (x, residual, gamma, 1e-5, "0"), test_utils=tests)
        torch.library.opcheck(torch.ops.tandem.all_reduce.default, (x, "0"), test_utils=tests)
        torch.library.opcheck(torch.ops.tandem.all_reduce_.default, (x, "0"), test_utils=tests)
