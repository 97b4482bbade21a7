#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws what fusion-bench --json wrote, as SVG; needs Python alone.

usage: plot.py BENCH.json OUT.svg [--timing=chain] [--hidden=N] [--dtype=T]
"""

import json
import math
import sys

COLOURS = {
    "fused": "#1b6ca8",
    "fallback": "#c0392b",
    "all_reduce": "#e08e0b",
    "norm": "#7f8c8d",
    "link": "#2c3e50",
}


def draw(results, title):
    """Microseconds over tokens, both logarithmic; a line for each subject."""
    points = {}
    for r in results:
        if r["median"]:
            points.setdefault(r["subject"], []).append((r["tokens"], r["median"]))
    if not points:
        raise ValueError("nothing was measured for this choice")
    xs = [x for line in points.values() for x, _ in line]
    ys = [y for line in points.values() for _, y in line]
    left, top, width, height = 60, 40, 640, 380
    low_x, high_x = math.log2(min(xs)), max(math.log2(max(xs)), math.log2(min(xs)) + 1)
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    high_y = max(high_y, low_y + 1)

    def at(x, y):
        px = left + (math.log2(x) - low_x) / (high_x - low_x) * width
        py = top + height - (math.log10(y) - low_y) / (high_y - low_y) * height
        return px, py

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" '
        f'height="{top + height + 50}" font-family="sans-serif" font-size="12">',
        f'<text x="{left}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for x in sorted(set(xs)):
        px, _ = at(x, 10**low_y)
        out.append(f'<text x="{px:.1f}" y="{top + height + 18}" '
                   f'text-anchor="middle">{x}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" '
               'text-anchor="middle">tokens</text>')
    for exponent in range(low_y, high_y + 1):
        _, py = at(min(xs), 10**exponent)
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{py:.1f}" '
                   f'y2="{py:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{py + 4:.1f}" text-anchor="end">'
                   f'{10.0**exponent:g} us</text>')
    for i, (subject, line) in enumerate(points.items()):
        colour = COLOURS.get(subject, "#000")
        path = " ".join("%.1f,%.1f" % at(x, y) for x, y in sorted(line))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                   'stroke-width="2"/>')
        out.append(f'<text x="{left + width + 10}" y="{top + 16 * (i + 1)}" '
                   f'fill="{colour}">{escape(subject)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def main(arguments):
    files = [a for a in arguments if not a.startswith("--")]
    options = dict(a[2:].split("=", 1) for a in arguments
                   if a.startswith("--") and "=" in a)
    if len(files) != 2 or len(files) + len(options) != len(arguments) or not set(
            options) <= {"timing", "hidden", "dtype"}:
        print(__doc__.strip(), file=sys.stderr)
        return 1
    try:
        with open(files[0], encoding="utf-8") as f:
            bench = json.load(f)
        first = bench["results"][0]
        want = {"timing": options.get("timing", first["timing"]),
                "hidden": int(options.get("hidden", first["hidden"])),
                "dtype": options.get("dtype", first["dtype"])}
        chosen = [r for r in bench["results"]
                  if all(r[k] == v for k, v in want.items())]
        title = (f"{bench['world_size']} x {bench['device']}, hidden "
                 f"{want['hidden']}, {want['dtype']}, timing: {want['timing']}")
        svg = draw(chosen, title)
        with open(files[1], "w", encoding="utf-8") as f:
            f.write(svg)
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"plot.py: {files[0]}: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
