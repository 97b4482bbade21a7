# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups: a process group's ranks with Tandem's communicator and workspace.

Ops name their group by a string, so that a compiled graph holds no handle and can
be kept on disk.
"""

from __future__ import annotations

import atexit
import operator
import os
import socket
import threading
from typing import Any

import torch
import torch.distributed as dist

from tandem import _shared, runtime
from tandem.runtime import DType, WorkspaceInfo
from tandem.torch._launch import Launcher

DTYPES = {
    torch.float32: DType.F32,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
}

#: Every workspace has room for rows of so many bytes.
MIN_ROW_BYTES = 256 << 10

_groups: dict[str, Group] = {}
_lock = threading.Lock()


class Group(_shared.Closing):
    """The ranks of a process group, and the buffers that they share. Made by
    ``init_group``.

    ``close`` is local and never communicates; so is what happens when the
    interpreter ends. A group that a forked child inherits can't be used there.
    """

    def __init__(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        communicator: runtime.Communicator,
        sizes: dict[str, Any],
        process_group_name: str,
    ) -> None:
        self.name = name
        #: What the all-reduces of a graph call it.
        self.process_group_name = process_group_name
        self.device = device
        #: What the workspace was made for. Other hidden sizes and types share its
        #: bytes.
        self.dtype = dtype
        self.hidden: int = sizes["hidden"]
        self.max_tokens: int = sizes["max_tokens"]
        #: Whether calls may ask for it.
        self.batch_invariant: bool = sizes["batch_invariant"]
        #: The longest row that a norm may have.
        self.row_bytes = max(self.hidden * dtype.itemsize, MIN_ROW_BYTES)
        self.rank = communicator.rank
        self.world = communicator.world
        self._communicator = communicator
        self._sizes = sizes
        self._workspace: runtime.Workspace | None = None
        self._fusion = True
        self._state = "asleep"
        # One call at a time; also guards what follows here.
        self._lock = threading.Lock()
        #: Set while the group can serve.
        self.launcher: Launcher | None = None
        self._open()

    def __repr__(self) -> str:
        return (
            f"<tandem.torch.Group {self.name!r}, rank {self.rank} of {self.world}, "
            f"{self.device}, {self._state}>"
        )

    def _open(self) -> None:
        sizes = dict(self._sizes)
        workspace = runtime.Workspace(
            self._communicator,
            sizes.pop("max_tokens"),
            sizes.pop("hidden"),
            DTYPES[self.dtype],
            **sizes,
        )
        try:
            if not self._fusion:
                workspace.set_fusion(False)
            self.launcher = Launcher(
                workspace,
                self.name,
                self.device,
                self._lock,
                self.row_bytes,
                self.batch_invariant,
            )
        except BaseException:
            workspace.close()
            raise
        self._workspace = workspace
        self._state = "open"

    def _get_workspace(self) -> runtime.Workspace:
        workspace = self._workspace
        if workspace is None or self._state != "open":
            raise RuntimeError(self.why_not())
        return workspace

    def why_not(self) -> str:
        """Why the group can't serve."""
        return {
            "closed": f"group {self.name!r} is closed",
            "asleep": f"group {self.name!r} is asleep; call its wake() on all ranks",
            "forked": f"group {self.name!r} was made by the parent of this process; "
            "a child of fork can't use it",
        }.get(self._state, f"group {self.name!r} is open")

    @property
    def closed(self) -> bool:
        return self._state in ("closed", "forked")

    @property
    def asleep(self) -> bool:
        return self._state == "asleep"

    def info(self) -> WorkspaceInfo:
        """What the ranks agreed on; why there is no fused path, if there is none."""
        return self._get_workspace().info()

    def counters(self) -> dict[str, int]:
        """How often each path was taken on this rank, since the workspace was made.
        Replays of CUDA graphs aren't counted."""
        return self._get_workspace().counters()

    def token_limit(
        self, hidden: int | None = None, dtype: torch.dtype | None = None
    ) -> int:
        """The largest token count that is fused; -1 where none is."""
        return self._get_workspace().token_limit(
            self.hidden if hidden is None else hidden, get_dtype(dtype or self.dtype)
        )

    def set_fusion(self, enabled: bool) -> None:
        """Turns the fused path on or off. Collective; off on one rank is off on
        all."""
        self._get_workspace().set_fusion(enabled)
        self._fusion = enabled

    def barrier(self) -> None:
        """Waits for all ranks (on the host)."""
        if self.closed:
            raise RuntimeError(self.why_not())
        self._communicator.barrier()

    def sleep(self) -> None:
        """Gives the workspace's memory back. Collective: no rank's memory goes before
        all ranks are done with it. CUDA graphs that hold calls of the group must not
        be replayed any more, also not after ``wake``: capture them anew."""
        self._get_workspace()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self._communicator.barrier()
        self._drop("asleep")

    def wake(self) -> None:
        """Makes the workspace again. Collective."""
        if self._state != "asleep":
            raise RuntimeError(self.why_not())
        self._open()

    def _drop(self, state: str) -> None:
        with self._lock:
            self._state = state
            launcher, self.launcher = self.launcher, None
            if launcher is not None:
                launcher.close()
            workspace, self._workspace = self._workspace, None
        if workspace is not None:
            workspace.close()

    def close(self) -> None:
        """Frees everything; a second time does nothing. Local: ranks that call on
        get an error."""
        if self._state == "forked":
            return
        with _lock:
            if _groups.get(self.name) is self:
                del _groups[self.name]
        self._drop("closed")
        self._communicator.close()


def get_dtype(dtype: torch.dtype) -> DType:
    """The runtime's name of an element type. Raises TypeError."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype is {dtype!r}, not a torch.dtype")
    if dtype not in DTYPES:
        names = ", ".join(str(known) for known in DTYPES)
        raise TypeError(f"dtype is {dtype}, not one of {names}")
    return DTYPES[dtype]


def find_group(name: str) -> Group | None:
    return _groups.get(name)


def find_for_process_group(name: str) -> Group | None:
    """The group that was made of the process group of this name."""
    for group in groups():
        if group.process_group_name == name:
            return group
    return None


def get_group(name: str) -> Group:
    """The group of this name. Raises RuntimeError where there is none."""
    group = _groups.get(name)
    if group is None:
        known = ", ".join(repr(known) for known in _groups) or "none"
        raise RuntimeError(
            f"there is no group {name!r} (there is {known}); "
            "make it with tandem.torch.init_group"
        )
    return group


def groups() -> list[Group]:
    """The groups that aren't closed."""
    return list(_groups.values())


def _get_place() -> str:
    """What the ranks of a group must have in common: kernel and network namespace,
    through which they meet."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}:{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def _is_cudas(process_group: Any) -> bool:
    """Whether it is for tensors of CUDA; gloo takes them too, but nobody means that."""
    types = {str(kind) for kind in getattr(process_group, "_device_types", ())}
    if not any("cuda" in kind for kind in types):
        return False
    return process_group._get_backend(torch.device("cuda")).name().lower() != "gloo"


def _pick_device(device: Any, process_group: Any) -> torch.device:
    if device is None:
        device = "cuda" if torch.cuda.is_available() and _is_cudas(process_group) else "cpu"
    picked = torch.device(device)
    if picked.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {picked}, neither a CPU nor a CUDA device")
    if picked.type == "cuda" and picked.index is None:
        picked = torch.device("cuda", torch.cuda.current_device())
    return picked


def _make_context(device: torch.device, timeout_ms: int) -> runtime.Context:
    if device.type == "cuda":
        torch.cuda.init()
        return runtime.Context(
            runtime.Device.CUDA, device.index, timeout_ms=timeout_ms
        )
    return runtime.Context(timeout_ms=timeout_ms)


def _agree(told: list[dict[str, Any]]) -> None:
    """Raises, on every rank alike, what stands in the way of a group."""
    for rank, words in enumerate(told):
        if words["error"] is not None:
            raise RuntimeError(f"rank {rank}: {words['error']}")
    for what, text in (
        ("place", "is on another host, or in another network namespace"),
        ("name", "calls the group {theirs!r}, rank 0 {ours!r}"),
        ("device", "has a {theirs} device, rank 0 a {ours} device"),
    ):
        for rank, words in enumerate(told):
            ours, theirs = told[0][what], words[what]
            if ours != theirs:
                raise RuntimeError(f"rank {rank} {text.format(ours=ours, theirs=theirs)}")


def init_group(
    process_group: dist.ProcessGroup | None = None,
    *,
    max_tokens: int,
    hidden: int,
    dtype: torch.dtype,
    device: torch.device | str | int | None = None,
    name: str | None = None,
    token_limit: int | None = None,
    max_blocks: int = 0,
    batch_invariant: bool = False,
    require_fused: bool = False,
    timeout_ms: int | None = None,
) -> Group:
    """Makes a group of the ranks of a process group. Collective.

    The process group (None: all ranks) only carries our id, and isn't kept. The fused
    path has room for ``max_tokens`` rows of ``hidden`` elements of ``dtype``; more go
    through NCCL (on CPUs: through the same buffers, in parts). ``token_limit`` is a
    smaller bound, from tuning. ``name`` is what ops call the group; without one it is
    the process group's own name, by which the compiler pass finds it.
    ``require_fused`` raises where there would be no fused path.

    Raises RuntimeError on all ranks alike where one of them can't.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("call torch.distributed.init_process_group first")
    process_group = process_group or dist.group.WORLD
    rank = dist.get_rank(process_group)
    if rank < 0 or process_group is None:
        raise ValueError("this process isn't in the process group")
    told: dict[str, Any] = {"error": None, "id": None, "place": _get_place()}
    timeout = runtime.TIMEOUT_DEFAULT if timeout_ms is None else timeout_ms
    context = None
    failure: Exception | None = None
    try:
        # Whatever fails here fails on all ranks, for they wait for each other.
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {type(name).__name__}, not str")
        told["name"] = name = name or process_group.group_name
        picked = _pick_device(device, process_group)
        told["device"] = picked.type
        get_dtype(dtype)
        sizes = {
            "max_tokens": operator.index(max_tokens),
            "hidden": operator.index(hidden),
            "token_limit": -1 if token_limit is None else operator.index(token_limit),
            "max_blocks": operator.index(max_blocks),
            "batch_invariant": bool(batch_invariant),
            "require_fused": bool(require_fused),
            "timeout_ms": operator.index(timeout),
        }
        if name in _groups:
            raise ValueError(f"there is a group {name!r} already; close it first")
        context = _make_context(picked, timeout)
        if rank == 0:
            told["id"] = context.unique_id()
    except Exception as error:
        failure = error
        told["error"] = f"{type(error).__name__}: {error}"
    everyone: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(everyone, told, group=process_group)
    if failure is not None:
        raise failure
    _agree(everyone)
    assert context is not None and name is not None
    with context:
        communicator = runtime.Communicator(
            context, rank, len(everyone), unique_id=everyone[0]["id"], timeout_ms=timeout
        )
    try:
        group = Group(
            name, picked, dtype, communicator, sizes, process_group.group_name
        )
    except BaseException:
        communicator.close()
        raise
    with _lock:
        _groups[name] = group
    return group


@atexit.register
def _close_all() -> None:
    for group in groups():
        group.close()


def _forget() -> None:
    """In a child of fork: its parent's groups are not its own."""
    global _lock
    _lock = threading.Lock()
    for group in _groups.values():
        group._lock = threading.Lock()
        group._state = "forked"
        group.launcher = None
        # What is freed at the child's end must not wait for a thread of the parent.
        for held in (group._workspace, group._communicator):
            if held is not None:
                held._lock = threading.Lock()
    # They stay listed, so that ops can say what is wrong.


os.register_at_fork(after_in_child=_forget)
