#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the fuse pipeline on real models and checks what came out.

usage: check_models.py FUSION_OPT [--FLAG...] MODEL_FOLDER WORK_FOLDER NAME...

Of each model: how many all-reduces fused and in which pattern, that the other
norms are the source's again, that nothing of the tandem dialect is left around
the fused ops, that a second run changes nothing, and that raising alone can be
undone. Of the ranks of one model: that their signatures are equal.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

PLAIN = "all_reduce_add_rms_norm"
SANDWICH = "all_reduce_rms_norm_add_rms_norm"

# Model: all-reduces, pattern, norms that stay (the first one, and those on q
# and k), element type, hidden size.
EXPECTED = {
    "glm45_air_tp2_graph": (92, PLAIN, 1, "bf16", 4096),
    "glm_block_tp2.rank0": (2, PLAIN, 0, "f32", 64),
    "glm_block_tp2.rank1": (2, PLAIN, 0, "f32", 64),
    "glm4_dynamo_bf16": (4, SANDWICH, 1, "bf16", 64),
    "glm4_moe_dynamo_bf16": (4, PLAIN, 5, "bf16", 64),
    "glm4_moe_dynamo_bf16_op21_ext": (4, PLAIN, 5, "bf16", 64),
    "glm4_moe_script_f16": (4, PLAIN, 5, "f16", 64),
    "tp1_glm4_moe_f32": (0, None, 9, "f32", 64),
    "tp2_glm4_f32.rank0": (4, SANDWICH, 1, "f32", 64),
    "tp2_glm4_f32.rank1": (4, SANDWICH, 1, "f32", 64),
    "tp2_glm4_moe_f32.rank0": (4, PLAIN, 5, "f32", 64),
    "tp2_glm4_moe_f32.rank1": (4, PLAIN, 5, "f32", 64),
    "tp2_glm4_moe_f32_op21.rank0": (4, PLAIN, 5, "f32", 64),
    "tp2_glm4_moe_f32_op21.rank1": (4, PLAIN, 5, "f32", 64),
    "tp4_glm_f32_op20.rank0": (4, PLAIN, 1, "f32", 128),
    "tp4_glm_f32_op20.rank1": (4, PLAIN, 1, "f32", 128),
    "tp4_glm_f32_op20.rank2": (4, PLAIN, 1, "f32", 128),
    "tp4_glm_f32_op20.rank3": (4, PLAIN, 1, "f32", 128),
}


# Sites of which the guard has to compare shapes. TorchScript's exporter names no
# dims, and its Reshapes copy the operand's dim where the shape has a 0.
COMPARED = {"glm4_moe_script_f16": 2}


class ModelCheck:
    def __init__(self, fusion_opt, model, work):
        self.fusion_opt, self.model = fusion_opt, model
        self.base = work / model.stem
        self.errors = []

    def run(self, source, output, *passes):
        """Runs fusion-opt and returns the path of its output."""
        path = Path(f"{self.base}.{output}.mlir")
        command = [*self.fusion_opt, str(source), *passes, "-o", str(path)]
        subprocess.run(command, check=True, stderr=subprocess.PIPE)
        return path

    def expect(self, what, found, wanted):
        if found != wanted:
            self.errors.append(f"{self.model.name}: {what}: {found}, not {wanted}")

    def expect_same(self, what, a, b):
        self.expect(what, a.read_bytes() == b.read_bytes(), True)

    def check(self, count, pattern, norms_left, dtype, hidden):
        plain = self.run(self.model, "import", "--pass-pipeline=builtin.module()")
        raised = self.run(plain, "raised", "--tandem-raise")
        back = self.run(raised, "back", "--tandem-restore")
        self.expect_same("raised and restored is the same", plain, back)

        report = Path(f"{self.base}.json")
        fused = self.run(
            self.model,
            "fused",
            f"--tandem-fuse-pipeline=require=all report={report}",
        )
        self.check_report(json.loads(report.read_text()), count, pattern, dtype, hidden)
        again = self.run(fused, "again", "--tandem-fuse-pipeline")
        self.expect_same("a second run changes nothing", fused, again)
        if count == 0:
            self.expect_same("an unsharded model stays as it is", plain, fused)
        # Without a guard, what has to be compared can't fuse.
        compared = COMPARED.get(self.model.stem, 0)
        none = self.run(plain, "none", "--tandem-fuse-pipeline=guard=none")
        self.check_rest(none, plain, norms_left + compared, count - compared)
        versions = self.run(
            plain, "function", "--tandem-fuse-pipeline=require=all guard=function"
        )
        self.check_function(versions.read_text(), count, compared)
        self.check_branches(fused.read_text(), count, pattern)
        signature = re.search(r"tandem\.signature = (\[.*?\])", fused.read_text())
        return signature.group(1) if signature else None

    def check_report(self, report, count, pattern, dtype, hidden):
        self.expect(
            "summary",
            report["summary"],
            {"all_reduces": count, "fused": count, "guarded": count, "missed": 0},
        )
        for site in report["sites"]:
            self.expect("pattern", site["pattern"], pattern)
            self.expect("dtype", site["dtype"], dtype)
            self.expect("hidden", site["hidden"], hidden)
            # The place in the model's file, as node index and name.
            place = re.search(r"([^ ]*):(\d+):1$", site["location"])
            self.expect("location", bool(place), True)

    def check_rest(self, path, plain, norms_left, count):
        """Without guards: nothing but fused ops is left of the dialect, and
        what can be raised of the rest are the norms that must stay."""
        text = path.read_text()
        ops = Counter(re.findall(r"= tandem\.(\w+)", text))
        self.expect("tandem ops", dict(ops), {"fused_all_reduce_norm": count} if count else {})
        raised = self.run(path, "rest", "--tandem-raise").read_text()
        self.expect("norms that stay", raised.count("= tandem.rms_norm"), norms_left)
        # The source's other ops are all there.
        for op in "MatMul", "Softmax", "Sigmoid", "Transpose", "TopK":
            name = f'"onnx.{op}"'
            self.expect(name, text.count(name), plain.read_text().count(name))

    def check_function(self, text, count, compared):
        """One proof covers most of these models: one check for all sites."""
        if count == 0:
            return
        checks, versions = (count, 0) if compared else (1, 2)
        self.expect("checks with guard=function", text.count("scf.if"), checks)
        self.expect("versions", text.count("func.func private @main_"), versions)

    def check_branches(self, text, count, pattern):
        """Each guard's other branch has the source's ops, marked as such."""
        self.expect("guards", text.count("scf.if"), count)
        self.expect("fallbacks", len(re.findall(r"tandem\.all_reduce .*fallback", text)), count)
        norms = count * (2 if pattern == SANDWICH else 1)
        self.expect("norms in branches", text.count("= tandem.rms_norm"), norms)


def main():
    flags = [arg for arg in sys.argv[2:] if arg.startswith("--")]
    folder, work, *names = [arg for arg in sys.argv[2:] if arg not in flags]
    fusion_opt, folder, work = [sys.argv[1], *flags], Path(folder), Path(work)
    work.mkdir(parents=True, exist_ok=True)
    errors, signatures = [], {}
    for path in sorted(folder.glob("*.onnx")):
        if path.stem not in EXPECTED:
            errors.append(f"{path.name}: nothing says what is expected of it")
    for name in names:
        check = ModelCheck(fusion_opt, folder / f"{name}.onnx", work)
        try:
            signature = check.check(*EXPECTED[name])
        except subprocess.CalledProcessError as error:
            errors.append(f"{name}: {error}\n{error.stderr.decode()}")
            continue
        errors += check.errors
        whole = name.split(".rank")[0]
        if signatures.setdefault(whole, signature) != signature:
            errors.append(f"{whole}: the ranks' signatures differ")
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
