"""Runs the ranks of a tensor-parallel ONNX model side by side, in float64.

The onnx package's reference evaluator does the arithmetic; a thread a rank, which
meet at each all-reduce. Norms are computed here, because the evaluator rounds
their statistics to float32.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import threading

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

FLOATS = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
}


class _Meeting:
    """Where the ranks of one run add up."""

    def __init__(self, world):
        self.world = world
        self.parts = [None] * world
        self.barrier = threading.Barrier(world)
        self.local = threading.local()

    def all_reduce(self, part):
        self.parts[self.local.rank] = part
        self.barrier.wait()
        total = sum(self.parts[1:], self.parts[0])
        self.barrier.wait()
        return total


_current = threading.local()


class AllReduce(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x):
        return (_current.meeting.all_reduce(x),)


class RMSNormalization(OpRun):
    op_domain = ""

    def _run(self, x, scale, axis=-1, epsilon=1e-5, stash_type=1):
        del stash_type
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean = np.mean(x * x, axis=axes, keepdims=True)
        return (x / np.sqrt(mean + epsilon) * scale,)


def to_float64(model):
    """A copy of the model whose floats are all doubles."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph

    def widen(tensor):
        if tensor.data_type in FLOATS:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    for tensor in graph.initializer:
        widen(tensor)
    for info in [*graph.input, *graph.output]:
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if (
                node.op_type == "Cast"
                and attribute.name == "to"
                and attribute.i in FLOATS
            ):
                attribute.i = onnx.TensorProto.DOUBLE
    return model


def run_ranks(models, inputs):
    """Runs one model a rank on one dict of inputs a rank; returns a dict of
    results a rank, in float64."""
    meeting = _Meeting(len(models))
    results = [None] * len(models)
    failures = []

    def run(rank):
        try:
            meeting.local.rank = rank
            _current.meeting = meeting
            evaluator = ReferenceEvaluator(
                to_float64(models[rank]), new_ops=[AllReduce, RMSNormalization]
            )
            feeds = {
                info.name: (
                    inputs[rank][info.name].astype(np.float64)
                    if inputs[rank][info.name].dtype.kind in "fV"
                    else inputs[rank][info.name]
                )
                for info in models[rank].graph.input
            }
            names = [info.name for info in models[rank].graph.output]
            results[rank] = dict(zip(names, evaluator.run(names, feeds)))
        except BaseException as failure:  # noqa: B036: told to the caller
            failures.append(failure)
            meeting.barrier.abort()

    threads = [
        threading.Thread(target=run, args=[rank])
        for rank in range(len(models))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
