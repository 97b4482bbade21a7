# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows a report: as a table on the terminal, or as one self-contained page.

Given a report (.json, as `report=FILE` writes it) it needs no LLVM; given a
model, it fuses that first, and the page shows the graph around each site.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
from typing import TYPE_CHECKING

from tandem.commands.fuse import add_fuse_arguments, get_fuse_options
from tandem.report import Report

if TYPE_CHECKING:
    from tandem import Diagnostic

HELP = "show a report, or make a page of it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a report (.json) or a model")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a page (.html) instead"
    )
    add_fuse_arguments(parser)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """Warnings and notes for the terminal; errors are raised."""
    if diagnostic.severity != "error":
        print(diagnostic, file=sys.stderr)


def run(given: argparse.Namespace) -> int:
    if given.source.endswith(".json"):
        report = Report.load(given.source)
    else:
        import tandem

        _, report = tandem.fuse(
            given.source,
            context=tandem.Context(on_diagnostic=print_diagnostic),
            graph=given.output is not None,
            **get_fuse_options(given),
        )
    if given.output:
        pathlib.Path(given.output).write_text(
            report.html(profile=given.limits), encoding="utf-8"
        )
        print(report, file=sys.stderr)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(report.table(width=width))
    return 0
