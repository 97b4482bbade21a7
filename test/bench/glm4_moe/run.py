#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a step of Hugging Face's Glm4Moe, tensor-parallel, with and without Tandem.

usage: torchrun --standalone --nproc-per-node=2 run.py [options]

One process a rank and GPU; layer sizes of GLM-4.5-Air, random weights, bf16.
Decoding is one token a sequence behind a context of --context tokens; a prefill
is one sequence. The ways from a partial sum to the normed sum:

  nccl            all-reduce, then transformers' add and norm
  nccl+kernel     Tandem's fallback: all-reduce, then one kernel
  tandem          Tandem's fused op
  compile         as nccl, each layer through torch.compile
  compile+tandem  as tandem, each layer through torch.compile
  compile+pass    as compile, with the pass that puts Tandem's op in (needs LLVM)

each as it is ("eager") and replayed from a CUDA graph ("graph"). The figures are
microseconds: the median of the samples, each the slowest rank's, the ways in turns.
Logits are compared with those of nccl, and each place with nccl on the same inputs.
"""

import argparse
import contextlib
import datetime
import functools
import gc
import json
import os
import sys
import time
import traceback
import warnings

import torch
import torch.distributed as dist
import transformers

import tandem.torch

import chains
import compiles
import measure
import model as share

MODES = ["nccl", "nccl+kernel", "tandem", "compile", "compile+tandem", "compile+pass"]


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def names(text):
    return [part for part in text.split(",") if part]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=share.SIZES, default="air")
    parser.add_argument("--layers", type=int, default=46)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--batch", type=numbers, default=[1, 8, 32, 128])
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--prefill", type=numbers, default=[512, 1024, 2048, 4096])
    parser.add_argument("--modes", type=names, default=MODES[:-1])
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument(
        "--eager",
        type=numbers,
        metavar="TOKENS,...",
        help="the sizes whose steps are also timed as they are, without graphs (all)",
    )
    parser.add_argument("--token-limit", type=int, help="the guard's, as if so tuned")
    parser.add_argument(
        "--kernels",
        type=numbers,
        default=[],
        metavar="TOKENS,...",
        help="prefills for which, at the end, the compiled ways are compiled several "
        "times, each with an empty cache, and their kernels timed",
    )
    parser.add_argument(
        "--compilations",
        type=names,
        default=["default"] * 3,
        metavar="SETTING,...",
        help=f"one each, of {', '.join(compiles.SETTINGS)} (default, three times)",
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.05, help="of logits, relative (L2)"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing later")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args(arguments)
    for word, values, known in (
        ("mode", given.modes, MODES),
        ("setting", given.compilations, compiles.SETTINGS),
    ):
        unknown = set(values) - set(known)
        if unknown:
            parser.error(f"no such {word}: {', '.join(sorted(unknown))}")
    return given


def gather(logits):
    """The whole vocabulary's logits, from each rank's."""
    parts = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, logits.contiguous())
    return torch.cat(parts, -1).float()


def compare(logits, reference):
    """How far logits are from others, and for how many sequences the choice is the
    same."""
    return {
        "relative": ((logits - reference).norm() / reference.norm()).item(),
        "largest": (logits - reference).abs().max().item(),
        "equal": (logits == reference).float().mean().item(),
        "same_choice": (logits.argmax(-1) == reference.argmax(-1)).float().mean().item(),
    }


class Bench:
    def __init__(self, given, begin):
        self.given, self.begin = given, begin
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(given.device, *([self.rank] if self.on_gpu else []))
        self.dtype = getattr(torch, given.dtype)
        self.model = share.make_model(
            given.size, given.layers, self.rank, self.world, self.device, self.dtype
        )
        share.fill_randomly(self.model, self.rank)
        self.hidden = self.model.config.hidden_size
        self.group = tandem.torch.init_group(
            max_tokens=max(given.batch + given.prefill + given.kernels),
            hidden=self.hidden,
            dtype=self.dtype,
            token_limit=given.token_limit,
            device=self.device,
        )
        self.results, self.checks, self.failures = [], [], []
        self.compilations = []

    @property
    def on_gpu(self):
        return self.given.device == "cuda"

    def say(self, text):
        if self.rank == 0:
            print(f"{time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

    def in_time(self):
        """Whether to begin another part; rank 0's clock decides."""
        late = time.monotonic() - self.begin > self.given.seconds
        flag = torch.tensor([float(late)], device=self.device)
        dist.broadcast(flag, 0)
        return not flag.item()

    def chain_of(self, mode):
        if mode == "nccl+kernel":
            return chains.Fused(self.group, fallback=True)
        return chains.Fused(self.group) if mode.endswith("tandem") else chains.nccl

    def layer_of(self, mode):
        if mode == "compile+pass":
            compiler = tandem.torch.compile
        elif mode.startswith("compile"):
            compiler = torch.compile
        else:
            return share.run_layer
        return compiler(share.run_layer, fullgraph=True, dynamic=False)

    def make_step(self, batch, length, position):
        """A step of `length` tokens of each sequence behind `position` others: what is
        called with the ways from partial to normed sums, and with a layer's."""
        generator = torch.Generator(self.device).manual_seed(1)
        tokens = torch.randint(
            self.model.config.vocab_size,
            (batch, length),
            device=self.device,
            generator=generator,
        )
        torch.manual_seed(2 + self.rank)  # What the context's keys and values are.
        caches = []
        for _ in self.model.model.layers:
            cache = share.LayerCache(
                batch, position + length, self.model.config, self.device, self.dtype
            )
            cache.position = position
            caches.append(cache)
        return functools.partial(share.run_step, self.model, caches, tokens)

    def run_size(self, phase, batch, length, position):
        """All modes at one size."""
        gc.collect()  # The last size's graphs.
        what = {"phase": phase, "batch": batch, "tokens": batch * length}
        step = self.make_step(batch, length, position)
        reference = gather(step(chains.nccl))

        compared = chains.Compared(self.group)
        step(compared)
        self.checks.append({**what, "mode": "same inputs", **compared.result()})

        torch._dynamo.reset()
        steps, fused = {}, {}
        for mode in self.given.modes:
            if not self.in_time():
                self.say(f"{phase} {batch * length}, {mode}: left out, no time")
                continue
            try:
                made = self.make_steps(mode, step)
            except Exception as error:  # A mode that fails on all ranks costs itself.
                text = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                self.failures.append({**what, "mode": mode, "error": text})
                self.say(f"{phase} {batch * length}, {mode}: FAILED: {text}")
                traceback.print_exc()
                continue
            fused[mode] = made.pop("fused")
            self.say(f"{phase} {batch * length}, {mode}: {self.count_sites(mode, fused[mode])}")
            for way, run in made.items():
                check = compare(gather(run()), reference)
                self.checks.append({**what, "mode": mode, "run": way, **check})
                if way != "eager" or self.is_timed_eagerly(batch * length):
                    steps[mode, way] = run
        if not steps:
            return
        samples = max(5, self.given.samples // (1 + batch * length // 1024))
        allocations = self.count_allocations()
        figures = measure.time_steps(steps, self.device, samples)
        self.say(
            f"{phase} {batch * length}: the allocator asked the driver "
            f"{self.count_allocations() - allocations} times"
        )
        for (mode, way), times in figures.items():
            self.results.append(
                {**what, "mode": mode, "run": way, **fused[mode], **times}
            )
            self.say(f"{phase} {batch * length}, {mode}, {way}: {times['median']:.0f} us")

        self.save()

    def is_timed_eagerly(self, tokens):
        return not self.on_gpu or self.given.eager is None or tokens in self.given.eager

    def compare_compilations(self, length):
        """Compiles the same again and again, times the steps in turns and each one's
        kernels."""
        gc.collect()
        step = self.make_step(1, length, 0)
        steps = {}
        for number, setting in enumerate(self.given.compilations):
            for mode in self.given.modes:
                if not mode.startswith("compile") or not self.in_time():
                    continue
                with compiles.empty_cache(setting):
                    made = self.make_steps(mode, step)
                steps[f"{mode}, {setting} {number}"] = made["graph"]
        times = measure.time_steps(steps, self.device, self.given.samples)
        for name, figures in times.items():
            self.say("{}: {median:.0f} us ({min:.0f}-{max:.0f})".format(name, **figures))
        ranks = [None] * self.world
        mine = {name: compiles.profile(graph) for name, graph in steps.items()}
        dist.all_gather_object(ranks, mine)
        self.compilations.append({"tokens": length, "times": times, "kernels": ranks})
        self.save()
        for rank, found in enumerate(ranks):
            self.say(f"kernels that differ on rank {rank}, us a step: {'; '.join(found)}")
            for line in compiles.differences(found):
                self.say(line)

    def save(self):
        """Writes what there is, so that it isn't lost with what comes next."""
        if self.rank == 0 and self.given.json:
            with open(self.given.json, "w", encoding="utf-8") as file:
                json.dump(self.document(), file, indent=1)

    def count_sites(self, mode, did):
        text = f"{did['fused']} fused calls a step, {did['fallback']} not fused"
        if "pass_sites" in did:
            text += (
                f"; the pass fused {did['pass_fused']} of {did['pass_sites']} all-reduces in "
                f"{did['pass_graphs']} graphs (graphs from a cache aren't counted)"
            )
        return text

    def count_allocations(self):
        return torch.cuda.memory_stats()["num_device_alloc"] if self.on_gpu else 0

    def make_steps(self, mode, step):
        """The ways to make a step, warm; and what Tandem did in it: ``fused`` and
        ``fallback`` are calls of its op on either side of the guard, ``pass_fused`` and
        ``pass_sites`` what the pass found in the graphs that it compiled for it."""
        tandem.torch.clear_reports()
        run = functools.partial(step, self.chain_of(mode), self.layer_of(mode))
        before = self.group.counters()
        run()
        after = self.group.counters()
        did = {name: after[name] - before[name] for name in ("fused", "fallback")}
        if mode == "compile+pass":
            reports = tandem.torch.reports()
            did["pass_graphs"] = len(reports)
            did["pass_sites"] = sum(len(report.sites) for report in reports)
            did["pass_fused"] = sum(report.fused for report in reports)
        made = {"fused": did, "eager": run}
        if self.on_gpu:
            run()
            made["graph"] = measure.Captured(run)
        return made

    def wrong(self):
        """What the checks say against the results."""
        out = [
            f"{f['phase']} {f['tokens']}, {f['mode']}: {f['error']}"
            for f in self.failures
        ]
        compiled = {
            (check["phase"], check["tokens"]): check["relative"]
            for check in self.checks
            if check["mode"] == "compile"
        }
        for check in self.checks:
            place = f"{check['phase']} {check['tokens']}, {check['mode']}"
            if check["mode"] == "same inputs":
                # The squares of a row are added in another order than torch does. One
                # step of the normed value can be two behind gamma.
                most = 2 if self.dtype == torch.bfloat16 else 16
                if check["residuals_that_differ"] or check["most_steps"] > most:
                    out.append(f"{place}: {check}")
                continue
            # The compiler leaves roundings out, which is not Tandem's doing.
            most = self.given.tolerance
            if check["mode"].startswith("compile"):
                alone = compiled.get((check["phase"], check["tokens"]), most)
                most = max(2 * most, 1.5 * alone)
            if not check["relative"] <= most:
                out.append(f"{place}: logits off by {check['relative']:.3g}")
        return out

    def document(self):
        name = torch.cuda.get_device_name() if self.on_gpu else "CPU"
        return {
            "version": 1,
            "date": datetime.date.today().isoformat(),
            "device": name,
            "world_size": self.world,
            "size": self.given.size,
            "layers": self.given.layers,
            "dtype": self.given.dtype,
            "context": self.given.context,
            "experts": "grouped_mm",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "token_limit": self.group.token_limit(self.hidden, self.dtype),
            "unit": "us",
            "results": self.results,
            "checks": self.checks,
            "failures": self.failures,
            "compilations": self.compilations,
        }


def print_tables(document):
    """A table each of eager steps and of graphs: milliseconds, median and in
    brackets the least and most."""
    results = document["results"]
    modes = list(dict.fromkeys(r["mode"] for r in results))
    for way in dict.fromkeys(r["run"] for r in results):
        print(f"\n{way}, ms" + "".join(f"{mode:>26}" for mode in modes))
        sizes = dict.fromkeys((r["phase"], r["tokens"]) for r in results)
        for phase, tokens in sizes:
            line = f"{phase + ' ' + str(tokens):<{len(way) + 4}}"
            for mode in modes:
                found = [
                    r
                    for r in results
                    if (r["phase"], r["tokens"], r["mode"], r["run"])
                    == (phase, tokens, mode, way)
                ]
                line += (
                    "{:>10.3f} ({:.3f}-{:.3f})".format(
                        *(found[0][k] / 1e3 for k in ("median", "min", "max"))
                    ).rjust(26)
                    if found
                    else " " * 25 + "-"
                )
            print(line)
    print()
    for check in document["checks"]:
        if check["mode"] == "same inputs":
            print(
                f"{check['phase']} {check['tokens']}, on the same inputs: of "
                f"{check['elements']} elements in {check['places']} places "
                f"{check['residuals_that_differ']} residuals and "
                f"{check['norms_that_differ']} norms differ, by "
                f"{check['most_steps']} step(s) of the type at most"
            )
        else:
            print(
                f"{check['phase']} {check['tokens']}, {check['mode']}, {check['run']}: "
                f"logits off by {check['relative']:.2g} (L2, relative), equal "
                f"{100 * check['equal']:.1f} %, same choice "
                f"{100 * check['same_choice']:.1f} %"
            )


@contextlib.contextmanager
def processes(given):
    """What all ways need of PyTorch, and the process group."""
    # A version for each kind of layer, mode and backend.
    torch._dynamo.config.recompile_limit = 64
    # Of transformers' look at its versions, for each layer.
    warnings.filterwarnings("ignore", message="Dynamo detected a call")
    # Attention by the flash kernels, for all alike.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    gpu = None
    if given.device == "cuda":
        gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(gpu)
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        timeout=datetime.timedelta(seconds=120),
        device_id=gpu,
    )
    yield
    dist.destroy_process_group()


def main(arguments):
    given = parse(arguments)
    begin = time.monotonic()
    with processes(given), torch.no_grad():
        bench = Bench(given, begin)
        bench.say(f"{given.layers} layers made; {bench.group.info()}")
        try:
            for batch in given.batch:
                bench.run_size("decode", batch, 1, given.context - 1)
            for length in given.prefill:
                bench.run_size("prefill", 1, length, 0)
            for length in given.kernels:
                bench.compare_compilations(length)
        finally:
            bench.save()
        if bench.rank == 0:
            print_tables(bench.document())
        wrong = bench.wrong()
        for line in wrong:
            bench.say(f"WRONG: {line}")
        bench.group.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
