# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ONNX models in ONNX Runtime: a process and a session a rank."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import multiprocessing
import os
import pathlib
import queue
import re
import sys
import time
import traceback
import uuid
from collections.abc import Sequence
from typing import Any

#: Feeds of one run, or what one run gave.
Arrays = dict[str, Any]


@dataclasses.dataclass
class RankResult:
    """What one rank gave: outputs of each run, and the runtime's counters after
    each."""

    outputs: list[Arrays]
    counters: list[dict[str, int]]


@dataclasses.dataclass
class Job:
    """What one rank does."""

    #: The model's path, or its bytes with the folder of its external data; "" if it
    #: has none.
    model: str | bytes
    folder: str
    feeds: list[Arrays]
    rank: int
    world: int
    rendezvous: str
    max_tokens: int
    token_limit: int
    timeout_ms: int
    signature: str
    device: str


class RankFailure(ValueError):
    """A rank that failed, or never came."""


def path_of(pattern: str, rank: int) -> str:
    return pattern.replace("{rank}", str(rank))


def _count_gpus() -> int:
    """How many GPUs this process sees; 0 without a driver."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        driver.cuDeviceGetCount(ctypes.byref(count))
    except OSError:
        pass
    return count.value


def cuda_provider(rank: int) -> tuple[str, dict[str, str]]:
    """ONNX Runtime's CUDA provider on a GPU of the rank's own, as long as there are
    enough, and with f32 products in f32. Raises RankFailure where the package has
    none."""
    import onnxruntime

    name = "CUDAExecutionProvider"
    if name not in onnxruntime.get_available_providers():
        raise RankFailure("this ONNX Runtime has no CUDA (install onnxruntime-gpu)")
    # Finds CUDA's libraries where they were installed as Python packages. It prints
    # what it misses.
    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(sys.stderr):
            onnxruntime.preload_dlls()
    gpu = rank % (_count_gpus() or rank + 1)
    return name, {"device_id": str(gpu), "use_tf32": "0"}


def _check_external_data(version: str) -> None:
    """Whether ONNX Runtime finds the external data of a model that it gets as bytes."""
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < (1, 21):
        raise RankFailure(
            f"the model has external data, which needs ONNX Runtime 1.21 or newer here, "
            f"and this is {version}"
        )


def _run(job: Job) -> RankResult:
    import onnxruntime

    from tandem import ort

    # Errors alone.
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Ranks share the machine.
    options.intra_op_num_threads = max(1, (os.cpu_count() or 1) // job.world)
    if isinstance(job.model, bytes) and job.folder:
        _check_external_data(onnxruntime.__version__)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", job.folder
        )
    ranks = ort.register(
        options,
        rank=job.rank,
        world=job.world,
        rendezvous=job.rendezvous,
        max_tokens=job.max_tokens,
        token_limit=job.token_limit,
        timeout_ms=job.timeout_ms,
        signature=job.signature,
    )
    providers: list[Any] = ["CPUExecutionProvider"]
    if job.device == "cuda":
        providers.insert(0, cuda_provider(job.rank))
    session = onnxruntime.InferenceSession(job.model, options, providers=providers)
    # It only logs where a provider's own libraries are missing.
    if job.device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise RankFailure(
            "this ONNX Runtime could not start its CUDA provider (its log says why)"
        )
    inputs = [i.name for i in session.get_inputs()]
    names = [o.name for o in session.get_outputs()]
    result = RankResult([], [])
    for feeds in job.feeds:
        missing = [name for name in inputs if name not in feeds]
        if missing:
            raise RankFailure(f"the feeds have no '{missing[0]}', which the model needs")
        values = session.run(names, {name: feeds[name] for name in inputs})
        ranks.check()
        result.outputs.append(dict(zip(names, values)))
        result.counters.append(ranks.counters())
    del session
    ranks.close()
    return result


def _work(job: Job, results: Any) -> None:
    try:
        results.put((job.rank, _run(job), ""))
    except Exception as error:
        if os.environ.get("TANDEM_TRACEBACK"):
            traceback.print_exc()
        results.put((job.rank, None, f"{type(error).__name__}: {error}"))


def run_ranks(
    models: Sequence[str | bytes],
    feeds: Sequence[list[Arrays]],
    *,
    folders: Sequence[str] = (),
    max_tokens: int = 4096,
    token_limit: int = -1,
    timeout: float = 120,
    signatures: Sequence[str] = (),
    device: str = "cpu",
) -> list[RankResult]:
    """Runs model i with the feeds i, one run after the other in one session.

    Raises RankFailure, with the rank and its reason, when one fails; no process is
    left behind.
    """
    world = len(models)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    rendezvous = f"ort-{uuid.uuid4().hex}"
    processes = []
    for rank, model in enumerate(models):
        job = Job(
            model,
            folders[rank] if folders else "",
            feeds[rank],
            rank,
            world,
            rendezvous,
            max_tokens,
            token_limit,
            int(timeout * 1000),
            signatures[rank] if signatures else "",
            device,
        )
        processes.append(context.Process(target=_work, args=(job, results)))
    done: dict[int, RankResult] = {}
    deadline = time.monotonic() + timeout
    try:
        for process in processes:
            process.start()
        while len(done) != world:
            try:
                rank, result, error = results.get(timeout=0.2)
            except queue.Empty:
                for rank, process in enumerate(processes):
                    # Its result may have been on its way.
                    if rank not in done and process.exitcode not in (None, 0):
                        raise RankFailure(
                            f"rank {rank} ended with exit status {process.exitcode}"
                        ) from None
                if time.monotonic() > deadline:
                    late = [r for r in range(world) if r not in done]
                    raise RankFailure(
                        f"rank {late[0]} did not end within {timeout:g} s"
                    ) from None
                continue
            if result is None:
                raise RankFailure(f"rank {rank}: {error}")
            done[rank] = result
    finally:
        for process in processes:
            if process.pid is None:
                continue
            process.join(5 if len(done) == world else 0.1)
            if process.is_alive():
                process.kill()
                process.join()
    return [done[rank] for rank in range(world)]


def load_feeds(patterns: Sequence[str], world: int) -> list[list[Arrays]]:
    """For each rank the feeds of each run."""
    import numpy

    feeds: list[list[Arrays]] = []
    for rank in range(world):
        runs = []
        for pattern in patterns:
            path = path_of(pattern, rank)
            try:
                with numpy.load(path) as file:
                    runs.append(dict(file))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        feeds.append(runs)
    return feeds


def find_models(pattern: str, world: int) -> list[str]:
    """The ranks' files. Raises an error that says which isn't there."""
    if world > 1 and "{rank}" not in pattern:
        raise ValueError(f"'{pattern}' has no {{rank}} in it, and there are {world} ranks")
    paths = [path_of(pattern, rank) for rank in range(world)]
    for path in paths:
        if not pathlib.Path(path).is_file():
            raise FileNotFoundError(f"there is no model '{path}'")
    return paths
