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

from tandem.torch._groups import Group, get_group, groups, init_group
from tandem.torch.ops import (
    all_reduce,
    all_reduce_,
    fused_all_reduce_add_rms_norm,
    fused_all_reduce_add_rms_norm_,
)

__all__ = [
    "Group",
    "all_reduce",
    "all_reduce_",
    "fused_all_reduce_add_rms_norm",
    "fused_all_reduce_add_rms_norm_",
    "get_group",
    "groups",
    "init_group",
]
