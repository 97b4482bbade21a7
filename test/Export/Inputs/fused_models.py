# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses models, writes them as ONNX with both forms of the guard, and checks.

usage: fused_models.py MODELS FOLDER FUSION_OPT...
"""

import subprocess
import sys

from check_fused import check
from run_reference import compare


def main():
    models, folder, *tool = sys.argv[1:]
    for model in ("tp2_glm4_moe_f32_op21.rank0", "tp2_glm4_f32.rank1", "tp4_glm_f32_op20.rank2"):
        for guard in ("if", "op"):
            source, output = f"{models}/{model}.onnx", f"{folder}/{model}.{guard}.onnx"
            options = ["--tandem-fuse-pipeline=max-tokens=8", f"--onnx-guard={guard}", "-o", output]
            subprocess.run([*tool, source, *options], check=True)
            check(source, output)
            if not compare(source, output, f"{models}/{model}.npz", "logits_identity_allreduce"):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
