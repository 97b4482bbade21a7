# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells how two ONNX models differ, as docs/export.md counts differences.

Nodes are compared one by one in their order: name, op type, domain, overload,
inputs and outputs by name, attributes by name. Initializers, value_info,
opsets and metadata have no order. Tensors are compared by type, shape and
bytes, whichever field holds them, and external ones by their references.
Documentation, metadata and denotations are compared wherever ONNX has them.
Functions must be the same message.

usage: compare_models.py A.onnx B.onnx
"""

import sys

import onnx
from onnx import AttributeProto, TensorProto, numpy_helper


def canonical_domain(domain):
    return "" if domain == "ai.onnx" else domain


def texts(x):
    """Documentation and metadata."""
    return x.doc_string, tuple((p.key, p.value) for p in x.metadata_props)


def tensor(t, named=False):
    head = (t.data_type, tuple(t.dims), texts(t), named and t.name)
    if t.data_location == TensorProto.EXTERNAL:
        ref = {e.key: e.value for e in t.external_data}
        length = ref.pop("length", None)
        place = ref.pop("location"), int(ref.pop("offset", 0)), length and int(length)
        return head + ("external", *place, tuple(ref.items()))
    if t.data_type == TensorProto.STRING:
        return head + (tuple(t.string_data),)
    # An empty raw_data beside a typed field means "not set".
    if t.HasField("raw_data") and (t.raw_data or not any(t.dims)):
        return head + (t.raw_data,)
    count = 1
    for dim in t.dims:
        count *= dim
    if count == 0:
        return head + (b"",)
    if t.data_type in (TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2):
        bits = "".join(f"{v & 63:06b}"[::-1] for v in t.int32_data)
        bits += "0" * (-len(bits) % 8)
        return head + (bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8)),)
    if t.data_type in (
        TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1,
        TensorProto.INT2, TensorProto.UINT2,
    ):  # fmt: skip
        return head + (bytes(v & 0xFF for v in t.int32_data),)
    array = numpy_helper.to_array(t)
    return head + (array.tobytes(),)


def sparse(t):
    return tensor(t.values, True), tensor(t.indices, True), tuple(t.dims)


def denotations(t):
    """Those of a type and its dims, in the order of the type."""
    kind = t.WhichOneof("value")
    inner = getattr(t, kind) if kind else None
    if kind in ("tensor_type", "sparse_tensor_type"):
        return t.denotation, tuple(d.denotation for d in inner.shape.dim)
    if kind == "map_type":
        return t.denotation, denotations(inner.value_type)
    if kind in ("sequence_type", "optional_type"):
        return t.denotation, denotations(inner.elem_type)
    return (t.denotation,)


def is_kept(a, b):
    """Whether `b` has the denotations of `a`, of a type that may have got a shape."""
    if not isinstance(a, tuple):
        return a == b
    return len(a) <= len(b) and all(map(is_kept, a, b))


def exact_type(t):
    return type_proto(t), denotations(t)


def type_proto(t):
    kind = t.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        inner = getattr(t, kind)
        if not inner.HasField("shape"):
            return kind, inner.elem_type, None
        dims = tuple(d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in inner.shape.dim)
        return kind, inner.elem_type, dims
    if kind == "map_type":
        return kind, t.map_type.key_type, type_proto(t.map_type.value_type)
    if kind in ("sequence_type", "optional_type"):
        return kind, type_proto(getattr(t, kind).elem_type)
    if kind == "opaque_type":
        return kind, t.opaque_type.domain, t.opaque_type.name
    return None


def is_refined(a, b):
    """Whether type `b` says all that `a` says, and maybe more."""
    if a is None or a == b:
        return True
    if b is None or a[0] != b[0]:
        return False
    if a[0] in ("sequence_type", "optional_type"):
        return is_refined(a[1], b[1])
    if a[0] not in ("tensor_type", "sparse_tensor_type") or a[1] not in (0, b[1]):
        return False
    if a[2] is None:
        return True
    if b[2] is None or len(a[2]) != len(b[2]):
        return False
    return all(x is None or x == y or (isinstance(x, str) and isinstance(y, int)) for x, y in zip(a[2], b[2]))


def attribute(a, path, differences):
    value = onnx.helper.get_attribute_value(a)
    if a.type == AttributeProto.TENSOR:
        return a.type, tensor(value, True)
    if a.type == AttributeProto.TENSORS:
        return a.type, tuple(tensor(t, True) for t in value)
    if a.type == AttributeProto.SPARSE_TENSOR:
        return a.type, sparse(value)
    if a.type == AttributeProto.SPARSE_TENSORS:
        return a.type, tuple(sparse(t) for t in value)
    if a.type == AttributeProto.FLOAT:
        return a.type, onnx.helper.make_attribute("f", value).SerializeToString()
    if a.type == AttributeProto.FLOATS:
        return a.type, a.floats and onnx.helper.make_attribute("f", list(value)).SerializeToString()
    if a.type == AttributeProto.TYPE_PROTO:
        return a.type, exact_type(value)
    if a.type == AttributeProto.TYPE_PROTOS:
        return a.type, tuple(exact_type(t) for t in value)
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        value = tuple(value) if not isinstance(value, (bytes, str)) else value
    return a.type, value


def compare_infos(what, a, b, exact, notes, report):
    if list(a) != list(b) and exact:
        report(f"{what}: names or order differ: {list(a)[:5]} {list(b)[:5]}")
    for name in sorted(set(a) ^ set(b)) if not exact else []:
        report(f"{what} '{name}' is only in {'the first' if name in a else 'the second'}")
    for name in a:
        if name in b and a[name] != b[name]:
            if is_refined(a[name], b[name]):
                notes.append(f"{what} '{name}': {a[name]} became {b[name]}")
            else:
                report(f"{what} '{name}': {a[name]} became {b[name]}")


def infos(values):
    return {v.name: type_proto(v.type) for v in values}


def compare_graphs(a, b, path, report, notes, outer_names=frozenset(), ir_version=10):
    def here(text):
        report(f"{path}: {text}")

    if a.name != b.name:
        here(f"graph name '{a.name}' became '{b.name}'")
    if a.doc_string != b.doc_string:
        here("documentation of the graph differs")
    if {p.key: p.value for p in a.metadata_props} != {p.key: p.value for p in b.metadata_props}:
        here("metadata of the graph differs")
    compare_infos("input", infos(a.input), infos(b.input), True, notes, here)
    compare_infos("output", infos(a.output), infos(b.output), True, notes, here)
    first, second = ({t.name: tensor(t) for t in g.initializer} for g in (a, b))
    for name in sorted(set(first) | set(second)):
        if first.get(name) != second.get(name):
            here(f"initializer '{name}' differs: {str(first.get(name))[:200]} {str(second.get(name))[:200]}")
    sparse_a, sparse_b = ({t.values.name: sparse(t) for t in g.sparse_initializer} for g in (a, b))
    if sparse_a != sparse_b:
        here(f"sparse initializers differ: {list(sparse_a)} {list(sparse_b)}")
    for what in ("input", "output", "value_info"):
        described = [{v.name: v for v in getattr(g, what)} for g in (a, b)]
        for name in sorted(set(described[0]) & set(described[1])):
            p, q = described[0][name], described[1][name]
            if texts(p) != texts(q):
                here(f"{what} '{name}': {texts(p)} became {texts(q)}")
            if not is_kept(denotations(p.type), denotations(q.type)):
                here(f"{what} '{name}': denotations {denotations(p.type)} became {denotations(q.type)}")
    known = set(first) | set(sparse_a) | {o for n in a.node for o in n.output}
    known -= {o.name for o in a.output} | {i.name for i in a.input}
    infos_a, infos_b = ({n: t for n, t in infos(g.value_info).items() if n in known and t} for g in (a, b))
    compare_infos("value_info", infos_a, infos_b, False, notes, here)
    bare_a, bare_b = ({v.name for v in g.value_info if v.name in known and any(texts(v))} for g in (a, b))
    if bare_a != bare_b:
        here(f"value_info with documentation or metadata: {bare_a ^ bare_b} only in one")
    if list(a.quantization_annotation) != list(b.quantization_annotation):
        here("quantization annotations differ")

    if len(a.node) != len(b.node):
        here(f"{len(a.node)} nodes became {len(b.node)}")
    nodes_a = list(a.node)
    if is_unsorted(a):
        # The importer sorts; nodes are told apart by what they compute.
        place = {tuple(n.output): i for i, n in enumerate(b.node)}
        nodes_a.sort(key=lambda n: place.get(tuple(n.output), -1))
        notes.append(f"{path}: nodes were out of order")
    for index, (x, y) in enumerate(zip(nodes_a, b.node)):
        what = f"node #{index} '{x.name}' ({x.op_type})"
        for field in ("name", "op_type", "overload", "doc_string"):
            if getattr(x, field) != getattr(y, field):
                here(f"{what}: {field} became '{getattr(y, field)}'")
        if x.HasField("doc_string") != y.HasField("doc_string"):
            here(f"{what}: an empty doc_string {'is gone' if x.HasField('doc_string') else 'came up'}")
        for field in ("metadata_props", "device_configurations"):
            if list(getattr(x, field, ())) != list(getattr(y, field, ())):
                here(f"{what}: {field} became {list(getattr(y, field))}")
        if canonical_domain(x.domain) != canonical_domain(y.domain):
            here(f"{what}: domain '{x.domain}' became '{y.domain}'")
        if list(x.input) != list(y.input) or list(x.output) != list(y.output):
            here(f"{what}: {list(x.input)} -> {list(x.output)} became {list(y.input)} -> {list(y.output)}")
        attributes = [{t.name: t for t in n.attribute} for n in (x, y)]
        for name in sorted(set(attributes[0]) | set(attributes[1])):
            if name not in attributes[0] or name not in attributes[1]:
                here(f"{what}: attribute '{name}' is only in one")
                continue
            p, q = attributes[0][name], attributes[1][name]
            if p.doc_string != q.doc_string:
                here(f"{what}: documentation of attribute '{name}' differs")
            if p.type != q.type:
                here(f"{what}: attribute '{name}' of type {p.type} became one of type {q.type}")
            elif p.type == AttributeProto.GRAPH:
                compare_graphs(p.g, q.g, f"{path}/{what}.{name}", report, notes)
            elif p.type == AttributeProto.GRAPHS:
                if len(p.graphs) != len(q.graphs):
                    here(f"{what}: attribute '{name}' has another number of graphs")
                for i, (g, h) in enumerate(zip(p.graphs, q.graphs)):
                    compare_graphs(g, h, f"{path}/{what}.{name}[{i}]", report, notes)
            elif attribute(p, path, report) != attribute(q, path, report):
                here(f"{what}: attribute '{name}' differs: {str(attribute(p, path, report))[:200]} {str(attribute(q, path, report))[:200]}")


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


def compare(a, b):
    """Returns (differences, notes): notes tell of types that say more now."""
    differences, notes = [], []
    for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        if getattr(a, field) != getattr(b, field):
            differences.append(f"{field} {getattr(a, field)!r} became {getattr(b, field)!r}")
    opsets = [{canonical_domain(o.domain): o.version for o in m.opset_import} for m in (a, b)]
    if opsets[0] != opsets[1]:
        differences.append(f"opsets {opsets[0]} became {opsets[1]}")
    if {p.key: p.value for p in a.metadata_props} != {p.key: p.value for p in b.metadata_props}:
        differences.append("metadata of the model differs")
    if [f.name for f in a.functions] != [f.name for f in b.functions]:
        differences.append(f"functions {[f.name for f in a.functions]} became {[f.name for f in b.functions]}")
    for f, g in zip(a.functions, b.functions):
        if f != g:
            differences.append(f"function '{f.domain}::{f.name}' differs")
    for field in ("training_info", "configuration"):
        if list(getattr(a, field, ())) != list(getattr(b, field, ())):
            differences.append(f"{field} differs")
    compare_graphs(a.graph, b.graph, "graph", differences.append, notes)
    return differences, notes


def main():
    models = [onnx.load(path, load_external_data=False) for path in sys.argv[1:3]]
    differences, notes = compare(*models)
    for text in differences[:20]:
        print("DIFFERS", text)
    if "--notes" in sys.argv:
        for text in notes[:40]:
            print("note:", text)
    print(f"{len(differences)} differences, {len(notes)} types that say more")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
