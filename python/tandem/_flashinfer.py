# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlashInfer's fused kernel on the sizes and GPUs that fusion-bench measured.

Its calls are timed in CUDA graphs: a graph with twice as many calls less one with as
many (chain), or with ordinary copies between the calls less the copies alone
(neighbours); the maximum over the ranks of each sample, then the median, with least
and most. A sample has as many calls as fusion-bench's of that case. (The figures in
docs/cuda.md of 30 November 2026 and before were taken with 40 calls of up to 2 MiB, 20
up to 8 MiB and 8 above.) Both of its forms are tried, with programmatic launch; the quicker counts.

usage, without the package: python3 _flashinfer.py BENCH.json
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import socket
import statistics
import sys
from typing import Any

WARM_UP = 3
NEIGHBOUR_BYTES = 8 << 20


def is_importable() -> bool:
    return importlib.util.find_spec("flashinfer") is not None


def why_not(bench: dict[str, Any]) -> str:
    """Why FlashInfer can't be measured beside these results; "" if it can."""
    if bench["device"] == "CPU":
        return "these figures are a CPU's"
    for module in ("flashinfer", "torch"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not importable"
    if bench["pattern"] != "add_norm":
        return f"pattern {bench['pattern']} is not measured with FlashInfer"
    if any("calls" not in r for r in bench["results"]):
        return "these figures don't say how many calls a sample had; measure them again"
    if bench["world_size"] not in (2, 4, 8):
        return f"FlashInfer has no kernel for {bench['world_size']} ranks"
    import torch

    if torch.cuda.device_count() < bench["world_size"]:
        return f"{torch.cuda.device_count()} GPUs for {bench['world_size']} ranks"
    return ""


def cases_of(bench: dict[str, Any]) -> list[tuple[int, str, int, str, int]]:
    """What fusion-bench measured and FlashInfer can: (hidden, dtype, tokens, timing,
    calls of a sample)."""
    seen: dict[tuple[int, str, int, str, int], None] = {}
    for r in bench["results"]:
        if r["timing"] in ("chain", "neighbours") and r["dtype"] != "f32":
            seen[r["hidden"], r["dtype"], r["tokens"], r["timing"], r["calls"]] = None
    return list(seen)


def summary(samples: list[list[float]]) -> tuple[float, float, float]:
    """Samples by rank -> median, least and most of the slowest rank's."""
    slowest = [max(ranks) for ranks in zip(*samples)]
    return statistics.median(slowest), min(slowest), max(slowest)


def measure_rank(
    rank: int,
    world: int,
    port: int,
    cases: list[tuple[int, str, int, str, int]],
    samples: int,
    out: Any,
) -> None:
    """One rank's process; rank 0 puts the summaries, one a case, into `out`."""
    import torch
    import torch.distributed as dist
    from flashinfer import comm

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://localhost:{port}",
                            rank=rank, world_size=world)
    tokens = max(c[2] for c in cases)
    hidden = max(c[0] for c in cases)
    types = {"f16": torch.float16, "bf16": torch.bfloat16}
    workspaces: dict[str, Any] = {}
    source = torch.ones(NEIGHBOUR_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    stream = torch.cuda.Stream()

    def graph_of(calls: int, each: Any) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            each()
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(calls):
                    each()
        return graph

    def time_of(graph: Any) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            start.record()
            graph.replay()
            end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000

    results = []
    for width, dtype, count, timing, calls in cases:
        if dtype not in workspaces:
            workspaces[dtype] = comm.create_allreduce_fusion_workspace(
                backend="trtllm", world_size=world, rank=rank,
                max_token_num=tokens, hidden_dim=hidden, dtype=types[dtype])
        x, residual, norm = (torch.ones(count, width, dtype=types[dtype],
                                        device="cuda") for _ in range(3))
        gamma = torch.ones(width, dtype=types[dtype], device="cuda")
        best = None
        for one_shot in (True, False):
            # The two-shot form asks for more tokens than ranks.
            if not one_shot and count <= world:
                continue

            def call(one_shot: bool = one_shot) -> None:
                comm.allreduce_fusion(
                    x, workspaces[dtype], comm.AllReduceFusionPattern.kARResidualRMSNorm,
                    launch_with_pdl=True, residual_in=residual,
                    residual_out=residual, norm_out=norm, rms_gamma=gamma,
                    rms_eps=1e-5, use_oneshot=one_shot, fp32_acc=True)

            def copy() -> None:
                target.copy_(source)

            def both() -> None:
                copy()
                call()

            if timing == "chain":
                more, less = graph_of(2 * calls, call), graph_of(calls, call)
            else:
                more, less = graph_of(calls, both), graph_of(calls, copy)
            mine = []
            for sample in range(WARM_UP + samples):
                dist.barrier()
                one = time_of(more)
                dist.barrier()
                one -= time_of(less)
                if sample >= WARM_UP:
                    mine.append(one / calls)
            all_ranks: list[Any] = [None] * world
            dist.all_gather_object(all_ranks, mine)
            got = summary(all_ranks)
            if best is None or got[0] < best[0]:
                best = got
        results.append(best)
    if rank == 0:
        out.put(results)
    dist.barrier()
    dist.destroy_process_group()


def measure(bench: dict[str, Any]) -> None:
    """Adds FlashInfer's results to fusion-bench's."""
    import torch.multiprocessing as mp

    cases = cases_of(bench)
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    context = mp.get_context("spawn")
    out = context.SimpleQueue()
    world = bench["world_size"]
    processes = mp.spawn(measure_rank, (world, port, cases, bench["samples"], out),
                         nprocs=world, join=False)
    results = None
    while not processes.join(timeout=1):
        if results is None and not out.empty():
            results = out.get()
    if results is None:
        results = out.get()
    for case, (median, least, most) in zip(cases, results):
        hidden, dtype, tokens, timing, calls = case
        bench["results"].append({
            "subject": "flashinfer", "timing": timing, "hidden": hidden,
            "dtype": dtype, "tokens": tokens, "calls": calls,
            "median": round(median, 3), "min": round(least, 3), "max": round(most, 3)})


def table(bench: dict[str, Any]) -> list[str]:
    """Lines that put the two beside each other."""
    by_case: dict[tuple[int, str, str, int], dict[str, float]] = {}
    for r in bench["results"]:
        if r["subject"] in ("fused", "flashinfer") and r["median"]:
            key = r["hidden"], r["dtype"], r["timing"], r["tokens"]
            by_case.setdefault(key, {})[r["subject"]] = r["median"]
    lines = ["hidden  type  timing      tokens    fused  flashinfer   gain"]
    for (hidden, dtype, timing, tokens), us in by_case.items():
        if len(us) == 2:
            gain = us["flashinfer"] / us["fused"]
            lines.append(f"{hidden:6}  {dtype:4}  {timing:10}  {tokens:6} "
                         f"{us['fused']:8.2f}  {us['flashinfer']:10.2f} {gain:6.2f}")
    return lines


def add_to(path: str) -> str:
    """Adds FlashInfer's results to fusion-bench's file: the subject "flashinfer", and
    under "flashinfer" its version or why there are none. Returns what to show."""
    with open(path, encoding="utf-8") as file:
        bench = json.load(file)
    reason = why_not(bench)
    if not reason:
        print(
            "measuring FlashInfer on the same sizes; where it compiles its kernels first, "
            "that takes some minutes",
            file=sys.stderr,
            flush=True,
        )
        try:
            measure(bench)
            bench["flashinfer"] = importlib.metadata.version("flashinfer-python")
        except Exception as error:  # Whatever another package raises.
            last = (str(error).strip() or repr(error)).splitlines()[-1]
            reason = f"it failed: {last}"
    if reason:
        bench["flashinfer"] = f"not measured: {reason}"
        shown = f"FlashInfer was not measured: {reason}"
    else:
        shown = "\n".join(table(bench))
    temporary = path + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(bench, file, indent=1)
    os.replace(temporary, path)
    return shown


if __name__ == "__main__":
    print(add_to(sys.argv[1]))
