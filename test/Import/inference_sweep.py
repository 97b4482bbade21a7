#!/usr/bin/env python3
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares inferred types with those of the onnx package's backend tests.

Each model of the backend tests declares the exact types of its outputs. They are
taken away before the import; what the importer infers must not contradict them.

usage: inference_sweep.py FUSION_TRANSLATE [--all] [--list]
(every fifth model, or all with --all or TANDEM_TEST_FULL=1; --list: ops whose output
stays unknown)
"""

import collections
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto

TYPES = {
    "FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "BOOL": "i1", "STRING": "!onnx.String",
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64", "INT4": "i4", "INT2": "i2",
    "UINT8": "ui8", "UINT16": "ui16", "UINT32": "ui32", "UINT64": "ui64", "UINT4": "ui4", "UINT2": "ui2",
    "COMPLEX64": "complex<f32>", "COMPLEX128": "complex<f64>",
    "FLOAT8E4M3FN": "f8E4M3FN", "FLOAT8E4M3FNUZ": "f8E4M3FNUZ", "FLOAT8E5M2": "f8E5M2",
    "FLOAT8E5M2FNUZ": "f8E5M2FNUZ", "FLOAT8E8M0": "f8E8M0FNU", "FLOAT4E2M1": "f4E2M1FN",
    "FLOAT6E2M3": "f6E2M3FN", "FLOAT6E3M2": "f6E3M2FN",
}  # fmt: skip


def find_models():
    spec = importlib.util.find_spec("onnx")
    package = pathlib.Path(spec.submodule_search_locations[0])
    roots = [package / "backend" / "test" / "data", pathlib.Path("/usr/share/libonnx-testdata")]
    return sorted(model for root in roots for model in root.rglob("*.onnx"))


def check(tool, path, folder):
    """Returns (what is wrong or "", ops of outputs that stay without a type)."""
    model = onnx.load(path)
    opset = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not opset or opset[0] < 7 or opset[0] > 28:
        return "", []
    declared = list(onnx.load(path).graph.output)
    producers = {name: node.op_type for node in model.graph.node for name in node.output}
    for output in model.graph.output:
        output.ClearField("type")
    del model.graph.value_info[:]
    stripped = folder / (re.sub(r"\W", "_", str(path)) + ".onnx")
    stripped.write_bytes(model.SerializeToString())
    done = subprocess.run([tool, "--import-onnx", stripped], capture_output=True, text=True, timeout=60)
    stripped.unlink()
    if done.returncode:
        return done.stderr, []
    inferred = {}
    head = re.search(r"func\.func @main.*", done.stdout)[0]
    results = head.rpartition(" -> (")[2] if " -> (" in head else ""
    for kind, name in re.findall(r'([^ (][^{]*?) \{onnx.(?:dim_params = "[^"]*", onnx.)?name = "([^"]*)"\}', results):
        inferred[name] = kind.lstrip(", (")
    unknown = []
    for output in declared:
        if not output.type.HasField("tensor_type"):
            continue
        kind = inferred.get(output.name, "none")
        tensor = output.type.tensor_type
        if kind == "none":
            unknown.append(producers.get(output.name, "?"))
            continue
        match = re.fullmatch(r"tensor<((?:\*|\?|\d+)x)?((?:(?:\?|\d+)x)*)(.*)>", kind)
        if not match:
            return f"{output.name}: {kind} is no tensor", unknown
        wanted = TYPES[TensorProto.DataType.Name(tensor.elem_type)]
        if match[3] != wanted:
            return f"{output.name}: {kind}, but the elements are {wanted}", unknown
        if match[1] == "*x":
            unknown.append(producers.get(output.name, "?"))
            continue
        dims = [dim for dim in ((match[1] or "") + match[2]).split("x") if dim]
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        if tensor.HasField("shape") and len(sizes) != len(dims):
            return f"{output.name}: {kind}, but the shape is {sizes}", unknown
        for dim, size in zip(dims, sizes):
            if dim != "?" and size is not None and int(dim) != size:
                return f"{output.name}: {kind}, but the shape is {sizes}", unknown
    return "", unknown


def main():
    models = find_models()
    if os.environ.get("TANDEM_TEST_FULL", "") in ("", "0") and "--all" not in sys.argv:
        models = models[::5]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda path: check(sys.argv[1], path, folder), models))
    unknown = collections.Counter(op for _, ops in results for op in ops)
    bad = [(path, wrong) for path, (wrong, _) in zip(models, results) if wrong]
    for path, wrong in bad:
        print(f"FAIL {path}: {wrong.strip()}")
    if "--list" in sys.argv:
        for op, count in unknown.most_common():
            print(f"  {count} without type or rank: {op}")
    print(f"{len(models)} models, {len(bad)} failed, {sum(unknown.values())} outputs without type or rank")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
