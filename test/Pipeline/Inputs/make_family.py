#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small tensor-parallel model of another family than GLM.

usage: make_family.py FAMILY FORM OUTPUT

FAMILY: llama, qwen3, gemma2, gemma3, chatglm, vocab-parallel, moe.
FORM, how norms are spelled: op (RMSNormalization), simplified
(SimplifiedLayerNormalization), decomposed (as PyTorch's dynamo exporter writes
them), script (as its TorchScript exporter does).

Each has two layers. Attention is a softmax over heads without mask or rotary
embedding: what is around it is what matters here. Weights are zero.
"""

import sys

import onnx
from onnx import TensorProto as T
from onnx import helper

HIDDEN, HEADS, HEAD_DIM, INTER, VOCAB = 16, 2, 4, 8, 10


class Model:
    def __init__(self, family, form):
        self.family, self.form = family, form
        self.gemma = family.startswith("gemma")
        self.dtype = T.BFLOAT16 if self.gemma else T.FLOAT
        # ChatGLM has the sequence first.
        self.dims = ["seq", "batch"] if family == "chatglm" else ["batch", "seq"]
        self.nodes, self.initializers, self.values = [], [], []
        self.count = 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def op(self, op_type, inputs, shape=None, dtype=None, domain="", **attributes):
        result = self.name(op_type.lower())
        self.nodes.append(
            helper.make_node(
                op_type, inputs, [result], name="n_" + result, domain=domain, **attributes
            )
        )
        if shape is not None:
            self.values.append(
                helper.make_tensor_value_info(result, dtype or self.dtype, shape)
            )
        return result

    def constant(self, dtype, dims, values):
        name = self.name("c")
        self.initializers.append(helper.make_tensor(name, dtype, dims, values))
        return name

    def weight(self, *dims, dtype=None):
        size = 1
        for dim in dims:
            size *= dim
        return self.constant(dtype or self.dtype, dims, [0.0] * size)

    def ints(self, *values):
        return self.constant(T.INT64, [len(values)], values)

    @property
    def rows(self):
        return [*self.dims, HIDDEN]

    def norm(self, x, shape=None):
        """An RMSNorm over the last dimension of x."""
        shape = shape or self.rows
        hidden = shape[-1]
        if self.gemma:
            return self.gemma_norm(x, shape)
        gamma = self.weight(hidden)
        if self.form == "op":
            return self.op(
                "RMSNormalization", [x, gamma], shape, axis=-1, epsilon=1e-5, stash_type=1
            )
        if self.form == "simplified":
            return self.op(
                "SimplifiedLayerNormalization", [x, gamma], shape, axis=-1, epsilon=1e-5,
                stash_type=1,
            )
        return self.op("Mul", [gamma, self.scaled(x, shape, T.FLOAT)], shape)

    def scaled(self, x, shape, dtype):
        """x / sqrt(mean(x^2) + eps)."""
        mean_shape = [*shape[:-1], 1]
        two = self.constant(dtype, [], [2.0])
        epsilon = self.constant(dtype, [], [1e-6])
        square = self.op("Pow", [x, two], shape, dtype)
        mean = self.op(
            "ReduceMean", [square, self.ints(-1)], mean_shape, dtype, keepdims=1
        )
        root = self.op(
            "Sqrt", [self.op("Add", [mean, epsilon], mean_shape, dtype)], mean_shape, dtype
        )
        if self.form == "script":
            one = self.constant(dtype, [], [1.0])
            inverse = self.op("Div", [one, root], mean_shape, dtype)
        else:
            inverse = self.op("Reciprocal", [root], mean_shape, dtype)
        return self.op("Mul", [x, inverse], shape, dtype)

    def gemma_norm(self, x, shape):
        """In f32 to the end: scaled(x) * (1 + gamma), and only then rounded."""
        wide = self.op("Cast", [x], shape, T.FLOAT, to=T.FLOAT)
        hidden = [shape[-1]]
        gamma = self.op("Cast", [self.weight(*hidden)], hidden, T.FLOAT, to=T.FLOAT)
        one = self.constant(T.FLOAT, [], [1.0])
        scale = self.op("Add", [gamma, one], hidden, T.FLOAT)
        product = self.op("Mul", [self.scaled(wide, shape, T.FLOAT), scale], shape, T.FLOAT)
        return self.op("Cast", [product], shape, to=self.dtype)

    def linear(self, x, inner, outer):
        return self.op("MatMul", [x, self.weight(inner, outer)], [*self.dims, outer])

    def all_reduce(self, x):
        return self.op("AllReduce", [x], self.rows, domain="com.microsoft")

    def attention(self, x):
        heads = [*self.dims, HEADS, HEAD_DIM]
        def project():
            y = self.linear(x, HIDDEN, HEADS * HEAD_DIM)
            return self.op("Reshape", [y, self.ints(0, 0, HEADS, HEAD_DIM)], heads)
        q, k, v = project(), project(), project()
        if self.family in ("qwen3", "gemma3"):
            q, k = self.norm(q, heads), self.norm(k, heads)
        # [b, s, n, d] to [b, n, s, d] or, with the sequence first, likewise.
        order = [1, 2, 0, 3] if self.dims[0] == "seq" else [0, 2, 1, 3]
        back = [2, 0, 1, 3] if self.dims[0] == "seq" else [0, 2, 1, 3]
        front = ["batch", HEADS]
        turn = lambda y: self.op("Transpose", [y], [*front, "seq", HEAD_DIM], perm=order)
        q, v = turn(q), turn(v)
        k = self.op(
            "Transpose", [turn(k)], [*front, HEAD_DIM, "seq"], perm=[0, 1, 3, 2]
        )
        scores = self.op("MatMul", [q, k], [*front, "seq", "seq"])
        weights = self.op("Softmax", [scores], [*front, "seq", "seq"], axis=-1)
        mixed = self.op("MatMul", [weights, v], [*front, "seq", HEAD_DIM])
        mixed = self.op("Transpose", [mixed], heads, perm=back)
        flat = self.op(
            "Reshape", [mixed, self.ints(0, 0, HEADS * HEAD_DIM)],
            [*self.dims, HEADS * HEAD_DIM],
        )
        return self.all_reduce(self.linear(flat, HEADS * HEAD_DIM, HIDDEN))

    def mlp(self, x):
        shape = [*self.dims, INTER]
        gate = self.linear(x, HIDDEN, INTER)
        gate = self.op("Mul", [gate, self.op("Sigmoid", [gate], shape)], shape)
        inner = self.op("Mul", [gate, self.linear(x, HIDDEN, INTER)], shape)
        return self.linear(inner, INTER, HIDDEN)

    def feed_forward(self, x):
        if self.family != "moe":
            return self.all_reduce(self.mlp(x))
        # Routed and shared experts, each with an all-reduce of its own.
        routed = self.all_reduce(self.mlp(x))
        shared = self.all_reduce(self.mlp(x))
        return self.op("Add", [routed, shared], self.rows)

    def add(self, a, b):
        return self.op("Add", [a, b], self.rows)

    def layer(self, h):
        after = self.norm if self.gemma else (lambda x: x)
        h = self.add(h, after(self.attention(self.norm(h))))
        y = after(self.feed_forward(self.norm(h)))
        # ChatGLM adds the other way round here.
        return self.add(y, h) if self.family == "chatglm" else self.add(h, y)

    def build(self):
        table = self.weight(VOCAB, HIDDEN)
        h = self.op("Gather", [table, "input_ids"], self.rows, axis=0)
        if self.family == "vocab-parallel":
            h = self.all_reduce(h)
        h = self.layer(self.layer(h))
        logits = self.op(
            "MatMul", [self.norm(h), self.weight(HIDDEN, VOCAB)], [*self.dims, VOCAB]
        )
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            self.family,
            [value("input_ids", T.INT64, self.dims)],
            [value(logits, self.dtype, [*self.dims, VOCAB])],
            self.initializers,
            value_info=[v for v in self.values if v.name != logits],
        )
        opset = 23 if self.form == "op" else 21
        return helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", opset),
                helper.make_opsetid("com.microsoft", 1),
            ],
            ir_version=10,
        )


def main():
    family, form, output = sys.argv[1:]
    onnx.save(Model(family, form).build(), output)


if __name__ == "__main__":
    main()
