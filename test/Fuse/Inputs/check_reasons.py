#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that reasons, their tests and their documentation agree.

usage: check_reasons.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path


def read_definitions(path):
    """Returns {name: (meaning, advice)} of a MissReasons.def."""
    text = path.read_text()
    reasons = {}
    for arguments in re.findall(r"^TANDEM_MISS_REASON\((.*?)\)$", text, re.M | re.S):
        name = arguments.split(",", 1)[0].strip()
        # A comma between two literals separates arguments; a space joins them.
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"\s*(,?)', arguments.split(",", 1)[1])
        texts = [""]
        for part, comma in parts:
            texts[-1] += part
            if comma:
                texts.append("")
        reasons[name] = tuple(texts)
    return reasons


def read_tested(folder):
    """Returns the reasons that some test checks in a report and in a remark."""
    reported, remarked = set(), set()
    for path in folder.glob("reasons*.mlir"):
        text = path.read_text()
        reported |= set(re.findall(r'^// CHECK-NEXT: "reason": "(\w+)"', text, re.M))
        remarked |= set(re.findall(r"expected-remark.*\[Missed\] (\w+) \|", text))
    return reported & remarked


def read_documented(path):
    """Returns {name: (meaning, advice)} of the table in reasons.md."""
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| (.*?) \| .*? \|$", path.read_text(), re.M
    )
    return {name: (meaning, advice) for name, meaning, advice in rows}


def main():
    root = Path(sys.argv[1])
    defined = read_definitions(root / "include/tandem/Passes/MissReasons.def")
    tested = read_tested(root / "test/Fuse")
    documented = read_documented(root / "docs/reasons.md")
    errors = []
    if len(defined) < 10:
        errors.append(f"only {len(defined)} reasons read from MissReasons.def")
    for name, texts in defined.items():
        if len(texts) != 2:
            errors.append(f"{name}: {len(texts)} texts in MissReasons.def, not 2")
        if name not in tested:
            errors.append(f"{name}: no test in test/Fuse/reasons*.mlir")
        if name not in documented:
            errors.append(f"{name}: no row in docs/reasons.md")
        elif documented[name] != texts:
            errors.append(
                f"{name}: docs/reasons.md says {documented[name]}, "
                f"MissReasons.def says {texts}"
            )
    for name in sorted((tested | set(documented)) - set(defined)):
        errors.append(f"{name}: not in MissReasons.def")
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
