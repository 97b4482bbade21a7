#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs functions whose values are tempting to keep in one buffer.

usage: aliases.py FOLDER   (fusion-opt and fusion-run are on the PATH)
"""

import pathlib
import subprocess
import sys

import numpy as np

x = np.arange(16, dtype=np.float32).reshape(2, 8)
h = x + 100
g = np.arange(1, 9, dtype=np.float32)
no = np.array(False)


def norm(values):
    return values / np.sqrt((values * values).mean(-1, keepdims=True) + 1e-5) * g


ARGUMENTS = "%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>"
CHAIN = """
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %r = tandem.add %s, %h : tensor<?x8xf32>
  %y = tandem.rms_norm %r, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
"""
# name: (text, arguments, results)
PROGRAMS = {
    # What stands before a branch is given back by one of its sides, while the
    # other side writes where it might have been.
    "branch": (
        """func.func @main(%x: tensor<2x8xf32>, %h: tensor<2x8xf32>, %g: tensor<8xf32>, %c: i1)
    -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %a = tandem.all_reduce %h : tensor<2x8xf32>
  %v:2 = scf.if %c -> (tensor<2x8xf32>, tensor<2x8xf32>) {
    %n = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64} : tensor<2x8xf32>, tensor<8xf32>
    scf.yield %n, %n : tensor<2x8xf32>, tensor<2x8xf32>
  } else {
    %b = tandem.all_reduce %x : tensor<2x8xf32>
    scf.yield %a, %b : tensor<2x8xf32>, tensor<2x8xf32>
  }
  return %v#1, %v#0 : tensor<2x8xf32>, tensor<2x8xf32>
}""",
        [x, h, g, no],
        [x, h],
    ),
    # Sizes of results are worked out without writing to arguments.
    "sizes": (
        """func.func @main(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %c: i1)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tensor.insert_slice %g into %x[0, 0][1, 8][1, 1] : tensor<8xf32> into tensor<?x8xf32>
  %r = arith.select %c, %s, %x : tensor<?x8xf32>
  return %r, %x : tensor<?x8xf32>, tensor<?x8xf32>
}""",
        [x, g, no],
        [x, x],
    ),
    # Nobody reads the sum and the residual, only their sizes.
    "unread": (
        f"""func.func @main({ARGUMENTS}) -> (tensor<?x8xf32>, tensor<2xindex>) {{{CHAIN}
  %c0 = arith.constant 0 : index
  %d = tensor.dim %s, %c0 : tensor<?x8xf32>
  %e = tensor.dim %r, %c0 : tensor<?x8xf32>
  %t = tensor.from_elements %d, %e : tensor<2xindex>
  return %y, %t : tensor<?x8xf32>, tensor<2xindex>
}}""",
        [x, h, g],
        [norm(x + h), np.array([2, 2])],
    ),
    # Of two tensors of different sizes one is chosen.
    "chosen": (
        """func.func @main(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %c: i1)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = tandem.all_reduce %h : tensor<?x8xf32>
  %v = arith.select %c, %x, %s : tensor<?x8xf32>
  %w = arith.addf %v, %v : tensor<?x8xf32>
  return %v, %w, %x : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}""",
        [x, np.concatenate([h, x, h]), no],
        [np.concatenate([h, x, h]), 2 * np.concatenate([h, x, h]), x],
    ),
    # Two values of different sizes change places three times.
    "swapped": (
        """func.func @main(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %v:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %h)
      -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    %s = tandem.all_reduce %a : tensor<?x8xf32>
    scf.yield %b, %s : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %v#0, %v#1 : tensor<?x8xf32>, tensor<?x8xf32>
}""",
        [x, np.concatenate([h, x, h])],
        [np.concatenate([h, x, h]), x],
    ),
    # arith on tensors.
    "arith": (
        """func.func @main(%x: tensor<2x8xf32>, %h: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %v = arith.addf %x, %h : tensor<2x8xf32>
  return %v : tensor<2x8xf32>
}""",
        [x, h],
        [x + h],
    ),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name, (text, arguments, results) in PROGRAMS.items():
        source, fused = folder / f"{name}.mlir", folder / f"{name}.fused.mlir"
        source.write_text(text)
        np.savez(folder / f"{name}.in.npz", **{f"arg{i}": a for i, a in enumerate(arguments)})
        np.savez(folder / f"{name}.out.npz", **{f"result{i}": a for i, a in enumerate(results)})
        subprocess.run(
            ["fusion-opt", source, "--tandem-fuse=guard=none", "-o", fused], check=True
        )
        done = subprocess.run(
            [
                "fusion-run",
                fused,
                f"--input={folder / name}.in.npz",
                f"--expect={folder / name}.out.npz",
                "--tolerance=1e-5",
            ]
        )
        if done.returncode:
            print(f"FAIL {name}", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
