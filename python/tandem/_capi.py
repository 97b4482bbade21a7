# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions of tandem-c/Tandem.h, as ctypes knows them."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_void_p

from tandem import _libraries

LIBRARY = "libTandemC.so.1"
API_MAJOR = 1

HINT = (
    "the compiler needs LLVM's and MLIR's shared libraries of version 22 and "
    "protobuf's: on Debian 12, apt-get install libmlir-22 libprotobuf-lite32 "
    "(tandem.runtime needs neither)"
)


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allow_unregistered_dialects", c_int32),
        ("multithreading", c_int32),
    ]


class CDiagnostic(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("severity", c_int32),
        ("message", c_char_p),
        ("location", c_char_p),
        ("file", c_char_p),
        ("line", c_int64),
        ("column", c_int64),
    ]


class CRemark(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int32),
        ("name", c_char_p),
        ("category", c_char_p),
        ("function", c_char_p),
        ("location", c_char_p),
        ("num_arguments", c_size_t),
        ("keys", POINTER(c_char_p)),
        ("values", POINTER(c_char_p)),
    ]


class ImportOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("external_data_dir", c_char_p)]


class PrintOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("debug_info", c_int32),
        ("generic", c_int32),
        ("elide_larger_than", c_int64),
    ]


class ExportOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("weights", c_int32),
        ("guard", c_int32),
        ("external_data_dir", c_char_p),
    ]


class CFuseOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_tokens", c_int64),
        ("limits", c_char_p),
        ("world_size", c_int64),
        ("guard", c_int32),
        ("batch_invariant", c_int32),
        ("merge_all_reduces", c_int32),
        ("require_all", c_int32),
    ]


DiagnosticCallback = ctypes.CFUNCTYPE(None, POINTER(CDiagnostic), c_void_p)
RemarkCallback = ctypes.CFUNCTYPE(None, POINTER(CRemark), c_void_p)

# Result and arguments of each function. Errors and handles are pointers.
FUNCTIONS = {
    "tandemGetApiVersion": (ctypes.c_uint32, []),
    "tandemGetVersion": (c_char_p, []),
    "tandemErrorGetCode": (c_int32, [c_void_p]),
    "tandemErrorGetMessage": (c_char_p, [c_void_p]),
    "tandemErrorDestroy": (None, [c_void_p]),
    "tandemBufferGetData": (c_void_p, [c_void_p]),
    "tandemBufferGetSize": (c_size_t, [c_void_p]),
    "tandemBufferDestroy": (None, [c_void_p]),
    "tandemContextCreate": (c_void_p, [POINTER(ContextOptions), POINTER(c_void_p)]),
    "tandemContextDestroy": (None, [c_void_p]),
    "tandemContextSetDiagnosticCallback": (
        c_void_p,
        [c_void_p, DiagnosticCallback, c_void_p],
    ),
    "tandemContextSetRemarkCallback": (
        c_void_p,
        [c_void_p, c_char_p, RemarkCallback, c_void_p],
    ),
    "tandemModuleParse": (
        c_void_p,
        [c_void_p, c_char_p, c_size_t, c_char_p, POINTER(c_void_p)],
    ),
    "tandemModuleParseFile": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "tandemModuleImportOnnxFile": (
        c_void_p,
        [c_void_p, c_char_p, POINTER(ImportOptions), POINTER(c_void_p)],
    ),
    "tandemModuleImportOnnx": (
        c_void_p,
        [
            c_void_p,
            c_char_p,
            c_size_t,
            c_char_p,
            POINTER(ImportOptions),
            POINTER(c_void_p),
        ],
    ),
    "tandemModuleClone": (c_void_p, [c_void_p, POINTER(c_void_p)]),
    "tandemModuleDestroy": (None, [c_void_p]),
    "tandemModuleVerify": (c_void_p, [c_void_p]),
    "tandemModulePrint": (
        c_void_p,
        [c_void_p, POINTER(PrintOptions), POINTER(c_void_p)],
    ),
    "tandemModuleWriteBytecode": (c_void_p, [c_void_p, POINTER(c_void_p)]),
    "tandemModuleExportOnnxFile": (
        c_void_p,
        [c_void_p, c_char_p, POINTER(ExportOptions)],
    ),
    "tandemModuleExportOnnx": (
        c_void_p,
        [c_void_p, POINTER(ExportOptions), POINTER(c_void_p)],
    ),
    "tandemModuleGetGraph": (c_void_p, [c_void_p, POINTER(c_void_p)]),
    "tandemModuleRunPipeline": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "tandemModuleFuse": (
        c_void_p,
        [c_void_p, POINTER(CFuseOptions), POINTER(c_void_p)],
    ),
}


def _share_mlir() -> None:
    """Makes an MLIR that the process has loaded already the one that we use:
    MLIR tells types apart by addresses, of which there must be one each."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split()[-1] for line in maps if "/libMLIR.so.22." in line}
    except OSError:
        return
    for path in paths:
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:  # Replaced on the disk in the meantime.
            pass


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    _share_mlir()
    loaded = _libraries.load(LIBRARY, HINT)
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    version = loaded.tandemGetApiVersion()
    if version >> 16 != API_MAJOR:
        raise ImportError(
            f"{LIBRARY} has version {version >> 16}.{version & 0xFFFF} of the C "
            f"interface; this package needs {API_MAJOR}",
            name="tandem",
        )
    return loaded
