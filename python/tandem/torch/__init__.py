# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tandem for PyTorch: the fused op, groups, and a pass for torch.compile.

>>> group = tandem.torch.init_group(max_tokens=2048, hidden=4096, dtype=torch.bfloat16)
>>> model = tandem.torch.compile(model)

docs/embedding/pytorch.md has the whole of it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(f"tandem.torch needs PyTorch 2.6 or later: {error}") from error

from typing import TYPE_CHECKING

from tandem.torch._groups import Group, get_group, groups, init_group
from tandem.torch.ops import (
    all_reduce,
    all_reduce_,
    fused_all_reduce_add_rms_norm,
    fused_all_reduce_add_rms_norm_,
)

if TYPE_CHECKING:
    from tandem.torch._compile import (
        FusePass,
        backend,
        clear_reports,
        compile,
        disable,
        enable,
        fuse_graph,
        reports,
    )

# What compiles is imported at its first use: it brings Inductor.
_COMPILE = (
    "FusePass",
    "backend",
    "clear_reports",
    "compile",
    "disable",
    "enable",
    "fuse_graph",
    "reports",
)

__all__ = [
    "FusePass",
    "Group",
    "all_reduce",
    "all_reduce_",
    "backend",
    "clear_reports",
    "compile",
    "disable",
    "enable",
    "fuse_graph",
    "fused_all_reduce_add_rms_norm",
    "fused_all_reduce_add_rms_norm_",
    "get_group",
    "groups",
    "init_group",
    "reports",
]


def __getattr__(name: str) -> object:
    if name in _COMPILE:
        from tandem.torch import _compile

        return getattr(_compile, name)
    raise AttributeError(f"module 'tandem.torch' has no attribute {name!r}")
