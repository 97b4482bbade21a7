# ===-- execute.py - Lowered functions between real processes ---------------===#
#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compiles modules with tandem-lower-pipeline, loads them in one process a rank,
calls their functions as docs/lowering.md says, and checks numbers, paths and
status.

Sums and residuals are compared bit for bit with rank-ordered sums; norms must lie
in the interval that the runtime's own test allows (test/runtime/matrix_test.py);
all ranks must have the same bits, and the arguments must come back unchanged.

usage: execute.py TOOLS LLVM_TOOLS CC RUNTIME_LIBRARY [--worlds 1,2,3] [--overhead] [CASE...]

--overhead measures what one call costs its caller, and checks nothing.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "runtime"))
import matrix_test as rt  # noqa: E402

HIDDEN = 96
LIMIT = 8
TOKENS = [0, 1, 3, LIMIT, LIMIT + 1, 40]
DTYPES = {"f32": rt.F32, "f16": rt.F16, "bf16": rt.BF16}
BYTES = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}
PEER_DIED = 5

# ===-- Modules -------------------------------------------------------------===#


def chain(dtype, gamma=None, rounding="before_gamma", sums=False, pre=False):
    """all_reduce [-> rms_norm] -> add -> rms_norm."""
    t, g = f"tensor<?x{HIDDEN}x{dtype}>", f"tensor<{HIDDEN}x{gamma or dtype}>"
    first = (
        f"""  %t = tandem.rms_norm %s, %p {{epsilon = 1.0e-5 : f64}} : {t}, {g}
"""
        if pre
        else ""
    )
    return f"""
func.func @main(%x: {t} {{onnx.name = "x", onnx.dim_params = "0:tokens"}},
                %h: {t} {{onnx.name = "h"}}, %g: {g} {{onnx.name = "g"}},
                %p: {g} {{onnx.name = "p"}})
    -> ({t} {{onnx.name = "y"}}, {t} {{onnx.name = "r"}}{f', {t} {{onnx.name = "s"}}' if sums else ''}) {{
  %s = tandem.all_reduce %x : {t}
{first}  %r = tandem.add {'%t' if pre else '%s'}, %h : {t}
  %y = tandem.rms_norm %r, %g {{epsilon = 1.0e-5 : f64,
         rounding = #tandem<rounding {rounding}>}} : {t}, {g}
  return %y, %r{', %s' if sums else ''} : {t}, {t}{f', {t}' if sums else ''}
}}
"""


def no_residual(dtype):
    t, g = f"tensor<?x{HIDDEN}x{dtype}>", f"tensor<{HIDDEN}x{dtype}>"
    return f"""
func.func @main(%x: {t} {{onnx.name = "x"}}, %g: {g} {{onnx.name = "g"}})
    -> ({t} {{onnx.name = "y"}}) {{
  %s = tandem.all_reduce %x : {t}
  %y = tandem.rms_norm %s, %g {{epsilon = 1.0e-5 : f64}} : {t}, {g}
  return %y : {t}
}}
"""


def bias(dtype):
    """Already fused, with no guard of its own."""
    t, g = f"tensor<?x{HIDDEN}x{dtype}>", f"tensor<{HIDDEN}x{dtype}>"
    return f"""
func.func @main(%x: {t} {{onnx.name = "x"}}, %h: {t} {{onnx.name = "h"}},
                %g: {g} {{onnx.name = "g"}}, %b: {g} {{onnx.name = "b"}})
    -> ({t} {{onnx.name = "y"}}, {t} {{onnx.name = "r"}}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {t}
  %d = tensor.empty(%n) : {t}
  %y, %r = tandem.fused_all_reduce_norm %x residual(%h : {t}) bias(%b : {g})
    gamma(%g : {g}) outs(%d, %d : {t}, {t})
    {{epsilon = 1.0e-5 : f64, returns_residual}} : {t} -> {t}, {t}
  return %y, %r : {t}, {t}
}}
"""


def layers(dtype):
    """Two layers with a call between them, in 3-D."""
    t, g = f"tensor<?x1x{HIDDEN}x{dtype}>", f"tensor<{HIDDEN}x{dtype}>"
    return f"""
func.func @main(%x: {t} {{onnx.name = "x"}}, %h: {t} {{onnx.name = "h"}},
                %g: {g} {{onnx.name = "g"}})
    -> ({t} {{onnx.name = "y1"}}, {t} {{onnx.name = "r1"}},
        {t} {{onnx.name = "y"}}, {t} {{onnx.name = "r"}}) {{
  %y1, %r1 = call @layer(%x, %h, %g) : ({t}, {t}, {g}) -> ({t}, {t})
  %y, %r = call @layer(%y1, %r1, %g) : ({t}, {t}, {g}) -> ({t}, {t})
  return %y1, %r1, %y, %r : {t}, {t}, {t}, {t}
}}
func.func private @layer(%x: {t}, %h: {t}, %g: {g}) -> ({t}, {t}) {{
  %s = tandem.all_reduce %x : {t}
  %r = tandem.add %s, %h : {t}
  %y = tandem.rms_norm %r, %g {{epsilon = 1.0e-5 : f64}} : {t}, {g}
  return %y, %r : {t}, {t}
}}
"""


def loop(dtype):
    """Three times the same layer, the residual carried round."""
    t, g = f"tensor<?x{HIDDEN}x{dtype}>", f"tensor<{HIDDEN}x{dtype}>"
    return f"""
func.func @main(%x: {t} {{onnx.name = "x"}}, %h: {t} {{onnx.name = "h"}},
                %g: {g} {{onnx.name = "g"}}) -> ({t} {{onnx.name = "r"}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %h) -> ({t}) {{
    %s = tandem.all_reduce %x : {t}
    %b = tandem.add %a, %s : {t}
    scf.yield %b : {t}
  }}
  return %r : {t}
}}
"""


# name: (module, element type, options of tandem-fuse, what is checked)
CASES = {
    "f32": (chain("f32"), "f32", "", "chain"),
    "bf16": (chain("bf16"), "bf16", "", "chain"),
    "f16": (chain("f16"), "f16", "", "chain"),
    "f32-gamma": (chain("bf16", gamma="f32"), "bf16", "", "chain"),
    "after-gamma": (chain("bf16", rounding="after_gamma"), "bf16", "", "chain"),
    "sum": (chain("bf16", sums=True), "bf16", "", "chain"),
    "sandwich": (chain("f32", pre=True), "f32", "", "chain"),
    "no-residual": (no_residual("f16"), "f16", "", "chain"),
    "bias": (bias("bf16"), "bf16", None, "chain"),
    "guard-function": (chain("f32"), "f32", "guard=function", "chain"),
    "guard-none": (chain("f32"), "f32", "guard=none", "chain"),
    "max-tokens": (chain("f32"), "f32", "max-tokens=3", "chain"),
    "batch-invariant": (chain("bf16"), "bf16", "batch-invariant", "chain"),
    "layers": (layers("bf16"), "bf16", "", "layers"),
    "loop": (loop("bf16"), "bf16", "", "loop"),
    "loop-f16": (loop("f16"), "f16", "", "loop"),
}


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")


def compile_module(tools, name, folder):
    """Writes NAME.so; nothing but the runtime, libc and libm may be missing."""
    opt, llvm, cc, runtime = tools
    text, _, options, _ = CASES[name]
    base = os.path.join(folder, name)
    with open(base + ".mlir", "w") as file:
        file.write(text)
    fuse = [] if options is None else [f"--tandem-fuse={options}"]
    run(os.path.join(opt, "fusion-opt"), base + ".mlir", *fuse,
        "--tandem-lower-pipeline", "-o", base + ".llvm.mlir")
    run(os.path.join(llvm, "mlir-translate"), "--mlir-to-llvmir", base + ".llvm.mlir",
        "-o", base + ".ll")
    run(os.path.join(llvm, "llc"), "-O2", "-filetype=obj", "-relocation-model=pic",
        base + ".ll", "-o", base + ".o")
    run(cc, "-shared", "-Wl,-z,defs", base + ".o", runtime, "-lm",
        f"-Wl,-rpath,{os.path.dirname(runtime)}", "-o", base + ".so")


# ===-- One rank ------------------------------------------------------------===#


class Counters(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint64)] + [
        (name, ctypes.c_uint64)
        for name in "fused fallback all_reduce norm failed rounds sleeps".split()
    ]


def descriptor(array):
    class Descriptor(ctypes.Structure):
        _fields_ = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * max(array.ndim, 1)),
            ("strides", ctypes.c_int64 * max(array.ndim, 1)),
        ]

    # Only `aligned` and the sizes may be read.
    return Descriptor(0xDEAD, array.ctypes.data, 0, tuple(array.shape), (77,) * array.ndim)


class Function:
    """A lowered function, called as its description says."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        text = ctypes.c_char.in_dll(library, "tandem_module_info")
        self.info = json.loads(ctypes.string_at(ctypes.addressof(text)))
        self.function = self.info["functions"][0]
        self.call = getattr(library, self.function["symbol"])
        self.call.restype = ctypes.c_int32
        self.shapes = getattr(library, self.function["shapes"])
        self.shapes.restype = None

    def make_outputs(self, arguments):
        ranks = [len(result["shape"]) for result in self.function["results"]]
        dims = np.full(sum(ranks) + 1, -7, np.int64)
        self.shapes(*[ctypes.byref(descriptor(a)) for a in arguments],
                    ctypes.byref(descriptor(dims)))
        assert dims[-1] == -7, "the shape function wrote too much"
        outputs, place = {}, 0
        for result, rank in zip(self.function["results"], ranks):
            shape = tuple(dims[place : place + rank])
            place += rank
            outputs[result["name"]] = np.full(shape, 0x5A5A, BYTES[result["dtype"]])
        return outputs

    def run(self, inputs, workspace):
        arguments = [inputs[a["name"]] for a in self.function["arguments"]]
        before = [a.copy() for a in arguments]
        outputs = self.make_outputs(arguments)
        handles = [workspace] * len(self.function["groups"])
        if self.function["stream"]:
            handles.append(ctypes.c_void_p())
        status = self.call(
            *[ctypes.byref(descriptor(a)) for a in arguments],
            *[ctypes.byref(descriptor(a)) for a in outputs.values()], *handles)
        for old, new in zip(before, arguments):
            assert (old == new).all(), "an argument was written to"
        return status, outputs


def make_inputs(function, rank, tokens, dtype):
    data = rt.Data(4, 64 * HIDDEN)
    inputs = {}
    for argument in function["arguments"]:
        kind = DTYPES[argument["dtype"]]
        name, shape = argument["name"], argument["shape"]
        if len(shape) == 1:
            inputs[name] = data.vector({"g": 1, "p": 2, "b": 3}[name], kind, HIDDEN)
        else:
            bits = data.bits(rank if name == "x" else -1, kind, tokens, HIDDEN)
            shape = [tokens if size is None else size for size in shape]
            inputs[name] = bits.reshape(shape).copy()
    return inputs


def counters_of(runtime):
    counters = rt.sized(Counters)
    runtime.lib.tandem_workspace_get_counters(runtime.workspace, ctypes.byref(counters))
    return {name: getattr(counters, name) for name in ("fused", "fallback", "all_reduce", "norm")}


def rank_main(job):
    runtime = rt.Runtime(job["runtime"], job["name"], job["rank"], job["world"])
    results = {}
    for case in job["cases"]:
        dtype = CASES[case][1]
        function = Function(os.path.join(job["folder"], case + ".so"))
        runtime.make_workspace(LIMIT, HIDDEN, DTYPES[dtype])
        for tokens in TOKENS:
            inputs = make_inputs(function.function, job["rank"], tokens, dtype)
            before = counters_of(runtime)
            status, outputs = function.run(inputs, runtime.workspace)
            after = counters_of(runtime)
            key = f"{case}/{tokens}/"
            results[key + "status"] = np.int64(status)
            for name in before:
                results[key + "count." + name] = np.int64(after[name] - before[name])
            for name, value in outputs.items():
                results[key + name] = value
    runtime.close()
    np.savez(job["output"], **results)


def death_main(job):
    """Rank 1 goes after one call; rank 0 calls on."""
    runtime = rt.Runtime(job["runtime"], job["name"], job["rank"], job["world"])
    function = Function(os.path.join(job["folder"], "layers.so"))
    runtime.make_workspace(LIMIT, HIDDEN, DTYPES["bf16"])
    inputs = make_inputs(function.function, job["rank"], 3, "bf16")
    statuses = [function.run(inputs, runtime.workspace)[0]]
    if job["rank"] == 1:
        os._exit(0)
    begin = time.monotonic()
    for tokens in (3, LIMIT + 1, 0):
        inputs = make_inputs(function.function, 0, tokens, "bf16")
        statuses.append(function.run(inputs, runtime.workspace)[0])
    seconds = time.monotonic() - begin
    runtime.close()
    # Zero tokens reach nobody, so they succeed whatever became of the group.
    assert statuses == [0, PEER_DIED, PEER_DIED, 0], statuses
    assert seconds < 20, f"took {seconds} s to notice"


def measure_overhead(tools, folder):
    """Host time of one guarded call; see overhead.c."""
    compile_module(tools, "f32", folder)
    program = os.path.join(folder, "overhead")
    source = os.path.join(HERE, "..", "..", "..")
    run(tools[2], "-O2", f"-I{source}/include", os.path.join(HERE, "overhead.c"), tools[3],
        f"-Wl,-rpath,{os.path.dirname(tools[3])}", "-ldl", "-o", program)
    result = subprocess.run([program, os.path.join(folder, "f32.so")], text=True)
    sys.exit(result.returncode)


# ===-- Checks --------------------------------------------------------------===#


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def check_norm(got, values, gamma, dtype, gamma_dtype, rounding, what):
    low, high = rt.norm_interval(
        rt.widen(values, dtype), rt.widen(gamma, gamma_dtype), 1e-5, rounding, dtype)
    bad = rt.outside(rt.widen(got, dtype).astype(np.float64), low, high)
    expect(bad == 0, f"{what}: {bad} of {got.size} elements are wrong")


def total(parts, dtype):
    sum_ = np.zeros_like(rt.widen(parts[0], dtype))
    for i, part in enumerate(parts):
        sum_ = rt.widen(part, dtype) if i == 0 else sum_ + rt.widen(part, dtype)
    return rt.round32(np.ascontiguousarray(sum_), dtype)


def add(a, b, dtype):
    return rt.round32(rt.widen(a, dtype) + rt.widen(b, dtype), dtype)


def check_layer(parts, inputs, got, dtype, gamma_dtype, rounding, suffix=""):
    """`parts` are the ranks' inputs of the all-reduce, `inputs` the rest."""
    s = total(parts, dtype)
    if "s" in got:
        expect((got["s"] == s).all(), "the sum is wrong")
    if "b" in inputs:
        s = add(s, np.broadcast_to(inputs["b"], s.shape).copy(), dtype)
    if "p" in inputs and inputs["p"] is not None:
        low, high = rt.norm_interval(
            rt.widen(s, dtype), rt.widen(inputs["p"], gamma_dtype), 1e-5, rt.BEFORE, dtype)
        h = rt.widen(inputs["h"], dtype).astype(np.float64)
        r = got["r" + suffix]
        values = rt.widen(r, dtype).astype(np.float64)
        low = rt.widen(rt.round_to(low + h, dtype), dtype)
        high = rt.widen(rt.round_to(high + h, dtype), dtype)
        expect(rt.outside(values, low, high) == 0, "the residual is wrong")
    elif "h" in inputs:
        r = add(s, inputs["h"], dtype)
        expect((got["r" + suffix] == r).all(), "the residual is wrong")
    else:
        r = s
    check_norm(got["y" + suffix], r, inputs["g"], dtype, gamma_dtype, rounding, "the norm")


def check_paths(case, tokens, world, counts):
    """Which calls were made, from the guard's side that tokens are on."""
    limit = 3 if case == "max-tokens" else LIMIT
    fits = 0 < tokens <= limit
    if tokens == 0:
        expected = (0, 0, 0, 0)
    elif case in ("guard-none", "bias"):
        expected = (1, 0, 0, 0) if tokens <= LIMIT else (0, 1, 0, 0)
    elif case in ("loop", "loop-f16"):
        expected = (0, 0, 3, 0)
    else:
        calls = 2 if case == "layers" else 1
        expected = (calls, 0, 0, 0) if fits else (0, 0, calls, calls)
    names = ("fused", "fallback", "all_reduce", "norm")
    got = tuple(int(counts[name]) for name in names)
    expect(got == expected, f"calls {names} are {got}, not {expected}")


def check_case(case, world, outputs, folder):
    _, name, _, kind = CASES[case]
    dtype = DTYPES[name]
    function = Function(os.path.join(folder, case + ".so")).function
    rounding = rt.AFTER if case == "after-gamma" else rt.BEFORE
    gamma_dtype = rt.F32 if case == "f32-gamma" else dtype
    first_rows = {}
    for tokens in TOKENS:
        key = f"{case}/{tokens}/"
        per_rank = [
            {k[len(key):]: v for k, v in output.items() if k.startswith(key)}
            for output in outputs
        ]
        try:
            for got in per_rank:
                expect(got["status"] == 0, f"status {got['status']}")
                check_paths(case, tokens, world, {k[6:]: v for k, v in got.items()
                                                  if k.startswith("count.")})
                for result in function["results"]:
                    value = got[result["name"]]
                    expect(value.shape[0] == tokens, f"shape {value.shape}")
                    expect((value == per_rank[0][result["name"]]).all(),
                           f"ranks differ in {result['name']}")
            inputs = [make_inputs(function, rank, tokens, name) for rank in range(world)]
            mine = dict(inputs[0])
            if case != "sandwich":
                mine.pop("p", None)
            got = per_rank[0]
            parts = [i["x"] for i in inputs]
            if kind == "chain":
                check_layer(parts, mine, got, dtype, gamma_dtype, rounding)
            elif kind == "layers":
                check_layer(parts, mine, got, dtype, gamma_dtype, rounding, "1")
                mine["h"] = got["r1"]
                check_layer([o["y1"] for o in per_rank], mine, got, dtype, gamma_dtype, rounding)
            else:
                r = mine["h"]
                for _ in range(3):
                    r = add(total(parts, dtype), r, dtype)
                expect((got["r"] == r).all(), "the residual is wrong")
            if tokens:
                for result in function["results"]:
                    row = got[result["name"]][0]
                    old = first_rows.setdefault(result["name"], row)
                    if case == "batch-invariant":
                        expect((row == old).all(), "a token depends on its batch")
        except Failure as failure:
            raise Failure(f"world {world}, {case}, {tokens} tokens: {failure}") from None


def start(job, mode):
    return subprocess.Popen([sys.executable, __file__, mode, json.dumps(job)])


def main():
    if sys.argv[1].startswith("--rank"):
        job = json.loads(sys.argv[2])
        {"--rank": rank_main, "--rank-death": death_main}[sys.argv[1]](job)
        return
    arguments = sys.argv[1:]
    worlds = [1, 2, 3]
    if "--worlds" in arguments:
        place = arguments.index("--worlds")
        worlds = [int(w) for w in arguments[place + 1].split(",")]
        del arguments[place : place + 2]
    overhead = "--overhead" in arguments
    if overhead:
        arguments.remove("--overhead")
    tools, cases = arguments[:4], arguments[4:] or list(CASES)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        if overhead:
            measure_overhead(tools, folder)
        for case in cases:
            compile_module(tools, case, folder)
        for world in worlds:
            jobs = [
                dict(runtime=tools[3], name=os.path.join(folder, f"meet{world}"), rank=rank,
                     world=world, cases=cases, folder=folder,
                     output=os.path.join(folder, f"out{world}.{rank}.npz"))
                for rank in range(world)
            ]
            processes = [start(job, "--rank") for job in jobs]
            if any([process.wait(timeout=300) for process in processes]):
                sys.exit(f"world {world}: a rank failed")
            outputs = [dict(np.load(job["output"])) for job in jobs]
            for case in cases:
                check_case(case, world, outputs, folder)
                print(f"world {world}: {case} ok")
        if "layers" in cases:
            jobs = [dict(runtime=tools[3], name=os.path.join(folder, "death"), rank=rank,
                         world=2, folder=folder) for rank in range(2)]
            processes = [start(job, "--rank-death") for job in jobs]
            if any([process.wait(timeout=120) for process in processes]):
                sys.exit("a rank's death was not told")
            print("death ok")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(str(failure))
