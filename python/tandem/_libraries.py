# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds and loads our shared libraries."""

from __future__ import annotations

import ctypes
import os
import pathlib

# The folders, with colons between them, that hold libTandemC and
# libtandem_runtime, for a package that was not installed from a wheel.
VARIABLE = "TANDEM_LIBRARY_PATH"


def find(name: str) -> pathlib.Path:
    """The path of a library of ours. Raises ImportError."""
    given = os.environ.get(VARIABLE, "")
    folders = [pathlib.Path(folder) for folder in given.split(":") if folder]
    folders = folders or [pathlib.Path(__file__).parent / "lib"]
    paths = [folder / name for folder in folders]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise ImportError(
            f"there is no {' or '.join(map(str, paths))}; install the package from its "
            f"wheel, or let {VARIABLE} name the folders of Tandem's libraries, as "
            "build/lib:build/runtime",
            name="tandem",
        )
    return path


def load(name: str, hint: str = "") -> ctypes.CDLL:
    """Loads a library of ours by its file name.

    Raises ImportError, with ``hint`` where another library that it needs is
    missing.
    """
    path = find(name)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} can't be loaded: {error}{hint and '; ' + hint}", name="tandem"
        ) from None
