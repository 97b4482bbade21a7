# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints one function for each way to write an RMSNorm in several ONNX ops.

Every function comes with CHECK lines that say what it must be raised to. The
ways are all combinations of one choice from each list below; in torch's form
every 17th of them, which has each choice many times.

usage: norm_variants.py [onnx|torch]
"""

import itertools
import sys

# (element type, type of the statistics, where the cast back stands)
PRECISIONS = [
    ("f32", "f32", "none"),
    ("f64", "f64", "none"),
    ("bf16", "f32", "before_gamma"),
    ("f16", "f32", "before_gamma"),
    ("bf16", "f32", "after_gamma"),
    ("f16", "f32", "after_gamma"),
]
SQUARES = ["pow", "pow1", "mul"]  # pow1: the exponent has shape [1]
AXES = ["attribute", "input", "positive", "reshape"]
INVERSES = ["div", "reciprocal", "reciprocal_swapped", "div1", "div1_swapped"]
EPSILON_FIRST = [False, True]
GAMMA_FIRST = [False, True]
NOOP_CASTS = [False, True]

TORCH = len(sys.argv) > 1 and sys.argv[1] == "torch"
SHAPE, ROW, HIDDEN = [3, 8], [3, 1], [8]


def tensor(shape, element):
    return "tensor<" + "x".join([str(d) for d in shape] + [element]) + ">"


def spell(shape, element):
    if not TORCH:
        return tensor(shape, element)
    element = "si64" if element == "i64" else element
    return f"!torch.vtensor<[{','.join(map(str, shape))}],{element}>"


class Function:
    def __init__(self, name, arguments):
        self.lines = []
        self.types = dict(arguments)
        self.count = 0
        self.name = name
        self.arguments = arguments

    def op(self, name, operands, shape, element, attrs=""):
        result = f"%{self.count}"
        self.count += 1
        self.types[result] = spell(shape, element)
        ins = ", ".join(self.types[o] for o in operands)
        if TORCH:
            attrs = ", ".join(
                "torch.onnx." + a for a in attrs.split("; ") if a
            )
            attrs = f'name = "onnx.{name}"' + (", " if attrs else "") + attrs
            op = "torch.operator"
        else:
            attrs, op = attrs.replace("; ", ", "), "onnx." + name
        self.lines.append(
            f'  {result} = "{op}"({", ".join(operands)}) {{{attrs}}}'
            f" : ({ins}) -> {self.types[result]}"
        )
        return result

    def constant(self, value, shape, element):
        return self.op(
            "Constant", [], shape, element,
            f"value = dense<{value}> : {tensor(shape, element)}",
        )

    def text(self, result):
        arguments = ", ".join(f"{n}: {t}" for n, t in self.arguments)
        head = f"func.func @{self.name}({arguments}) -> {self.types[result]} {{"
        tail = f"  return {result} : {self.types[result]}\n}}"
        return "\n".join([head, *self.lines, tail])


def build(index, choice):
    (element, stats, rounding), square, axes, inverse, eps_first, gamma_first, noops = choice
    after = rounding == "after_gamma"
    f = Function(
        f"norm_{index}",
        [("%x", spell(SHAPE, element)), ("%g", spell(HIDDEN, stats if after else element))],
    )

    def noop(value, shape, kind):
        return f.op("Cast", [value], shape, kind, f"to = {kind}") if noops else value

    up = noop("%x", SHAPE, element)
    if stats != element:
        up = f.op("Cast", [up], SHAPE, stats, f"to = {stats}")
    up = noop(up, SHAPE, stats)
    if square == "mul":
        sq = f.op("Mul", [up, up], SHAPE, stats)
    else:
        two = f.constant("2.0", [1] if square == "pow1" else [], stats)
        sq = f.op("Pow", [up, two], SHAPE, stats)
    sq = noop(sq, SHAPE, stats)
    if axes == "attribute":
        mean = f.op("ReduceMean", [sq], ROW, stats, "axes = [-1]; keepdims = 1 : si64")
    else:
        last = f.constant("1" if axes == "positive" else "-1", [1], "i64")
        if axes == "reshape":
            scalar = f.constant("-1", [], "i64")
            last = f.op("Reshape", [scalar, last], [1], "i64", "allowzero = 0 : si64")
        mean = f.op("ReduceMean", [sq, last], ROW, stats, "keepdims = 1 : si64; noop_with_empty_axes = 0 : si64")
    eps = f.constant("1.562500e-02", [], stats)
    mean = noop(mean, ROW, stats)
    var = f.op("Add", [eps, mean] if eps_first else [mean, eps], ROW, stats)
    root = noop(f.op("Sqrt", [noop(var, ROW, stats)], ROW, stats), ROW, stats)
    if inverse == "div":
        normed = f.op("Div", [up, root], SHAPE, stats)
    else:
        if inverse.startswith("reciprocal"):
            inv = f.op("Reciprocal", [root], ROW, stats)
        else:
            inv = f.op("Div", [f.constant("1.0", [], stats), root], ROW, stats)
        inv = noop(inv, ROW, stats)
        pair = [inv, up] if inverse.endswith("swapped") else [up, inv]
        normed = f.op("Mul", pair, SHAPE, stats)
    normed = noop(normed, SHAPE, stats)
    result_type = stats if after else element
    if rounding == "before_gamma":
        normed = f.op("Cast", [normed], SHAPE, element, f"to = {element}")
    result = f.op("Mul", ["%g", normed] if gamma_first else [normed, "%g"], SHAPE, result_type)
    if after:
        result = f.op("Cast", [result], SHAPE, element, f"to = {element}")

    operands = "%{{.*}}, %{{.*}}" if TORCH else "%[[X]], %[[G]]"
    attrs = "epsilon = 1.562500e-02 : f64"
    if after:
        attrs += ", rounding = #tandem<rounding after_gamma>"
    types = f"{tensor(SHAPE, element)}, {tensor(HIDDEN, stats if after else element)}"
    print(f"// CHECK-LABEL: func.func @{f.name}(")
    if not TORCH:
        print("// CHECK-SAME: %[[X:.*]]: tensor{{.*}}, %[[G:.*]]: tensor")
    print(f"// CHECK: %[[Y:.*]] = tandem.rms_norm {operands} {{{attrs}, source_positions =")
    print(f"// CHECK-SAME: }} : {types} source {{")
    print("// CHECK: tandem.yield")
    # Of the chain nothing stays outside of the source region.
    print("// CHECK-NEXT: }")
    print("// CHECK-NEXT: " + ("{{.*}}unrealized_conversion_cast" if TORCH else "return %[[Y]]"))
    print(f.text(result))


def main():
    choices = itertools.product(
        PRECISIONS, SQUARES, AXES, INVERSES, EPSILON_FIRST, GAMMA_FIRST, NOOP_CASTS
    )
    for index, choice in enumerate(choices):
        if not TORCH or index % 17 == 0:
            build(index, choice)


if __name__ == "__main__":
    main()
