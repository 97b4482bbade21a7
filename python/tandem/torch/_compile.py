# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass over FX graphs, and what puts it into torch.compile."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

import tandem
from tandem import _shared
from tandem.compiler import Context, FuseOptions, Module, TandemWarning
from tandem.report import Report, Site
from tandem.torch import _groups
from tandem.torch._fx_rewrite import CannotApply, Rewriter
from tandem.torch._fx_to_mlir import Emitter

_numbers = itertools.count()
_reports: list[Report] = []
_reports_lock = threading.Lock()

_ALL_REDUCES = (
    torch.ops._c10d_functional.all_reduce.default,
    torch.ops._c10d_functional.all_reduce_.default,
)


class _Groups:
    """Which groups can serve the all-reduces of a graph, and why others can't."""

    def __init__(self, batch_invariant: bool) -> None:
        self.batch_invariant = batch_invariant
        self.problems: dict[str, tuple[str, str]] = {}
        self.worlds: set[int] = set()

    def find(self, name: str, node: fx.Node) -> str | None:
        group = _groups.find_for_process_group(name)
        problem = self._check(group, name, node.meta["val"])
        if problem is None:
            assert group is not None
            self.worlds.add(group.world)
            return group.name
        self.problems[node.name] = (name, problem)
        return None

    def _check(
        self, group: _groups.Group | None, name: str, value: torch.Tensor
    ) -> str | None:
        if group is None or group.closed:
            return f"there is no group for process group {name!r}"
        if value.device != group.device:
            return f"the tensor is on {value.device}, the group on {group.device}"
        if self.batch_invariant and not group.batch_invariant:
            return "the group was made without batch_invariant"
        hidden = value.shape[-1] if value.ndim else 0
        if isinstance(hidden, int) and hidden * value.element_size() > group.row_bytes:
            return f"a row has {hidden * value.element_size()} bytes, more than the group's"
        return None

    def explain(self, site: Site) -> Site:
        """Says of a site without a group what is the matter."""
        for node, (name, problem) in self.problems.items():
            if site.location.startswith(f'"{node}" at '):
                return dataclasses.replace(
                    site,
                    group=name,
                    message=f"{site.message}: {problem}",
                    suggestion="call tandem.torch.init_group with this process group, "
                    "and sizes that fit, before the graph is compiled",
                )
        return site


@functools.cache
def _warn_once(text: str) -> None:
    _shared.warn(text, TandemWarning)


def fuse_graph(
    graph: fx.Graph | fx.GraphModule, *, name: str | None = None, **options: Any
) -> Report:
    """Fuses an FX graph of ATen ops in place and returns the report.

    Its nodes need ``meta["val"]``, as AOTAutograd and torch.export leave them.
    ``options`` are those of ``tandem-fuse`` but for the guard, which is inside the
    op: ``max_tokens``, ``limits``, ``batch_invariant``, ``merge_all_reduces``,
    ``require_all``. Raises ImportError where the compiler's library is missing, and
    tandem.Error with ``require_all``.
    """
    module = graph if isinstance(graph, fx.GraphModule) else None
    graph = graph.graph if isinstance(graph, fx.GraphModule) else graph
    if not isinstance(graph, fx.Graph):
        raise TypeError(f"graph is {type(graph).__name__}, not a Graph or GraphModule")
    name = f"graph {next(_numbers)}" if name is None else name
    for fixed in ("guard", "world_size"):
        if fixed in options:
            raise TypeError(f"{fixed} can't be chosen here")
    FuseOptions(**options)
    if not any(node.target in _ALL_REDUCES for node in graph.nodes):
        return Report(model=name, sites=())
    groups = _Groups(bool(options.get("batch_invariant")))
    emitter = Emitter(graph, name, groups.find)
    world = groups.worlds.pop() if len(groups.worlds) == 1 else None
    context = Context(allow_unregistered_dialects=True)
    mlir = Module.parse(emitter.text, name=name, context=context)
    report = mlir.fuse(FuseOptions(guard="none", world_size=world, **options))
    report = dataclasses.replace(
        report, model=name, sites=tuple(groups.explain(site) for site in report.sites)
    )
    if report.fused:
        rewriter = Rewriter(graph, emitter, mlir.graph()["ops"])
        try:
            rewriter.plan()
        except CannotApply as error:
            _warn_once(f"{name} stays as it is, for this can't be brought back: {error}")
            report = _withdraw(report, str(error))
        else:
            rewriter.apply()
    if module is not None:
        module.recompile()
    return report


def _withdraw(report: Report, why: str) -> Report:
    """The report of a graph that stayed as it was."""
    sites = (
        dataclasses.replace(
            site, status="missed", reason="NotApplied", message=why, guard=None, pattern=None
        )
        if site.fused
        else site
        for site in report.sites
    )
    return dataclasses.replace(report, sites=tuple(sites), guarded=0)


class FusePass(CustomGraphPass):  # type: ignore[misc]
    """The pass as Inductor calls it, for
    ``torch._inductor.config.post_grad_custom_post_pass``; ``before`` is another such
    pass, which runs first."""

    def __init__(
        self, before: Callable[[fx.Graph], None] | None = None, **options: Any
    ) -> None:
        FuseOptions(**options)
        self.options = options
        self.before = before

    def __call__(self, graph: fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        try:
            report = fuse_graph(graph, **self.options)
        except ImportError as error:
            _warn_once(f"graphs stay as they are: {error}")
            return
        if report.sites:
            with _reports_lock:
                _reports.append(report)

    def uuid(self) -> Any:
        """What a cached graph depends on besides the graph."""
        before = None
        if self.before is not None:
            before = self.before.uuid() if isinstance(self.before, CustomGraphPass) else None
            if before is None:
                return None  # Then nothing is cached.
        groups = [
            (g.process_group_name, g.name, g.world, str(g.device), g.row_bytes, g.batch_invariant)
            for g in _groups.groups()
        ]
        words = (tandem.__version__, _library_key(), sorted(self.options.items()), groups)
        return hashlib.sha256(repr((words, before)).encode()).hexdigest()


@functools.cache
def _library_key() -> str:
    """Changes with the compiler and with this package."""
    from tandem import _capi, _libraries

    folder = pathlib.Path(__file__).parent
    digest = hashlib.sha256()
    files = sorted(folder.glob("*.py"))
    try:
        files.append(_libraries.find(_capi.LIBRARY))
    except ImportError:
        pass
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def reports() -> list[Report]:
    """The reports of the graphs that were compiled, in their order. A graph that
    comes from a cache on disk has none."""
    with _reports_lock:
        return list(_reports)


def clear_reports() -> None:
    """Forgets them."""
    with _reports_lock:
        _reports.clear()


def _keep_floats() -> None:
    """With dynamic=True, Dynamo makes an epsilon that is a module's attribute an
    input of the graph; then nobody can know it."""
    import torch._dynamo.config

    torch._dynamo.config.specialize_float = True


def _get_config() -> Any:
    import torch._inductor.config

    return torch._inductor.config


def enable(**options: Any) -> None:
    """Has every torch.compile with Inductor run the pass from now on, after a pass that
    stands in its place already."""
    config = _get_config()
    disable()
    before = config.post_grad_custom_post_pass
    config.post_grad_custom_post_pass = FusePass(before, **options)
    _keep_floats()


def disable() -> None:
    """Undoes ``enable``."""
    config = _get_config()
    if isinstance(config.post_grad_custom_post_pass, FusePass):
        config.post_grad_custom_post_pass = config.post_grad_custom_post_pass.before


def _get_pass(options: dict[str, Any]) -> FusePass:
    before = _get_config().post_grad_custom_post_pass
    if isinstance(before, FusePass):
        before = before.before
    return FusePass(before, **options)


def _get_mode_options(mode: str | None) -> dict[str, Any]:
    if mode is None or mode == "default":
        return {}
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode))


def compile(
    model: Any = None,
    *,
    fuse: dict[str, Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """torch.compile with Inductor and the pass. ``fuse`` holds the pass's options
    (``fuse_graph``); the others are torch.compile's. Sets
    ``torch._dynamo.config.specialize_float``."""
    if more.pop("backend", "inductor") not in ("inductor", "tandem"):
        raise ValueError("the backend is Inductor")
    _keep_floats()
    given = _get_mode_options(mode) | dict(options or {})
    given["post_grad_custom_post_pass"] = _get_pass(fuse or {})
    if _version() < (2, 7):
        # torch.compile leaves options out there whose type it can't check.
        compiler = functools.partial(_run_inductor, given)
        return torch.compile(model, backend=compiler, **more)
    return torch.compile(model, backend="inductor", options=given, **more)


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def _run_inductor(
    patches: dict[str, Any], module: fx.GraphModule, inputs: list[Any]
) -> Any:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, inputs, config_patches=patches)


def backend(
    module: fx.GraphModule,
    inputs: list[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """The backend "tandem" for torch.compile: Inductor with the pass."""
    patches = _get_mode_options(mode) | dict(options or {})
    patches["post_grad_custom_post_pass"] = _get_pass({})
    return _run_inductor(patches, module, inputs)
