# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what a library exports with what a header declares.

Usage: check_exports.py LIBRARY HEADER
"""

import pathlib
import re
import subprocess
import sys

library, header = sys.argv[1:]
nm = subprocess.run(
    ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
)
defined = {line.split()[-1] for line in nm.stdout.splitlines()}
# How MLIR tells types apart; see lib/CAPI/TandemC.map.
defined = {n for n in defined if not re.match("_Z(GV)?ZN4mlir6detail14TypeIDRes", n)}
text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(), flags=re.S)
declared = set(re.findall(r"\b(tandem[A-Z]\w*)\s*\(", text))
assert declared, "the header declares nothing"
assert defined == declared, f"differ: {sorted(defined ^ declared)}"
