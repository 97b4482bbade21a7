# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of the runtime for tensors that have been checked, with little on the way.

A launcher fills one structure in, over and over, and calls through ctypes, which
lets go of Python's lock meanwhile. The structure is packed in one go: setting its
fields one by one takes longer than the call.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import torch

from tandem import runtime
from tandem.runtime import Status, _AllReduceArgs, _NormArgs

#: Values of an operand that isn't there.
NONE = (0, 0)
NO_NORM = (0, 0, 0, 0.0)

# From the tokens on: sizes, type, flags, stream; then input, residual, bias, norms,
# and results.
_NORM = struct.Struct("=qqiIQ QqQq Q QiidQiid QqQqQq")
_REDUCE = struct.Struct("=qqiIQ QqQq")
_TOKENS = _NormArgs.tokens.offset
assert _TOKENS + _NORM.size == _NormArgs.reserved.offset
assert _TOKENS + _REDUCE.size == _AllReduceArgs.reduction.offset

FALLBACK = 1
BATCH_INVARIANT = 2


def _get_stream_getter(device: torch.device) -> Callable[[], int]:
    if device.type != "cuda":
        return lambda: 0
    index = device.index
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is None:
        return lambda: int(torch.cuda.current_stream(index).cuda_stream)
    return lambda: raw(index)


class Launcher:
    """Calls on one workspace, from one thread at a time: others are refused."""

    def __init__(
        self,
        workspace: runtime.Workspace,
        name: str,
        device: torch.device,
        lock: threading.Lock,
        row_bytes: int,
        batch_invariant: bool,
    ) -> None:
        library = runtime.library()
        self._fused = library.tandem_fused_all_reduce_norm
        self._all_reduce = library.tandem_all_reduce
        self._get_failure = library.tandem_workspace_get_failure
        self._workspace = workspace
        # The group closes its launcher, under this lock, before it frees the handle.
        self._handle = workspace._handle
        self._name = name
        self._lock = lock
        self._get_stream = _get_stream_getter(device)
        self._norm_args = _NormArgs(ctypes.sizeof(_NormArgs))
        self._norm_ref = ctypes.byref(self._norm_args)
        self._reduce_args = _AllReduceArgs(ctypes.sizeof(_AllReduceArgs))
        self._reduce_ref = ctypes.byref(self._reduce_args)
        info = workspace.info()
        #: Bytes of rows with gaps that the fallback of a GPU can take.
        self.gap_bytes = info.private_bytes // 3
        #: The longest row that a norm may have.
        self.row_bytes = row_bytes
        #: Whether calls may ask for it.
        self.batch_invariant = batch_invariant
        self._closed = False

    def close(self) -> None:
        """Refuses calls from now on; the caller holds the lock."""
        self._closed = True

    def _raise(self, status: int) -> None:
        failure = runtime._error()
        self._get_failure(self._handle, ctypes.byref(failure))
        try:
            runtime._check(status, failure)
        except runtime.RuntimeFailure as error:
            error.args = (f"group {self._name!r}: {error.args[0]}",)
            raise

    def _call(
        self,
        function: Callable[..., int],
        layout: struct.Struct,
        args: ctypes.Structure,
        reference: Any,
        values: tuple[Any, ...],
    ) -> None:
        """Packs ``values`` into ``args`` and calls with a ``reference`` to them."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                f"group {self._name!r} is in use by another thread; its calls must come "
                "one after another, in one order on all ranks"
            )
        if self._closed:
            self._lock.release()
            raise RuntimeError(f"group {self._name!r} was closed or put to sleep")
        try:
            layout.pack_into(args, _TOKENS, *values)
            status = function(self._handle, reference)
            if status != Status.OK:
                self._raise(status)
        finally:
            self._lock.release()

    def fused(
        self,
        tokens: int,
        hidden: int,
        dtype: int,
        flags: int,
        input: tuple[int, int],
        residual: tuple[int, int],
        bias: int,
        pre_norm: tuple[Any, ...],
        norm: tuple[Any, ...],
        norm_out: tuple[int, int],
        residual_out: tuple[int, int],
        sum_out: tuple[int, int],
    ) -> None:
        """tandem_fused_all_reduce_norm on the current stream; views are (address, row
        stride), norms (gamma, its type, rounding, epsilon). Raises RuntimeFailure."""
        self._call(
            self._fused, _NORM, self._norm_args, self._norm_ref,
            (tokens, hidden, dtype, flags, self._get_stream(), *input, *residual, bias,
             *pre_norm, *norm, *norm_out, *residual_out, *sum_out),
        )  # fmt: skip

    def all_reduce(
        self,
        tokens: int,
        hidden: int,
        dtype: int,
        flags: int,
        input: tuple[int, int],
        output: tuple[int, int],
    ) -> None:
        """tandem_all_reduce, a sum, on the current stream. Raises RuntimeFailure."""
        self._call(
            self._all_reduce, _REDUCE, self._reduce_args, self._reduce_ref,
            (tokens, hidden, dtype, flags, self._get_stream(), *input, *output),
        )  # fmt: skip
