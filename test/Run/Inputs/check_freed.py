#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a function that runs out of memory again and again.

usage: check_freed.py MODULE RUNTIME

The function `main` of memory.test takes a vector of 8 floats and a number of
rows; 32,000 bytes are allocated before those.
"""

import ctypes
import resource
import sys

CALLS = 2000


class Vector(ctypes.Structure):
    _fields_ = [
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("stride", ctypes.c_int64),
    ]


def main():
    ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    module = ctypes.CDLL(sys.argv[1])
    module.tandem_module_last_message.restype = ctypes.c_char_p
    data = [(ctypes.c_float * 8)(*range(8)) for _ in range(2)]
    x, y = (Vector(ctypes.addressof(d), ctypes.addressof(d), 0, 8, 1) for d in data)

    def call(rows):
        return module._mlir_ciface_main(
            ctypes.byref(x), ctypes.c_int64(rows), ctypes.byref(y), None
        )

    assert call(3) == 0
    call(1 << 60)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(CALLS):
        assert call(1 << 60) == 3  # TANDEM_STATUS_OUT_OF_MEMORY
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4096, f"{grown} KiB more after {CALLS} calls that failed"
    assert b"not enough memory" in module.tandem_module_last_message()
    assert call(3) == 0


if __name__ == "__main__":
    main()
