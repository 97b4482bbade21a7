# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Usage: check_symbols.py PLUGIN MAX_MLIR_SYMBOLS MAX_BYTES"""

import os
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


plugin, max_symbols, max_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
defined = [
    line.split()[-1].partition("@")[0]
    for line in output("nm", "-D", "--defined-only", plugin).splitlines()
]
entries = {"mlirGetDialectPluginInfo", "mlirGetPassPluginInfo"}
assert entries <= set(defined), defined
others = [name for name in defined if name not in entries]
strange = [n for n in others if not re.match(r"_Z(GV)?ZN4mlir6detail14TypeIDResolver", n)]
assert not strange, f"exported without need: {strange[:10]}"
assert 0 < len(others) <= max_symbols, f"{len(others)} symbols of mlir::"

needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", plugin))
assert "libMLIR.so.22.1" in needed and "libLLVM.so.22.1" in needed, needed
assert not [n for n in needed if "protobuf" in n], needed

size = os.path.getsize(plugin)
assert size <= max_bytes, f"{size} bytes"
print(f"{len(others)} symbols of mlir::, {size} bytes")
