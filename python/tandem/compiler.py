# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules and passes. Loads LLVM when the first context is made."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import json
import operator
import os
import pathlib
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tandem import _capi, _shared
from tandem.report import Report

Path = str | os.PathLike[str]
Guard = Literal["chain", "function", "none"]
Weights = Literal["keep", "link", "copy"]
ExportedGuard = Literal["if", "op"]


class ErrorCode(enum.IntEnum):
    """Why something failed."""

    INVALID_ARGUMENT = 1
    INVALID_HANDLE = 2
    BUSY = 3
    IO = 4
    PARSE = 5
    IMPORT = 6
    EXPORT = 7
    PIPELINE = 8
    PASS = 9
    INVALID_IR = 10


class Error(Exception):
    """What went wrong: one line for each error, with file, node and place."""

    #: Why, or None of a kind that this package does not know.
    code: ErrorCode | None
    #: The report, where a pass failed that had made one.
    report: Report | None = None

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = ErrorCode(code) if code in list(ErrorCode) else None


class TandemWarning(UserWarning):
    """A warning about a model or a module."""


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """An error, a warning or a note."""

    severity: Literal["note", "warning", "error", "remark"]
    message: str
    location: str
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        return f"{place}{self.severity}: {self.message}"


@dataclasses.dataclass(frozen=True)
class Remark:
    """What a pass says of one place."""

    kind: Literal["passed", "missed", "failure", "analysis"]
    name: str
    category: str
    function: str
    location: str
    arguments: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class FuseOptions:
    """The options of ``tandem-fuse``, as docs/fuse.md describes them."""

    #: Fuse up to this many tokens; None: the runtime's own limit.
    max_tokens: int | None = None
    #: File of a tuning profile.
    limits: Path | None = None
    #: Ranks in a group, where it is known.
    world_size: int | None = None
    #: Where the token count is checked.
    guard: Guard = "chain"
    #: A token's result must not depend on the batch around it.
    batch_invariant: bool = False
    #: Make one all-reduce of the sum of two; changes bits.
    merge_all_reduces: bool = False
    #: Fail where an all-reduce is not fused.
    require_all: bool = False

    def _to_c(self) -> _capi.CFuseOptions:
        guards = ("chain", "function", "none")
        if self.guard not in guards:
            raise ValueError(f"guard is {self.guard!r}, not one of {guards}")
        return _capi.CFuseOptions(
            ctypes.sizeof(_capi.CFuseOptions),
            -1 if self.max_tokens is None else _integer(self.max_tokens, "max_tokens"),
            None if self.limits is None else _bytes(self.limits, "limits"),
            0 if self.world_size is None else _integer(self.world_size, "world_size"),
            guards.index(self.guard),
            self.batch_invariant,
            self.merge_all_reduces,
            self.require_all,
        )


def _bytes(text: Path, what: str) -> bytes:
    """Text for the library, where a NUL would end it."""
    given = os.fsencode(text)
    if b"\0" in given:
        raise ValueError(f"{what} holds a NUL")
    return given


def _integer(value: int, what: str) -> int:
    """An integer for the library, where a longer one would be cut."""
    given = operator.index(value)
    if not -(2**63) <= given < 2**63:
        raise ValueError(f"{what} is {given}, which does not fit 64 bits")
    return given


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _check(error: int | None) -> None:
    """Raises what the library returned."""
    if not error:
        return
    lib = _capi.library()
    raised = Error(
        _text(lib.tandemErrorGetMessage(error)), lib.tandemErrorGetCode(error)
    )
    lib.tandemErrorDestroy(error)
    raise raised


def _take(buffer: ctypes.c_void_p) -> bytes:
    """The bytes of a buffer, which is freed."""
    lib = _capi.library()
    data = ctypes.string_at(
        lib.tandemBufferGetData(buffer), lib.tandemBufferGetSize(buffer)
    )
    lib.tandemBufferDestroy(buffer)
    return data


class Context:
    """What modules live in.

    ``on_diagnostic`` gets warnings and notes (errors are raised); without it warnings
    become Python's, at the caller's line. ``on_remark`` gets the remarks of Tandem's passes, or
    of those whose category matches ``remark_filter``. Neither may use modules of
    this context. Usable from any thread; calls wait for each other.
    """

    def __init__(
        self,
        *,
        allow_unregistered_dialects: bool = False,
        multithreading: bool = False,
        on_diagnostic: Callable[[Diagnostic], object] | None = None,
        on_remark: Callable[[Remark], object] | None = None,
        remark_filter: str | None = None,
    ) -> None:
        lib = _capi.library()
        options = _capi.ContextOptions(
            ctypes.sizeof(_capi.ContextOptions),
            allow_unregistered_dialects,
            multithreading,
        )
        handle = ctypes.c_void_p()
        _check(lib.tandemContextCreate(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._finalizer = weakref.finalize(self, lib.tandemContextDestroy, handle)
        self._pending: list[BaseException] = []
        # Kept, for the library calls them as long as it has the context.
        self._diagnostic = _make_diagnostic_callback(on_diagnostic, self._pending)
        _check(
            lib.tandemContextSetDiagnosticCallback(handle, self._diagnostic, None)
        )
        if on_remark is not None:
            self._remark = _make_remark_callback(on_remark, self._pending)
            filter_ = None if remark_filter is None else _bytes(remark_filter, "remark_filter")
            _check(
                lib.tandemContextSetRemarkCallback(
                    handle, filter_, self._remark, None
                )
            )

    def _run(self, error: int | None) -> None:
        """Raises what a callback or the library did. A callback's own exception
        comes first."""
        if self._pending:
            pending = self._pending[0]
            self._pending.clear()
            if error:
                _capi.library().tandemErrorDestroy(error)
            raise pending
        _check(error)


_SEVERITIES = ("note", "warning", "error", "remark")
_KINDS = ("passed", "missed", "failure", "analysis")


def _make_diagnostic_callback(
    user: Callable[[Diagnostic], object] | None, pending: list[BaseException]
) -> Any:
    def callback(pointer: Any, _: object) -> None:
        c = pointer.contents
        diagnostic = Diagnostic(
            _SEVERITIES[c.severity],  # type: ignore[arg-type]
            _text(c.message),
            _text(c.location),
            _text(c.file),
            c.line,
            c.column,
        )
        try:
            if user is not None:
                user(diagnostic)
            elif diagnostic.severity == "warning":
                _shared.warn(str(diagnostic), TandemWarning)
        except BaseException as error:  # Must not cross the library.
            pending.append(error)

    return _capi.DiagnosticCallback(callback)


def _make_remark_callback(
    user: Callable[[Remark], object], pending: list[BaseException]
) -> Any:
    def callback(pointer: Any, _: object) -> None:
        c = pointer.contents
        try:
            user(
                Remark(
                    _KINDS[c.kind],  # type: ignore[arg-type]
                    _text(c.name),
                    _text(c.category),
                    _text(c.function),
                    _text(c.location),
                    {
                        _text(c.keys[i]): _text(c.values[i])
                        for i in range(c.num_arguments)
                    },
                )
            )
        except BaseException as error:  # Must not cross the library.
            pending.append(error)

    return _capi.RemarkCallback(callback)


class Module:
    """An MLIR module. Made by the class methods."""

    def __init__(self, context: Context, handle: ctypes.c_void_p) -> None:
        self.context = context
        self._handle = handle
        self._finalizer = weakref.finalize(
            self, _capi.library().tandemModuleDestroy, handle
        )

    # --- Reading ---

    @classmethod
    def load(cls, path: Path, *, context: Context | None = None) -> Module:
        """Reads a file: ONNX (``.onnx``), or MLIR text or bytecode."""
        if os.fspath(path).endswith(".onnx"):
            return cls.from_onnx(path, context=context)
        context = context or Context()
        handle = ctypes.c_void_p()
        context._run(
            _capi.library().tandemModuleParseFile(
                context._handle, _bytes(path, "the path"), ctypes.byref(handle)
            )
        )
        return cls(context, handle)

    @classmethod
    def parse(
        cls, source: str | bytes, *, name: str = "memory", context: Context | None = None
    ) -> Module:
        """Reads MLIR text or bytecode."""
        if not isinstance(source, (str, bytes)):
            raise TypeError(f"source is {type(source).__name__}, not str or bytes")
        context = context or Context()
        data = source.encode() if isinstance(source, str) else source
        handle = ctypes.c_void_p()
        context._run(
            _capi.library().tandemModuleParse(
                context._handle, data, len(data), _bytes(name, "name"), ctypes.byref(handle)
            )
        )
        return cls(context, handle)

    @classmethod
    def from_onnx(
        cls,
        model: Path | bytes,
        *,
        name: str = "memory",
        external_data_dir: Path | None = None,
        context: Context | None = None,
    ) -> Module:
        """Imports the ONNX model in a file, or in bytes, which ``name`` names.

        Weights in external files are not read. A file must not change as long as
        the context lives.
        """
        lib = _capi.library()
        context = context or Context()
        options = _capi.ImportOptions(
            ctypes.sizeof(_capi.ImportOptions),
            None
            if external_data_dir is None
            else _bytes(external_data_dir, "external_data_dir"),
        )
        handle = ctypes.c_void_p()
        if isinstance(model, bytes):
            error = lib.tandemModuleImportOnnx(
                context._handle,
                model,
                len(model),
                _bytes(name, "name"),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
        else:
            error = lib.tandemModuleImportOnnxFile(
                context._handle,
                _bytes(model, "the path"),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
        context._run(error)
        return cls(context, handle)

    def clone(self) -> Module:
        """A copy in the same context."""
        handle = ctypes.c_void_p()
        self.context._run(
            _capi.library().tandemModuleClone(self._handle, ctypes.byref(handle))
        )
        return Module(self.context, handle)

    # --- Writing ---

    def text(
        self,
        *,
        locations: bool = False,
        generic: bool = False,
        elide_larger_than: int | None = None,
    ) -> str:
        """The module as MLIR text, constants of more than ``elide_larger_than``
        elements left out."""
        options = _capi.PrintOptions(
            ctypes.sizeof(_capi.PrintOptions),
            locations,
            generic,
            -1 if elide_larger_than is None else elide_larger_than,
        )
        buffer = ctypes.c_void_p()
        self.context._run(
            _capi.library().tandemModulePrint(
                self._handle, ctypes.byref(options), ctypes.byref(buffer)
            )
        )
        return _take(buffer).decode("utf-8", "replace")

    def __str__(self) -> str:
        return self.text()

    def bytecode(self) -> bytes:
        """The module as MLIR bytecode, which keeps everything."""
        buffer = ctypes.c_void_p()
        self.context._run(
            _capi.library().tandemModuleWriteBytecode(
                self._handle, ctypes.byref(buffer)
            )
        )
        return _take(buffer)

    def export_onnx(
        self,
        path: Path | None = None,
        *,
        weights: Weights = "keep",
        guard: ExportedGuard = "if",
        external_data_dir: Path | None = None,
    ) -> bytes | None:
        """Writes an ONNX model (docs/export.md): to the file ``path``, or without
        one returns its bytes.

        ``weights`` says what becomes of external weights when the file is in
        another folder; ``guard`` whether a check is an If node, or the fused op's
        own. ``external_data_dir`` is where the weights are now, if not in the
        folder of the model that was imported.
        """
        kinds, guards = ("keep", "link", "copy"), ("if", "op")
        if weights not in kinds:
            raise ValueError(f"weights is {weights!r}, not one of {kinds}")
        if guard not in guards:
            raise ValueError(f"guard is {guard!r}, not one of {guards}")
        options = _capi.ExportOptions(
            ctypes.sizeof(_capi.ExportOptions),
            kinds.index(weights),
            guards.index(guard),
            None
            if external_data_dir is None
            else _bytes(external_data_dir, "external_data_dir"),
        )
        lib = _capi.library()
        if path is not None:
            self.context._run(
                lib.tandemModuleExportOnnxFile(
                    self._handle, _bytes(path, "the path"), ctypes.byref(options)
                )
            )
            return None
        buffer = ctypes.c_void_p()
        self.context._run(
            lib.tandemModuleExportOnnx(
                self._handle, ctypes.byref(options), ctypes.byref(buffer)
            )
        )
        return _take(buffer)

    def save(self, path: Path) -> None:
        """Writes a file, of the kind that its name says: ``.mlir``, ``.mlirbc`` or
        ``.onnx``."""
        name = os.fspath(path)
        if name.endswith(".mlir"):
            pathlib.Path(path).write_text(self.text(), encoding="utf-8")
        elif name.endswith(".mlirbc"):
            pathlib.Path(path).write_bytes(self.bytecode())
        elif name.endswith(".onnx"):
            self.export_onnx(path)
        else:
            raise ValueError(f"{name}: a module is saved as .mlir, .mlirbc or .onnx")

    def graph(self) -> dict[str, Any]:
        """The ops and their uses, for drawing; docs/embedding/c.md."""
        buffer = ctypes.c_void_p()
        self.context._run(
            _capi.library().tandemModuleGetGraph(self._handle, ctypes.byref(buffer))
        )
        graph: dict[str, Any] = json.loads(_take(buffer))
        return graph

    # --- Passes ---

    def verify(self) -> None:
        """Raises Error where the module is not valid."""
        self.context._run(_capi.library().tandemModuleVerify(self._handle))

    def run(self, pipeline: str) -> Report | None:
        """Runs a pipeline in place, as ``builtin.module(tandem-raise,cse)``.

        Returns the report of the last ``tandem-fuse`` in it. A pass that fails
        raises Error, with the report if there was one.
        """
        buffer = ctypes.c_void_p()
        error = _capi.library().tandemModuleRunPipeline(
            self._handle, _bytes(pipeline, "pipeline"), ctypes.byref(buffer)
        )
        return self._report(error, buffer)

    def fuse(self, options: FuseOptions | None = None, **named: Any) -> Report:
        """Runs ``tandem-fuse-pipeline`` in place, with FuseOptions or its fields."""
        if options is None:
            options = FuseOptions(**named)
        elif named:
            raise TypeError("options are given twice, as FuseOptions and by name")
        buffer = ctypes.c_void_p()
        given = options._to_c()
        error = _capi.library().tandemModuleFuse(
            self._handle, ctypes.byref(given), ctypes.byref(buffer)
        )
        report = self._report(error, buffer)
        assert report is not None
        return report

    def _report(self, error: int | None, buffer: ctypes.c_void_p) -> Report | None:
        report = Report.from_json(_take(buffer)) if buffer else None
        try:
            self.context._run(error)
        except Error as raised:
            raised.report = report
            raise
        return report


def fuse(
    model: Path | bytes | Module,
    *,
    graph: bool = False,
    context: Context | None = None,
    **options: Any,
) -> tuple[Module, Report]:
    """Fuses a model: a file (ONNX, MLIR text or bytecode), the bytes of an ONNX
    model, or a module, which is not changed.

    Returns the fused module and the report. ``options`` are the fields of
    FuseOptions. With ``graph=True`` the report keeps the graph, for its page.
    """
    given = FuseOptions(**options)
    if isinstance(model, Module):
        if context is not None and context is not model.context:
            raise ValueError("a module can't change its context")
        module = model.clone()
    elif isinstance(model, bytes):
        module = Module.from_onnx(model, context=context)
    else:
        module = Module.load(model, context=context)
    before = module.graph() if graph else None
    report = module.fuse(given)
    if before is not None:
        report = dataclasses.replace(report, graph=before)
    return module, report
