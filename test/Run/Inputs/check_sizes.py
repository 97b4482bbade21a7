#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives in while loops, nested loops and switches, on two ranks.

usage: check_sizes.py FOLDER
"""

import pathlib
import subprocess
import sys

import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
HEAD = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
"""


def total(parts):
    """What all ranks have after an all-reduce."""
    return [parts[0] + parts[1]] * 2


def swap_while(x, n):
    a, b = x, x
    for _ in range(n):
        a, b = total(b), a
    return b, a


def grow_while(x, n):
    a = x
    for _ in range(n):
        a = [np.concatenate([s, v]) for s, v in zip(total(a), x)]
    return (a,)


def until_while(x, n):
    a = x
    while max(v[0, 0] for v in a) < 40 * n:
        a = total(a)
    return (a,)


def nested(x, n):
    a, b = x, x
    for i in range(n):
        if i % 2 == 0:
            w = [np.concatenate([s, v]) for s, v in zip(total(a), b)]
            a, b = a, w
        else:
            k = b
            for _ in range(i):
                k = total(k)
            a, b = k, k
    return a, b


def switched(x, n):
    if n == 0:
        return (x,)
    if n == 1:
        return (total(x),)
    if n == 5:
        return ([np.concatenate([v, v]) for v in total(x)],)
    return ([v + v for v in x],)


# name: (function, its text, values of n)
PROGRAMS = {
    "swap_while": (swap_while, """
  %r:3 = scf.while (%i = %c0, %a = %x, %b = %x) : (index, tensor<?x4xf32>, tensor<?x4xf32>)
      -> (index, tensor<?x4xf32>, tensor<?x4xf32>) {
    %c = arith.cmpi slt, %i, %n : index
    scf.condition(%c) %i, %b, %a : index, tensor<?x4xf32>, tensor<?x4xf32>
  } do {
  ^bb0(%i: index, %a: tensor<?x4xf32>, %b: tensor<?x4xf32>):
    %s = tandem.all_reduce %a : tensor<?x4xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %s, %b : index, tensor<?x4xf32>, tensor<?x4xf32>
  }
  return %r#1, %r#2 : tensor<?x4xf32>, tensor<?x4xf32>""", [0, 1, 2, 3]),
    "grow_while": (grow_while, """
  %r:2 = scf.while (%i = %c0, %a = %x) : (index, tensor<?x4xf32>) -> (tensor<?x4xf32>, index) {
    %c = arith.cmpi slt, %i, %n : index
    scf.condition(%c) %a, %i : tensor<?x4xf32>, index
  } do {
  ^bb0(%a: tensor<?x4xf32>, %i: index):
    %s = tandem.all_reduce %a : tensor<?x4xf32>
    %t = tensor.concat dim(0) %s, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %t : index, tensor<?x4xf32>
  }
  return %r#0 : tensor<?x4xf32>""", [0, 1, 3]),
    # How often it runs depends on a collective, but no size does.
    "until_while": (until_while, """
  %k = arith.index_cast %n : index to i32
  %f = arith.sitofp %k : i32 to f32
  %c40 = arith.constant 40.0 : f32
  %most = arith.mulf %f, %c40 : f32
  %r = scf.while (%a = %x) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    %e = tensor.extract %a[%c0, %c0] : tensor<?x4xf32>
    %s = tensor.from_elements %e : tensor<1xf32>
    %t = tandem.all_reduce %s {reduction = #tandem<reduction max>} : tensor<1xf32>
    %v = tensor.extract %t[%c0] : tensor<1xf32>
    %c = arith.cmpf olt, %v, %most : f32
    scf.condition(%c) %a : tensor<?x4xf32>
  } do {
  ^bb0(%a: tensor<?x4xf32>):
    %s = tandem.all_reduce %a : tensor<?x4xf32>
    scf.yield %s : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>""", [0, 1, 2]),
    "nested": (nested, """
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x)
      -> (tensor<?x4xf32>, tensor<?x4xf32>) {
    %m = arith.remui %i, %c2 : index
    %z = arith.cmpi eq, %m, %c0 : index
    %q:2 = scf.if %z -> (tensor<?x4xf32>, tensor<?x4xf32>) {
      %s = tandem.all_reduce %a : tensor<?x4xf32>
      %w = tensor.concat dim(0) %s, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
      scf.yield %a, %w : tensor<?x4xf32>, tensor<?x4xf32>
    } else {
      %k = scf.for %j = %c0 to %i step %c1 iter_args(%v = %b) -> tensor<?x4xf32> {
        %s = tandem.all_reduce %v : tensor<?x4xf32>
        scf.yield %s : tensor<?x4xf32>
      }
      scf.yield %k, %k : tensor<?x4xf32>, tensor<?x4xf32>
    }
    scf.yield %q#0, %q#1 : tensor<?x4xf32>, tensor<?x4xf32>
  }
  return %r#0, %r#1 : tensor<?x4xf32>, tensor<?x4xf32>""", [0, 1, 2, 4]),
    "switched": (switched, """
  %r = scf.index_switch %n -> tensor<?x4xf32>
  case 0 {
    scf.yield %x : tensor<?x4xf32>
  }
  case 1 {
    %a = tandem.all_reduce %x : tensor<?x4xf32>
    scf.yield %a : tensor<?x4xf32>
  }
  case 5 {
    %a = tandem.all_reduce %x : tensor<?x4xf32>
    %w = tensor.concat dim(0) %a, %a : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    scf.yield %w : tensor<?x4xf32>
  }
  default {
    %a = arith.addf %x, %x : tensor<?x4xf32>
    scf.yield %a : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>""", [0, 1, 5, 7]),
}


def main():
    x = [np.arange(12, dtype=np.float32).reshape(3, 4) + 10 * rank + 1 for rank in range(2)]
    text = ""
    for name, (_, body, _) in PROGRAMS.items():
        results = body[body.rindex(":") + 1:]
        text += f"""
func.func @{name}(%x: tensor<?x4xf32> {{onnx.name = "x"}}, %n: index {{onnx.name = "n"}})
    -> ({results}) {{{HEAD}{body}
}}
"""
    source, module = FOLDER / "sizes.mlir", FOLDER / "sizes.so"
    source.write_text(text)
    done = subprocess.run(["fusion-translate", "--compile", source, "-o", module], check=True,
                          capture_output=True, text=True)
    assert not done.stderr, done.stderr
    for name, (function, _, numbers) in PROGRAMS.items():
        for n in numbers:
            expected = function(x, n)
            for rank in range(2):
                np.savez(FOLDER / f"in{rank}.npz", x=x[rank], n=np.int64(n))
                np.savez(FOLDER / f"out{rank}.npz",
                         **{f"result{i}": e[rank] for i, e in enumerate(expected)})
            subprocess.run(
                ["fusion-run", module, f"--entry={name}", "--ranks=2", "--max-tokens=100",
                 f"--input={FOLDER}/in{{rank}}.npz", f"--expect={FOLDER}/out{{rank}}.npz",
                 "--tolerance=0"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
