#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a function that fails again and again.

usage: check_freed.py MODULE RUNTIME [no-workspace]

The function `main` of memory.test takes a vector of 8 floats and a number of
rows; 32,000 bytes are allocated before those, for which there is no memory. That
of failures.test also takes a workspace; without one its all-reduce fails, when
there are 32,000 bytes for 1000 rows.
"""

import ctypes
import resource
import sys

CALLS = 2000


def describe(data, rank):
    """A descriptor of all of `data` as one row."""
    address = ctypes.addressof(data)
    sizes = [1] * (rank - 1) + [8]
    strides = [8] * (rank - 1) + [1]
    return (ctypes.c_int64 * (3 + 2 * rank))(address, address, 0, *sizes, *strides)


def main():
    ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    module = ctypes.CDLL(sys.argv[1])
    module.tandem_module_last_message.restype = ctypes.c_char_p
    data = [(ctypes.c_float * 8)(*range(8)) for _ in range(2)]
    calls_group = len(sys.argv) > 3
    x, y = (describe(d, 2 if calls_group else 1) for d in data)
    handles = [None] * (2 if calls_group else 1)

    def call(rows):
        return module._mlir_ciface_main(
            ctypes.byref(x), ctypes.c_int64(rows), ctypes.byref(y), *handles
        )

    # What it can't do, and TANDEM_STATUS_INVALID_ARGUMENT or _OUT_OF_MEMORY.
    rows, status = (1000, 1) if calls_group else (1 << 60, 3)
    assert calls_group or call(3) == 0
    call(rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(CALLS):
        assert call(rows) == status
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4096, f"{grown} KiB more after {CALLS} calls that failed"
    if not calls_group:
        assert b"not enough memory" in module.tandem_module_last_message()
        assert call(3) == 0


if __name__ == "__main__":
    main()
