#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes small models that use every feature of the importer into a folder.

usage: make_seeds.py FOLDER
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

HEADER = '<ir_version: 10, opset_import: ["" : %d, "com.microsoft" : 1, "my" : 1]>'

GRAPHS = {
    "norm": (23, """
      g (float[batch,seq,2] x, float[batch,seq,2] r) => (float[batch,seq,2] y, float[batch,seq,2] s)
      <float[2] w = {1.0, 2.0}> {
        a = com.microsoft.AllReduce (x)
        s = Add (a, r)
        y = RMSNormalization <axis = -1, epsilon = 1e-5> (s, w)
      }"""),
    "decomposed": (17, """
      g (float16[b,s,8] x) => (float16[b,s,8] y) {
        c = Cast <to = 1> (x)
        two = Constant <value = float {2.0}> ()
        p = Pow (c, two)
        m = ReduceMean <axes = [-1], keepdims = 1> (p)
        eps = Constant <value_float = 1e-6> ()
        e = Add (m, eps)
        q = Sqrt (e)
        one = Constant <value_float = 1.0> ()
        d = Div (one, q)
        n = Mul (c, d)
        y = Cast <to = 10> (n)
      }"""),
    "shapes": (21, """
      g (float[b,s,64] x) => (float[?,?,?,?] y, float[?,?] z) {
        sh = Shape (x)
        zero = Constant <value = int64 {0}> ()
        one = Constant <value_ints = [1]> ()
        b = Gather <axis = 0> (sh, zero)
        ub = Unsqueeze (b, one0)
        one0 = Constant <value_ints = [0]> ()
        tail = Constant <value_ints = [-1, 4, 16]> ()
        t = Concat <axis = 0> (ub, tail)
        y = Reshape (x, t)
        two = Constant <value_ints = [2]> ()
        mid = Slice (sh, one, two, one0)
        k = Constant <value_ints = [64]> ()
        f = Concat <axis = 0> (mid, k)
        w = ConstantOfShape (f)
        v = Expand (w, f)
        z = Transpose <perm = [1, 0]> (v)
      }"""),
    "skip": (20, """
      g (float[b,s,8] x, float[b,s,8] r, float[8] w) => (float[b,s,8] y, float[b,s,8] t) {
        y, , , t = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-6> (x, r, w)
      }"""),
    "if": (20, """
      g (bool c, float[n] x) => (float[n] y) {
        y = If (c) <
          then_branch = t () => (float[n] a) { a = Add (x, x) },
          else_branch = e () => (float[n] b) { b = Neg (x) }
        >
      }"""),
    "loop": (20, """
      g (int64 n, float[k] x) => (y, ys) {
        c = Constant <value = bool {1}> ()
        y, ys = Loop (n, c, x) <
          body = l (int64 i, bool k, float[k] v) => (bool k2, float[k] w, float[k] u) {
            k2 = Identity (k)
            w = Add (v, x)
            u = Mul (w, v)
          }
        >
      }"""),
    "scan": (20, """
      g (float[2] s, float[n,2] x) => (t, y) {
        t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] i) => (float[2] o, float[2] z) {
          o = Add (a, i)
          z = Identity (o)
        }> (s, x)
      }"""),
    "sequence": (20, """
      g (float[4,n] x) => (y) {
        axis = Constant <value_int = 0> ()
        s = SplitToSequence <axis = 0, keepdims = 0> (x)
        y = SequenceAt (s, axis)
        o = Optional (y)
        h = OptionalHasElement (o)
      }"""),
    "misc": (20, """
      g (float[n,6] x, int64[m] i) => (a, b, c, d, e, f) {
        two = Constant <value_ints = [2]> ()
        a, idx = TopK <axis = -1> (x, two)
        b, c = Split <axis = 1, num_outputs = 2> (x)
        depth = Constant <value_int = 8> ()
        vals = Constant <value_floats = [0.0, 1.0]> ()
        d = OneHot (i, depth, vals)
        e = MatMul (x, w)
        w = Transpose (x)
        f = com.microsoft.Foo <names = ["a", "b"], t = float[2] {1, 2}> (x)
      }"""),
}

FUNCTION = """
  <ir_version: 10, opset_import: ["" : 20, "my" : 1]>
  g (float[n] x) => (float[n] y) { y = my.outer <alpha = 2> (x) }
  <opset_import: ["" : 20, "my" : 1], domain: "my">
  inner <to> (a, b) => (c) { d = Cast <to : int = @to> (a)  c = Neg (d) }
  <opset_import: ["" : 20, "my" : 1], domain: "my">
  outer <alpha> (a) => (c) { b = my.inner <to = 1> (a)  c = Relu (b) }
"""


def tensor_types():
    """A model with an initializer of every element type, raw and typed."""
    initializers = []
    for data_type in range(1, max(TensorProto.DataType.values()) + 1):
        name = TensorProto.DataType.Name(data_type)
        if data_type == TensorProto.STRING:
            initializers.append(helper.make_tensor(name, data_type, [2], [b"a", b"b"]))
            continue
        dtype = helper.tensor_dtype_to_np_dtype(data_type)
        values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        initializers.append(numpy_helper.from_array(values, name + "_raw"))
        try:
            initializers.append(helper.make_tensor(name, data_type, [2, 3], values.flatten().tolist()))
        except (TypeError, ValueError):
            pass  # The package cannot write a typed tensor of this type.
    initializers.append(numpy_helper.from_array(np.arange(100, dtype=np.float32), "large"))
    initializers.append(numpy_helper.from_array(np.ones(100, dtype=np.float32), "splat"))
    external = helper.make_tensor("external", TensorProto.FLOAT, [2], [1.0, 2.0])
    del external.float_data[:]
    onnx.external_data_helper.set_external_data(
        _with_raw(external, bytes(8)), "weights.bin", offset=0, length=8
    )
    external.ClearField("raw_data")
    initializers.append(external)
    node = helper.make_node("Identity", ["large"], ["y"])
    inputs = [helper.make_tensor_value_info("splat", TensorProto.FLOAT, [100])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [100])]
    graph = helper.make_graph([node], "g", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)])


def _with_raw(tensor, raw):
    tensor.raw_data = raw
    return tensor


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (opset, text) in GRAPHS.items():
        model = parser.parse_model(HEADER % opset + text)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    (folder / "function.onnx").write_bytes(parser.parse_model(FUNCTION).SerializeToString())
    (folder / "types.onnx").write_bytes(tensor_types().SerializeToString())


if __name__ == "__main__":
    main()
