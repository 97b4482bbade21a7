# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles anew, and shows by kernel where two compilations' times differ.

torch.compile chooses configurations of its kernels by timing them, so that two
compilations of the same code need not be equally quick.
"""

import collections
import contextlib

import torch
from torch._inductor import config as inductor
from torch._inductor.utils import fresh_cache

import measure

# Options of Inductor. "fixed": nothing is chosen by timing.
SETTINGS = {
    "default": {},
    "fixed": {"deterministic": True},
    "descent": {"coordinate_descent_tuning": True},
}


@contextlib.contextmanager
def empty_cache(setting):
    """Compiles with nothing in this rank's cache, and the setting's options."""
    torch._dynamo.reset()
    with fresh_cache(), inductor.patch(SETTINGS[setting]):
        yield


def profile(step, replays=4):
    """Microseconds a step of each kernel of this rank: {name: [calls, microseconds]}.
    Those that wait for the other rank take as long as it is behind."""
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


def differences(kernels, share=0.005):
    """Lines for the kernels whose times differ between compilations by a share of the
    longest step or more; {compilation: {kernel: [calls, microseconds]}}."""
    sums = [sum(time for _, time in found.values()) for found in kernels.values()]
    rows = {"all": sums}
    for name in dict.fromkeys(name for found in kernels.values() for name in found):
        times = [found.get(name, [0, 0.0])[1] for found in kernels.values()]
        if max(times) - min(times) >= share * max(sums):
            rows[name] = times
    return [
        f"{name[:70]:<70}" + "".join(f"{time:10.0f}" for time in times)
        for name, times in rows.items()
    ]
