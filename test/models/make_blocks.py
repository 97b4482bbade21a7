#!/usr/bin/env python3
"""Makes glm_block_tp2.*: an MLP block of a real graph, one model a rank, and
inputs with expected results for two numbers of tokens.

usage: make_blocks.py [--check]

With --check nothing is written: what lies here is compared with what would be.
The expected results are computed in float64 by reference.py, which is checked
first against what the whole model gave in PyTorch.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import pathlib
import sys

import numpy as np
import onnx

import cut_block
import reference

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = "tp2_glm4_moe_f32_op21"
WORLD = 2
# Batch and sequence: 3 tokens and 24.
SIZES = {"few": (1, 3), "many": (4, 6)}


def check_reference():
    """Runs the whole source model and compares with PyTorch's logits."""
    models = [
        onnx.load(FOLDER / f"{SOURCE}.rank{rank}.onnx")
        for rank in range(WORLD)
    ]
    inputs = [
        dict(np.load(FOLDER / f"{SOURCE}.rank{rank}.npz"))
        for rank in range(WORLD)
    ]
    for results, given in zip(reference.run_ranks(models, inputs), inputs):
        difference = np.abs(results["logits"] - given["logits_full_model"])
        if not difference.max() < 2e-6:
            sys.exit(f"make_blocks.py: error: the reference is off by "
                     f"{difference.max()}")


def make_block(rank):
    """The block of the first layer, whose MLP is dense."""
    model = onnx.load(FOLDER / f"{SOURCE}.rank{rank}.onnx")
    inputs, outputs = cut_block.find_block(model.graph, 0)
    block = cut_block.cut(model, inputs, outputs)
    renamed = dict(zip(inputs + outputs,
                       ["attention", "residual", "normed", "new_residual"]))
    graph = block.graph
    for info in [*graph.input, *graph.output]:
        info.name = renamed[info.name]
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = renamed.get(name, name)
    return block


def make_arrays(blocks, batch, seq):
    """Inputs and expected results of each rank."""
    random = np.random.default_rng(batch * 1000 + seq)
    residual = random.standard_normal((batch, seq, 64)).astype(np.float32)
    inputs = [
        {
            "attention": random.standard_normal((batch, seq, 64)).astype(
                np.float32
            ),
            "residual": residual,
        }
        for _ in blocks
    ]
    results = reference.run_ranks(blocks, inputs)
    return [
        {**given, **{k: v.astype(np.float32) for k, v in made.items()}}
        for given, made in zip(inputs, results)
    ]


def main():
    """Writes the files, or compares them."""
    check = sys.argv[1:] == ["--check"]
    check_reference()
    blocks = [make_block(rank) for rank in range(WORLD)]
    wrong = []
    for rank, block in enumerate(blocks):
        path = FOLDER / f"glm_block_tp2.rank{rank}.onnx"
        if not check:
            onnx.save(block, path)
        elif onnx.load(path) != block:
            wrong.append(path.name)
    for name, (batch, seq) in SIZES.items():
        for rank, arrays in enumerate(make_arrays(blocks, batch, seq)):
            path = FOLDER / f"glm_block_tp2.{name}.rank{rank}.npz"
            if not check:
                np.savez_compressed(path, **arrays)
                continue
            have = np.load(path)
            same = set(have.files) == set(arrays) and all(
                np.allclose(have[k], arrays[k], rtol=1e-6, atol=1e-6)
                for k in arrays
            )
            if not same:
                wrong.append(path.name)
    if wrong:
        sys.exit(f"make_blocks.py: error: out of date: {' '.join(wrong)}")


if __name__ == "__main__":
    main()
