# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses a model and says what fused.

The last line on standard error is "fused F of N all-reduces (M missed)".
"""

from __future__ import annotations

import argparse
import pathlib
import sys

HELP = "fuse a model"


def add_fuse_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of tandem-fuse."""
    group = parser.add_argument_group("options of the fusion (docs/fuse.md)")
    group.add_argument("--max-tokens", type=int, metavar="N")
    group.add_argument("--limits", metavar="FILE", help="a tuning profile")
    group.add_argument("--world-size", type=int, metavar="N")
    group.add_argument(
        "--guard", choices=["chain", "function", "none"], default="chain"
    )
    group.add_argument("--batch-invariant", action="store_true")
    group.add_argument("--merge-all-reduces", action="store_true")


def get_fuse_options(given: argparse.Namespace) -> dict[str, object]:
    return {
        "max_tokens": given.max_tokens,
        "limits": given.limits,
        "world_size": given.world_size,
        "guard": given.guard,
        "batch_invariant": given.batch_invariant,
        "merge_all_reduces": given.merge_all_reduces,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a .onnx, .mlir or .mlirbc file")
    parser.add_argument("-o", "--output", metavar="FILE", help=".onnx, .mlir or .mlirbc")
    parser.add_argument("--report", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--table", action="store_true", help="print the sites")
    parser.add_argument(
        "--require-all", action="store_true", help="fail if an all-reduce is missed"
    )
    add_fuse_arguments(parser)


def run(given: argparse.Namespace) -> int:
    import tandem
    from tandem.commands.report import print_diagnostic

    context = tandem.Context(on_diagnostic=print_diagnostic)
    try:
        module, report = tandem.fuse(
            given.model,
            context=context,
            graph=given.html is not None,
            require_all=given.require_all,
            **get_fuse_options(given),
        )
    except tandem.Error as error:
        if error.report and given.report:
            pathlib.Path(given.report).write_text(error.report.to_json())
        raise
    if given.output:
        module.save(given.output)
    if given.report:
        pathlib.Path(given.report).write_text(report.to_json())
    if given.html:
        pathlib.Path(given.html).write_text(
            report.html(profile=given.limits), encoding="utf-8"
        )
    if given.table:
        print(report.table())
    print(report, file=sys.stderr)
    return 0
