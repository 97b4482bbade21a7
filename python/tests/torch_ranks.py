# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of tandem.torch share: PyTorch, without which they are skipped, and
ranks, which are processes with a gloo process group."""

import multiprocessing
import os
import tempfile
import time
import traceback

import pytest

torch = pytest.importorskip(
    "torch", reason="needs PyTorch: pip install -r python/tests/requirements-torch.txt"
)

import torch.distributed as dist  # noqa: E402

HIDDEN, LIMIT = 64, 16


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def _body(rank, world, store, connection, work, arguments):
    try:
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world
        )
        connection.send((True, work(rank, *arguments)))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        try:
            connection.send((False, text))
        except OSError:
            pass
        os._exit(1)


def on_ranks(work, *arguments, world=2, timeout=120):
    """Runs work(rank, ...) in a process for each rank; its results. Raises what the
    first rank raised, as text."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_body, args=(rank, world, f"{folder}/store", theirs, work, arguments)
            )
            process.start()
            theirs.close()
            ranks.append((process, ours))
        results, failures, deadline = [], [], time.monotonic() + timeout
        for rank, (process, connection) in enumerate(ranks):
            if connection.poll(max(0, deadline - time.monotonic())):
                try:
                    fine, value = connection.recv()
                except EOFError:
                    process.join()
                    fine, value = False, f"ended with {process.exitcode}"
            else:
                fine, value = False, "did not come to an end"
            (results if fine else failures).append(value if fine else f"rank {rank}: {value}")
        for process, _ in ranks:
            process.join(1 if failures else 30)
            if process.is_alive():
                process.kill()
                process.join()
        if failures:
            raise AssertionError("\n".join(failures))
        return results
