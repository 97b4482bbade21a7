# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command ``tandem``: each module of ``tandem.commands`` is one word of it."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

import tandem
from tandem import commands


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tandem",
        description="Fuses all-reduce, residual add and RMSNorm in graphs of "
        "tensor-parallel models.",
    )
    parser.add_argument(
        "--version", action="version", version=f"tandem {tandem.__version__}"
    )
    words = parser.add_subparsers(metavar="COMMAND", required=True)
    for found in pkgutil.iter_modules(commands.__path__):
        module = importlib.import_module(f"{commands.__name__}.{found.name}")
        word = words.add_parser(
            found.name, help=module.HELP, description=(module.__doc__ or "").split("\n\n")[0]
        )
        module.add_arguments(word)
        word.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status."""
    given = make_parser().parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"tandem: error: {error}", file=sys.stderr)
    except Exception as error:
        # Of the compiler's, which may not be loaded here.
        if type(error).__name__ != "Error":
            raise
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
