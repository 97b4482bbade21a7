# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report as one page that needs nothing from elsewhere."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tandem.report import Report, Site, shorten

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; color: #1b1f24; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #d8dee4;
  vertical-align: top; }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
.fused { color: #116329; font-weight: 600; } .missed { color: #a40e26; font-weight: 600; }
details { border: 1px solid #d8dee4; border-radius: 6px; margin: .4rem 0;
  padding: .4rem .8rem; }
summary { cursor: pointer; } svg { max-width: 100%; height: auto; }
svg text { font: 12px ui-monospace, monospace; fill: #1b1f24; }
svg .op { fill: #f6f8fa; stroke: #8c959f; }
svg .collective { fill: #ddf4ff; stroke: #0969da; stroke-width: 2; }
svg .norm { fill: #dafbe1; stroke: #1a7f37; stroke-width: 2; }
svg .edge { fill: none; stroke: #8c959f; marker-end: url(#arrow); }
svg .axis { stroke: #8c959f; } svg .bar { fill: #0969da; }
"""

# The graph around a site: how many ops behind it and before it, how many at all.
BEHIND, BEFORE, MOST = 10, 2, 26


@dataclasses.dataclass(frozen=True)
class Op:
    id: int
    label: str
    location: str
    types: Sequence[str]
    inputs: Sequence[int]


class Graph:
    """The graph of a module, as Module.graph gives it."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.ops: dict[int, Op] = {}
        self.users: dict[int, list[int]] = defaultdict(list)
        self.at: dict[tuple[str, str], Op] = {}
        for value in graph["ops"]:
            op = Op(
                value["id"],
                value["op"],
                value["location"],
                value["types"],
                value["inputs"],
            )
            self.ops[op.id] = op
            for producer in dict.fromkeys(op.inputs):
                if producer >= 0:
                    self.users[producer].append(op.id)
            self.at.setdefault((value["function"], op.location), op)

    def find(self, site: Site) -> Op | None:
        return self.at.get((site.function, site.location))

    def producers(self, ids: Iterable[int]) -> list[int]:
        return [i for id_ in ids for i in self.ops[id_].inputs if i in self.ops]

    def is_other_sum(self, id_: int, near: set[int]) -> bool:
        """Whether an op adds what comes from elsewhere, and is no constant."""
        return self.ops[id_].label.endswith(("Add", ".addf")) and any(
            producer not in near and not self.ops[producer].label.endswith("onstant")
            for producer in self.producers([id_])
        )

    def around(self, center: Op) -> list[Op]:
        """The ops near ``center``, in the order of execution."""
        near = {center.id}
        edge = [center.id]
        for _ in range(BEFORE):
            edge = [
                producer
                for id_ in edge
                for producer in self.ops[id_].inputs
                if producer in self.ops and producer not in near
            ]
            near.update(edge[: MOST - len(near)])
        edge = [center.id]
        for step in range(BEHIND):
            edge = [user for id_ in edge for user in self.users[id_] if user not in near]
            edge = list(dict.fromkeys(edge))[: max(MOST - len(near), 0)]
            near.update(edge)
            if step == 0:
                # What the sum meets: the residual, gamma.
                near.update(self.producers(edge))
            else:
                # A later sum with something else begins another chain.
                edge = [id_ for id_ in edge if not self.is_other_sum(id_, near)]
        for id_ in sorted(near):
            if len(near) < MOST and self.ops[id_].label.endswith(("Mul", "Norm")):
                near.update(self.producers([id_]))
        return [self.ops[id_] for id_ in sorted(near)]


def draw(ops: Sequence[Op], center: Op) -> str:
    """An SVG picture: each op below all that it reads."""
    layer: dict[int, int] = {}
    for op in ops:
        layer[op.id] = 1 + max((layer[i] for i in op.inputs if i in layer), default=-1)
    rows: dict[int, list[Op]] = defaultdict(list)
    for op in ops:
        rows[layer[op.id]].append(op)
    labels = {op.id: op.label.removeprefix("onnx.") for op in ops}
    width = {op.id: 16 + 7.5 * max(len(labels[op.id]), 6) for op in ops}
    place: dict[int, tuple[float, float]] = {}
    total = max(sum(width[o.id] + 24 for o in row) for row in rows.values())
    for number, row in rows.items():
        x = (total - sum(width[op.id] + 24 for op in row)) / 2
        for op in row:
            place[op.id] = (x + 12 + width[op.id] / 2, 20 + 58 * number)
            x += width[op.id] + 24
    parts = []
    for op in ops:
        for producer in dict.fromkeys(op.inputs):
            if producer in place:
                (x0, y0), (x1, y1) = place[producer], place[op.id]
                y0, y1 = y0 + 14, y1 - 16
                parts.append(
                    f'<path class="edge" d="M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + 20:.0f} '
                    f'{x1:.0f} {y1 - 20:.0f} {x1:.0f} {y1:.0f}"/>'
                )
    for op in ops:
        x, y = place[op.id]
        kind = "op"
        if op.id == center.id:
            kind = "collective"
        elif "Norm" in op.label or "ReduceMean" in op.label:
            kind = "norm"
        title = html.escape(f"{op.label} {' '.join(op.types)}\n{op.location}")
        parts.append(
            f"<g><title>{title}</title>"
            f'<rect class="{kind}" x="{x - width[op.id] / 2:.0f}" y="{y - 14:.0f}" '
            f'width="{width[op.id]:.0f}" height="28" rx="5"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">'
            f"{html.escape(labels[op.id])}</text></g>"
        )
    height = 40 + 58 * max(rows)
    return (
        f'<svg viewBox="0 0 {total:.0f} {height}" width="{total:.0f}" '
        f'role="img" aria-label="the graph around the all-reduce">{"".join(parts)}</svg>'
    )


def _integer(value: object) -> int | None:
    """`value` if it is an integer to the pass, as 512.0 and 5e2 are."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _entry(entry: object) -> tuple[str, int]:
    """The name and the limit of a profile's entry, under the same rules as the pass
    has (passes/Fuse/Limits.cpp)."""
    if not isinstance(entry, dict):
        raise ValueError("is not an object")
    names = []
    for key in ("world_size", "hidden"):
        if key in entry:
            number = _integer(entry[key])
            if number is None or number <= 0:
                raise ValueError(f"'{key}' is not a positive integer")
            names.append(f"{key}={number}")
    if "dtype" in entry:
        if entry["dtype"] not in ("f32", "f16", "bf16"):
            raise ValueError("'dtype' is not one of f32, f16, bf16")
        names.append(f"dtype={entry['dtype']}")
    limit = _integer(entry.get("max_tokens"))
    if limit is None or limit < -1:
        raise ValueError("'max_tokens' is not an integer of -1 or more")
    return " ".join(names) or "any", max(limit, 0)


def _entries(profile: str | os.PathLike[str]) -> list[tuple[str, int]]:
    root = json.loads(pathlib.Path(profile).read_bytes())
    if not isinstance(root, dict):
        raise ValueError("is not a JSON object")
    version = _integer(root.get("version"))
    if version is None:
        raise ValueError("has no integer 'version'")
    if version != 1:
        raise ValueError(f"has version {version}, this program reads version 1")
    if not isinstance(root.get("limits"), list):
        raise ValueError("has no array 'limits'")
    bars = []
    for index, entry in enumerate(root["limits"]):
        try:
            bars.append(_entry(entry))
        except ValueError as error:
            raise ValueError(f"limits[{index}]: {error}") from None
    return bars


def plot(profile: str | os.PathLike[str]) -> str:
    """The limits of a tuning profile (docs/limits.md), one bar each."""
    try:
        bars = _entries(profile)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"limits file '{os.fspath(profile)}': {error}") from None
    most = max((limit for _, limit in bars), default=0) or 1
    parts = []
    for number, (name, limit) in enumerate(bars):
        y = 24 * number
        parts.append(
            f'<text x="250" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect class="bar" x="260" y="{y + 3}" height="16" '
            f'width="{360 * limit / most:.1f}"/>'
            f'<text x="{268 + 360 * limit / most:.1f}" y="{y + 15}">{limit}</text>'
        )
    height = 24 * len(bars) + 6
    parts.append(f'<line class="axis" x1="260" y1="0" x2="260" y2="{height}"/>')
    return (
        f'<svg viewBox="0 0 720 {height}" width="720" role="img" '
        f'aria-label="tokens up to which fusion pays off">{"".join(parts)}</svg>'
    )


def _describe(site: Site) -> str:
    rows = [
        ("place", site.location),
        ("group", site.group),
        ("world size", site.world_size),
        ("hidden size", site.hidden),
        ("type", site.dtype),
        ("pattern", site.pattern),
        ("guard", site.guard),
        ("reason", site.reason and f"{site.reason}: {site.message}"),
        ("in the way", site.blocked_by),
        ("what to do", site.suggestion),
    ]
    return "".join(
        f"<tr><th>{name}</th><td><code>{html.escape(str(value))}</code></td></tr>"
        for name, value in rows
        if value is not None
    )


def render(report: Report, profile: str | os.PathLike[str] | None) -> str:
    graph = Graph(report.graph) if report.graph is not None else None
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(str(report))}</title><style>{STYLE}</style></head><body>"
        '<svg width="0" height="0" style="position:absolute"><defs><marker id="arrow" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#8c959f"/></marker></defs></svg>',
        f"<h1>{html.escape(report.model)}</h1><p><strong>{html.escape(str(report))}"
        f"</strong>, {report.guarded} behind a check at run time.</p>",
    ]
    misses = report.misses()
    if misses:
        parts.append("<h2>Missed, by reason</h2><table>")
        for reason, sites in misses.items():
            parts.append(
                f"<tr><td class='missed'>{html.escape(reason)}</td><td>{len(sites)}</td>"
                f"<td>{html.escape(sites[0].message or '')}</td>"
                f"<td>{html.escape(sites[0].suggestion or '')}</td></tr>"
            )
        parts.append("</table>")
    if profile is not None:
        parts.append(
            f"<h2>Tokens up to which fusion pays off</h2>{plot(profile)}"
            f"<p>From <code>{html.escape(os.fspath(profile))}</code>.</p>"
        )
    parts.append("<h2>Sites, in the order of execution</h2>")
    for number, site in enumerate(report.sites, 1):
        what = (site.pattern if site.fused else site.reason) or ""
        parts.append(
            f"<details><summary>{number}. <span class='{site.status}'>{site.status}"
            f"</span> <code>{html.escape(what)}</code> at "
            f"<code>{html.escape(shorten(site.location))}</code> in "
            f"<code>{html.escape(site.function)}</code></summary>"
            f"<table>{_describe(site)}</table>"
        )
        center = graph.find(site) if graph else None
        if graph and center:
            parts.append(draw(graph.around(center), center))
        parts.append("</details>")
    parts.append("</body></html>\n")
    return "".join(parts)
