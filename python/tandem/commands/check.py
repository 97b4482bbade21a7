# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares a model before and after fusion, over all ranks.

Both run in ONNX Runtime with the same feeds, random ones if none are given. All
outputs are compared, and the values at each place where something was fused, so
that the first one that differs is found. Before that, what was decided for the
ranks' files is compared. `{rank}` in a path stands for the rank.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tandem.commands.run import add_run_arguments
from tandem.onnx_ranks import Arrays, find_models, load_feeds, run_ranks

HELP = "compare a model before and after fusion"

#: Sizes for named dims that nobody has given, in the order in which they come.
SIZES = (2, 5, 3, 7)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("original", help="as model.rank{rank}.onnx")
    parser.add_argument("fused", help="as fused.rank{rank}.onnx")
    parser.add_argument(
        "--feeds", action="append", default=[], metavar="NPZ", help="inputs by name"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="DIM=N",
        help="a named dim of random feeds",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random feeds (0)")
    parser.add_argument(
        "--int-max",
        type=int,
        default=1,
        metavar="N",
        help="random integers are from 0 to N (1)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-5,
        help="largest difference, relative to values above 1 (1e-5)",
    )
    add_run_arguments(parser)


def load(path: str) -> Any:
    import onnx

    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:
        raise ValueError(f"{path}: {error}") from None


def signature_of(model: Any) -> str:
    return next(
        (p.value for p in model.metadata_props if p.key == "tandem.signature"), ""
    )


def find_sites(fused: Any, original: Any) -> list[tuple[str, list[str]]]:
    """Of each place where something was fused its name and the values it gives
    that the original has, too."""
    known = {o for node in original.graph.node for o in node.output if o}
    sites = []
    for node in fused.graph.node:
        is_guard = node.op_type == "If" and node.name.startswith("tandem/")
        is_ours = node.domain == "ai.tandem" and not node.op_type.startswith("TokenLimit")
        if is_guard or is_ours:
            sites.append((node.name, [o for o in node.output if o in known]))
    return sites


def expose(model: Any, names: list[str]) -> bytes:
    """The model with these values as outputs after its own."""
    import onnx

    known = {v.name: v for v in model.graph.value_info}
    present = {o.name for o in model.graph.output}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for name in names:
        if name not in present:
            changed.graph.output.append(known.get(name, onnx.ValueInfoProto(name=name)))
    return bytes(changed.SerializeToString())


def _tensors_of(nodes: Iterable[Any], initializers: Iterable[Any]) -> Iterator[Any]:
    yield from initializers
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of(graph.node, graph.initializer)


def folder_of(model: Any, path: str) -> str:
    """The folder of the model's external data; "" if it has none."""
    tensors = list(_tensors_of(model.graph.node, model.graph.initializer))
    for function in model.functions:
        tensors += _tensors_of(function.node, [])
    external = any(tensor.data_location == tensor.EXTERNAL for tensor in tensors)
    return str(pathlib.Path(path).resolve().parent) if external else ""


def make_feeds(model: Any, given: argparse.Namespace) -> Arrays:
    import numpy
    import onnx

    sizes = {}
    for text in given.size:
        name, equals, number = text.partition("=")
        if not equals or not number.isdecimal():
            raise ValueError(f"--size is '{text}', not DIM=N")
        sizes[name] = int(number)
    unknown = set(sizes)
    defaults = iter(SIZES)
    random = numpy.random.default_rng(given.seed)
    initializers = {t.name for t in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor = value.type.tensor_type
        shape = []
        for dim in tensor.shape.dim:
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
            else:
                name = dim.dim_param or f"{value.name}[{len(shape)}]"
                unknown.discard(name)
                if name not in sizes:
                    sizes[name] = next(defaults, 2)
                shape.append(sizes[name])
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind in "iu":
            feeds[value.name] = random.integers(0, given.int_max + 1, shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = random.integers(0, 2, shape).astype(dtype)
        else:
            feeds[value.name] = random.standard_normal(shape).astype(dtype)
    if unknown:
        there = ", ".join(f"'{name}'" for name in sizes if name not in unknown)
        raise ValueError(
            f"--size names '{min(unknown)}', which is no dim of the inputs; "
            f"there {'are ' + there if there else 'is none'}"
        )
    return feeds


def difference_of(a: Any, b: Any) -> float:
    """The largest difference, relative to the largest value where that is above 1;
    infinite where shapes or NaNs differ."""
    import numpy

    if a.shape != b.shape:
        return float("inf")
    if a.dtype.kind not in "fc" or not a.size:
        return 0.0 if numpy.array_equal(a, b) else float("inf")
    a, b = a.astype("f8"), b.astype("f8")
    if not numpy.array_equal(numpy.isnan(a), numpy.isnan(b)):
        return float("inf")
    with numpy.errstate(invalid="ignore"):
        gap = numpy.where((a == b) | numpy.isnan(a), 0, numpy.abs(a - b))
    finite = numpy.abs(a[numpy.isfinite(a)])
    return float(gap.max(initial=0) / max(1.0, finite.max(initial=0)))


def compare_signatures(models: list[Any], paths: list[str]) -> bool:
    """Whether all ranks' files decided the same."""
    first = signature_of(models[0]).splitlines()
    for model, path in zip(models[1:], paths[1:]):
        lines = signature_of(model).splitlines()
        for site in range(max(len(first), len(lines))):
            ours = first[site] if site < len(first) else "nothing"
            theirs = lines[site] if site < len(lines) else "nothing"
            if ours != theirs:
                print(
                    f"the ranks' files differ at collective {site}: {paths[0]} has "
                    f"'{ours}' and {path} '{theirs}'"
                )
                return False
    return True


def run(given: argparse.Namespace) -> int:
    if given.ranks < 1:
        raise ValueError(f"--ranks is {given.ranks}; at least one is needed")
    originals = find_models(given.original, given.ranks)
    fused = find_models(given.fused, given.ranks)
    protos = [[load(path) for path in paths] for paths in (originals, fused)]
    if not compare_signatures(protos[1], fused):
        return 1
    if given.feeds:
        feeds = load_feeds(given.feeds, given.ranks)
    else:
        feeds = [[make_feeds(protos[0][0], given)]] * given.ranks
    sites = find_sites(protos[1][0], protos[0][0])
    names = [name for _, values in sites for name in values]
    results = []
    for models, paths in zip(protos, (originals, fused)):
        results.append(
            run_ranks(
                [expose(model, names) for model in models],
                feeds,
                folders=[folder_of(model, path) for model, path in zip(models, paths)],
                max_tokens=given.max_tokens,
                token_limit=given.token_limit,
                timeout=given.timeout,
                device=given.device,
            )
        )

    outputs = [o.name for o in protos[0][0].graph.output]
    values = [(f"at {site}", name) for site, listed in sites for name in listed]
    values += [("output", name) for name in outputs if name not in names]
    worst, worst_at, first = 0.0, "", ""
    for where, name in values:
        for rank in range(given.ranks):
            for index in range(len(feeds[0])):
                a, b = (result[rank].outputs[index][name] for result in results)
                gap = difference_of(a, b)
                place = f"'{name}' ({where}, rank {rank}, run {index})"
                if gap > worst:
                    worst, worst_at = gap, place
                if gap > given.tolerance and not first:
                    first = place
    counters = [result.counters[-1] for result in results[1]]
    print(
        f"{len(sites)} sites, {given.ranks} ranks, {len(feeds[0])} runs; on rank 0 "
        f"fused {counters[0]['fused']}, not fused {counters[0]['fallback']}, "
        f"all-reduces {counters[0]['all_reduce']}"
    )
    print(
        f"largest difference {worst:.3g}{' at ' + worst_at if worst_at else ''}; "
        f"tolerance {given.tolerance:g}"
    )
    if not sites:
        print(
            f"note: '{fused[0]}' has no fused site, so nothing fused was compared",
            file=sys.stderr,
        )
    elif not counters[0]["fused"] and not counters[0]["fallback"]:
        print("note: no fused op ran in these runs", file=sys.stderr)
    if first:
        print(f"the first that is larger: {first}")
        return 1
    print("equal within the tolerance")
    return 0
