# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times steps that all ranks make together."""

import statistics
import time

import torch
import torch.distributed as dist


def start_together(device):
    """Ranks leave together: on a GPU the streams do, on a CPU the processes."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    dist.barrier()
    if device.type == "cuda":
        dist.all_reduce(torch.zeros(1, device=device))


def time_once(step, device):
    """Microseconds from the common start to the end of this rank's step, and until
    the host had launched it."""
    start_together(device)
    if device.type == "cuda":
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
    begin = time.perf_counter()
    step()
    host = (time.perf_counter() - begin) * 1e6
    if device.type != "cuda":
        return host, host
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e3, host


def time_steps(steps, device, samples, warm=2):
    """Of each of the named steps the median, least and most of the samples, each the
    slowest rank's. The steps take turns, so that what changes with time on the
    machine does not fall on one of them."""
    for step in steps.values():
        for _ in range(warm):
            step()
    mine = torch.tensor(
        [
            [time_once(step, device) for step in steps.values()]
            for _ in range(samples)
        ],
        device=device,
    )
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    figures = {}
    for name, column in zip(steps, mine.transpose(0, 1).tolist()):
        times = [time for time, _ in column]
        figures[name] = {
            "median": statistics.median(times),
            "min": min(times),
            "max": max(times),
            "launched": statistics.median(host for _, host in column),
            "samples": samples,
        }
    return figures


class Captured:
    """A step in a CUDA graph."""

    def __init__(self, step):
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        dist.barrier()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.output = step()

    def __call__(self):
        self.graph.replay()
        return self.output
