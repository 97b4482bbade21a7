# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime from Python, on CPUs."""

import ctypes
import threading
import time

import numpy
import pytest
from tandem import runtime
from tandem.runtime import DType, Norm, Rounding, RuntimeFailure, Status, View


def view(array):
    return View(array.ctypes.data)


def on_ranks(world, work):
    """Runs work(rank) on a thread for each rank; raises what one raised."""
    results, failures = [None] * world, []

    def body(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(r,)) for r in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def test_two_ranks():
    tokens, hidden, epsilon = 5, 8, 1e-5
    draw = numpy.random.default_rng(1).standard_normal
    inputs = draw((2, tokens, hidden), numpy.float32)
    residual = draw((tokens, hidden), numpy.float32)
    gamma = draw(hidden, numpy.float32)
    context = runtime.Context()
    unique_id = context.unique_id()

    def rank(r):
        with runtime.Communicator(context, r, 2, unique_id=unique_id) as comm:
            with runtime.Workspace(comm, 16, hidden, DType.F32) as workspace:
                out, new_residual = numpy.empty((2, tokens, hidden), numpy.float32)
                for fallback in (False, True):
                    workspace.fused_all_reduce_norm(
                        tokens,
                        hidden,
                        DType.F32,
                        input=view(inputs[r]),
                        residual=view(residual),
                        norm=Norm(
                            gamma.ctypes.data, epsilon, rounding=Rounding.AFTER_GAMMA
                        ),
                        norm_out=view(out),
                        residual_out=view(new_residual),
                        fallback=fallback,
                    )
                comm.barrier()
                assert workspace.token_limit(hidden, DType.F32) == 16
                assert workspace.info().world == 2 and workspace.info().fused
                counters = workspace.counters()
                assert (counters["fused"], counters["fallback"]) == (1, 1)
                comm.barrier()
                return out, new_residual

    (out, new), (other_out, other_new) = on_ranks(2, rank)
    want = inputs[0] + inputs[1] + residual
    assert (new == want).all() and (other_new == want).all()
    scale = numpy.sqrt((want.astype(numpy.float64) ** 2).mean(1, keepdims=True) + epsilon)
    assert numpy.allclose(out, want / scale * gamma, rtol=1e-6, atol=1e-6)
    assert (out == other_out).all()


def make_workspace(**more):
    context = runtime.Context()
    comm = runtime.Communicator(context, 0, 1, unique_id=context.unique_id())
    return runtime.Workspace(comm, 4, 8, DType.F32, **more)


def failing(status, text):
    return pytest.raises(RuntimeFailure, match=text, check=lambda e: e.status == status)


def test_errors():
    workspace = make_workspace()
    data = numpy.zeros((4, 8), numpy.float32)
    arguments = dict(
        input=view(data), norm=Norm(data.ctypes.data, 1e-5), norm_out=view(data)
    )
    with failing(Status.INVALID_ARGUMENT, "hidden is -8"):
        workspace.fused_all_reduce_norm(4, -8, DType.F32, **arguments)
    # A failed group stays so, and says it.
    with failing(Status.INVALID_ARGUMENT, "hidden is -8"):
        workspace.fused_all_reduce_norm(4, 8, DType.F32, **arguments)
    with pytest.raises(ValueError, match="tokens is 18446744073709551619"):
        workspace.fused_all_reduce_norm(2**64 + 3, 8, DType.F32, **arguments)
    with pytest.raises(ValueError, match="rank is 4294967296"):
        context = runtime.Context()
        runtime.Communicator(context, 2**32, 1, unique_id=context.unique_id())
    with pytest.raises(ValueError, match="one of unique_id, name and nccl_comm"):
        runtime.Communicator(runtime.Context(), 0, 1)
    with pytest.raises(ValueError, match="3 bytes, not 128"):
        runtime.Communicator(runtime.Context(), 0, 1, unique_id=b"abc")
    with pytest.raises(RuntimeFailure, match="CUDA|ncclComm_t"):
        runtime.Communicator(runtime.Context(), nccl_comm=8)
    with failing(Status.INVALID_ARGUMENT, "rank"):
        context = runtime.Context()
        runtime.Communicator(context, 5, 1, unique_id=context.unique_id())


def test_queries():
    workspace = make_workspace(max_blocks=4)
    assert workspace.info().fused and workspace.token_limit(8, DType.F32) == 4
    assert isinstance(workspace.hang_dump(), str)
    assert workspace.defaults() == (
        "limit: what fits; defaults: there is one way alone"
    )
    workspace.set_fusion(False)
    assert workspace.token_limit(8, DType.F32) == -1


def test_closed():
    workspace = make_workspace()
    workspace.close()
    workspace.close()
    with pytest.raises(ValueError, match="this Workspace is closed"):
        workspace.info()


def test_ranks_that_disagree():
    context = runtime.Context(timeout_ms=5000)
    unique_id = context.unique_id()

    def rank(r):
        comm = runtime.Communicator(context, r, 2, unique_id=unique_id)
        with failing(Status.MISMATCH, "hidden"):
            runtime.Workspace(comm, 4, 8 * (r + 1), DType.F32)

    on_ranks(2, rank)


def test_a_peer_that_does_not_come():
    context = runtime.Context(timeout_ms=200)
    with failing(Status.TIMEOUT, "rank 1"):
        runtime.Communicator(context, 0, 2, unique_id=context.unique_id())


GAMMA = numpy.ones(8, numpy.float32)


def call(workspace, data, tokens=4, **more):
    """A call in place."""
    arguments = dict(
        input=view(data), norm=Norm(GAMMA.ctypes.data, 1e-5), norm_out=view(data)
    )
    workspace.fused_all_reduce_norm(tokens, 8, DType.F32, **{**arguments, **more})


def test_wrong_types():
    workspace = make_workspace()
    data = numpy.zeros((4, 8), numpy.float32)
    for wrong in (
        {"tokens": "4"},
        {"tokens": 4.0},
        {"input": View("address")},
        {"input": data},
        {"input": None, "norm": None},
        {"norm": Norm(data, 1e-5)},
        {"norm": Norm(data.ctypes.data, "small")},
        {"stream": "default"},
        {"bias": data},
    ):
        with pytest.raises((TypeError, AttributeError, ctypes.ArgumentError)):
            call(workspace, data, **wrong)
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        workspace.token_limit(8, "f32")
    with pytest.raises(TypeError):
        runtime.Workspace(None, 4, "8", DType.F32)
    with pytest.raises(AttributeError):
        runtime.Communicator("context", unique_id=bytes(128))
    # None of that reached the group, which still serves.
    call(workspace, data)
    assert workspace.counters()["fused"] == 1


def test_wrong_values():
    context = runtime.Context()
    with failing(Status.INVALID_ARGUMENT, "device is 9"):
        runtime.Context(9)
    comm = runtime.Communicator(context, 0, 1, unique_id=context.unique_id())
    with failing(Status.INVALID_ARGUMENT, "dtype"):
        runtime.Workspace(comm, 4, 8, 7)
    with failing(Status.INVALID_ARGUMENT, "input"):
        call(make_workspace(), numpy.zeros((4, 8), numpy.float32), input=View(0))


@pytest.mark.parametrize("closed", ["context", "communicator"])
def test_makes_nothing_of_what_is_closed(closed):
    context = runtime.Context()
    unique_id = context.unique_id()
    if closed == "context":
        context.close()
        with pytest.raises(ValueError, match="this Context is closed"):
            runtime.Communicator(context, 0, 1, unique_id=unique_id)
    else:
        comm = runtime.Communicator(context, 0, 1, unique_id=unique_id)
        comm.close()
        with pytest.raises(ValueError, match="this Communicator is closed"):
            runtime.Workspace(comm, 4, 8, DType.F32)
        with pytest.raises(ValueError, match="this Communicator is closed"):
            comm.barrier()


def test_calls_that_differ_between_ranks():
    context = runtime.Context(timeout_ms=5000)
    unique_id = context.unique_id()

    def rank(r):
        comm = runtime.Communicator(context, r, 2, unique_id=unique_id)
        workspace = runtime.Workspace(comm, 4, 8, DType.F32)
        data = numpy.zeros((4, 8), numpy.float32)
        with failing(Status.MISMATCH, "tokens"):
            call(workspace, data, tokens=3 + r)

    on_ranks(2, rank)


def test_a_rank_that_cannot_go_on_fails_its_group():
    context = runtime.Context()
    unique_id = context.unique_id()
    arrived = threading.Barrier(2)

    def rank(r):
        comm = runtime.Communicator(context, r, 2, unique_id=unique_id)
        workspace = runtime.Workspace(comm, 4, 8, DType.F32)
        arrived.wait()
        if r == 1:
            with pytest.raises(ValueError, match="no failure"):
                workspace.fail(Status.OK)
            first = workspace.fail(Status.OUT_OF_MEMORY, "no room")
            # The first failure stays.
            assert (first, workspace.fail(Status.INTERNAL)) == (first, first)
            assert first == Status.OUT_OF_MEMORY
        else:
            with failing(Status.OUT_OF_MEMORY, "rank 1: no room"):
                call(workspace, numpy.zeros((4, 8), numpy.float32))

    begin = time.monotonic()
    on_ranks(2, rank)
    # Long before the deadline, which is 30 s.
    assert time.monotonic() - begin < 15


def test_two_threads_on_one_workspace():
    context = runtime.Context(timeout_ms=3000)
    unique_id = context.unique_id()
    called = threading.Event()

    def rank(r):
        comm = runtime.Communicator(context, r, 2, unique_id=unique_id)
        workspace = runtime.Workspace(comm, 4, 8, DType.F32)
        data = numpy.zeros((4, 8), numpy.float32)
        if r == 1:  # Which doesn't come, so that rank 0 waits.
            called.wait(10)
            return

        def first():
            with pytest.raises(RuntimeFailure):
                call(workspace, data)

        thread = threading.Thread(target=first)
        thread.start()
        try:
            while not workspace.counters()["rounds"] and thread.is_alive():
                time.sleep(0.01)
            with failing(Status.BUSY, "BUSY|another"):
                call(workspace, data)
        finally:
            called.set()
            thread.join()

    on_ranks(2, rank)


def test_no_gpu():
    """Says why; on a machine with GPUs it is another one that is not there."""
    with failing(Status.UNSUPPORTED, "CUDA|GPU"):
        runtime.Context(runtime.Device.CUDA, 99)
