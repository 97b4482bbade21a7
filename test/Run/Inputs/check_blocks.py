"""Cuts MLP blocks out of several models, runs them on their ranks, and compares
with the float64 reference.

usage: check_blocks.py FOLDER

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx

FOLDER = pathlib.Path(sys.argv[1])
MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
sys.path.insert(0, str(MODELS))

import cut_block  # noqa: E402
import reference  # noqa: E402


def check(name, world, tolerance, layer=0, limit=4):
    """Runs the block of `name` on both sides of a limit of 4 tokens."""
    blocks = []
    for rank in range(world):
        path = MODELS / name.format(rank=rank)
        model = onnx.load(path)
        block = cut_block.cut(model, *cut_block.find_block(model.graph, layer))
        blocks.append(block)
        onnx.save(block, FOLDER / f"block{rank}.onnx")
        subprocess.run(
            ["fusion-translate", "--compile", FOLDER / f"block{rank}.onnx",
             "-o", FOLDER / f"block{rank}.so",
             f"--fuse-options=max-tokens={limit}"],
            check=True, capture_output=True)
    first, second = (info for info in blocks[0].graph.input)
    hidden = first.type.tensor_type.shape.dim[-1].dim_value
    dtype = onnx.helper.tensor_dtype_to_np_dtype(
        first.type.tensor_type.elem_type)
    random = np.random.default_rng(len(name))
    for shape in ((1, 3, hidden), (2, 5, hidden)):
        residual = random.standard_normal(shape).astype(dtype)
        inputs = [
            {first.name: random.standard_normal(shape).astype(dtype),
             second.name: residual}
            for _ in range(world)
        ]
        results = reference.run_ranks(blocks, inputs)
        for rank in range(world):
            np.savez(FOLDER / f"in{rank}.npz", **inputs[rank])
            np.savez(FOLDER / f"out{rank}.npz", **results[rank])
        done = subprocess.run(
            ["fusion-run", f"{FOLDER}/block{{rank}}.so", f"--ranks={world}",
             f"--input={FOLDER}/in{{rank}}.npz",
             f"--expect={FOLDER}/out{{rank}}.npz",
             f"--tolerance={tolerance}", "--counters"],
            capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")
        few = shape[0] * shape[1] <= limit
        path = ("2 fused, 0 fallback, 0 all_reduce" if few
                else "0 fused, 0 fallback, 2 all_reduce")
        if done.stdout.count(path) != world:
            sys.exit(f"{name}: {done.stdout}")
        print(name, shape, done.stdout, sep="\n")


check("tp2_glm4_f32.rank{rank}.onnx", 2, 2e-6)
check("tp2_glm4_f32.rank{rank}.onnx", 2, 2e-6, layer=1)
check("tp2_glm4_moe_f32.rank{rank}.onnx", 2, 2e-6)
check("tp4_glm_f32_op20.rank{rank}.onnx", 4, 2e-6)
