# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model in ONNX Runtime, a process a rank, with our kernels.

`{rank}` in a path stands for the rank.
"""

from __future__ import annotations

import argparse

from tandem.onnx_ranks import find_models, load_feeds, path_of, run_ranks

HELP = "run an ONNX model over several ranks"


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="how many ranks (1)"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4096,
        metavar="N",
        help="room of the workspace, in tokens (4096)",
    )
    parser.add_argument(
        "--token-limit",
        type=int,
        default=-1,
        metavar="N",
        help="fuse nothing above this many tokens (the room)",
    )
    parser.add_argument(
        "--timeout", type=float, default=120, metavar="SECONDS", help="for all (120)"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where ONNX Runtime and our kernels run; rank r has GPU r (cpu)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="as model.rank{rank}.onnx")
    parser.add_argument(
        "--feeds",
        action="append",
        required=True,
        metavar="NPZ",
        help="inputs by name; several are run one after the other",
    )
    parser.add_argument(
        "--output", metavar="NPZ", help="where to write the last run's outputs"
    )
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="OUTPUT=KEY",
        help="compare an output with this array of the feeds",
    )
    parser.add_argument(
        "--tolerance", type=float, default=1e-5, help="largest difference (1e-5)"
    )
    add_run_arguments(parser)


def run(given: argparse.Namespace) -> int:
    import numpy

    if given.ranks < 1:
        raise ValueError(f"--ranks is {given.ranks}; at least one is needed")
    expected = []
    for text in given.expect:
        output, equals, key = text.partition("=")
        if not equals:
            raise ValueError(f"--expect is '{text}', not OUTPUT=KEY")
        expected.append((output, key))
    models = find_models(given.model, given.ranks)
    feeds = load_feeds(given.feeds, given.ranks)
    results = run_ranks(
        models,
        feeds,
        max_tokens=given.max_tokens,
        token_limit=given.token_limit,
        timeout=given.timeout,
        device=given.device,
    )
    status = 0
    for rank, result in enumerate(results):
        before: dict[str, int] = {}
        for index, outputs in enumerate(result.outputs):
            shapes = ", ".join(
                f"{name} {list(numpy.shape(value))}" for name, value in outputs.items()
            )
            counts = {
                name: count - before.get(name, 0)
                for name, count in result.counters[index].items()
            }
            before = result.counters[index]
            print(
                f"rank {rank}, run {index}: {shapes}; fused {counts['fused']}, "
                f"not fused {counts['fallback']}, all-reduces {counts['all_reduce']}"
            )
            for name, key in expected:
                if name not in outputs:
                    raise ValueError(f"the model has no output '{name}'")
                if key not in feeds[rank][index]:
                    raise ValueError(f"the feeds have no '{key}'")
                wanted = feeds[rank][index][key]
                if wanted.shape != outputs[name].shape:
                    raise ValueError(
                        f"'{name}' has the shape {list(outputs[name].shape)} and "
                        f"'{key}' {list(wanted.shape)}"
                    )
                difference = float(
                    numpy.abs(outputs[name].astype("f8") - wanted.astype("f8")).max(
                        initial=0
                    )
                )
                good = difference <= given.tolerance
                status |= not good
                print(
                    f"  {name}: largest difference {difference:.3g}"
                    f"{'' if good else ', MORE than ' + format(given.tolerance, 'g')}"
                )
        if given.output:
            numpy.savez(path_of(given.output, rank), **result.outputs[-1])
    return status
