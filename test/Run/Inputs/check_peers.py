#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of two has no memory for a value; the other is told at once.

usage: check_peers.py FOLDER NAME...   (NAME.mlir, in0.npz and in1.npz are there)
"""

import os
import pathlib
import subprocess
import sys
import time

FOLDER = pathlib.Path(sys.argv[1])
STATUS = "'main' failed: TANDEM_STATUS_OUT_OF_MEMORY"
MESSAGE = "there is not enough memory for a value in between"


def check(name, told):
    subprocess.run(["fusion-translate", "--compile", FOLDER / f"{name}.mlir", "-o",
                    FOLDER / f"{name}.so"], check=True)
    begin = time.monotonic()
    ranks = [
        subprocess.Popen(
            ["fusion-run", FOLDER / f"{name}.so", f"--input={FOLDER}/in{{rank}}.npz",
             "--timeout=60000", f"--rendezvous=check-peers-{os.getpid()}-{name}"],
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=30)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    taken = time.monotonic() - begin
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert said[0] == f"fusion-run: error: rank 0: {STATUS}: rank 1: {told}\n", said
    assert said[1] == f"fusion-run: error: rank 1: {STATUS}: {MESSAGE}\n", said
    assert taken < 20, f"rank 0 waited: {taken:.1f} s"


if __name__ == "__main__":
    for NAME in sys.argv[2:]:
        # There a function without a group says what is missing.
        check(NAME, "can't go on" if NAME == "callee" else MESSAGE)
