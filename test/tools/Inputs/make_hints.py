# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models of one node, as protobuf bytes: MAKE_HINTS FOLDER.

missed.onnx: an all-reduce that no norm follows; none.onnx: no all-reduce;
unknown.onnx: an all-reduce of a domain that nobody knows; names.onnx: a node whose
name has a newline, with a fault; blocker.onnx: an all-reduce before such a node.
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


def node(op_type: str, domain: str, name: str, reads: str, writes: str) -> bytes:
    data = field(1, reads) + field(2, writes) + field(3, name) + field(4, op_type)
    return data + field(7, domain) if domain else data


def wrap(nodes: list[bytes], domain: str) -> bytes:
    graph = b"".join(field(1, node) for node in nodes) + field(2, "g")
    graph += field(11, value_info("x")) + field(12, value_info("y"))
    opsets = field(8, field(1, "") + field(2, 20))
    if domain:
        opsets += field(8, field(1, domain) + field(2, 1))
    return field(1, 9) + field(7, graph) + opsets


def model(op_type: str, domain: str, name: str = "reduce", reads: str = "x") -> bytes:
    return wrap([node(op_type, domain, name, reads, "y")], domain)


folder = pathlib.Path(sys.argv[1])
(folder / "missed.onnx").write_bytes(model("AllReduce", "com.microsoft"))
(folder / "none.onnx").write_bytes(model("Relu", ""))
(folder / "unknown.onnx").write_bytes(model("AllReduce", "my.ops"))
(folder / "names.onnx").write_bytes(model("Relu", "", "two\nlines\x1b", "nobody"))
blocked = node("AllReduce", "com.microsoft", "reduce", "x", "s")
blocker = node("Relu", "", "two\nlines\x1b\u009b", "s", "y")
(folder / "blocker.onnx").write_bytes(wrap([blocked, blocker], "com.microsoft"))
