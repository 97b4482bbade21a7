#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the layers of Glm4Moe several times, each time with an empty cache, and
shows where the steps' times differ, kernel by kernel.

usage: torchrun --standalone --nproc-per-node=2 compiles.py [options]

torch.compile chooses configurations of its kernels by timing them, so that two
compilations of the same code need not be equally quick. Steps are replayed from CUDA
graphs, all compilations in turns, then each under PyTorch's profiler. The figures are
microseconds a step; those of kernels are each rank's own.
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch._inductor import config as inductor
from torch._inductor.utils import fresh_cache

import chains
import measure
import run

# How a way may be compiled: options of Inductor.
SETTINGS = {
    "default": {},
    "descent": {"coordinate_descent_tuning": True},
    "autotune": {"max_autotune_pointwise": True},
    "fixed": {"deterministic": True},
}


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=512, help="of the prefill")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--modes", type=run.names, default=["compile", "compile+tandem"])
    parser.add_argument(
        "--settings",
        type=run.names,
        default=["default"] * 4,
        help=f"a compilation each: {', '.join(SETTINGS)} (default, four times)",
    )
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing later")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args(arguments)


def compile_step(bench, mode, setting, step):
    """The mode's step in a graph, compiled with an empty cache of this rank's own, and
    what Inductor chose by timing: {kernel's source: configuration}."""
    torch._dynamo.reset()
    with fresh_cache(), inductor.patch(SETTINGS[setting]):
        made = bench.make_steps(mode, step)
        folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        choices = {
            path.name.split(".")[0]: json.loads(path.read_text())
            for path in folder.rglob("*.best_config")
        }
    return made["graph"], choices


def profile(step, replays=4):
    """Microseconds a step of each kernel of this rank: {name: [calls, microseconds]}."""
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        for _ in range(replays):
            measure.start_together(torch.device("cuda", torch.cuda.current_device()))
            step()
        torch.cuda.synchronize()
    kernels = collections.defaultdict(lambda: [0, 0.0])
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name][0] += 1 / replays
            kernels[event.name][1] += event.time_range.elapsed_us() / replays
    return dict(kernels)


def show_differences(kernels, least=5.0):
    """Kernels whose time differs between compilations by `least` microseconds or more;
    {compilation: {kernel: [calls, microseconds]}}, one mode's."""
    names = dict.fromkeys(name for found in kernels.values() for name in found)
    for name in names:
        times = [found.get(name, [0, 0.0])[1] for found in kernels.values()]
        if max(times) - min(times) >= least:
            print(f"  {name[:90]:<90}" + "".join(f"{t:10.1f}" for t in times))


def show(times, ranks, modes):
    for name, figures in times.items():
        print("{}: {median:.0f} ({min:.0f}-{max:.0f})".format(name, **figures))
    for rank, found in enumerate(ranks):
        for mode in modes:
            of_mode = {
                name: kernels
                for name, kernels in found["kernels"].items()
                if name.startswith(f"{mode},")
            }
            print(f"rank {rank}, {mode}: kernels that differ, in the order above")
            show_differences(of_mode)


def main(arguments):
    given = parse(arguments)
    begin = time.monotonic()
    base = run.parse(
        [f"--layers={given.layers}", "--batch=", f"--prefill={given.tokens}"]
        + [f"--seconds={given.seconds}"]
    )
    with run.processes(base), torch.no_grad():
        bench = run.Bench(base, begin)
        step = bench.make_step(1, given.tokens, 0)
        reference = run.gather(step(chains.nccl))
        steps, choices = {}, {}
        for number, setting in enumerate(given.settings):
            for mode in given.modes:
                if not bench.in_time():
                    continue
                name = f"{mode}, {setting} {number}"
                try:
                    steps[name], choices[name] = compile_step(bench, mode, setting, step)
                except Exception as error:  # On all ranks, and it costs only itself.
                    bench.say(f"{name}: FAILED: {error}")
                    continue
                off = run.compare(run.gather(steps[name]()), reference)["relative"]
                bench.say(f"{name}: compiled, logits off by {off:.2g}")
        times = measure.time_steps(steps, bench.device, given.samples)
        ranks = [None] * bench.world
        kernels = {name: profile(graph) for name, graph in steps.items()}
        dist.all_gather_object(ranks, {"kernels": kernels, "choices": choices})
        if bench.rank == 0:
            show(times, ranks, given.modes)
            if given.json:
                document = {**bench.document(), "times": times, "ranks": ranks}
                pathlib.Path(given.json).write_text(json.dumps(document, indent=1))
        bench.group.close()


if __name__ == "__main__":
    main(sys.argv[1:])
