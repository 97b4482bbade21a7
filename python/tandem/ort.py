# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tandem's ops in ONNX Runtime.

    options = onnxruntime.SessionOptions()
    tandem.ort.register(options, rank=0, world=2, rendezvous="my-job")
    session = onnxruntime.InferenceSession("model.rank0.onnx", options)

Sessions of all ranks, each in a process of its own, then run together.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import uuid
from ctypes import c_char_p, c_int
from typing import Any

from tandem import _libraries
from tandem.runtime import _check, _Counters, _error, _Error

LIBRARY = "libtandem_onnxruntime.so"


class Ranks:
    """What belongs to one session: its communicator and workspace, which are made
    at the first collective of the first run. After ``close`` it can only be closed
    again."""

    def __init__(self, identity: str) -> None:
        self._id = identity
        self._closed = False
        self._library = _libraries.load(LIBRARY)
        self._library.tandem_onnxruntime_counters.argtypes = [
            c_char_p,
            ctypes.POINTER(_Counters),
        ]
        self._library.tandem_onnxruntime_counters.restype = c_int
        self._library.tandem_onnxruntime_failure.argtypes = [
            c_char_p,
            ctypes.POINTER(_Error),
        ]
        self._library.tandem_onnxruntime_failure.restype = c_int
        self._library.tandem_onnxruntime_close.argtypes = [c_char_p]
        self._library.tandem_onnxruntime_close.restype = c_int

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("these ranks are closed")

    def counters(self) -> dict[str, int]:
        """How often the runtime took which path: ``fused`` counts our kernel's
        calls, ``fallback`` its calls that were not fused. Zeros before the first
        collective."""
        self._check_open()
        counters = _Counters(ctypes.sizeof(_Counters))
        self._library.tandem_onnxruntime_counters(
            self._id.encode(), ctypes.byref(counters)
        )
        names = [name for name, *_ in _Counters._fields_ if name != "struct_size"]
        return {name: getattr(counters, name) for name in names}

    def check(self) -> None:
        """Raises ``tandem.runtime.RuntimeFailure`` if the group has failed. On GPUs a
        run only launches its collectives, so that one which fails there is an error of
        the next run's, or of this call's after the run that it was in."""
        self._check_open()
        failure = _error()
        status = self._library.tandem_onnxruntime_failure(
            self._id.encode(), ctypes.byref(failure)
        )
        _check(status, failure)

    def close(self) -> None:
        """Leaves the group. Raises ValueError if the session has not ended. A session
        that is made of the same options afterwards is an error."""
        if self._library.tandem_onnxruntime_close(self._id.encode()) == 2:
            raise ValueError(
                "the session of these ranks has not ended: something still refers to it, "
                "as what get_inputs() and get_outputs() give does"
            )
        self._closed = True


def _default_rendezvous() -> str:
    """A name that the ranks of a job have in common, and no other job on the machine
    as long as its launcher tells them apart."""
    job = [os.environ.get(name, "") for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID")]
    if not any(job):
        return "onnxruntime"
    # Run ids may be longer than names.
    return "onnxruntime-" + hashlib.sha256("\0".join(job).encode()).hexdigest()[:16]


def register(
    options: Any,
    *,
    rank: int | None = None,
    world: int | None = None,
    rendezvous: str | None = None,
    max_tokens: int = 4096,
    token_limit: int = -1,
    timeout_ms: int = -1,
    signature: str | None = None,
) -> Ranks:
    """Gives an ``onnxruntime.SessionOptions`` our ops.

    ``rank`` and ``world`` default to RANK and WORLD_SIZE of the environment, as
    torchrun sets them, and then to one rank; ``rendezvous`` to TANDEM_RENDEZVOUS, and
    then to a name made of MASTER_PORT and TORCHELASTIC_RUN_ID. Where neither is set,
    all jobs on the machine have the same, so that a second one must give another.
    ``max_tokens`` is the room of the workspace, ``token_limit``
    the count above which nothing is fused (-1: the room). ``signature`` is
    compared across the ranks. One call for one session.
    """
    if rank is None:
        rank = int(os.environ.get("RANK", "0"))
    if world is None:
        world = int(os.environ.get("WORLD_SIZE", "1"))
    identity = uuid.uuid4().hex
    entries = {
        "rank": rank,
        "world": world,
        "rendezvous": rendezvous
        or os.environ.get("TANDEM_RENDEZVOUS", "")
        or (f"ort-{identity}" if world == 1 else _default_rendezvous()),
        "max_tokens": max_tokens,
        "token_limit": token_limit,
        "timeout_ms": timeout_ms,
        "id": identity,
    }
    if signature:
        entries["signature"] = signature
    for name, value in entries.items():
        options.add_session_config_entry(f"tandem.{name}", str(value))
    options.register_custom_ops_library(str(_libraries.find(LIBRARY)))
    return Ranks(identity)
