# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells how two ONNX models differ, as docs/export.md counts differences.

Everything counts: each field, whether it is set, and the order of lists. But for
three things: a tensor's bytes may be in another field, a tensor without a name may
have an empty one, and nodes that are out of order may be sorted. Functions must be the same in all.

usage: compare_models.py A.onnx B.onnx
"""

import sys

import onnx
from onnx import TensorProto, numpy_helper

TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
FLOATS_OF_SIX_BITS = (TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2)
PACKED = (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1, TensorProto.INT2, TensorProto.UINT2)


def is_list(field):
    # Older protobufs have only `label`.
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def to_bytes(t):
    """What raw_data would hold of a tensor that is neither external nor of strings."""
    # An empty raw_data beside a typed field means "not set".
    if t.raw_data or not all(t.dims):
        return t.raw_data
    if t.data_type in FLOATS_OF_SIX_BITS:
        bits = "".join(f"{v & 63:06b}"[::-1] for v in t.int32_data)
        bits += "0" * (-len(bits) % 8)
        return bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
    if t.data_type in PACKED:
        return bytes(v & 0xFF for v in t.int32_data)
    return numpy_helper.to_array(t).tobytes()


def reads(node):
    """The names that a node reads, those in its bodies among them."""
    yield from node.input
    for a in node.attribute:
        for graph in (a.g, *a.graphs):
            yield from (o.name for o in graph.output)
            for inner in graph.node:
                yield from reads(inner)


def is_unsorted(graph):
    defined_at = {o: i for i, n in enumerate(graph.node) for o in n.output if o}
    return any(defined_at.get(name, -1) >= i for i, n in enumerate(graph.node) for name in reads(n))


def normalize(message, was=None):
    """Makes `message` what all that count as equal are. `was` is the message in the first model."""
    kind = message.DESCRIPTOR.name
    if kind == "FunctionProto":
        return
    if kind == "TensorProto" and message.data_location != TensorProto.EXTERNAL:
        if message.data_type not in (TensorProto.STRING, TensorProto.UNDEFINED):
            message.raw_data = to_bytes(message)
            for field in TYPED_FIELDS:
                message.ClearField(field)
    if kind == "GraphProto" and was is not None and is_unsorted(was):
        # Nodes are told apart by what they compute.
        place = {tuple(n.output): i for i, n in enumerate(was.node)}
        nodes = sorted(message.node, key=lambda n: place.get(tuple(n.output), -1))
        del message.node[:]
        message.node.extend(nodes)
    if kind == "TensorProto" and not message.name:
        message.ClearField("name")
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        if not is_list(field):
            normalize(value, was and getattr(was, field.name))
            continue
        others = getattr(was, field.name) if was is not None else ()
        is_same_length = len(others) == len(value)
        for i, entry in enumerate(value):
            normalize(entry, others[i] if is_same_length else None)


def differ(a, b, path, report):
    """Reports where two messages of one kind differ."""
    for field in a.DESCRIPTOR.fields:
        here = f"{path}.{field.name}"
        x, y = getattr(a, field.name), getattr(b, field.name)
        if not is_list(field):
            if a.HasField(field.name) != b.HasField(field.name):
                report(f"{here} is only in the {'first' if a.HasField(field.name) else 'second'}: {str(x or y)[:200]!r}")
            elif field.type == field.TYPE_MESSAGE:
                if a.HasField(field.name):
                    differ(x, y, here, report)
            # (NaN is not equal to itself.)
            elif x != y and not (x != x and y != y):
                report(f"{here}: {str(x)[:200]!r} became {str(y)[:200]!r}")
        elif len(x) != len(y):
            names = [[str(getattr(e, "name", "")) or str(e)[:60] for e in z] for z in (x, y)]
            report(f"{here}: {len(x)} became {len(y)}; {[n for n in names[0] if n not in names[1]][:5]} {[n for n in names[1] if n not in names[0]][:5]}")
        elif field.type == field.TYPE_MESSAGE:
            for i, (p, q) in enumerate(zip(x, y)):
                differ(p, q, f"{here}[{getattr(p, 'name', '') or i}]", report)
        elif [repr(v) for v in x] != [repr(v) for v in y]:
            report(f"{here}: {list(x)[:10]} became {list(y)[:10]}")


def compare(a, b):
    """Returns the differences, a line each."""
    # (Of sorted nodes both must be in the same order: that of the first model.)
    copies = [onnx.ModelProto.FromString(m.SerializeToString()) for m in (a, b)]
    order = onnx.ModelProto.FromString(a.SerializeToString())
    for copy in copies:
        normalize(copy, order)
    differences = []
    if copies[0].SerializeToString(deterministic=True) != copies[1].SerializeToString(deterministic=True):
        differ(*copies, "model", differences.append)
        if not differences:
            differences.append("the models differ, but not where they are told apart")
    return differences


def main():
    paths = sys.argv[1:3]
    differences = compare(*(onnx.load(path, load_external_data=False) for path in paths))
    for text in differences[:20]:
        print("DIFFERS", text)
    if not differences:
        contents = [open(path, "rb").read() for path in paths]
        print(f"the files are {'the same' if contents[0] == contents[1] else 'not the same'}")
    print(f"{len(differences)} differences")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
