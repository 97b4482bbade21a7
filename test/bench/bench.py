#!/usr/bin/env python3
"""Times fusion-opt as a whole process on GLM-4.5-Air's graph.

usage: bench.py --build DIR [--json FILE] [--runs N]

Measures the wall time, the processor time and the peak memory of a whole
process (median of N runs) for the graph as it is and stacked 2, 4 and 8 times, and the import stage
against a plain protobuf parse of the same file. The goals: the graph as it is
in 0.3 s and 200 MiB; linear growth; an import of at most five parses.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

import onnx

import stack_graph

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
AIR = MODELS / "glm45_air_tp2_graph.onnx"


def run_once(command):
    """Runs a process; returns its seconds, its seconds on a processor, its peak
    memory in MiB, and what it wrote to standard error."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench.py: {' '.join(map(str, command))} failed:\n{errors}")
    return (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
            errors)


def measure(command, runs):
    """The median seconds and peak MiB of `runs` processes, after one to warm
    the file cache."""
    run_once(command)
    samples = [run_once(command) for _ in range(runs)]
    return {
        "seconds": statistics.median(s[0] for s in samples),
        "seconds_min": min(s[0] for s in samples),
        "seconds_max": max(s[0] for s in samples),
        "cpu_seconds": statistics.median(s[1] for s in samples),
        "mib": statistics.median(s[2] for s in samples),
    }, samples[-1][3]


def stage_milliseconds(fusion_opt, model):
    """The milliseconds of each stage of one process, by MLIR's own timers."""
    *_, text = run_once(
        [fusion_opt, model, "-o", "/dev/null", "--mlir-timing",
         "--mlir-timing-display=list"]
    )
    return {
        match[2].strip(): float(match[1]) * 1e3
        for match in re.finditer(r"^\s*([\d.]+) \(\s*[\d.]+%\)\s+(\S.*)$",
                                 text, re.MULTILINE)
    }


def parse_milliseconds(parse_onnx, model, environment=None):
    """The milliseconds of a plain parse, the first in its process: a second one
    would find its memory ready."""
    return float(subprocess.run([parse_onnx, model, "1"], check=True,
                                capture_output=True, text=True,
                                env=environment).stdout)


def measure_stages(fusion_opt, parse_onnx, model, runs):
    """Medians of the stages, of a plain parse on large pages, which fusion-opt
    asks for as well, and on small ones, and of the import's share of the parse
    on large pages that ran right before it: a machine's speed may change
    between two runs, but less between neighbours."""
    large_pages = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1:"
                       "glibc.malloc.top_pad=67108864")
    samples = []
    for _ in range(runs):
        parse = parse_milliseconds(parse_onnx, model, large_pages)
        stages = stage_milliseconds(fusion_opt, model)
        small = parse_milliseconds(parse_onnx, model)
        samples.append((stages, parse, small, stages["Import"] / parse))
    return {
        "stages_ms": {name: statistics.median(s[0][name] for s in samples)
                      for name in samples[0][0]},
        "protobuf_parse_ms": statistics.median(s[1] for s in samples),
        "protobuf_parse_small_pages_ms":
            statistics.median(s[2] for s in samples),
        "import_over_parse": statistics.median(s[3] for s in samples),
        "import_over_parse_all": sorted(round(s[3], 2) for s in samples),
    }


def main():
    """Measures, prints a table, writes JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=11)
    args = parser.parse_args()
    fusion_opt = args.build / "bin/fusion-opt"
    parse_onnx = args.build / "test/bench/tandem-parse-onnx"
    folder = args.build / "bench"
    folder.mkdir(exist_ok=True)

    empty = folder / "empty.mlir"
    empty.write_text("module {}\n")
    start, _ = measure([fusion_opt, empty, "-o", "/dev/null"], args.runs)
    result = {
        "machine": {"cores": os.cpu_count(), "processor": platform.processor()
                    or platform.machine()},
        "runs": args.runs,
        "start": start,
        "stacked": [],
    }
    print(f"median of {args.runs} runs of a whole process, "
          f"{os.cpu_count()} cores\n")
    print(f"{'input':<20}{'nodes':>8}{'seconds':>9}{'(least':>9}{'cpu)':>8}"
          f"{'MiB':>6}{'us/node':>9}{'KiB/node':>9}")
    print(f"{'an empty module':<20}{0:>8}{start['seconds']:>9.3f}"
          f"{start['seconds_min']:>9.3f}{start['cpu_seconds']:>8.3f}"
          f"{start['mib']:>6.0f}")
    model = onnx.load(AIR, load_external_data=False)
    for copies in (1, 2, 4, 8):
        path = AIR
        if copies != 1:
            path = folder / f"air_x{copies}.onnx"
            path.write_bytes(stack_graph.stack(model, copies)
                             .SerializeToString())
        sample, errors = measure([fusion_opt, path, "-o", "/dev/null"],
                                 args.runs)
        nodes = len(model.graph.node) * copies
        sample.update(copies=copies, nodes=nodes,
                      bytes=path.stat().st_size,
                      summary=errors.strip().splitlines()[-1])
        result["stacked"].append(sample)
        # A node's share of what is not the process's start.
        micros = (sample["cpu_seconds"] - start["cpu_seconds"]) * 1e6 / nodes
        kib = (sample["mib"] - start["mib"]) * 1024 / nodes
        print(f"{'GLM-4.5-Air x ' + str(copies):<20}{nodes:>8}"
              f"{sample['seconds']:>9.3f}{sample['seconds_min']:>9.3f}"
              f"{sample['cpu_seconds']:>8.3f}{sample['mib']:>6.0f}"
              f"{micros:>9.2f}{kib:>9.2f}  {sample['summary']}")

    result.update(measure_stages(fusion_opt, parse_onnx, AIR,
                                 max(args.runs, 25)))
    print("\nstages of GLM-4.5-Air x 1, milliseconds")
    for name, value in result["stages_ms"].items():
        print(f"  {name:<24}{value:>8.1f}")
    print(f"  {'(a plain parse)':<24}{result['protobuf_parse_ms']:>8.1f}")
    print(f"  {'(with small pages)':<24}"
          f"{result['protobuf_parse_small_pages_ms']:>8.1f}")
    ratios = result["import_over_parse_all"]
    print(f"\nimport stage / plain parse: {result['import_over_parse']:.1f} "
          f"(median of {len(ratios)} pairs; {ratios[0]} to {ratios[-1]})")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written: {args.json}")


if __name__ == "__main__":
    main()
