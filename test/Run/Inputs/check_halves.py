#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalars of f16 and bf16 in a compiled module, against NumPy and ml_dtypes.

usage: check_halves.py FOLDER RUNTIME [FLAG...]   (FLAGs of fusion-translate)
"""

import ctypes
import pathlib
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
TEXT = """
// A value goes on as it is, whatever it is: by select, insert, branch, loop, call.
func.func @moved_TYPE(%a: TYPE, %x: tensor<4xTYPE>, %c: i1) -> tensor<8xTYPE> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %one = arith.constant 1.0 : TYPE
  %e = tensor.extract %x[%c0] : tensor<4xTYPE>
  %f = tensor.extract %x[%c1] : tensor<4xTYPE>
  %s = arith.select %c, %e, %a : TYPE
  %b = scf.if %c -> TYPE {
    scf.yield %f : TYPE
  } else {
    scf.yield %s : TYPE
  }
  %l:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%u = %e, %v = %a) -> (TYPE, TYPE) {
    scf.yield %v, %u : TYPE, TYPE
  }
  %p, %q = func.call @swap_TYPE(%a, %f) : (TYPE, TYPE) -> (TYPE, TYPE)
  %r = tensor.from_elements %a, %s, %b, %l#0, %l#1, %p, %q, %one : tensor<8xTYPE>
  return %r : tensor<8xTYPE>
}
func.func private @swap_TYPE(%a: TYPE, %b: TYPE) -> (TYPE, TYPE) attributes {no_inline} {
  return %b, %a : TYPE, TYPE
}
func.func @computed_TYPE(%a: TYPE, %b: TYPE) -> tensor<8xTYPE> {
  %add = arith.addf %a, %b : TYPE
  %sub = arith.subf %a, %b : TYPE
  %mul = arith.mulf %a, %b : TYPE
  %div = arith.divf %a, %b : TYPE
  %max = arith.maximumf %a, %b : TYPE
  %neg = arith.negf %a : TYPE
  %less = arith.cmpf olt, %a, %b : TYPE
  %least = arith.select %less, %a, %b : TYPE
  // Rounded after each.
  %m = arith.mulf %a, %b : TYPE
  %ma = arith.addf %m, %a : TYPE
  %r = tensor.from_elements %add, %sub, %mul, %div, %max, %neg, %least, %ma : tensor<8xTYPE>
  return %r : tensor<8xTYPE>
}
func.func @narrowed_TYPE(%f: f32, %i: i32) -> tensor<2xTYPE> {
  %a = arith.truncf %f : f32 to TYPE
  %b = arith.sitofp %i : i32 to TYPE
  %r = tensor.from_elements %a, %b : tensor<2xTYPE>
  return %r : tensor<2xTYPE>
}
func.func @narrowed_twice_TYPE(%d: f64) -> tensor<1xTYPE> {
  %a = arith.truncf %d : f64 to TYPE
  %r = tensor.from_elements %a : tensor<1xTYPE>
  return %r : tensor<1xTYPE>
}
func.func @widened_TYPE(%a: TYPE) -> (tensor<1xf32>, tensor<1xf64>) {
  %f = arith.extf %a : TYPE to f32
  %d = arith.extf %a : TYPE to f64
  %r = tensor.from_elements %f : tensor<1xf32>
  %s = tensor.from_elements %d : tensor<1xf64>
  return %r, %s : tensor<1xf32>, tensor<1xf64>
}
// Beside a call of the runtime.
func.func @normed_TYPE(%x: tensor<1x4xTYPE>, %g: tensor<4xTYPE>, %a: TYPE) -> tensor<4xTYPE> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %y = tandem.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : tensor<1x4xTYPE>, tensor<4xTYPE>
  %z = tensor.extract_slice %y[0, 0][1, 4][1, 1] : tensor<1x4xTYPE> to tensor<4xTYPE>
  %r = tensor.insert %a into %z[%c2] : tensor<4xTYPE>
  return %r : tensor<4xTYPE>
}
"""


class Tensor(ctypes.Structure):
    _fields_ = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p)]
    _fields_ += [("rest", ctypes.c_int64 * 5)]


def greater(f, g):
    """The greater of two, as arith.maximumf has it: -0 is less than +0."""
    if f == g == 0:
        return f if np.signbit(g) else g
    return np.maximum(f, g)


def pointer(array):
    sizes = list(array.shape)
    strides = [s // array.itemsize for s in array.strides]
    rest = (ctypes.c_int64 * 5)(0, *sizes, *strides)
    tensor = Tensor(array.ctypes.data, array.ctypes.data, rest)
    return ctypes.pointer(tensor)


def same(got, expected):
    """Bit for bit, any NaN being one."""
    if got.dtype != expected.dtype:
        return False
    word = f"u{got.itemsize}"
    nan = np.isnan(got.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    return bool(np.all(nan | (got.view(word) == expected.view(word))))


def nearest(value, dtype):
    """`value`, a float64, rounded once to nearest even."""
    first = np.float32(value).astype(dtype)
    if not np.isfinite(first) or first == value:
        return first
    word = int(first.view(np.uint16))
    near = [np.array(w & 0xFFFF, np.uint16).view(dtype)[()] for w in (word - 1, word, word + 1)]
    exact = Fraction(float(value))
    return min((n for n in near if np.isfinite(n)), key=lambda n: (
        abs(Fraction(float(n)) - exact), int(n.view(np.uint16)) & 1))


def check(module, name):
    dtype = TYPES[name]
    random = np.random.default_rng(len(name))

    def call(function, *arguments):
        status = getattr(module, f"_mlir_ciface_{function}_{name}")(*arguments)
        assert status == 0, (function, status)

    def scalar(value):
        return ctypes.c_uint16(int(value.view(np.uint16)))

    special = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x7C00, 0x7C01, 0x7E01, 0xFC00,
                        0xFE55, 0x7F80, 0xFF80, 0x7F81, 0x7FC1, 0xFFFF, 0x7BFF, 0x7F7F],
                       np.uint16)
    bits = np.concatenate([special, random.integers(0, 1 << 16, 400, np.uint16)])
    values = bits.view(dtype)
    others = random.permutation(bits).view(dtype)
    errors = []
    with np.errstate(all="ignore"):
        for number, (a, b) in enumerate(zip(values, others)):
            out = np.zeros(8, dtype)
            x = np.array([b, a, b, a], dtype)
            c = number % 2 == 1
            call("moved", scalar(a), pointer(x), ctypes.c_bool(c), pointer(out))
            one = np.array(1.0, dtype)
            expected = np.array([a, b if c else a, a, a, b, a, a, one], dtype)
            if not np.array_equal(out.view(np.uint16), expected.view(np.uint16)):
                errors.append(("moved", a, b, out, expected))

            call("computed", scalar(a), scalar(b), pointer(out))
            f, g = np.float32(a), np.float32(b)

            def round_(value):
                return np.float32(value).astype(dtype)

            product = round_(f * g)
            expected = np.array(
                [round_(f + g), round_(f - g), product, round_(f / g),
                 round_(greater(f, g)), -a, a if f < g else b,
                 round_(np.float32(product) + f)], dtype)
            if not same(out, expected):
                errors.append(("computed", a, b, out, expected))

            wide, wider = np.zeros(1, np.float32), np.zeros(1, np.float64)
            call("widened", scalar(a), pointer(wide), pointer(wider))
            if not same(wide, np.array([f])) or not same(wider, np.array([np.float64(f)])):
                errors.append(("widened", a, wide, wider))

            # Everywhere, and close to the middle between two neighbours.
            word = int(random.integers(0, 1 << 32)) if c else \
                (int(f.view(np.uint32)) + (0x8000 if name == "bf16" else 0x1000)
                 + int(random.integers(-1, 2))) & 0xFFFFFFFF
            narrow = np.array(word, np.uint32).view(np.float32)[()]
            integer = int(random.integers(-40000, 40000))
            two = np.zeros(2, dtype)
            call("narrowed", ctypes.c_float(narrow), ctypes.c_int32(integer), pointer(two))
            expected = np.array([round_(narrow), round_(np.float32(integer))], dtype)
            if not same(two, expected):
                errors.append(("narrowed", narrow, integer, two, expected))

            # Close to the middle in f64, where f32 lies just in the middle.
            middle = np.float64(f) * (1 + (2.0**-9 if name == "bf16" else 2.0**-12))
            wide = middle * (1 + int(random.integers(-3, 4)) * 2.0**-40)
            single = np.zeros(1, dtype)
            call("narrowed_twice", ctypes.c_double(wide), pointer(single))
            expected = np.array([nearest(wide, dtype)])
            if not same(single, expected):
                errors.append(("narrowed_twice", wide, single, expected))

        x = np.array([[1, 2, -2, 1]], dtype)
        g = np.ones(4, dtype)
        four = np.zeros(4, dtype)
        tensor = pointer(x.reshape(4))
        descriptor = (ctypes.c_int64 * 7)(tensor.contents.aligned, tensor.contents.aligned,
                                          0, 1, 4, 4, 1)
        call("normed", descriptor, pointer(g), scalar(values[12]), pointer(four), None)
        if four.view(np.uint16)[2] != bits[12] or abs(float(four[0]) - 0.632) > 0.01:
            errors.append(("normed", four))
    for error in errors[:5]:
        print(name, *error, file=sys.stderr)
    assert not errors, f"{len(errors)} wrong for {name}"


def main():
    source = FOLDER / "halves.mlir"
    source.write_text("".join(TEXT.replace("TYPE", name) for name in TYPES))
    subprocess.run(["fusion-translate", "--compile", source, "-o", FOLDER / "halves.so",
                    *sys.argv[3:]], check=True)
    ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    module = ctypes.CDLL(str(FOLDER / "halves.so"))
    for name in TYPES:
        check(module, name)


if __name__ == "__main__":
    main()
