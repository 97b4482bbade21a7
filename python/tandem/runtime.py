# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime: groups of ranks, and the fused op between them. Needs no LLVM.

What the calls mean, and which of them all ranks must make, is said in
tandem/Runtime/tandem.h and docs/runtime.md. Tensors are given as addresses
(View), so that any library's can be used without copies.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import enum
import functools
import operator
import threading
from collections.abc import Iterator
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from tandem import _libraries, _shared

LIBRARY = "libtandem_runtime.so.1"
ABI_MAJOR = 1

TIMEOUT_DEFAULT = -1
TIMEOUT_NEVER = 0


class Status(enum.IntEnum):
    """What a call returned."""

    OK = 0
    INVALID_ARGUMENT = 1
    UNSUPPORTED = 2
    OUT_OF_MEMORY = 3
    TIMEOUT = 4
    PEER_DIED = 5
    PEER_LEFT = 6
    MISMATCH = 7
    SYSTEM = 8
    BUSY = 9
    INTERNAL = 10


class DType(enum.IntEnum):
    F32 = 0
    F16 = 1
    BF16 = 2


class Device(enum.IntEnum):
    CPU = 0
    CUDA = 1


class Rounding(enum.IntEnum):
    """Where a norm rounds its normalised value to the element type."""

    BEFORE_GAMMA = 0
    AFTER_GAMMA = 1


class RuntimeFailure(RuntimeError):
    """A call of the runtime's that failed."""

    def __init__(self, status: int, message: str, peer: int = -1) -> None:
        super().__init__(message)
        self.status = Status(status) if status in list(Status) else None
        #: The rank that caused it, or -1.
        self.peer = peer


class _Error(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("status", c_int32),
        ("reporter", c_int32),
        ("peer", c_int32),
        ("reserved", c_uint32),
        ("call", c_uint64),
        ("message", c_char * 480),
    ]


class _ContextDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("device", c_int32),
        ("device_index", c_int32),
        ("flags", c_uint32),
        ("reserved0", c_uint32),
        ("timeout_ms", c_int64),
        ("reserved", c_uint64 * 4),
    ]


class _UniqueId(ctypes.Structure):
    _fields_ = [("bytes", c_uint8 * 128)]


class _CommDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("kind", c_int32),
        ("rank", c_int32),
        ("world", c_int32),
        ("flags", c_uint32),
        ("timeout_ms", c_int64),
        ("name", c_char_p),
        ("unique_id", POINTER(_UniqueId)),
        ("nccl_comm", c_void_p),
        ("reserved", c_uint64 * 4),
    ]


class _WorkspaceDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("max_tokens", c_int64),
        ("hidden", c_int64),
        ("dtype", c_int32),
        ("flags", c_uint32),
        ("token_limit", c_int64),
        ("timeout_ms", c_int64),
        ("signature", c_char_p),
        ("signature_length", c_uint64),
        ("max_blocks", c_int64),
        ("reserved", c_uint64 * 3),
    ]


class _WorkspaceInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("rank", c_int32),
        ("world", c_int32),
        ("fused", c_int32),
        ("reserved", c_uint32),
        ("capacity_bytes", c_uint64),
        ("token_limit", c_int64),
        ("shared_bytes", c_uint64),
        ("private_bytes", c_uint64),
        ("reason", c_char * 256),
    ]


class _Counters(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64)] + [
        (name, c_uint64)
        for name in (
            "fused",
            "fallback",
            "all_reduce",
            "norm",
            "failed",
            "rounds",
            "sleeps",
        )
    ]


class _View(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("row_stride", c_int64)]


class _NormSpec(ctypes.Structure):
    _fields_ = [
        ("gamma", c_void_p),
        ("gamma_dtype", c_int32),
        ("rounding", c_int32),
        ("epsilon", c_double),
    ]


# How the arguments of each call begin.
_CALL_FIELDS: list[tuple[str, Any]] = [
    ("struct_size", c_uint64),
    ("tokens", c_int64),
    ("hidden", c_int64),
    ("dtype", c_int32),
    ("flags", c_uint32),
    ("stream", c_void_p),
    ("input", _View),
]


class _AllReduceArgs(ctypes.Structure):
    _fields_ = [
        *_CALL_FIELDS,
        ("output", _View),
        ("reduction", c_int32),
        ("reserved0", c_uint32),
        ("reserved", c_uint64 * 4),
    ]


class _NormArgs(ctypes.Structure):
    _fields_ = [
        *_CALL_FIELDS,
        ("residual", _View),
        ("bias", c_void_p),
        ("pre_norm", _NormSpec),
        ("norm", _NormSpec),
        ("norm_out", _View),
        ("residual_out", _View),
        ("sum_out", _View),
        ("reserved", c_uint64 * 8),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tandem_abi_version": (c_uint32, []),
    "tandem_status_name": (c_char_p, [c_int32]),
    "tandem_context_create": (
        c_int32,
        [POINTER(_ContextDesc), POINTER(c_void_p), POINTER(_Error)],
    ),
    "tandem_context_destroy": (None, [c_void_p]),
    "tandem_unique_id_create": (
        c_int32,
        [c_void_p, POINTER(_UniqueId), POINTER(_Error)],
    ),
    "tandem_comm_create": (
        c_int32,
        [c_void_p, POINTER(_CommDesc), POINTER(c_void_p), POINTER(_Error)],
    ),
    "tandem_comm_rank": (c_int32, [c_void_p]),
    "tandem_comm_world": (c_int32, [c_void_p]),
    "tandem_comm_barrier": (c_int32, [c_void_p, POINTER(_Error)]),
    "tandem_comm_destroy": (None, [c_void_p]),
    "tandem_workspace_create": (
        c_int32,
        [c_void_p, POINTER(_WorkspaceDesc), POINTER(c_void_p), POINTER(_Error)],
    ),
    "tandem_workspace_destroy": (None, [c_void_p]),
    "tandem_workspace_get_info": (c_int32, [c_void_p, POINTER(_WorkspaceInfo)]),
    "tandem_token_limit": (c_int64, [c_void_p, c_int64, c_int32]),
    "tandem_workspace_set_fusion": (c_int32, [c_void_p, c_int32, POINTER(_Error)]),
    "tandem_workspace_get_counters": (c_int32, [c_void_p, POINTER(_Counters)]),
    "tandem_workspace_get_failure": (c_int32, [c_void_p, POINTER(_Error)]),
    "tandem_workspace_fail": (c_int32, [c_void_p, c_int32, c_char_p]),
    "tandem_workspace_get_defaults": (c_int32, [c_void_p, c_char_p, c_uint64]),
    "tandem_workspace_get_hang_dump": (c_int32, [c_void_p, c_char_p, c_uint64]),
    "tandem_fused_all_reduce_norm": (c_int32, [c_void_p, POINTER(_NormArgs)]),
    "tandem_all_reduce": (c_int32, [c_void_p, POINTER(_AllReduceArgs)]),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The runtime's library, loaded at the first call."""
    loaded = _libraries.load(LIBRARY)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    version = loaded.tandem_abi_version()
    if version >> 16 != ABI_MAJOR:
        raise ImportError(
            f"{LIBRARY} has version {version >> 16} of the ABI; this package needs "
            f"{ABI_MAJOR}",
            name="tandem",
        )
    return loaded


def abi_version() -> tuple[int, int]:
    """The version of the ABI that the library has."""
    version = library().tandem_abi_version()
    return version >> 16, version & 0xFFFF


def _int(value: int, what: str, bits: int = 64) -> int:
    """An integer for the library, where a longer one would be cut."""
    given = operator.index(value)
    if not -(2 ** (bits - 1)) <= given < 2 ** (bits - 1):
        raise ValueError(f"{what} is {given}, which does not fit {bits} bits")
    return given


def _error() -> _Error:
    return _Error(ctypes.sizeof(_Error))


def _check(status: int, error: _Error | None = None) -> None:
    if status == Status.OK:
        return
    name = library().tandem_status_name(status).decode()
    message = error.message.decode("utf-8", "replace") if error is not None else ""
    raise RuntimeFailure(
        status, f"{name}: {message}" if message else name, error.peer if error else -1
    )


class _Object(_shared.Closing):
    """Something with a handle. Ends at ``close``, at the end of a ``with``, or when
    nothing refers to it any more; ending never communicates."""

    _destroy = ""

    def __init__(self, handle: c_void_p) -> None:
        self._handle: c_void_p | None = handle
        self._lock = threading.Lock()
        self._calls = 0
        self._closed = False

    @contextlib.contextmanager
    def _use(self) -> Iterator[c_void_p]:
        """The handle, which lives until the call is over, whoever closes it."""
        with self._lock:
            if self._closed or self._handle is None:
                raise ValueError(f"this {type(self).__name__} is closed")
            self._calls += 1
        try:
            yield self._handle
        finally:
            with self._lock:
                self._calls -= 1
            self._free()

    def _free(self) -> None:
        with self._lock:
            if not self._closed or self._calls:
                return
            handle, self._handle = self._handle, None
        if handle is not None:
            getattr(library(), self._destroy)(handle)

    def close(self) -> None:
        """Frees it, when the calls that use it are over; a second time does
        nothing."""
        if not hasattr(self, "_lock"):  # It was never made.
            return
        with self._lock:
            self._closed = True
        self._free()

    def __del__(self) -> None:
        self.close()


class Context(_Object):
    """A device, and what the environment says."""

    _destroy = "tandem_context_destroy"

    def __init__(
        self,
        device: Device = Device.CPU,
        device_index: int = 0,
        *,
        timeout_ms: int = TIMEOUT_DEFAULT,
    ) -> None:
        desc = _ContextDesc(
            ctypes.sizeof(_ContextDesc),
            device,
            _int(device_index, "device_index", 32),
            0,
            0,
            _int(timeout_ms, "timeout_ms"),
        )
        handle, error = c_void_p(), _error()
        _check(
            library().tandem_context_create(
                ctypes.byref(desc), ctypes.byref(handle), ctypes.byref(error)
            ),
            error,
        )
        super().__init__(handle)

    def unique_id(self) -> bytes:
        """An id for a group, which one rank makes and hands to the others."""
        unique_id, error = _UniqueId(), _error()
        with self._use() as handle:
            _check(
                library().tandem_unique_id_create(
                    handle, ctypes.byref(unique_id), ctypes.byref(error)
                ),
                error,
            )
        return bytes(unique_id.bytes)


class Communicator(_Object):
    """The ranks of a group. Collective: returns when all of them are there.

    They meet by ``unique_id``, by ``name`` on one machine, or as the ranks of
    ``nccl_comm``, the address of an ncclComm_t, which is used once.
    """

    _destroy = "tandem_comm_destroy"

    def __init__(
        self,
        context: Context,
        rank: int = 0,
        world: int = 1,
        *,
        unique_id: bytes | None = None,
        name: str | None = None,
        nccl_comm: int | None = None,
        timeout_ms: int = TIMEOUT_DEFAULT,
    ) -> None:
        if sum(way is not None for way in (unique_id, name, nccl_comm)) != 1:
            raise ValueError("give one of unique_id, name and nccl_comm")
        desc = _CommDesc(ctypes.sizeof(_CommDesc))
        desc.rank = _int(rank, "rank", 32)
        desc.world = _int(world, "world", 32)
        desc.timeout_ms = _int(timeout_ms, "timeout_ms")
        if unique_id is not None:
            if len(unique_id) != 128:
                raise ValueError(f"unique_id has {len(unique_id)} bytes, not 128")
            desc.kind = 1
            desc.unique_id = ctypes.pointer(_UniqueId.from_buffer_copy(unique_id))
        elif name is not None:
            desc.name = name.encode()
        else:
            desc.kind = 2
            desc.nccl_comm = nccl_comm
        handle, error = c_void_p(), _error()
        with context._use() as owner:
            _check(
                library().tandem_comm_create(
                    owner,
                    ctypes.byref(desc),
                    ctypes.byref(handle),
                    ctypes.byref(error),
                ),
                error,
            )
        super().__init__(handle)
        self.rank: int = library().tandem_comm_rank(handle)
        self.world: int = library().tandem_comm_world(handle)

    def barrier(self) -> None:
        """Waits for all ranks."""
        error = _error()
        with self._use() as handle:
            _check(
                library().tandem_comm_barrier(handle, ctypes.byref(error)), error
            )


@dataclasses.dataclass(frozen=True)
class WorkspaceInfo:
    rank: int
    world: int
    fused: bool
    capacity_bytes: int
    token_limit: int
    shared_bytes: int
    private_bytes: int
    #: Why there is no fused path.
    reason: str


@dataclasses.dataclass(frozen=True)
class View:
    """Rows in memory: an address, and the elements from row to row (0: hidden).
    Whoever makes it keeps the memory alive."""

    data: int
    row_stride: int = 0

    def _to_c(self) -> _View:
        return _View(self.data, self.row_stride)


@dataclasses.dataclass(frozen=True)
class Norm:
    """x / sqrt(mean(x^2) + epsilon) * gamma, gamma given by its address."""

    gamma: int
    epsilon: float
    gamma_dtype: DType = DType.F32
    rounding: Rounding = Rounding.BEFORE_GAMMA

    def _to_c(self) -> _NormSpec:
        return _NormSpec(self.gamma, self.gamma_dtype, self.rounding, self.epsilon)


class Workspace(_Object):
    """The buffers that a group shares. Collective: all ranks make theirs together.

    ``signature`` is the module's (attribute ``tandem.signature``); the ranks
    compare it.
    """

    _destroy = "tandem_workspace_destroy"

    def __init__(
        self,
        communicator: Communicator,
        max_tokens: int,
        hidden: int,
        dtype: DType,
        *,
        token_limit: int = -1,
        signature: str | None = None,
        max_blocks: int = 0,
        require_fused: bool = False,
        batch_invariant: bool = False,
        timeout_ms: int = TIMEOUT_DEFAULT,
    ) -> None:
        text = None if signature is None else signature.encode()
        desc = _WorkspaceDesc(
            ctypes.sizeof(_WorkspaceDesc),
            _int(max_tokens, "max_tokens"),
            _int(hidden, "hidden"),
            dtype,
            int(require_fused) | int(batch_invariant) << 1,
            _int(token_limit, "token_limit"),
            _int(timeout_ms, "timeout_ms"),
            text,
            len(text or b""),
            _int(max_blocks, "max_blocks"),
        )
        handle, error = c_void_p(), _error()
        with communicator._use() as owner:
            _check(
                library().tandem_workspace_create(
                    owner,
                    ctypes.byref(desc),
                    ctypes.byref(handle),
                    ctypes.byref(error),
                ),
                error,
            )
        super().__init__(handle)

    def info(self) -> WorkspaceInfo:
        info = _WorkspaceInfo(ctypes.sizeof(_WorkspaceInfo))
        with self._use() as handle:
            _check(
                library().tandem_workspace_get_info(handle, ctypes.byref(info))
            )
        return WorkspaceInfo(
            info.rank,
            info.world,
            bool(info.fused),
            info.capacity_bytes,
            info.token_limit,
            info.shared_bytes,
            info.private_bytes,
            info.reason.decode("utf-8", "replace"),
        )

    def token_limit(self, hidden: int, dtype: DType) -> int:
        """The largest token count for which the fused path should run; -1: none."""
        with self._use() as handle:
            limit: int = library().tandem_token_limit(
                handle, _int(hidden, "hidden"), dtype
            )
        return limit

    def set_fusion(self, enabled: bool) -> None:
        """Turns the fused path on or off. Collective."""
        error = _error()
        with self._use() as handle:
            _check(
                library().tandem_workspace_set_fusion(
                    handle, enabled, ctypes.byref(error)
                ),
                error,
            )

    def fail(self, status: Status, message: str = "") -> Status:
        """Fails the group from outside of a call, for a rank that can't make the
        calls that its peers make: they get ``status`` and ``message`` at once. Not
        collective; any thread. The group's status: of two failures the first stays.
        """
        known = Status(status)
        if known == Status.OK:
            raise ValueError("status is OK, which is no failure")
        with self._use() as handle:
            return Status(
                library().tandem_workspace_fail(
                    handle, known, message.encode() if message else None
                )
            )

    def counters(self) -> dict[str, int]:
        """How often each path was taken on this rank."""
        counters = _Counters(ctypes.sizeof(_Counters))
        with self._use() as handle:
            _check(
                library().tandem_workspace_get_counters(
                    handle, ctypes.byref(counters)
                )
            )
        return {name: getattr(counters, name) for name, *_ in _Counters._fields_[1:]}

    def defaults(self) -> str:
        """Where the fused path's limit comes from, and which defaults are used."""
        text = ctypes.create_string_buffer(512)
        with self._use() as handle:
            _check(
                library().tandem_workspace_get_defaults(handle, text, len(text))
            )
        return text.value.decode("utf-8", "replace")

    def hang_dump(self) -> str:
        """What each rank last called, a line each, to find out who hangs (CUDA)."""
        text = ctypes.create_string_buffer(1 << 16)
        with self._use() as handle:
            _check(
                library().tandem_workspace_get_hang_dump(handle, text, len(text))
            )
        return text.value.decode("utf-8", "replace")

    def fused_all_reduce_norm(
        self,
        tokens: int,
        hidden: int,
        dtype: DType,
        *,
        input: View,
        norm: Norm,
        norm_out: View,
        residual: View | None = None,
        bias: int | None = None,
        pre_norm: Norm | None = None,
        residual_out: View | None = None,
        sum_out: View | None = None,
        fallback: bool = False,
        batch_invariant: bool = False,
        stream: int | None = None,
    ) -> None:
        """norm(residual + pre_norm(all_reduce(input) + bias)). Collective. On a GPU
        it launches on ``stream`` and returns."""
        args = _NormArgs(
            ctypes.sizeof(_NormArgs),
            _int(tokens, "tokens"),
            _int(hidden, "hidden"),
            dtype,
        )
        args.flags = int(fallback) | int(batch_invariant) << 1
        args.stream = stream
        args.bias = bias
        args.norm = norm._to_c()
        if pre_norm is not None:
            args.pre_norm = pre_norm._to_c()
        for name, view in (
            ("input", input),
            ("residual", residual),
            ("norm_out", norm_out),
            ("residual_out", residual_out),
            ("sum_out", sum_out),
        ):
            if view is not None:
                setattr(args, name, view._to_c())
        with self._use() as handle:
            status = library().tandem_fused_all_reduce_norm(handle, ctypes.byref(args))
            if status != Status.OK:
                failure = _error()
                library().tandem_workspace_get_failure(handle, ctypes.byref(failure))
                _check(status, failure)
