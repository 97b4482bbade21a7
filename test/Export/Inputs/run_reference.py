# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs two models in onnx's reference evaluator and compares their outputs.

The all-reduce is one of a single rank: it gives back what it is given. Our ops
are not known to the evaluator, so they run by their function bodies.

usage: run_reference.py ORIGINAL.onnx FUSED.onnx FEEDS.npz EXPECTED_KEY
"""

import sys

import numpy
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class AllReduce(OpRun):
    op_domain = "com.microsoft"
    calls = 0

    def _run(self, x):
        AllReduce.calls += 1
        return (x,)


def run(path, feeds):
    model = onnx.load(path)
    AllReduce.calls = 0
    # The evaluator knows new ops in functions only if it is handed those.
    functions = [ReferenceEvaluator(f, new_ops=[AllReduce]) for f in model.functions]
    opsets = {o.domain: o.version for o in model.opset_import}
    session = ReferenceEvaluator(model.graph, opsets=opsets, functions=functions, new_ops=[AllReduce])
    outputs = session.run(None, feeds)
    return outputs[0], AllReduce.calls


def compare(original, fused, data, key):
    """Prints what it found, and returns whether it is good."""
    with numpy.load(data) as file:
        arrays = dict(file)
    names = {i.name for i in onnx.load(original, load_external_data=False).graph.input}
    feeds = {name: value for name, value in arrays.items() if name in names}
    first, first_calls = run(original, feeds)
    second, second_calls = run(fused, feeds)
    expected = arrays[key]
    between = float(numpy.abs(first - second).max())
    beside = float(numpy.abs(second - expected).max())
    print(f"all-reduces: {first_calls} and {second_calls}; largest difference {between:.3g}, of expected {beside:.3g}")
    good = first_calls == second_calls == 4 and between <= 2e-6 and beside <= 2e-5
    print("PASS" if good else "FAIL")
    return good


if __name__ == "__main__":
    sys.exit(not compare(*sys.argv[1:5]))
