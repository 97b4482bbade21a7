"""Runs each op that tandem-onnx-to-linalg lowers, with sizes that are known only
at run time, and compares with the onnx package's reference evaluator.

usage: check_ops.py FOLDER

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper
from onnx.reference import ReferenceEvaluator

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(7)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def save(path, arrays):
    """An npz whose bf16 arrays are named as such."""
    plain, types = {}, []
    for name, array in arrays.items():
        if array.dtype == ml_dtypes.bfloat16:
            types.append(f"{name}=bf16")
            array = array.view(np.uint16)
        plain[name] = np.ascontiguousarray(array).reshape(array.shape)
    if types:
        plain["__dtypes__"] = np.array(types)
    np.savez(path, **plain)


def run(name, model, inputs, expected, *flags):
    """Compiles, runs and compares; returns what fusion-run says."""
    path = FOLDER / f"{name}.onnx"
    onnx.save(model, path)
    save(FOLDER / f"{name}.in.npz", inputs)
    save(FOLDER / f"{name}.out.npz", expected)
    done = subprocess.run(
        ["fusion-run", path, f"--input={FOLDER}/{name}.in.npz",
         f"--expect={FOLDER}/{name}.out.npz", *flags],
        capture_output=True, text=True, check=False, timeout=300,
    )
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")
    print(done.stdout, end="")


class Model:
    """Collects nodes, each with an output of its own."""

    def __init__(self, opset):
        self.opset = opset
        self.inputs, self.nodes, self.outputs, self.constants = {}, [], [], []
        self.dims = {}

    def input(self, name, array, dims=None):
        """An input whose sizes have the names `dims`, or no name."""
        self.inputs[name] = array
        self.dims[name] = dims or [None] * array.ndim
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"out{len(self.outputs) + i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.outputs += names
        return names[0]

    def make(self):
        """The model, with the results that the evaluator gives."""
        infos = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype),
                self.dims[name])
            for name, array in self.inputs.items()
        ]
        opset = [helper.make_opsetid("", self.opset)]
        empty = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        bare = helper.make_model(
            helper.make_graph(self.nodes, "g", infos, empty, self.constants),
            opset_imports=opset)
        results = dict(zip(
            self.outputs, ReferenceEvaluator(bare).run(None, self.inputs)))
        infos_out = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype),
                [None] * array.ndim)
            for name, array in results.items()
        ]
        model = helper.make_model(
            helper.make_graph(self.nodes, "g", infos, infos_out,
                              self.constants),
            opset_imports=opset, ir_version=10)
        return model, results


def elementwise():
    m = Model(22)
    x = m.input("x", floats(3, 4, 5))
    y = m.input("y", floats(3, 4, 5))
    p = m.input("p", np.abs(floats(3, 4, 5)) + 0.1)
    row, col = m.input("row", floats(5)), m.input("col", floats(1, 4, 1))
    i = m.input("i", RANDOM.integers(-50, 50, (3, 4)))
    j = m.input("j", np.array([[3, -7, -1, 5]]))
    for op in ("Add", "Sub", "Mul", "Div"):
        m.node(op, [x, y])
        m.node(op, [x, row])
        m.node(op, [col, x])
        m.node(op, [i, j])
    for op in ("Max", "Min"):
        m.node(op, [x, row, col])
        m.node(op, [i, j])
    m.node("Pow", [p, y])
    for exponent in (0.5, 1, 2, 3):
        m.node("Pow", [p, m.constant(np.float32(exponent))])
    for op in ("Neg", "Abs", "Relu"):
        m.node(op, [x])
        m.node(op, [i])
    for op in ("Sigmoid", "Tanh", "Exp", "Erf", "Reciprocal", "Identity"):
        m.node(op, [x])
    for op in ("Sqrt", "Log"):
        m.node(op, [p])
    for to in (T.DOUBLE, T.INT32, T.INT64, T.BOOL, T.INT8):
        m.node("Cast", [x], to=to)
    m.node("Cast", [i], to=T.FLOAT)
    m.node("Cast", [m.node("Cast", [x], to=T.BOOL)], to=T.FLOAT)
    m.node("CastLike", [x, i])
    return m


def products():
    m = Model(22)
    a = m.input("a", floats(2, 3, 4, 5))
    b = m.input("b", floats(2, 3, 5, 6))
    w = m.input("w", floats(5, 6))
    one = m.input("one", floats(1, 3, 5, 6))
    v, u = m.input("v", floats(5)), m.input("u", floats(4))
    for other in (b, w, one, v):
        m.node("MatMul", [a, other])
    m.node("MatMul", [u, a])
    m.node("MatMul", [v, v])
    m.node("MatMul", [v, w])
    i = m.input("i", RANDOM.integers(-9, 9, (4, 5)).astype(np.int32))
    k = m.input("k", RANDOM.integers(-9, 9, (5, 2)).astype(np.int32))
    m.node("MatMul", [i, k])
    x, y = m.input("x1", floats(4, 5)), m.input("y1", floats(6, 5))
    c, cc = m.input("c1", floats(6)), m.input("cc1", floats(4, 1))
    m.node("Gemm", [x, y], transB=1)
    m.node("Gemm", [x, y, c], transB=1, alpha=0.5, beta=2.0)
    m.node("Gemm", [x, w, cc])
    m.node("Gemm", [x, x], transA=1)
    return m


def shapes():
    m = Model(21)
    x = m.input("x", floats(2, 3, 8), ["batch", "seq", 8])
    z = m.input("z", np.array([0, 3, 2, 4], np.int64), [4])
    m.node("Reshape", [x, m.ints(0, 0, 2, -1)])
    m.node("Reshape", [x, m.ints(-1, 8)])
    m.node("Reshape", [x, m.ints(6, 8)])
    m.node("Reshape", [x, z])
    head = m.node("Shape", [x], end=2)
    m.node("Shape", [x])
    m.node("Shape", [x], start=-1)
    shape = m.node("Concat", [head, m.ints(4, 2)], axis=0)
    m.node("Reshape", [x, shape], allowzero=1)
    batch = m.node("Gather", [head, m.ints(0)])
    m.node("Gather", [head, m.constant(np.array(1, np.int64))])
    m.node("Reshape", [x, m.node("Concat", [batch, m.ints(-1)], axis=0)])
    m.node("Flatten", [x])
    m.node("Flatten", [x], axis=-1)
    m.node("Flatten", [x], axis=0)
    m.node("Unsqueeze", [x, m.ints(0, -1)])
    m.node("Squeeze", [m.input("q", floats(2, 1, 3)), m.ints(1)])
    m.node("Transpose", [x])
    m.node("Transpose", [x], perm=[2, 0, 1])
    m.node("Split", [x], 2, axis=-1, num_outputs=2)
    m.node("Split", [x], 3, axis=2, num_outputs=3)
    m.node("Split", [x], 2, axis=1, num_outputs=2)
    m.node("Split", [x, m.ints(3, 5)], 2, axis=2)
    m.node("Concat", [x, x], axis=1)
    m.node("Concat", [x, x, x], axis=-1)
    whole = 2**63 - 1
    m.node("Slice", [x, m.ints(1), m.ints(whole), m.ints(2)])
    m.node("Slice", [x, m.ints(-3, 0), m.ints(-1, 2), m.ints(2, 1)])
    m.node("Slice", [x, m.ints(0), m.ints(8), m.ints(2), m.ints(3)])
    m.node("Slice", [x, m.ints(-9), m.ints(99), m.ints(1)])
    m.node("Slice", [x, m.ints(1), batch, m.ints(1)])
    g = m.input("g", np.array([[1, 0], [-1, 2]], np.int64))
    m.node("Gather", [x, g], axis=2)
    m.node("Gather", [x, g], axis=1)
    one = m.input("one", floats(1, 8))
    m.node("Expand", [one, m.ints(3, 1, 8)])
    m.node("Expand", [one, m.node("Concat", [head, m.ints(8)], axis=0)])
    for op in ("ReduceMean", "ReduceSum"):
        m.node(op, [x, m.ints(-1)])
        m.node(op, [x, m.ints(0, 2)], keepdims=0)
        m.node(op, [x])
        m.node(op, [x], noop_with_empty_axes=1)
    return m


def narrow(dtype):
    """f16 and bf16: each op computed in f32, rounded once."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = floats(3, 16).astype(dtype), floats(3, 16).astype(dtype)
    w = floats(16, 8).astype(dtype)
    f = lambda a: a.astype(np.float32)  # noqa: E731
    exact = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)
    expected = {
        "add": (f(x) + f(y)).astype(dtype),
        "mul": (f(x) * f(y)).astype(dtype),
        "div": (f(x) / f(y)).astype(dtype),
        "neg": -x,
        "sig": (1 / (1 + np.exp(-x.astype(np.float64)))).astype(
            np.float32).astype(dtype),
        "dot": exact.astype(dtype),
        "f32": f(x),
        "up": f(x).astype(np.float64),
        "down": f(x * 0 + y).astype(dtype),
    }
    nodes = [
        helper.make_node("Add", ["x", "y"], ["add"]),
        helper.make_node("Mul", ["x", "y"], ["mul"]),
        helper.make_node("Div", ["x", "y"], ["div"]),
        helper.make_node("Neg", ["x"], ["neg"]),
        helper.make_node("Sigmoid", ["x"], ["sig"]),
        helper.make_node("MatMul", ["x", "w"], ["dot"]),
        helper.make_node("Cast", ["x"], ["f32"], to=T.FLOAT),
        helper.make_node("Cast", ["x"], ["up"], to=T.DOUBLE),
        helper.make_node("Cast", ["y"], ["wide"], to=T.FLOAT),
        helper.make_node("Cast", ["wide"], ["down"], to=code),
    ]
    kinds = {"f32": T.FLOAT, "up": T.DOUBLE}
    model = helper.make_model(
        helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info("x", code, ["n", 16]),
             helper.make_tensor_value_info("y", code, ["n", 16]),
             helper.make_tensor_value_info("w", code, [16, 8])],
            [helper.make_tensor_value_info(k, kinds.get(k, code), ["n", v.shape[1]])
             for k, v in expected.items()]),
        opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return model, {"x": x, "y": y, "w": w}, expected


def empty():
    """Nothing in, nothing out, and no division by nothing."""
    m = Model(21)
    x = m.input("x", floats(0, 3, 8), ["batch", "seq", 8])
    w = m.constant(floats(8, 4))
    m.node("MatMul", [x, w])
    m.node("Add", [x, x])
    m.node("Transpose", [x])
    m.node("Concat", [x, x], axis=2)
    return m


def main():
    for name, make in (("elementwise", elementwise), ("products", products),
                       ("shapes", shapes), ("empty", empty)):
        m = make()
        model, expected = m.make()
        run(name, model, m.inputs, expected)
    for dtype, step in ((np.float16, 2**-11), (ml_dtypes.bfloat16, 2**-8)):
        model, inputs, expected = narrow(dtype)
        name = np.dtype(dtype).name
        # Only where f32 itself is rounded (sums, exp) may a result be the
        # neighbour of the expected one.
        run(name, model, inputs, expected, f"--tolerance={step}")


if __name__ == "__main__":
    main()
