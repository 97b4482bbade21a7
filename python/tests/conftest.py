# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package from the source, with the libraries of the build tree; and wheels."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD_DIR", ROOT / "build"))
MODELS = ROOT / "test/models"

# Before any test imports tandem, and for the processes that tests start.
os.environ["TANDEM_LIBRARY_PATH"] = f"{BUILD / 'lib'}:{BUILD / 'runtime'}"
os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, with the libraries of the build tree."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = dict(os.environ, SKBUILD_CMAKE_DEFINE=f"TANDEM_BUILD_DIR={BUILD}")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation"]
        + ["--no-deps", "--no-index", "--wheel-dir", str(folder), str(ROOT / "python")],
        env=environment,
        check=True,
    )
    (path,) = folder.glob("*.whl")
    return path
