"""Prints the module attribute tandem.module_info of an MLIR file, line by line."""

import json
import re
import sys

text = re.search(r'tandem\.module_info = "(.*?)"[,}]', open(sys.argv[1]).read())
info = json.loads(text.group(1).replace("\\22", '"').replace("\\\\", "\\"))
print(f"version {info['version']} abi {info['abi']}")
for line in info["signature"]:
    print(f"signature {line}")
for f in info["functions"]:
    print(f"function {f['name']} symbol={f['symbol']} shapes={f['shapes']} stream={f['stream']}")
    for a in f["arguments"]:
        print(f"  argument {a['name']} {a['dtype']} {a['shape']} {a['dims']} writable={a['writable']}")
    for r in f["results"]:
        print(f"  result {r['name']} {r['dtype']} {r['shape']} {r['dims']}")
    for g in f["groups"]:
        rest = " ".join(f"{k}={g[k]}" for k in
                        ("size", "ranks", "hidden", "dtypes", "reductions", "fused", "batch_invariant"))
        print(f"  group {g['name']} {rest}")
