#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that docs/fuse.md lists the ONNX ops of passes/Fuse/Movability.cpp.

usage: check_order.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path


def main():
    root = Path(sys.argv[1])
    code = (root / "passes/Fuse/Movability.cpp").read_text()
    table = re.search(r"StringSet<> ops = \{(.*?)\};", code, re.S).group(1)
    coded = re.findall(r'"(\w+)"', table)
    page = (root / "docs/fuse.md").read_text()
    listed = re.search(r"<!-- The table of.*?-->\n```\n(.*?)```", page, re.S)
    documented = listed.group(1).split()
    errors = []
    if len(coded) < 50:
        errors.append(f"only {len(coded)} ops read from Movability.cpp")
    for name, values in ("Movability.cpp", coded), ("docs/fuse.md", documented):
        if values != sorted(set(values)):
            errors.append(f"{name}: the ops are not sorted, or one stands twice")
    for op in sorted(set(coded) ^ set(documented)):
        errors.append(f"{op}: only in {'code' if op in coded else 'docs/fuse.md'}")
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
