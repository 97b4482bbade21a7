# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses models, writes them as ONNX with both forms of the guard, and checks.

usage: fused_models.py MODELS FOLDER FUSION_OPT...
"""

import subprocess
import sys

import onnx
from check_fused import check
from compare_models import compare as compare_models
from run_reference import compare


def main():
    models, folder, *tool = sys.argv[1:]
    for model in ("tp2_glm4_moe_f32_op21.rank0", "tp2_glm4_f32.rank1", "tp4_glm_f32_op20.rank2"):
        for guard in ("if", "op"):
            source, output = f"{models}/{model}.onnx", f"{folder}/{model}.{guard}.onnx"
            options = ["--tandem-fuse-pipeline=max-tokens=8", f"--onnx-guard={guard}", "-o", output]
            subprocess.run([*tool, source, *options], check=True)
            check(source, output)
            # Read in again, it is as it was, and counts as fused.
            again = f"{folder}/again.onnx"
            for passes in (["--pass-pipeline=builtin.module()"], []):
                done = subprocess.run(
                    [*tool, output, *passes, f"--onnx-guard={guard}", "-o", again],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                differences = compare_models(onnx.load(output), onnx.load(again))
                assert not differences, differences[:5]
            assert "fused 4 of 4 all-reduces (0 missed)" in done.stderr, done.stderr
            if not compare(source, output, f"{models}/{model}.npz", "logits_identity_allreduce"):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
