"""Worlds of several ranks, started by fusion-run and by others; ranks that fail,
die and hang.

usage: check_ranks.py FOLDER

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
LIMIT = 4
HIDDEN = 64
SOURCE = """
func.func @main(%x: tensor<?x64xf32> {onnx.name = "x", onnx.dim_params = "0:n"},
                %r: tensor<?x64xf32> {onnx.name = "r", onnx.dim_params = "0:n"},
                %g: tensor<64xf32> {onnx.name = "g"})
    -> (tensor<?x64xf32> {onnx.name = "y"}, tensor<?x64xf32> {onnx.name = "s"}) {
  %0 = tandem.all_reduce %x : tensor<?x64xf32>
  %1 = tandem.add %0, %r : tensor<?x64xf32>
  %2 = tandem.rms_norm %1, %g {epsilon = 1.0e-5 : f64} : tensor<?x64xf32>, tensor<64xf32>
  return %2, %1 : tensor<?x64xf32>, tensor<?x64xf32>
}
"""


def check(condition, message):
    if not condition:
        sys.exit(f"check_ranks.py: {message}")


def compile_module():
    """The guarded module, as a shared object."""
    source, fused = FOLDER / "m.mlir", FOLDER / "fused.mlir"
    source.write_text(SOURCE)
    subprocess.run(
        ["fusion-opt", source, f"--tandem-fuse=max-tokens={LIMIT}", "-o", fused],
        check=True)
    subprocess.run(
        ["fusion-translate", "--compile", fused, "-o", FOLDER / "m.so"],
        check=True)


def write_arrays(world, tokens):
    """Inputs and expected results of each rank."""
    random = np.random.default_rng(100 * world + tokens)
    r = random.standard_normal((tokens, HIDDEN)).astype(np.float32)
    g = random.standard_normal(HIDDEN).astype(np.float32)
    parts = [random.standard_normal((tokens, HIDDEN)).astype(np.float32)
             for _ in range(world)]
    s = sum(part.astype(np.float64) for part in parts) + r
    y = s / np.sqrt(np.mean(s * s, axis=-1, keepdims=True) + 1e-5) * g
    for rank, part in enumerate(parts):
        np.savez(FOLDER / f"in{rank}.npz", x=part, r=r, g=g)
        np.savez(FOLDER / f"out{rank}.npz", y=y, s=s)


def command(*flags):
    return ["fusion-run", str(FOLDER / "m.so"),
            f"--input={FOLDER}/in{{rank}}.npz", *flags]


def run(*flags, **options):
    begin = time.monotonic()
    done = subprocess.run(command(*flags), capture_output=True, text=True,
                          check=False, timeout=120, **options)
    return done, time.monotonic() - begin


def children(pid):
    """The processes that `pid` started."""
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def check_worlds():
    for world in (1, 2, 3, 4):
        for tokens in (0, 1, LIMIT, LIMIT + 1, 33):
            write_arrays(world, tokens)
            done, _ = run(f"--ranks={world}", "--counters",
                          f"--expect={FOLDER}/out{{rank}}.npz",
                          "--tolerance=2e-6")
            where = f"world {world}, {tokens} tokens"
            check(done.returncode == 0, f"{where}: {done.stderr}")
            path = ("1 fused, 0 fallback, 0 all_reduce, 0 norm"
                    if 0 < tokens <= LIMIT else
                    "0 fused, 0 fallback, 1 all_reduce, 1 norm")
            if tokens == 0:
                path = "0 fused, 0 fallback, 0 all_reduce, 0 norm"
            check(done.stdout.count(path) == world,
                  f"{where}: {done.stdout}")


def check_joining():
    """As under mpirun and torchrun: others start the processes."""
    write_arrays(3, 2)
    for rank_name, world_name in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("RANK", "WORLD_SIZE"),
    ):
        started = [
            subprocess.Popen(
                command(f"--expect={FOLDER}/out{{rank}}.npz",
                        "--tolerance=2e-6"),
                env={**os.environ, rank_name: str(rank), world_name: "3"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(3)
        ]
        for rank, process in enumerate(started):
            out, err = process.communicate(timeout=60)
            check(process.returncode == 0, f"{rank_name}={rank}: {err}")
            check(f"rank {rank}: y: f32 2x64" in out, out)


def check_failures():
    write_arrays(2, 2)
    # One rank has no input: the error is its, and the other doesn't wait.
    (FOLDER / "in1.npz").rename(FOLDER / "gone.npz")
    done, seconds = run("--ranks=2")
    check(done.returncode == 1 and seconds < 20, "a failing rank is waited for")
    check(done.stderr.startswith("fusion-run: error: rank 1: ")
          and "cannot be opened" in done.stderr
          and done.stderr.count("\n") == 1, done.stderr)
    (FOLDER / "gone.npz").rename(FOLDER / "in1.npz")

    # Ranks of several token counts: the runtime's error, once.
    arrays = dict(np.load(FOLDER / "in1.npz"))
    np.savez(FOLDER / "in1.npz", x=arrays["x"][:1], r=arrays["r"][:1],
             g=arrays["g"])
    done, _ = run("--ranks=2")
    check(done.returncode == 1 and "TANDEM_STATUS_MISMATCH" in done.stderr
          and "tokens" in done.stderr and done.stderr.count("\n") == 1,
          done.stderr)

    # Sizes of one name that differ, a wrong shape, a wrong type.
    for change, message in (
        ({"x": arrays["x"][:1]},
         "size 'n' is 1 in argument 'x' and 2 in argument 'r'"),
        ({"g": arrays["g"][:7]}, "argument 'g' is f32 64, but"),
        ({"x": arrays["x"].astype(np.float64)},
         "has f64 2x64"),
        ({"x": np.asfortranarray(arrays["x"])}, "is in Fortran order"),
        ({"x": arrays["x"].astype(">f4")},
         "has elements of NumPy's type '>f4'"),
        ({"x": arrays["x"].astype(object)}, "has elements of NumPy's type '|O'"),
    ):
        np.savez(FOLDER / "in0.npz", **{**arrays, **change})
        done, _ = run("--ranks=1")
        check(done.returncode == 1 and message in done.stderr
              and done.stderr.count("\n") == 1, f"{message}: {done.stderr}")

    # Results that differ on one rank only.
    write_arrays(2, 2)
    out = dict(np.load(FOLDER / "out1.npz"))
    out["s"][1, 5] += 1
    np.savez(FOLDER / "out1.npz", **out)
    done, _ = run("--ranks=2", f"--expect={FOLDER}/out{{rank}}.npz")
    check(done.returncode == 1 and
          "rank 1: result 's' differs in 1 of 128 elements: at [1, 5]"
          in done.stderr, done.stderr)


def check_deaths():
    write_arrays(3, 2)
    for victim in range(3):
        process = subprocess.Popen(
            command("--ranks=3", "--times", "--repeat=1000000000"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = []
        while len(ranks) < 3:
            ranks = children(process.pid)
            time.sleep(0.01)
        time.sleep(0.1 * victim)
        os.kill(ranks[victim], signal.SIGKILL)
        begin = time.monotonic()
        _, err = process.communicate(timeout=60)
        check(time.monotonic() - begin < 20, "the others hang")
        check(process.returncode == 1 and err.startswith(
            f"fusion-run: error: rank {victim}: was ended by signal 9"), err)
        check(not any(map(is_running, ranks)), "a rank lives on")

    # Ending the launcher ends the ranks, in whatever way.
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(
            command("--ranks=2", "--times", "--repeat=1000000000"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = []
        while len(ranks) < 2:
            ranks = children(process.pid)
            time.sleep(0.01)
        process.send_signal(how)
        process.communicate(timeout=60)
        check(process.returncode != 0, "it was ended and says all went well")
        deadline = time.monotonic() + 10
        while any(map(is_running, ranks)):
            check(time.monotonic() < deadline, f"{how}: a rank lives on")
            time.sleep(0.01)


def check_bf16():
    """bf16 in and out, by its name."""
    source = FOLDER / "bf16.mlir"
    source.write_text(SOURCE.replace("xf32", "xbf16"))
    subprocess.run(["fusion-translate", "--compile", source, "-o",
                    FOLDER / "bf16.so"], check=True)
    one = np.full((2, HIDDEN), 0x3f80, np.uint16)
    names = np.array(["x=bf16", "r=bf16", "g=bf16"])
    np.savez(FOLDER / "b.npz", x=one, r=one, g=one[0], __dtypes__=names)
    flags = [f"--input={FOLDER}/b.npz", f"--output={FOLDER}/b.out.npz",
             "--ranks=2"]
    done = subprocess.run(["fusion-run", FOLDER / "bf16.so", *flags],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    out = np.load(FOLDER / "b.out.npz")
    check(list(out["__dtypes__"]) == [b"y=bf16", b"s=bf16"],
          f"{out['__dtypes__']}")
    # 1 + 1 + 1 = 3, over its root mean square: 1.
    check((out["s"] == 0x4040).all() and (out["y"] == 0x3f80).all(),
          "wrong bf16 results")
    # Without the names it is an error that says so.
    np.savez(FOLDER / "b.npz", x=one, r=one, g=one[0])
    done = subprocess.run(["fusion-run", FOLDER / "bf16.so", *flags],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 1 and
          "a bf16 array is named as such in __dtypes__" in done.stderr,
          done.stderr)


def check_groups():
    source = FOLDER / "group.mlir"
    source.write_text(SOURCE.replace(
        "tandem.all_reduce %x", 'tandem.all_reduce %x {group = #tandem.group<"tp", size = 4>}'))
    subprocess.run(["fusion-translate", "--compile", source, "-o",
                    FOLDER / "group.so"], check=True)
    write_arrays(4, 2)
    base = ["fusion-run", FOLDER / "group.so",
            f"--input={FOLDER}/in{{rank}}.npz",
            f"--expect={FOLDER}/out{{rank}}.npz", "--tolerance=2e-6"]
    done = subprocess.run([*base, "--ranks=4"], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, done.stderr)
    done = subprocess.run([*base, "--ranks=2"], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 1 and
          "group 'tp' has 4 ranks, and 2 run" in done.stderr, done.stderr)


def main():
    compile_module()
    before = set(os.listdir("/dev/shm"))
    check_worlds()
    check_joining()
    check_failures()
    check_deaths()
    check_bf16()
    check_groups()
    left = [name for name in set(os.listdir("/dev/shm")) - before
            if "tandem" in name]
    check(not left, f"left in /dev/shm: {left}")


if __name__ == "__main__":
    main()
