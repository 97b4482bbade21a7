# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the fused op against its fallback on this machine's GPUs (or CPUs).

Runs fusion-bench, a process a rank, shows its table, and writes figures, a plot,
and the profile that `tandem fuse --limits` reads. Where flashinfer-python is
importable, its fused kernel is measured on the same sizes.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HELP = "time the fused op on this machine, and write a profile"

TOOL = "fusion-bench"
# Options that go to the tool as they are; it says what is wrong with them.
FORWARDED = {
    "ranks": ("N", "processes, a GPU each (2)"),
    "hidden": ("N,...", "hidden sizes (4096)"),
    "tokens": ("N,...", "token counts, ascending (1,4,16,...,8192)"),
    "dtype": ("T,...", "f32, f16, bf16 (bf16)"),
    "pattern": ("P", "add_norm, norm or sandwich (add_norm)"),
    "timing": ("T,...", "chain, neighbours, cold, skew (chain)"),
    "samples": ("N", "how many count (21)"),
    "json": ("FILE", "write all figures"),
    "tune": ("FILE", "write a profile"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="what to time (cuda)"
    )
    for name, (metavar, text) in FORWARDED.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the figures (.svg), of the first hidden size, type and timing",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="measure nothing: draw what --json wrote earlier",
    )


def find_tool() -> str:
    """The path of fusion-bench. Raises FileNotFoundError."""
    from tandem import _libraries

    folders = [pathlib.Path(__file__).parents[1] / "bin"]
    # A build folder has build/bin beside build/lib and build/runtime.
    given = os.environ.get(_libraries.VARIABLE, "")
    folders += [pathlib.Path(part).parent / "bin" for part in given.split(":") if part]
    for folder in folders:
        if os.access(folder / TOOL, os.X_OK):
            return str(folder / TOOL)
    found = shutil.which(TOOL)
    if found is None:
        places = ", ".join(map(str, dict.fromkeys(folders)))
        raise FileNotFoundError(
            f"there is no {TOOL} in {places} or on the PATH; install the package from "
            f"its wheel, or let {_libraries.VARIABLE} name a build's folders"
        )
    return found


def measure(given: argparse.Namespace, json: str | None) -> int:
    """Runs the tool, which prints for itself; returns its exit status."""
    command = [find_tool(), f"--device={given.device}"]
    for name in FORWARDED:
        value = json if name == "json" else getattr(given, name)
        if value is not None:
            command.append(f"--{name}={value}")
    if sys.stderr.isatty():
        command.append("--progress")
    sys.stdout.flush()
    status = subprocess.run(command, check=False).returncode
    if status < 0:
        raise OSError(f"{TOOL} was stopped by signal {-status}")
    return status


def choose(given: argparse.Namespace) -> dict[str, object]:
    """What to draw: the first of each list that was given."""
    chosen: dict[str, object] = {}
    for name in ("hidden", "dtype", "timing"):
        value = getattr(given, name)
        if value is not None:
            part = value.split(",")[0]
            chosen[name] = int(part) if part.isdecimal() else part
    return chosen


def run(given: argparse.Namespace) -> int:
    from tandem import _flashinfer, _plot

    def plot(source: str) -> None:
        svg = _plot.draw_file(source, choose(given))
        pathlib.Path(given.plot).write_text(svg, encoding="utf-8")

    if given.source is not None:
        if given.plot is None:
            raise ValueError("--from draws, but there is no --plot")
        for name in ("json", "tune"):
            if getattr(given, name) is not None:
                raise ValueError(f"--from measures nothing that --{name} could write")
        plot(given.source)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        json = given.json
        beside = given.device == "cuda" and _flashinfer.is_importable()
        if json is None and (beside or given.plot is not None):
            json = f"{folder}/bench.json"
        status = measure(given, json)
        if status == 0 and beside:
            print(_flashinfer.add_to(json))
        if status == 0 and given.plot is not None:
            plot(json)
    return status
