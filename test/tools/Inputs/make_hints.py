# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models of one node, as protobuf bytes: MAKE_HINTS FOLDER.

missed.onnx: an all-reduce that no norm follows; none.onnx: no all-reduce;
unknown.onnx: an all-reduce of a domain that nobody knows; names.onnx: a node whose
name has a newline, with a fault.
"""

import pathlib
import sys


def field(number: int, data: bytes | str | int) -> bytes:
    if isinstance(data, int):
        return bytes([number << 3, data])
    data = data.encode() if isinstance(data, str) else data
    return bytes([number << 3 | 2, len(data)]) + data


def value_info(name: str) -> bytes:
    dims = field(1, field(1, 2)) + field(1, field(1, 8))
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def model(op_type: str, domain: str, name: str = "reduce", reads: str = "x") -> bytes:
    node = field(1, reads) + field(2, "y") + field(3, name) + field(4, op_type)
    if domain:
        node += field(7, domain)
    graph = field(1, node) + field(2, "g")
    graph += field(11, value_info("x")) + field(12, value_info("y"))
    opsets = field(8, field(1, "") + field(2, 20))
    if domain:
        opsets += field(8, field(1, domain) + field(2, 1))
    return field(1, 9) + field(7, graph) + opsets


folder = pathlib.Path(sys.argv[1])
(folder / "missed.onnx").write_bytes(model("AllReduce", "com.microsoft"))
(folder / "none.onnx").write_bytes(model("Relu", ""))
(folder / "unknown.onnx").write_bytes(model("AllReduce", "my.ops"))
(folder / "names.onnx").write_bytes(model("Relu", "", "two\nlines\x1b", "nobody"))
