# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses all-reduce, residual add and RMSNorm in tensor-parallel graphs.

>>> module, report = tandem.fuse("model.onnx")

What compiles loads LLVM at its first use; ``tandem.runtime`` never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.report import Report, Site

if TYPE_CHECKING:
    from tandem.compiler import (
        Context,
        Diagnostic,
        Error,
        ErrorCode,
        FuseOptions,
        Module,
        Remark,
        TandemWarning,
        fuse,
    )

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Diagnostic",
    "Error",
    "ErrorCode",
    "FuseOptions",
    "Module",
    "Remark",
    "Report",
    "Site",
    "TandemWarning",
    "fuse",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from tandem import compiler

        value = getattr(compiler, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tandem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
