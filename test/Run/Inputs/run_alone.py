#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs compiled models with fusion-run where there is nothing else.

usage: run_alone.py ROOT DATA MODELS   (fusion-run is on the PATH)

ROOT is made and becomes the root folder of the run; it gets fusion-run, the shared
libraries that it and the models need, MODELS/rank{0,1}.so and DATA.rank{0,1}.npz.
Where no process may change its root folder (no user namespaces, not root), the
libraries are checked, and the run takes place outside of ROOT.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

COMPILER = re.compile("LLVM|MLIR|Tandem[A-Z]|onnx|protobuf", re.IGNORECASE)


def needed(file):
    """What the loader loads for `file`."""
    said = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:^|=> )\s*(/\S+) \(0x", said, re.MULTILINE)


def main():
    root, data, models = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    program = shutil.which("fusion-run")
    libraries = sorted({*needed(program), *needed(models / "rank0.so")})
    names = [os.path.basename(library) for library in libraries]
    print("libraries:", *sorted(names, key=lambda n: "tandem" in n), flush=True)
    wrong = [name for name in names if COMPILER.search(name)]
    if wrong:
        sys.exit(f"of the compiler: {wrong}")
    files = {library: library for library in libraries}
    files.update({program: "/fusion-run"})
    for rank in range(2):
        files[models / f"rank{rank}.so"] = f"/rank{rank}.so"
        files[f"{data}.rank{rank}.npz"] = f"/rank{rank}.npz"
    for source, target in files.items():
        place = pathlib.Path(root + target)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    words = ["--ranks=2", "--tolerance=1e-6", "--counters"]
    inside = ["/fusion-run", "/rank{rank}.so", *words, *(
        f"--{name}=/rank{{rank}}.npz" for name in ("input", "expect"))]  # fmt: skip
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    change = [shutil.which("chroot", path=path), root]
    map_user = [shutil.which("unshare", path=path), "--map-root-user"]
    for way in (change, [*map_user, *change]):
        if all(way) and not subprocess.run(
            [*way, "/fusion-run", "--version"], capture_output=True, env={}
        ).returncode:
            sys.exit(subprocess.run([*way, *inside], env={}).returncode)
    print("this process may not change its root folder", flush=True)
    outside = [word.replace("/rank{", f"{root}/rank{{") for word in inside[1:]]
    sys.exit(subprocess.run([program, *outside], env={}).returncode)


if __name__ == "__main__":
    main()
