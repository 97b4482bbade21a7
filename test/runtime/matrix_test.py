# ===-- matrix_test.py - The runtime's numbers against a float64 reference --===#
#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs the fused family between real processes, through the C ABI, for worlds x
types x hidden sizes x token counts, and compares with numpy.

What is compared, and how tightly:
 * sum and new residual: bit for bit with rank-ordered f32 sums rounded once (an
   f32 sum of two f16 or bf16 values rounds like one rounding, because 24 >= 2 * 11
   + 2), and the sum within the f32 error bound of the float64 sum;
 * norm: there is a value within a relative distance delta of the exact (float64)
   one that rounds to it. delta is the bound of the f32 arithmetic before the last
   rounding: ceil(hidden / 64) additions in a lane, 6 in the tree, and a handful of
   other operations, of which the sum's count half (square root). Where the
   normalised value is rounded before gamma, the same holds for it, and the last
   product adds one f32 rounding;
 * all ranks: the same bits;
 * fused call, forced fallback, and all_reduce followed by add_rms_norm: the same
   bits; a token alone and in a batch: the same bits.

With --device=cuda the operands go to GPUs and back, rank r on GPU r modulo their
number. The kernels add the squares in another order there (see delta), and worlds
larger than the number of GPUs take turns on them, which is slow.

usage: matrix_test.py LIBRARY [--device=cuda] [--worlds 2,4] [--full]
exit status: 77 where there is no GPU to test
"""

import argparse
import ctypes
import hashlib
import itertools
import json
import os
import sys
import time

import numpy as np

F32, F16, BF16 = 0, 1, 2
NAMES = {F32: "f32", F16: "f16", BF16: "bf16"}
STORAGE = {F32: np.uint32, F16: np.uint16, BF16: np.uint16}
FALLBACK, BATCH_INVARIANT = 1, 2
BEFORE, AFTER = 0, 1
LIMIT = 64
U = 2.0**-24

# ===-- The C ABI -----------------------------------------------------------===#


class Error(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("status", ctypes.c_int32),
        ("reporter", ctypes.c_int32),
        ("peer", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("call", ctypes.c_uint64),
        ("message", ctypes.c_char * 480),
    ]


class ContextDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("device", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_int64),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class CommDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("kind", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("world", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("unique_id", ctypes.c_void_p),
        ("nccl_comm", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class WorkspaceDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("max_tokens", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("token_limit", ctypes.c_int64),
        ("timeout_ms", ctypes.c_int64),
        ("signature", ctypes.c_char_p),
        ("signature_length", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("row_stride", ctypes.c_int64)]


class Norm(ctypes.Structure):
    _fields_ = [
        ("gamma", ctypes.c_void_p),
        ("gamma_dtype", ctypes.c_int32),
        ("rounding", ctypes.c_int32),
        ("epsilon", ctypes.c_double),
    ]


class NormArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("tokens", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("input", View),
        ("residual", View),
        ("bias", ctypes.c_void_p),
        ("pre_norm", Norm),
        ("norm", Norm),
        ("norm_out", View),
        ("residual_out", View),
        ("sum_out", View),
        ("reserved", ctypes.c_uint64 * 8),
    ]


class AllReduceArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint64),
        ("tokens", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("input", View),
        ("output", View),
        ("reduction", ctypes.c_int32),
        ("reserved0", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 4),
    ]


def sized(kind, **fields):
    return kind(struct_size=ctypes.sizeof(kind), **fields)


class Gpu:
    """One rank's GPU: a piece of its memory, through which operands go."""

    SIZE = 1 << 29

    def __init__(self, rank):
        self.lib = self.load()
        count = ctypes.c_int()
        self.check(self.lib.cudaGetDeviceCount(ctypes.byref(count)))
        self.index = rank % count.value
        self.check(self.lib.cudaSetDevice(self.index))
        base = ctypes.c_void_p()
        self.check(
            self.lib.cudaMalloc(ctypes.byref(base), ctypes.c_size_t(self.SIZE))
        )
        self.base, self.used = base.value, 0

    @staticmethod
    def load():
        names = ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
        names += ["/usr/local/cuda/lib64/libcudart.so"]
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError:
                pass
        return None

    @classmethod
    def count(cls):
        """Asked in a process of its own, so that this one may fork."""
        pid = os.fork()
        if pid == 0:
            count, lib = ctypes.c_int(), cls.load()
            if not lib or lib.cudaGetDeviceCount(ctypes.byref(count)):
                count.value = 0
            os._exit(count.value)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @staticmethod
    def check(code):
        if code:
            raise RuntimeError(f"CUDA error {code}")

    def place(self, size):
        at = self.base + self.used
        self.used += -(-size // 256) * 256
        if self.used > self.SIZE:
            raise RuntimeError("operands too large for this test")
        return at

    def copy(self, to, source, size):
        # 4: whichever way the addresses say.
        self.check(
            self.lib.cudaMemcpy(
                ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), 4
            )
        )

    def call(self, function, workspace, args):
        """Calls with copies of the operands; they have no gaps in this test."""
        self.used, back = 0, []
        args = type(args).from_buffer_copy(args)
        element = np.dtype(STORAGE[args.dtype]).itemsize
        size = args.tokens * args.hidden * element

        def move(pointer, size, is_output):
            if not pointer or not size:
                return pointer
            at = self.place(size)
            self.copy(at, pointer, size)
            if is_output:
                back.append((pointer, at, size))
            return at

        outputs = ("output", "norm_out", "residual_out", "sum_out")
        for name in ("input", "residual") + outputs:
            if hasattr(args, name):
                view = getattr(args, name)
                view.data = move(view.data, size, name in outputs)
        if isinstance(args, NormArgs):
            args.bias = move(args.bias, args.hidden * element, False)
            for norm in (args.norm, args.pre_norm):
                gamma = np.dtype(STORAGE[norm.gamma_dtype]).itemsize
                norm.gamma = move(norm.gamma, args.hidden * gamma, False)
        status = function(workspace, ctypes.byref(args))
        if status == 0:
            self.check(self.lib.cudaDeviceSynchronize())
            for to, source, size in back:
                self.copy(to, source, size)
        return status


class Runtime:
    """One rank's handles."""

    def __init__(self, path, name, rank, world, device="cpu"):
        self.lib = ctypes.CDLL(path)
        self.gpu = Gpu(rank) if device == "cuda" else None
        context = sized(ContextDesc, device=0, timeout_ms=-1)
        if self.gpu:
            context.device, context.device_index = 1, self.gpu.index
        self.lib.tandem_token_limit.restype = ctypes.c_int64
        self.context, self.comm = ctypes.c_void_p(), ctypes.c_void_p()
        self.workspace = ctypes.c_void_p()
        error = sized(Error)
        self.check(
            self.lib.tandem_context_create(
                ctypes.byref(context), ctypes.byref(self.context), ctypes.byref(error)
            ),
            error,
        )
        desc = sized(
            CommDesc, rank=rank, world=world, timeout_ms=0, name=name.encode()
        )
        self.check(
            self.lib.tandem_comm_create(
                self.context,
                ctypes.byref(desc),
                ctypes.byref(self.comm),
                ctypes.byref(error),
            ),
            error,
        )

    @staticmethod
    def check(status, error):
        if status:
            raise RuntimeError(error.message.decode())

    def make_workspace(self, tokens, hidden, dtype):
        self.lib.tandem_workspace_destroy(self.workspace)
        self.workspace = ctypes.c_void_p()
        error = sized(Error)
        desc = sized(
            WorkspaceDesc,
            max_tokens=tokens,
            hidden=hidden,
            dtype=dtype,
            token_limit=-1,
            timeout_ms=0,
            flags=BATCH_INVARIANT,
        )
        self.check(
            self.lib.tandem_workspace_create(
                self.comm,
                ctypes.byref(desc),
                ctypes.byref(self.workspace),
                ctypes.byref(error),
            ),
            error,
        )
        limit = self.lib.tandem_token_limit(self.workspace, hidden, dtype)
        if limit != tokens:
            raise RuntimeError(f"limit is {limit}, not {tokens}")

    def call(self, function, args):
        function = getattr(self.lib, function)
        if self.gpu:
            status = self.gpu.call(function, self.workspace, args)
        else:
            status = function(self.workspace, ctypes.byref(args))
        error = sized(Error)
        if self.lib.tandem_workspace_get_failure(self.workspace, ctypes.byref(error)):
            raise RuntimeError(error.message.decode())
        if status:
            raise RuntimeError(f"status {status}")

    def close(self):
        self.lib.tandem_workspace_destroy(self.workspace)
        self.lib.tandem_comm_destroy(self.comm)
        self.lib.tandem_context_destroy(self.context)


# ===-- Numbers -------------------------------------------------------------===#


def round_to(values, dtype):
    """One rounding of float64 (or float32) values; returns storage bits."""
    with np.errstate(all="ignore"):
        if dtype == F32:
            return np.asarray(values, np.float64).astype(np.float32).view(np.uint32)
        if dtype == F16:
            return np.asarray(values, np.float64).astype(np.float16).view(np.uint16)
        values = np.asarray(values, np.float64)
        _, exponent = np.frexp(np.where(np.isfinite(values), values, 0))
        quantum = np.ldexp(1.0, np.maximum(exponent - 8, -133))
        rounded = np.where(
            np.isfinite(values), np.rint(values / quantum) * quantum, values
        )
        # Beyond bf16's range f32's conversion gives infinity as well.
        return (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def widen(bits, dtype):
    """Storage bits as float32, exactly."""
    if dtype == F32:
        return bits.view(np.float32)
    if dtype == F16:
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def round32(values, dtype):
    """float32 values rounded, fast."""
    if dtype == F32:
        return values.view(np.uint32)
    with np.errstate(all="ignore"):
        if dtype == F16:
            return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


DEVICE = "cpu"


def delta(hidden):
    """Bound of the norm's relative f32 error; see the top of the file."""
    additions = -(-hidden // 64) + 10
    if DEVICE == "cuda":
        # Up to 16 additions a thread for each of 1, 2 or 4 pairs of vectors, then
        # the warp's tree and that of up to 18 warps.
        pairs = 1 if hidden <= 4320 else 2 if hidden <= 8640 else 4
        additions = max(additions, 16 * pairs + 10)
    return (0.5 * additions + 4) * U * 1.01


def norm_interval(values, gamma, epsilon, rounding, dtype):
    """The lowest and highest storage values (as float64) that a norm may give."""
    hidden = values.shape[-1]
    x = values.astype(np.float64)
    g = gamma.astype(np.float64)
    mean = np.mean(x * x, axis=-1, keepdims=True)
    n = x / np.sqrt(mean + np.float64(np.float32(epsilon)))
    d = delta(hidden)
    spread = np.abs(n) * d
    low, high = n - spread, n + spread
    if rounding == BEFORE:
        low = widen(round_to(low, dtype), dtype).astype(np.float64)
        high = widen(round_to(high, dtype), dtype).astype(np.float64)
    a, b = low * g, high * g
    low, high = np.minimum(a, b), np.maximum(a, b)
    low, high = low - np.abs(low) * U, high + np.abs(high) * U
    return (
        widen(round_to(low, dtype), dtype).astype(np.float64),
        widen(round_to(high, dtype), dtype).astype(np.float64),
    )


def outside(got, low, high):
    return int(np.count_nonzero(~((got >= low) & (got <= high))))


# ===-- One rank ------------------------------------------------------------===#


class Data:
    """Everybody's inputs, made before the processes are."""

    def __init__(self, most_world, most_elements):
        random = np.random.default_rng(7)
        self.floats = random.standard_normal(
            most_elements + (most_world + 1) * 7919, np.float32
        )
        self.cache = {}

    def bits(self, which, dtype, tokens, hidden):
        """Input of rank `which`, or the residual with which = -1."""
        n = tokens * hidden
        # Each rank reads the same numbers from another place, at another scale.
        start = (which + 1) * 7919
        scale = np.float32(1.0 if which < 0 else 0.5 + 0.25 * which)
        key = (which, dtype)
        if key not in self.cache or self.cache[key].size < n:
            source = self.floats[start : start + max(n, 1)] * scale
            self.cache[key] = round32(source, dtype)
        return self.cache[key][:n].reshape(tokens, hidden)

    def vector(self, seed, dtype, hidden):
        random = np.random.default_rng(seed)
        return round32(
            (1 + 0.2 * random.standard_normal(hidden)).astype(np.float32), dtype
        )


VARIANTS = {
    # name: (residual, bias, pre_norm, gamma type or None for dtype, rounding, eps)
    "plain": (True, False, False, None, BEFORE, 1e-6),
    "no_residual": (False, False, False, None, AFTER, 1e-5),
    "everything": (True, True, True, F32, AFTER, 1e-5),
    "sandwich": (True, False, True, None, BEFORE, 1e-6),
}


def pointer(array):
    return None if array is None else array.ctypes.data


class Case:
    def __init__(self, runtime, rank, world, data, dtype, hidden, tokens, variant):
        self.__dict__.update(locals())
        residual, bias, pre, gamma_dtype, rounding, eps = VARIANTS[variant]
        self.rounding, self.eps = rounding, eps
        self.gamma_dtype = dtype if gamma_dtype is None else gamma_dtype
        self.x = data.bits(rank, dtype, tokens, hidden)
        self.residual = data.bits(-1, dtype, tokens, hidden) if residual else None
        self.gamma = data.vector(1, self.gamma_dtype, hidden)
        self.bias = data.vector(2, dtype, hidden) if bias else None
        self.pre = data.vector(3, self.gamma_dtype, hidden) if pre else None

    def args(self, x, tokens, residual, flags=0):
        outs = [np.full((tokens, self.hidden), 0xFF, x.dtype) for _ in range(3)]
        args = sized(
            NormArgs,
            tokens=tokens,
            hidden=self.hidden,
            dtype=self.dtype,
            flags=flags | BATCH_INVARIANT,
        )
        args.input.data = pointer(x)
        args.residual.data = pointer(residual)
        args.bias = pointer(self.bias)
        args.norm = Norm(
            pointer(self.gamma), self.gamma_dtype, self.rounding, self.eps
        )
        if self.pre is not None:
            args.pre_norm = Norm(
                pointer(self.pre), self.gamma_dtype, self.rounding, self.eps
            )
        args.norm_out.data = pointer(outs[0])
        args.residual_out.data = pointer(outs[1])
        args.sum_out.data = pointer(outs[2])
        return args, outs

    def fused(self, flags=0, rows=slice(None)):
        x = np.ascontiguousarray(self.x[rows])
        residual = (
            None if self.residual is None else np.ascontiguousarray(self.residual[rows])
        )
        args, outs = self.args(x, x.shape[0], residual, flags)
        self.runtime.call("tandem_fused_all_reduce_norm", args)
        return outs

    def unfused(self):
        total = np.empty_like(self.x)
        reduce = sized(
            AllReduceArgs,
            tokens=self.tokens,
            hidden=self.hidden,
            dtype=self.dtype,
            flags=FALLBACK | BATCH_INVARIANT,
        )
        reduce.input.data, reduce.output.data = pointer(self.x), pointer(total)
        self.runtime.call("tandem_all_reduce", reduce)
        args, outs = self.args(total, self.tokens, self.residual)
        self.runtime.call("tandem_add_rms_norm", args)
        return outs

    def run(self):
        """Returns a hash of the bits and a list of what is wrong."""
        wrong = []
        outs = self.fused()
        branches = {"fallback": lambda: self.fused(FALLBACK), "unfused": self.unfused}
        if self.tokens > 1000:
            del branches["fallback"]
        for name, branch in branches.items():
            for got, want, what in zip(branch(), outs, ("norm", "residual", "sum")):
                if not np.array_equal(got, want):
                    wrong.append(f"{name}: {what} has other bits")
        for row in {0, self.tokens // 2, self.tokens - 1} if self.tokens > 1 else ():
            alone = self.fused(rows=slice(row, row + 1))
            for got, want in zip(alone, outs):
                if not np.array_equal(got[0], want[row]):
                    wrong.append(f"row {row} has other bits alone")
        if self.rank == 0 and self.tokens > 0:
            wrong += self.compare(*outs)
        digest = hashlib.blake2b(digest_size=8)
        for out in outs:
            digest.update(out.tobytes())
        return digest.hexdigest(), wrong

    def compare(self, norm, residual, total):
        """Some rows at a time, so that the temporaries stay in the cache."""
        wrong, step = {}, max(1, 65536 // self.hidden)
        gammas = [
            None if g is None else widen(g, self.gamma_dtype)
            for g in (self.gamma, self.pre)
        ]
        for at in range(0, self.tokens, step):
            rows = slice(at, at + step)
            for what, count in self.compare_rows(
                rows, *gammas, norm[rows], residual[rows], total[rows]
            ):
                wrong[what] = wrong.get(what, 0) + count
        return [f"{count} {what}" for what, count in wrong.items() if count]

    def compare_rows(self, rows, gamma, pre, norm, residual, total):
        dtype = self.dtype
        inputs = [
            self.data.bits(r, dtype, self.tokens, self.hidden)[rows]
            for r in range(self.world)
        ]
        s = widen(inputs[0], dtype).copy()
        exact = s.astype(np.float64)
        magnitude = np.abs(exact)
        for bits in inputs[1:]:
            x = widen(bits, dtype)
            s += x
            exact += x
            magnitude += np.abs(x)
        # f32 has one rounding an addition.
        error = magnitude * ((self.world - 1) * U * 1.01)
        low = widen(round_to(exact - error, dtype), dtype)
        high = widen(round_to(exact + error, dtype), dtype)
        yield "sums off the float64 sum", outside(widen(total, dtype), low, high)
        expected = round32(s, dtype)
        yield "sums are not the rank-ordered ones", np.count_nonzero(total != expected)
        t = widen(expected, dtype)
        if self.bias is not None:
            t = widen(round32(t + widen(self.bias, dtype), dtype), dtype)
        if self.residual is not None:
            r = widen(self.residual[rows], dtype)
        if pre is None:
            if self.residual is not None:
                t = widen(round32(t + r, dtype), dtype)
            yield "residuals have other bits", np.count_nonzero(
                widen(residual, dtype) != t
            )
        else:
            low, high = norm_interval(t, pre, self.eps, self.rounding, dtype)
            if self.residual is not None:
                low = widen(round_to(low + r.astype(np.float64), dtype), dtype)
                high = widen(round_to(high + r.astype(np.float64), dtype), dtype)
            t = widen(residual, dtype)
            yield "residuals off", outside(t, low, high)
        low, high = norm_interval(t, gamma, self.eps, self.rounding, dtype)
        yield "norms off", outside(widen(norm, dtype), low, high)


def adversarial(runtime, rank, world, dtype):
    """Values where the order of a sum, a flush to zero or a NaN would show."""
    hidden = 96
    wide = np.zeros((4, hidden), np.float32)
    huge = np.float32(2.0**24 if dtype != F16 else 2.0**11)
    # Row 0: cancellation; row 1: negative zeros; row 2: subnormals; row 3: the rest.
    wide[0] = [huge, 1, -huge][rank] if rank < 3 else 1
    wide[1] = -0.0
    tiny = {F32: 2.0**-149, F16: 2.0**-24, BF16: 2.0**-133}[dtype]
    wide[2] = np.float32(tiny) * np.arange(hidden, dtype=np.float32)
    wide[3, 0::3] = np.inf
    wide[3, 1::3] = np.nan if rank == world - 1 else 1
    wide[3, 2::3] = -np.inf if rank == 0 else np.inf
    bits = round32(wide, dtype)
    bits[wide != wide] = {F32: 0xFFC12345, F16: 0xFE11, BF16: 0xFFC3}[dtype]
    total = np.empty_like(bits)
    args = sized(AllReduceArgs, tokens=4, hidden=hidden, dtype=dtype)
    args.input.data, args.output.data = pointer(bits), pointer(total)
    runtime.call("tandem_all_reduce", args)
    wrong = []
    got = widen(total, dtype)
    ordered = np.float32([huge, 1, -huge][0])
    for r in range(1, world):
        ordered = np.float32(ordered + (np.float32([huge, 1, -huge][r]) if r < 3 else 1))
    if not np.all(widen(total[0], dtype) == widen(round32(np.full(1, ordered), dtype), dtype)):
        wrong.append(f"cancellation: {got[0, 0]} not {ordered}")
    if not np.all(np.signbit(got[1])):
        wrong.append("a sum of negative zeros is not negative zero")
    want = round32(widen(bits[2], dtype) * np.float32(world), dtype)
    if not np.array_equal(total[2], want):
        wrong.append("subnormals were lost")
    canonical = {F32: 0x7FC00000, F16: 0x7E00, BF16: 0x7FC0}[dtype]
    nan = got[3] != got[3]
    if not np.all(total[3][nan] == canonical):
        wrong.append("a NaN is not the canonical one")
    if not (np.all(nan[1::3]) and np.all(nan[2::3] == (world > 1)) and not nan[0]):
        wrong.append("infinities and NaNs went astray")
    return hashlib.blake2b(total.tobytes(), digest_size=8).hexdigest(), wrong


def reductions(runtime, rank, world, data, dtype):
    """max, min and prod, by numpy in f32."""
    wrong, all_bits = [], b""
    tokens, hidden = 5, 100
    inputs = [widen(data.bits(r, dtype, tokens, hidden), dtype) for r in range(world)]
    for code, function in ((1, np.maximum), (2, np.minimum), (3, np.multiply)):
        want = inputs[0]
        for x in inputs[1:]:
            want = function(want, x)
        total = np.empty((tokens, hidden), STORAGE[dtype])
        args = sized(
            AllReduceArgs, tokens=tokens, hidden=hidden, dtype=dtype, reduction=code
        )
        mine = np.ascontiguousarray(data.bits(rank, dtype, tokens, hidden))
        args.input.data, args.output.data = pointer(mine), pointer(total)
        runtime.call("tandem_all_reduce", args)
        if not np.array_equal(total, round32(np.ascontiguousarray(want), dtype)):
            wrong.append(f"{function.__name__} is wrong")
        all_bits += total.tobytes()
    return hashlib.blake2b(all_bits, digest_size=8).hexdigest(), wrong


def run_rank(path, name, rank, world, data, cases):
    runtime = Runtime(path, name, rank, world, DEVICE)
    results = {}
    for (dtype, hidden), group in itertools.groupby(cases, lambda c: c[:2]):
        runtime.make_workspace(LIMIT, hidden, dtype)
        key = f"world {world} {NAMES[dtype]} hidden {hidden}"
        results[f"{key} adversarial"] = adversarial(runtime, rank, world, dtype)
        results[f"{key} reductions"] = reductions(runtime, rank, world, data, dtype)
        for _, _, tokens, variant in group:
            case = Case(runtime, rank, world, data, dtype, hidden, tokens, variant)
            results[f"{key} tokens {tokens} {variant}"] = case.run()
        data.cache.clear()
    runtime.close()
    return results


def run_world(path, world, data, cases):
    """Forks the ranks and merges what they found."""
    name = f"matrix-{os.getpid()}-{world}"
    children = []
    for rank in range(world):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                results = run_rank(path, name, rank, world, data, cases)
            except Exception as e:  # Anything at all is a failed rank.
                results = {"failed": ["", [f"{type(e).__name__}: {e}"]]}
            with os.fdopen(writer, "w") as file:
                json.dump(results, file)
            os._exit(0)
        os.close(writer)
        children.append((pid, reader))
    every = []
    for pid, reader in children:
        with os.fdopen(reader) as file:
            text = file.read()
        os.waitpid(pid, 0)
        every.append(json.loads(text) if text else {"died": ["", ["no result"]]})
    failures = []
    for rank, results in enumerate(every):
        for key, (digest, wrong) in results.items():
            failures += [f"{key}: rank {rank}: {w}" for w in wrong]
            if key in every[0] and digest != every[0][key][0]:
                failures.append(f"{key}: rank {rank} has other bits than rank 0")
    return len(every[0]), failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--worlds", default="1,2,3,4,8")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--full", action="store_true", default=os.environ.get("TANDEM_TEST_FULL") == "1"
    )
    options = parser.parse_args()
    global DEVICE
    DEVICE = options.device
    if DEVICE == "cuda" and Gpu.count() == 0:
        print("skipped: there is no GPU, or no libcudart.so")
        return 77
    hiddens = (64, 1000, 4096, 5120) if options.full else (64, 1000)
    most = 3000 if options.full else 300
    token_counts = (0, 1, 7, LIMIT, LIMIT + 1, most)
    worlds = [int(w) for w in options.worlds.split(",")]
    data = Data(max(worlds), most * max(hiddens))
    total, failures, start = 0, [], time.time()
    for world in worlds:
        cases = [
            (dtype, hidden, tokens, variant)
            for dtype in (F32, F16, BF16)
            for hidden in hiddens
            for tokens in token_counts
            for variant in VARIANTS
            # The large ones once with everything, once plain.
            if tokens <= LIMIT + 1 or variant in ("plain", "everything")
        ]
        count, wrong = run_world(options.library, world, data, cases)
        total += count
        failures += wrong
        print(
            f"world {world}: {count} cases, {len(wrong)} failures, "
            f"{time.time() - start:.0f} s",
            flush=True,
        )
    for failure in failures[:50]:
        print(failure)
    print(f"{total} cases, {len(failures)} failures")
    return 1 if failures or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
