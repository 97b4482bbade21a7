#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles random functions, runs them, and compares with float64.

usage: random_programs.py FOLDER [SEED COUNT]   (the tools are on the PATH; by default
seed 1 and 8 functions, or 1,000 with TANDEM_TEST_FULL=1)

Functions hold all-reduces, adds and norms, loops over elements, slices, selects,
branches, loops and calls, and return any of their values, some of them twice.
There are values of several row counts, and branches and loops that change which
one a value has. Modules have FUNCTIONS functions each; module M of a run is made
from the seed SEED + M alone.
"""

import collections
import os
import pathlib
import random
import subprocess
import sys

import numpy as np

FUNCTIONS = 8
EPSILON = 0.1
GAMMA = "tensor<8xf32>"
# A value: its name and a label; values of one label have as many rows.
Value = collections.namedtuple("Value", "name rows")


def norm(x, gamma):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gamma[:, None]


def total(x):
    return np.broadcast_to(x.sum(0), x.shape)


class Program:
    """One function: its text, and steps that compute the same with numpy. Arrays
    have the ranks in front."""

    def __init__(self, rng, name, rows):
        self.rng, self.name, self.lines, self.count = rng, name, [], 0
        self.rows = rows  # of the type; None: dynamic
        self.type = f"tensor<{'?' if rows is None else rows}x8xf32>"
        self.half = self.type.replace("x8x", "x4x")
        self.groups = ["", ' {group = #tandem.group<"tp">}'] if rng.random() < 0.3 else [""]
        arguments = [Value("%x", "n"), Value("%h", "n")]
        if rows is None:
            arguments += [Value("%p", "m"), Value("%q", "m")]
        self.arguments = [a.name for a in arguments]
        self.steps, values = self.block(arguments, 0, rng.randint(2, 6))
        recent = values[-4:]
        self.results = [
            self.choose(recent if rng.random() < 0.7 else values).name
            for _ in range(rng.randint(1, 4))
        ]

    def new(self):
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text):
        self.lines.append(text)

    def choose(self, values):
        return self.rng.choice(values)

    def pick(self, values, rows=None):
        """A value, of as many rows as asked for, rather a late one."""
        fit = [v for v in values if rows in (None, v.rows)]
        if self.rng.random() < 0.5:
            return fit[max(0, len(fit) - 1 - int(self.rng.expovariate(0.7)))]
        return self.choose(fit)

    def pair(self, values):
        a = self.pick(values)
        return a, self.pick(values, a.rows)

    def block(self, values, depth, count):
        """Emits `count` things; returns the steps and the values that are there."""
        values, steps = list(values), []
        for _ in range(count):
            kinds = [self.chain] * 8 + [self.elementwise, self.slices, self.select] * 2
            kinds += [self.all_reduce, self.norm, self.call] + [self.branch, self.loop] * (
                3 if depth < 2 else 0
            )
            self.choose(kinds)(values, steps, depth)
        return steps, values

    # Each of these appends to `values` and `steps`. A step is a list of names and
    # what computes their values from a dictionary of all.

    def op(self, steps, text, compute):
        name = self.new()
        self.emit(f"{name} = {text}")
        steps.append(([name], lambda e: [compute(e)]))
        return name

    def add_norm(self, steps, x, gamma):
        return self.op(
            steps,
            f"tandem.rms_norm {x}, {gamma} {{epsilon = {EPSILON} : f64}} : {self.type}, {GAMMA}",
            lambda e: norm(e[x], e[gamma]),
        )

    def add_sum(self, steps, x):
        return self.op(
            steps,
            f"tandem.all_reduce {x}{self.choose(self.groups)} : {self.type}",
            lambda e: total(e[x]),
        )

    def chain(self, values, steps, depth):
        x = self.pick(values)
        current = total_ = self.add_sum(steps, x.name)
        if self.rng.random() < 0.2:
            current = self.add_norm(steps, current, "%g")
            if self.rng.random() < 0.2:
                values.append(Value(current, x.rows))
        if self.rng.random() < 0.85:
            a, b = current, self.pick(values, x.rows).name
            if self.rng.random() < 0.5:
                a, b = b, a
            current = self.op(
                steps, f"tandem.add {a}, {b} : {self.type}", lambda e: e[a] + e[b]
            )
            if self.rng.random() < 0.6:
                values.append(Value(current, x.rows))
        name = self.add_norm(steps, current, self.choose(["%g", "%k"]))
        values.append(Value(name, x.rows))
        if self.rng.random() < 0.3:
            values.append(Value(total_, x.rows))

    def all_reduce(self, values, steps, depth):
        x = self.pick(values)
        values.append(Value(self.add_sum(steps, x.name), x.rows))

    def norm(self, values, steps, depth):
        x = self.pick(values)
        values.append(Value(self.add_norm(steps, x.name, "%k"), x.rows))

    def elementwise(self, values, steps, depth):
        a, b = self.pair(values)
        out = self.pick(values, a.rows)  # overwritten, or copied
        kind, compute = self.choose(
            [("addf", np.add), ("subf", np.subtract), ("maximumf", np.maximum)]
        )
        if self.rng.random() < 0.3:
            text = f"arith.{kind} {a.name}, {b.name} : {self.type}"
        else:
            text = (
                "linalg.generic {indexing_maps = [#id, #id, #id], "
                'iterator_types = ["parallel", "parallel"]} '
                f"ins({a.name}, {b.name} : {self.type}, {self.type}) "
                f"outs({out.name} : {self.type}) {{\n^bb0(%a: f32, %b: f32, %o: f32):\n"
                f"%z = arith.{kind} %a, %b : f32\nlinalg.yield %z : f32 }} -> {self.type}"
            )
        name = self.op(steps, text, lambda e: compute(e[a.name], e[b.name]))
        values.append(Value(name, a.rows))

    def slices(self, values, steps, depth):
        a, b = self.pair(values)
        size, slice_ = self.rows, self.new()
        if size is None:
            size = self.new()
            self.emit(f"{size} = tensor.dim {a.name}, %c0 : {self.type}")
        self.emit(
            f"{slice_} = tensor.extract_slice {a.name}[0, 0][{size}, 4][1, 1]"
            f" : {self.type} to {self.half}"
        )
        name = self.op(
            steps,
            f"tensor.insert_slice {slice_} into {b.name}[0, 4][{size}, 4][1, 1]"
            f" : {self.half} into {self.type}",
            lambda e: np.concatenate([e[b.name][..., :4], e[a.name][..., :4]], -1),
        )
        values.append(Value(name, a.rows))

    def select(self, values, steps, depth):
        a, b = self.pick(values), self.pick(values)
        condition = self.choose(["%c", "%few"])
        name = self.op(
            steps,
            f"arith.select {condition}, {a.name}, {b.name} : {self.type}",
            lambda e: e[a.name] if e[condition] else e[b.name],
        )
        values.append(Value(name, a.rows if a.rows == b.rows else name))

    def call(self, values, steps, depth):
        a, b = self.pair(values)
        name = self.op(
            steps,
            f"func.call @callee({a.name}, {b.name}, %g) : ({self.type}, {self.type}, {GAMMA})"
            f" -> {self.type}",
            lambda e: norm(total(e[a.name]) + e[b.name], e["%g"]) + e[b.name],
        )
        values.append(Value(name, a.rows))

    def branch(self, values, steps, depth):
        number, condition = self.rng.randint(1, 2), self.choose(["%c", "%few"])
        types = ", ".join([self.type] * number)
        name, sides = self.new(), []
        self.emit(f"{name}:{number} = scf.if {condition} -> ({types}) {{")
        for end in ("} else {", "}"):
            inner, inside = self.block(values, depth + 1, self.rng.randint(0, 2))
            out = [
                self.choose(inside[-3:] if self.rng.random() < 0.7 else inside)
                for _ in range(number)
            ]
            self.emit(f"scf.yield {', '.join(v.name for v in out)} : {types}\n{end}")
            sides.append((inner, out))

        def compute(e):
            inner, out = sides[0 if e[condition] else 1]
            e = run(inner, dict(e))
            return [e[v.name] for v in out]

        names = [f"{name}#{i}" for i in range(number)]
        steps.append((names, compute))
        for n, a, b in zip(names, sides[0][1], sides[1][1]):
            values.append(Value(n, a.rows if a.rows == b.rows else n))

    def loop(self, values, steps, depth):
        number, name = self.rng.randint(1, 2), self.new()
        types = ", ".join([self.type] * number)
        initial = [self.pick(values) for _ in range(number)]
        # It may change how many rows there are.
        keeps = self.rng.random() < 0.6
        carried = [self.new() for _ in range(number)]
        inside = values + [
            Value(c, i.rows if keeps else c) for c, i in zip(carried, initial)
        ]
        pairs = ", ".join(f"{c} = {i.name}" for c, i in zip(carried, initial))
        self.emit(
            f"{name}:{number} = scf.for %i{name[1:]} = %c0 to %trips step %c1"
            f" iter_args({pairs}) -> ({types}) {{"
        )
        inner, inside = self.block(inside, depth + 1, self.rng.randint(0, 2))
        out = [self.pick(inside, i.rows if keeps else None).name for i in initial]
        self.emit(f"scf.yield {', '.join(out)} : {types}\n}}")

        def compute(e):
            current = [e[i.name] for i in initial]
            for _ in range(e["%trips"]):
                after = run(inner, {**e, **dict(zip(carried, current))})
                current = [after[o] for o in out]
            return current

        names = [f"{name}#{i}" for i in range(number)]
        steps.append((names, compute))
        values += [Value(n, i.rows if keeps else n) for n, i in zip(names, initial)]

    def text(self):
        arguments = ", ".join(f"{a}: {self.type}" for a in self.arguments)
        types = ", ".join([self.type] * len(self.results))
        body = "\n".join(self.lines)
        return f"""func.func @{self.name}({arguments}, %g: {GAMMA}, %k: {GAMMA}, %c: i1,
    %trips: index) -> ({types}) {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c3 = arith.constant 3 : index
%n = tensor.dim %x, %c0 : {self.type}
%few = arith.cmpi sle, %n, %c3 : index
{body}
return {", ".join(self.results)} : {types}
}}
"""


def run(steps, values):
    for names, compute in steps:
        values.update(zip(names, compute(values)))
    return values


def callee(type_, attributes):
    return f"""func.func private @callee(%x: {type_}, %h: {type_}, %g: {GAMMA}) -> {type_} {attributes} {{
%s = tandem.all_reduce %x : {type_}
%r = tandem.add %h, %s : {type_}
%y = tandem.rms_norm %r, %g {{epsilon = {EPSILON} : f64}} : {type_}, {GAMMA}
%z = tandem.add %y, %h : {type_}
return %z : {type_}
}}
"""


def tool(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr.strip()


def check(program, module, folder, rng, world):
    """Runs one function on `world` ranks; returns what is wrong, or nothing."""
    n, m = (program.rows,) * 2 if program.rows else (rng.randint(0, 5), rng.randint(0, 5))
    data = np.random.default_rng(rng.randrange(1 << 30))
    sizes = {"%x": n, "%h": n, "%p": m, "%q": m}
    values = {
        name: data.integers(-4, 5, (world, sizes[name], 8)).astype("f4")
        for name in program.arguments
    }
    values.update({name: data.normal(size=(world, 8)).astype("f4") for name in ("%g", "%k")})
    values.update({"%c": rng.random() < 0.5, "%trips": rng.randint(0, 3), "%few": n <= 3})
    names = program.arguments + ["%g", "%k", "%c", "%trips"]
    wanted = run(program.steps, dict(values))
    for rank in range(world):
        own = [
            values[x][rank] if isinstance(values[x], np.ndarray) else values[x] for x in names
        ]
        np.savez(
            folder / f"in{rank}.npz",
            **{f"arg{i}": np.int64(v) if type(v) is int else v for i, v in enumerate(own)},
        )
        np.savez(
            folder / f"out{rank}.npz",
            **{f"result{i}": wanted[x][rank] for i, x in enumerate(program.results)},
        )
    code, said = tool(
        "fusion-run", module, f"--entry={program.name}", f"--ranks={world}",
        f"--input={folder}/in{{rank}}.npz", f"--expect={folder}/out{{rank}}.npz",
        "--tolerance=1e-3",
    )  # fmt: skip
    if code:
        return f"{world} ranks, {n} and {m} rows, c={values['%c']}, trips={values['%trips']}: {said}"
    return ""


def check_module(seed, folder):
    rng = random.Random(seed)
    rows = rng.choice([None, None, None, 1, 2, 4])
    programs = [Program(rng, f"f{i}", rows) for i in range(FUNCTIONS)]
    attributes = "attributes {no_inline}" if rows and rng.random() < 0.5 else ""
    source, fused, module = (folder / f"a{suffix}" for suffix in (".mlir", ".f.mlir", ".so"))
    source.write_text(
        "#id = affine_map<(i, j) -> (i, j)>\n"
        + "".join(p.text() for p in programs)
        + callee(programs[0].type, attributes)
    )
    options = rng.choice(
        ["", "max-tokens=3", "max-tokens=3 guard=function", "guard=none max-tokens=3",
         "max-tokens=3 batch-invariant", "max-tokens=3 merge-all-reduces"]
    )  # fmt: skip
    wrong = []
    for words in (
        ["fusion-opt", source, f"--tandem-fuse={options}", "-o", fused],
        ["fusion-translate", "--compile", fused, "-o", module],
    ):
        code, said = tool(*words)
        if code:
            return [f"{words[0]}: {said}"]
    for program in programs:
        for world in rng.sample([1, 2, 3], 2):
            said = check(program, module, folder, rng, world)
            if said:
                wrong.append(f"{program.name}, '{options}', {said}")
    return wrong


def main():
    folder, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    full = os.environ.get("TANDEM_TEST_FULL", "") not in ("", "0")
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000 if full else FUNCTIONS
    failures = 0
    for number in range((count + FUNCTIONS - 1) // FUNCTIONS):
        place = folder / str(seed + number)
        place.mkdir(parents=True, exist_ok=True)
        wrong = check_module(seed + number, place)
        failures += len(wrong)
        for text in wrong:
            print(f"FAIL seed {seed + number}: {text}", file=sys.stderr, flush=True)
        if not wrong:
            for file in place.iterdir():
                file.unlink()
            place.rmdir()
    print(f"{failures} failures in {count} functions from seed {seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
