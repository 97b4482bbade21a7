# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws what fusion-bench measured, as SVG."""

from __future__ import annotations

import html
import json
import math
import os
import pathlib
from typing import Any

COLOURS = {
    "fused": "#1b6ca8",
    "fallback": "#c0392b",
    "all_reduce": "#e08e0b",
    "norm": "#7f8c8d",
    "link": "#2c3e50",
    "flashinfer": "#8e44ad",
}
LEFT, TOP, WIDTH, HEIGHT = 60, 40, 640, 380


def draw(results: list[dict[str, Any]], title: str) -> str:
    """Microseconds over tokens, both logarithmic; a line for each subject. Raises
    ValueError where there is nothing to draw."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if result["median"]:
            point = (result["tokens"], result["median"])
            lines.setdefault(result["subject"], []).append(point)
    if not lines:
        raise ValueError("nothing was measured for this choice")
    xs = [x for line in lines.values() for x, _ in line]
    ys = [y for line in lines.values() for _, y in line]
    low_x, high_x = math.log2(min(xs)), max(math.log2(max(xs)), math.log2(min(xs)) + 1)
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    high_y = max(high_y, low_y + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (math.log2(x) - low_x) / (high_x - low_x) * WIDTH,
            TOP + HEIGHT - (math.log10(y) - low_y) / (high_y - low_y) * HEIGHT,
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 130}" '
        f'height="{TOP + HEIGHT + 50}" font-family="sans-serif" font-size="12">',
        f'<text x="{LEFT}" y="20" font-size="14">{html.escape(title)}</text>',
    ]
    for x in sorted(set(xs)):
        out.append(
            f'<text x="{at(x, 10**low_y)[0]:.1f}" y="{TOP + HEIGHT + 18}" '
            f'text-anchor="middle">{x}</text>'
        )
    out.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 40}" '
        'text-anchor="middle">tokens</text>'
    )
    for exponent in range(low_y, high_y + 1):
        y = at(min(xs), 10**exponent)[1]
        out.append(
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="#ddd"/><text x="{LEFT - 6}" y="{y + 4:.1f}" '
            f'text-anchor="end">{10.0**exponent:g} us</text>'
        )
    for number, (subject, line) in enumerate(lines.items(), 1):
        colour = COLOURS.get(subject, "#000")
        points = " ".join("%.1f,%.1f" % at(x, y) for x, y in sorted(line))
        out.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" '
            f'stroke-width="2"/><text x="{LEFT + WIDTH + 10}" y="{TOP + 16 * number}" '
            f'fill="{colour}">{html.escape(subject)}</text>'
        )
    out.append("</svg>")
    return "\n".join(out) + "\n"


def draw_file(path: str | os.PathLike[str], choice: dict[str, Any]) -> str:
    """Draws a file that `fusion-bench --json` wrote: the results with the timing,
    hidden and dtype of `choice`, each the file's first where absent. Raises
    ValueError or OSError."""
    try:
        bench = json.loads(pathlib.Path(path).read_bytes())
        first = bench["results"][0]
        chosen = {
            key: choice.get(key) or first[key] for key in ("timing", "hidden", "dtype")
        }
        return draw(
            [r for r in bench["results"] if all(r[k] == v for k, v in chosen.items())],
            f"{bench['world_size']} x {bench['device']}, hidden {chosen['hidden']}, "
            f"{chosen['dtype']}, timing: {chosen['timing']}",
        )
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: not fusion-bench's: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
