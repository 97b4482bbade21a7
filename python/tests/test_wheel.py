# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an installed wheel is worth, in fresh environments."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import MODELS, ROOT


def clean_environment():
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("TANDEM_LIBRARY_PATH", "PYTHONPATH")
    }


def run(*command, **more):
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=clean_environment(),
        **more,
    )


def find_pythons():
    """One interpreter of each version that the wheel is for."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(10, 14):
        path = shutil.which(f"python3.{minor}")
        if path and (3, minor) not in found:
            code = "import sys, venv; print(sys.version_info[1])"
            done = run(path, "-c", code)
            if done.stdout.strip() == str(minor):
                found[(3, minor)] = path
    return sorted(found.items())


@pytest.fixture(scope="module", params=find_pythons(), ids=lambda p: f"{p[0]}")
def installed(request, wheel, tmp_path_factory):
    """The Python of a fresh environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    run(request.param[1], "-m", "venv", "--without-pip", folder, check=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    done = run(*pip, "install", "--quiet", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    return python


def test_contents(wheel):
    assert wheel.stat().st_size < 15_000_000
    # One wheel for all versions of Python.
    assert re.fullmatch(r"tandem_mlir-.*-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith("METADATA")))
    assert {
        "tandem/__init__.py",
        "tandem/bin/fusion-bench",
        "tandem/py.typed",
        "tandem/lib/libTandemC.so.1",
        "tandem/lib/libtandem_onnxruntime.so",
        "tandem/lib/libtandem_runtime.so.1",
    } <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test" in name]
    # The version is said in three places.
    cmake = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(Tandem VERSION (\S+)", cmake)
    assert f"Version: {version[1]}\n" in metadata.decode()
    init = (ROOT / "python/tandem/__init__.py").read_text()
    assert f'__version__ = "{version[1]}"' in init


@pytest.mark.skipif(
    os.environ.get("TANDEM_TEST_FULL") != "1",
    reason="only with TANDEM_TEST_FULL=1: it builds all libraries and fetches the builder",
)
def test_from_a_clean_checkout(wheel, tmp_path):
    """Without a build beside it, the wheel holds the same and gives the same."""
    clone, dist, python = tmp_path / "clone", tmp_path / "dist", tmp_path / "env/bin/python"
    run("git", "clone", "--quiet", ROOT, clone, check=True)
    run(sys.executable, "-m", "venv", tmp_path / "env", check=True)
    done = run(python, "-m", "pip", "wheel", "-v", "--no-deps", "-w", dist, clone / "python")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    if shutil.which("clang++-22") and not {"CC", "CXX"} & set(os.environ):
        assert "The CXX compiler identification is Clang 22" in done.stdout + done.stderr
    (built,) = dist.glob("*.whl")
    assert built.name == wheel.name and built.stat().st_size < 15_000_000
    with zipfile.ZipFile(built) as ours, zipfile.ZipFile(wheel) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
    run(python, "-m", "pip", "install", "--quiet", built, check=True)
    (tmp_path / "model.onnx").symlink_to(MODELS / "glm45_air_tp2_graph.onnx")
    done = run(python, "-c", "import tandem; print(tandem.fuse('model.onnx')[1])", cwd=tmp_path)
    assert done.stdout.startswith("fused 92 of 92"), done.stderr


def test_readme_example(installed, tmp_path):
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "python/README.md").read_text(), re.DOTALL
    )
    assert example in (ROOT / "README.md").read_text()
    (tmp_path / "model.onnx").symlink_to(MODELS / "glm45_air_tp2_graph.onnx")
    done = run(installed, "-c", example, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fused 92 of 92 all-reduces (0 missed)\n")
    assert (tmp_path / "fused.mlir").read_text().count("fused_all_reduce_norm ") == 92


def test_command(installed, tmp_path):
    command = installed.parent / "tandem"
    model = MODELS / "tp2_glm4_moe_f32.rank0.onnx"
    done = run(command, "report", model, "-o", tmp_path / "page.html")
    assert (done.returncode, done.stderr) == (0, "fused 4 of 4 all-reduces (0 missed)\n")
    assert "<svg" in (tmp_path / "page.html").read_text()
    done = run(command, "fuse", tmp_path / "none.onnx")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "none.onnx: error: cannot be read: No such file or directory\n"
    )
    assert done.stderr.count("\n") == 1


def test_bench(installed, tmp_path):
    command = installed.parent / "tandem"
    word = ["bench", "--device=cpu", "--hidden=8", "--tokens=1", "--samples=1"]
    done = run(command, *word, "--tune=profile.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hidden 8, bf16, timing: chain" in done.stdout
    assert (tmp_path / "profile.json").exists()
    # It is the wheel's own runtime that it times.
    package = installed.parent.parent
    (tool,) = package.glob("lib/python3*/site-packages/tandem/bin/fusion-bench")
    linked = run("ldd", tool).stdout
    assert f"libtandem_runtime.so.1 => {tool.parent}/../lib/" in linked, linked


def test_runtime_needs_no_llvm(installed):
    code = """
import tandem, tandem.runtime
context = tandem.runtime.Context()
print(tandem.runtime.abi_version()[0])
maps = open("/proc/self/maps").read()
assert "libtandem_runtime" in maps
assert "LLVM" not in maps and "MLIR" not in maps and "libTandemC" not in maps
"""
    done = run(installed, "-c", code)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_missing_mlir_names_the_package(installed, tmp_path):
    """The error of a machine without libMLIR, made by asking for a library that
    is not there."""
    package = subprocess.check_output(
        [installed, "-c", "import tandem; print(tandem.__path__[0])"],
        env=clean_environment(),
        text=True,
    ).strip()
    copy = tmp_path / "tandem"
    shutil.copytree(package, copy)
    library = copy / "lib/libTandemC.so.1"
    bytes_ = library.read_bytes()
    assert b"libMLIR.so.22.1\0" in bytes_
    library.write_bytes(bytes_.replace(b"libMLIR.so.22.1\0", b"libMLIR.so.99.9\0"))
    done = run(installed, "-c", "import tandem; tandem.Context()", cwd=tmp_path)
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("ImportError: ") and "libMLIR.so.99.9" in error
    assert "apt-get install libmlir-22 libprotobuf-lite32" in error
    done = run(
        installed, "-c", "import tandem.runtime as r; r.Context()", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
