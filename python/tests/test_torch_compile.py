# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem.torch's pass over FX graphs, and torch.compile, on CPUs: two processes with
gloo. What a graph computed before is compared with what it computes after."""

import os

import pytest
from torch_ranks import HIDDEN, LIMIT, no_grad, on_ranks, torch  # noqa: F401

import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn

import tandem
import tandem.torch as tt

FUSED = torch.ops.tandem.fused_all_reduce_add_rms_norm


def all_reduce(x, reduction="sum"):
    return funcol.all_reduce(x, reduction, dist.group.WORLD)


def hf_norm(x, gamma, epsilon=1e-5):
    """As Hugging Face's modules write it."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return gamma * wide.to(x.dtype)


def gemma_norm(x, gamma, epsilon=1e-6):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * (1.0 + gamma.float())).type_as(x)


# --- Chains that fuse: what is computed, the op that is taken, the pattern ---


def plain(x, r, g, h):
    s = r + all_reduce(x)
    return hf_norm(s, g), s


def swapped(x, r, g, h):
    s = all_reduce(x) + r
    return hf_norm(s, g), s * 2


def last_layer(x, r, g, h):
    return (hf_norm(r + all_reduce(x), g),)


def bias(x, r, g, h):
    s = (all_reduce(x) + h) + r
    return hf_norm(s, g), s


def torch_norm(x, r, g, h):
    s = all_reduce(x) + r
    return F.rms_norm(s, (HIDDEN,), g, 1e-5), s


def sandwich(x, r, g, h):
    s = r + hf_norm(all_reduce(x), h)
    return hf_norm(s, g), s


def gemma(x, r, g, h):
    s = r + gemma_norm(all_reduce(x), h)
    return gemma_norm(s, g), s


def embedding(x, r, g, h):
    s = all_reduce(x)
    return hf_norm(s, g), s


def sum_used(x, r, g, h):
    s = all_reduce(x)
    t = s + r
    return hf_norm(t, g), t, s * 3


def sum_alone(x, r, g, h):
    s = all_reduce(x)
    return hf_norm(s + r, g), s * 3


def views(x, r, g, h):
    rows = x.reshape(-1, HIDDEN) * 1.0
    s = all_reduce(rows).view(x.shape) + r
    return hf_norm(s, g), s


def views_after(x, r, g, h):
    s = all_reduce(x) + r
    return hf_norm(s.reshape(-1, HIDDEN), g), s


def in_place(x, r, g, h):
    y = x * 1.0
    torch.ops._c10d_functional.all_reduce_(y, "sum", dist.group.WORLD.group_name)
    s = torch.ops._c10d_functional.wait_tensor(y) + r
    return hf_norm(s, g), s


def late_residual(x, r, g, h):
    s = all_reduce(x)
    t = s + torch.tanh(r * 2)
    return hf_norm(t, g), t


def strides(x, r, g, h):
    """What is read has gaps, or isn't in rows at all."""
    wide = torch.cat([x, x], -1)[..., :HIDDEN]
    s = all_reduce(x) + torch.cat([r, r], -1)[..., HIDDEN:]
    y = hf_norm(s, torch.stack([g, g], -1)[:, 0])
    s = s + all_reduce(wide.transpose(0, 1).contiguous().transpose(0, 1))
    return hf_norm(s, h), y


def two_layers(x, r, g, h):
    s = r + all_reduce(x)
    y = hf_norm(s, g)
    s = s + all_reduce(torch.tanh(y))
    return hf_norm(s, h), s


CHAINS = {
    plain: ("default", "all_reduce_add_rms_norm"),
    swapped: ("default", "all_reduce_add_rms_norm"),
    last_layer: ("norm", "all_reduce_add_rms_norm"),
    bias: ("default", "all_reduce_add_rms_norm"),
    torch_norm: ("default", "all_reduce_add_rms_norm"),
    sandwich: ("default", "all_reduce_rms_norm_add_rms_norm"),
    gemma: ("default", "all_reduce_rms_norm_add_rms_norm"),
    embedding: ("default", "all_reduce_rms_norm"),
    sum_used: ("sum", "all_reduce_add_rms_norm"),
    sum_alone: ("sum", "all_reduce_add_rms_norm"),
    views: ("default", "all_reduce_add_rms_norm"),
    views_after: ("default", "all_reduce_add_rms_norm"),
    in_place: ("default", "all_reduce_add_rms_norm"),
    late_residual: ("default", "all_reduce_add_rms_norm"),
    strides: (None, "all_reduce_add_rms_norm"),
    two_layers: ("default", "all_reduce_add_rms_norm"),
}


def draw(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def make_inputs(rank, dtype, *tokens):
    return (
        draw(rank, *tokens, HIDDEN, dtype=dtype),
        draw(7, *tokens, HIDDEN, dtype=dtype),
        draw(8, HIDDEN, dtype=dtype),
        draw(9, HIDDEN, dtype=dtype),
    )


def trace(function, inputs, dynamic=True):
    """The function's graph; ``dynamic``: for all batches and token counts."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(tensor):
        sizes = [DimDynamic.STATIC] * tensor.ndim
        if dynamic and tensor.ndim == 3:
            sizes[:2] = [DimDynamic.DYNAMIC] * 2
        context = StatelessSymbolicContext(dynamic_sizes=sizes)
        return mode.from_tensor(tensor, symbolic_context=context)

    with torch.no_grad():
        return make_fx(function, tracing_mode="fake")(*map(fake, inputs))


def close(ours, theirs):
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}
    torch.testing.assert_close(ours, theirs, rtol=tolerance[ours.dtype], atol=1e-2)


def near(ours, theirs):
    """Of a model in bf16: Inductor rounds at fewer places."""
    torch.testing.assert_close(ours, theirs, rtol=3.2e-2, atol=6e-2)


def make_group(dtype, **more):
    return tt.init_group(max_tokens=LIMIT, hidden=HIDDEN, dtype=dtype, **more)


def chains(rank):
    for dtype in (torch.float32, torch.bfloat16):
        with make_group(dtype) as group:
            calls = 0
            for chain, (overload, pattern) in CHAINS.items():
                for dynamic in (True, False) if dtype == torch.bfloat16 else (True,):
                    inputs = make_inputs(rank, dtype, 2, 3)
                    module = trace(chain, inputs, dynamic)
                    want = chain(*inputs)
                    report = tt.fuse_graph(module, name="graph")
                    where = f"{chain.__name__} {dynamic=}:\n{report.table()}\n{module.code}"
                    assert report.missed == 0, where
                    assert {site.pattern for site in report.sites} == {pattern}, where
                    assert {site.group for site in report.sites} == {"0"}, where
                    targets = [node.target for node in module.graph.nodes]
                    if overload is not None:
                        op = getattr(FUSED, overload)
                        assert targets.count(op) == report.fused, where
                    assert not any("c10d" in str(target) for target in targets), where
                    got = module(*inputs)
                    calls += report.fused
                    if dynamic:  # Also with other sizes, beyond the limit.
                        more = make_inputs(rank, dtype, 5, 7)
                        for ours, theirs in zip(module(*more), chain(*more), strict=True):
                            close(ours, theirs)
                        calls += report.fused
                    for ours, theirs in zip(got, want, strict=True):
                        close(ours, theirs)
                    # The example's values are those of what is computed.
                    for node in module.graph.nodes:
                        if node.op == "output":
                            assert [n.meta["val"].dtype for n in node.args[0]] == [
                                value.dtype for value in got
                            ]
            counters = group.counters()
            assert counters["fused"] + counters["fallback"] == calls
            assert counters["failed"] == 0


def test_chains():
    on_ranks(chains, timeout=500)


# --- Graphs that stay as they are, with the reason ---


def no_norm(x, r, g, h):
    return (torch.relu(all_reduce(x) + r),)


def layer_norm(x, r, g, h):
    s = (all_reduce(x) + r).float()
    s = s - s.mean(-1, keepdim=True)
    return (hf_norm(s.to(x.dtype), g),)


def maximum(x, r, g, h):
    return (hf_norm(all_reduce(x, "max") + r, g),)


def narrow_statistics(x, r, g, h):
    s = all_reduce(x) + r
    return (g * (s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + 1e-5)),)


def other_mean(x, r, g, h):
    s = all_reduce(x) + r
    return (g * (s.float() * torch.rsqrt(s.float().pow(2).mean(-2, keepdim=True) + 1e-5)).to(s.dtype),)


def computed_epsilon(x, r, g, h):
    s = (all_reduce(x) + r).float()
    return (g * (s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + g.float().max())).to(x.dtype),)


def broadcast(x, r, g, h):
    return (hf_norm(all_reduce(x) + r[:, :1], g),)


def another_collective(x, r, g, h):
    s = all_reduce(x)
    t = all_reduce(r, "max")
    return (hf_norm(s + t, g),)


def depends_on_sum(x, r, g, h):
    s = all_reduce(x)
    return (hf_norm(s + torch.tanh(s), g),)


def input_in_place(x, r, g, h):
    """The caller sees what becomes of x."""
    torch.ops._c10d_functional.all_reduce_(x, "sum", dist.group.WORLD.group_name)
    return (hf_norm(torch.ops._c10d_functional.wait_tensor(x) + r, g),)


def scaled(x, r, g, h):
    return (hf_norm(torch.add(all_reduce(x), r, alpha=2), g),)


MISSES = {
    no_norm: ["NoNormConsumer"],
    layer_norm: ["TypeChanges"],
    maximum: ["ReductionNotSum"],
    narrow_statistics: ["NormNotRecognized"],
    other_mean: ["NormNotRecognized"],
    computed_epsilon: ["NormNotRecognized"],
    broadcast: ["ResidualShapeUnproven"],
    another_collective: ["SumOfAllReduces", "ReductionNotSum"],
    depends_on_sum: ["ResidualDependsOnSum"],
    scaled: ["NoNormConsumer"],
    input_in_place: [],
}


def misses(rank):
    with make_group(torch.bfloat16):
        for function, reasons in MISSES.items():
            module = trace(function, make_inputs(rank, torch.bfloat16, 2, 3))
            code = module.code
            report = tt.fuse_graph(module)
            where = f"{function.__name__}:\n{report.table()}\n{code}"
            assert report.fused == 0 and module.code == code, where
            assert {site.reason for site in report.sites} <= set(reasons), where
            assert bool(report.sites) == bool(reasons), where
        wide = trace(narrow_statistics, make_inputs(rank, torch.float64, 2, 3))
        (site,) = tt.fuse_graph(wide).sites
        assert site.reason == "TypeUnsupported"
        # Options of the pass.
        module = trace(plain, make_inputs(rank, torch.bfloat16, 2, 3), dynamic=False)
        (site,) = tt.fuse_graph(module, max_tokens=5).sites
        assert site.reason == "StaticTokensExceedLimit"
        with pytest.raises(tandem.Error, match="require=all"):
            tt.fuse_graph(module, max_tokens=5, require_all=True)
        for bad in ({"guard": "chain"}, {"world_size": 2}, {"other": 1}):
            with pytest.raises(TypeError, match=next(iter(bad))):
                tt.fuse_graph(module, **bad)
        assert tt.fuse_graph(module, max_tokens=6).fused == 1
        with pytest.raises(TypeError, match="graph is NoneType"):
            tt.fuse_graph(None)
    # Without a group that can serve.
    module = trace(plain, make_inputs(rank, torch.bfloat16, 2, 3))
    (site,) = tt.fuse_graph(module).sites
    assert (site.fused, site.group) == (False, "0")
    assert "there is no group for process group '0'" in site.message
    assert "init_group" in site.suggestion
    with tt.init_group(max_tokens=4, hidden=8, dtype=torch.float32) as group:
        object.__setattr__(group, "row_bytes", 64)
        (site,) = tt.fuse_graph(module).sites
        assert "a row has 128 bytes" in site.message


def test_misses():
    on_ranks(misses)


def other_name(rank):
    with make_group(torch.float32, name='a "name", \\ and ü'):
        module = trace(plain, make_inputs(rank, torch.float32, 2, 3))
        inputs = make_inputs(rank, torch.float32, 4, 1)
        want = plain(*inputs)
        (site,) = tt.fuse_graph(module).sites
        assert site.group == 'a "name", \\ and ü'
        close(module(*inputs)[0], want[0])


def test_name_of_a_group():
    on_ranks(other_name)


def merging(rank):
    def experts(x, r, g, h):
        s = all_reduce(x) + all_reduce(x * 2)
        return hf_norm(s + r, g), s

    with make_group(torch.float32) as group:
        module = trace(experts, make_inputs(rank, torch.float32, 2, 3))
        report = tt.fuse_graph(module)
        assert {site.reason for site in report.sites} == {"SumOfAllReduces"}
        report = tt.fuse_graph(module, merge_all_reduces=True)
        assert report.fused == 2, report.table()
        inputs = make_inputs(rank, torch.float32, 2, 3)
        for ours, theirs in zip(module(*inputs), experts(*inputs), strict=True):
            close(ours, theirs)
        assert group.counters()["fused"] == 1


def invariant(rank):
    inputs = make_inputs(rank, torch.float32, 2, 3)
    for allowed in (True, False):
        with make_group(torch.float32, batch_invariant=allowed):
            module = trace(plain, inputs)
            (site,) = tt.fuse_graph(module, batch_invariant=True).sites
            assert site.fused == allowed
            if allowed:
                close(module(*inputs)[0], plain(*inputs)[0])
                assert "batch_invariant = True" in module.code
            else:
                assert "without batch_invariant" in site.message


def test_batch_invariance():
    on_ranks(invariant)


def not_brought_back(rank):
    """A graph of ops that the rewriter doesn't find stays as it is."""
    from tandem.torch import _fx_rewrite

    with make_group(torch.float32):
        module = trace(plain, make_inputs(rank, torch.float32, 2, 3))
        code = module.code
        _fx_rewrite._LINE = _fx_rewrite.re.compile("nowhere")
        with pytest.warns(tandem.TandemWarning, match="stays as it is.*func.return") as caught:
            (site,) = tt.fuse_graph(module).sites
        assert caught[0].filename == __file__
        assert (site.status, site.reason) == ("missed", "NotApplied")
        assert module.code == code


def test_not_brought_back():
    on_ranks(not_brought_back)


def test_merge_all_reduces():
    on_ranks(merging)


# --- torch.compile ---


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(HIDDEN) + 0.5)
        self.variance_epsilon = 1e-5

    def forward(self, x):
        return hf_norm(x, self.weight, self.variance_epsilon)


class Layer(nn.Module):
    """Two halves, each with an all-reduce: in place, as people write it, and
    functional."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 32, bias=False)
        self.down = nn.Linear(32, HIDDEN, bias=False)
        self.input_norm, self.post_norm = Norm(), Norm()

    def forward(self, x):
        y = self.first(self.input_norm(x))
        dist.all_reduce(y)
        x = x + y
        y = all_reduce(self.down(F.silu(self.up(self.post_norm(x)))))
        return x + y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = Norm()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def make_model(rank):
    torch.manual_seed(0)
    model = Model().to(torch.bfloat16).eval()
    torch.manual_seed(rank + 1)  # Each rank has its share of the weights.
    for layer in model.layers:
        for linear in (layer.first, layer.up, layer.down):
            nn.init.normal_(linear.weight, std=0.1)
    return model


def compiled(rank, folder):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/{rank}"
    model = make_model(rank)
    with make_group(torch.bfloat16) as group:
        for dynamic in (False, True):
            torch._dynamo.reset()
            tt.clear_reports()
            ours = tt.compile(model, fullgraph=True, dynamic=dynamic)
            x = draw(5, 1, 6, HIDDEN, dtype=torch.bfloat16)
            near(ours(x), model(x))
            assert [str(report) for report in tt.reports()] == [
                "fused 4 of 4 all-reduces (0 missed)"
            ]
            assert group.counters()["fused"] == 4 + 4 * dynamic
        x = draw(5, 1, LIMIT + 4, HIDDEN, dtype=torch.bfloat16)
        near(ours(x), model(x))
        assert len(tt.reports()) == 1  # The same graph.
        assert group.counters()["fallback"] == 4
        # From the cache on disk: no pass runs, and the op is in the code.
        torch._dynamo.reset()
        tt.clear_reports()
        before = group.counters()["fused"]
        x = draw(6, 1, 6, HIDDEN, dtype=torch.bfloat16)
        near(tt.compile(model, fullgraph=True, dynamic=True)(x), model(x))
        assert tt.reports() == [] and group.counters()["fused"] == before + 4
        # The plain torch.compile, from now on and no longer.
        for way in ("enable", "backend", "disable"):
            torch._dynamo.reset()
            before = group.counters()["fused"]
            if way == "enable":
                tt.enable()
            elif way == "disable":
                tt.enable()
                tt.disable()
            backend = tt.backend if way == "backend" else "inductor"
            near(torch.compile(model, backend=backend, dynamic=True)(x), model(x))
            tt.disable()
            assert group.counters()["fused"] == before + 4 * (way != "disable"), way
        # As it is done for PyTorch 2.6.
        torch._dynamo.reset()
        before = group.counters()["fused"]
        ordinary = tt._compile._version()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tt._compile, "_version", lambda: (2, 6))
            near(tt.compile(model, fullgraph=True, dynamic=True)(x), model(x))
        assert group.counters()["fused"] == before + 4
    # The library is missing: a warning, and the graph as it was, by the ordinary way.
    assert tt._compile._version() == ordinary
    torch._dynamo.reset()
    from tandem import _capi, _libraries

    _capi.library.cache_clear()
    _libraries.load = _raise
    torch._inductor.config.force_disable_caches = True
    with make_group(torch.bfloat16) as group:
        with pytest.warns(tandem.TandemWarning, match="graphs stay as they are: no library"):
            near(tt.compile(model, dynamic=False)(x), model(x))
        assert group.counters()["fused"] == 0


def _raise(*_):
    raise ImportError("no library")


def test_compile(tmp_path):
    on_ranks(compiled, tmp_path, timeout=500)


def op_in_a_model(rank, folder):
    """The op as people call it, in a graph that is compiled whole."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/{rank}"

    def step(x, r, g):
        y, r = tt.fused_all_reduce_add_rms_norm(x * 2, r, g, 1e-5, "0")
        z = tt.fused_all_reduce_add_rms_norm_(y + 1, r, g, 1e-5, "0")
        return z, r, tt.all_reduce(z, "0")

    with make_group(torch.float32) as group:
        x, r, g, _ = make_inputs(rank, torch.float32, 5)
        for ours, theirs in zip(torch.compile(step, fullgraph=True)(x, r, g), step(x, r, g)):
            close(ours, theirs)
        assert group.counters()["fused"] == 4
        with torch.enable_grad(), pytest.raises(Exception, match="requires grad"):
            torch.compile(step, fullgraph=True)(x, r, nn.Parameter(g))


def test_op_in_a_compiled_function(tmp_path):
    on_ranks(op_in_a_model, tmp_path, timeout=300)
