# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules, passes, errors and callbacks."""

import gc
import json
import subprocess
import threading

import pytest
import tandem
from conftest import BUILD, MODELS

MODEL = MODELS / "tp2_glm4_moe_f32.rank0.onnx"

CHAIN = """
func.func @f(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %s = tandem.all_reduce %x : tensor<?x8xf32>
  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  return %y : tensor<?x8xf32>
}
"""
LONELY = """
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = tandem.all_reduce %x : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
"""


def test_fuse_is_the_tool(tmp_path):
    """The same as fusion-opt writes and reports."""
    options = "max-tokens=64 world-size=2 guard=function batch-invariant"
    subprocess.run(
        [BUILD / "bin/fusion-opt", MODEL, "-o", tmp_path / "tool.mlir"]
        + [f"--tandem-fuse-pipeline={options} report={tmp_path / 'tool.json'}"],
        check=True,
        capture_output=True,
    )
    module, report = tandem.fuse(
        MODEL, max_tokens=64, world_size=2, guard="function", batch_invariant=True
    )
    assert module.text() == (tmp_path / "tool.mlir").read_text()
    assert report.to_json() == tandem.Report.load(tmp_path / "tool.json").to_json()
    assert json.loads(report.to_json()) == json.loads(
        (tmp_path / "tool.json").read_text()
    )


def test_graph():
    """Who reads which result, and what the fused op is told."""
    module = tandem.Module.parse(
        """
        func.func @f(%x: tensor<?x8xf32>, %q: tensor<?x8xf32>, %g: tensor<8xf32>)
            -> (tensor<?x8xf32>, tensor<?x8xf32>) {
          %s = tandem.all_reduce %x {group = #tandem.group<"t\\22p">} : tensor<?x8xf32>
          %a = tandem.add %s, %q : tensor<?x8xf32>
          %y = tandem.rms_norm %a, %g {epsilon = 1.0e-5 : f64, rounding = #tandem<rounding after_gamma>}
              : tensor<?x8xf32>, tensor<8xf32>
          return %a, %y : tensor<?x8xf32>, tensor<?x8xf32>
        }"""
    )
    module.fuse(guard="none")
    ops = module.graph()["ops"]
    (fused,) = [op for op in ops if op["op"] == "tandem.fused_all_reduce_norm"]
    assert (fused["inputs"][:3], fused["input_results"][:3]) == ([-1, -2, -3], [0, 1, 2])
    attributes = fused["attributes"]
    assert attributes["group"] == '#tandem.group<"t\\22p">'
    assert attributes["epsilon"] == "1.000000e-05 : f64"
    assert "after_gamma" in attributes["rounding"]
    assert attributes["operandSegmentSizes"] == "array<i32: 1, 1, 0, 0, 1, 0, 0, 2>"
    assert "returns_residual" in attributes and "returns_sum" not in attributes
    assert (ops[-1]["inputs"], ops[-1]["input_results"]) == ([fused["id"]] * 2, [1, 0])
    assert "attributes" not in ops[-1]


def test_report_objects():
    _, report = tandem.fuse(MODEL)
    assert (report.all_reduces, report.fused, report.missed) == (4, 4, 0)
    assert str(report) == "fused 4 of 4 all-reduces (0 missed)"
    site = report.sites[0]
    assert site.fused and site.pattern == "all_reduce_add_rms_norm"
    assert (site.hidden, site.dtype, site.world_size) == (64, "f32", None)
    assert site.guard == "tokens <= token_limit"


def test_ways_to_read(tmp_path):
    want = tandem.Module.load(MODEL).text()
    context = tandem.Context()
    assert tandem.Module.from_onnx(MODEL.read_bytes(), context=context).text() == want
    module = tandem.Module.from_onnx(MODEL)
    module.save(tmp_path / "m.mlir")
    module.save(tmp_path / "m.mlirbc")
    assert tandem.Module.load(tmp_path / "m.mlir").text() == want
    assert tandem.Module.load(tmp_path / "m.mlirbc").text() == want
    assert tandem.Module.parse(module.bytecode()).text() == want
    assert tandem.fuse(tmp_path / "m.mlirbc")[1].fused == 4
    assert tandem.fuse(MODEL.read_bytes())[1].fused == 4


def test_bytecode_reads_back_wherever_it_lies():
    """Resources are aligned relative to the buffer, whose place is up to malloc."""
    bytecode = tandem.Module.from_onnx(MODEL).bytecode()
    context = tandem.Context()
    kept = []
    for size in range(40):
        tandem.Module.parse(bytecode, context=context)
        kept.append(bytes(100 + size))


def test_fuse_leaves_a_given_module_alone():
    module = tandem.Module.parse(CHAIN)
    before = str(module)
    fused, report = tandem.fuse(module)
    assert report.fused == 1
    assert str(module) == before != str(fused)
    assert module.fuse(max_tokens=3).sites[0].guard == "tokens <= 3"
    assert "scf.if" in str(module)


def test_run():
    module = tandem.Module.parse(CHAIN)
    assert module.run("builtin.module(canonicalize,cse)") is None
    report = module.run("builtin.module(tandem-fuse-pipeline{max-tokens=7},cse)")
    assert report.sites[0].guard == "tokens <= 7"
    module.verify()


def test_text_options():
    module = tandem.Module.load(MODEL)
    text = module.text(locations=True, generic=True, elide_larger_than=4)
    assert '"func.func"' in text and "loc(" in text and "__elided__" in text


def expect(code, pattern):
    return pytest.raises(tandem.Error, match=pattern, check=lambda e: e.code == code)


def test_export(tmp_path):
    """What is exported is what the tool exports, and reads back as the same."""
    subprocess.run(
        [BUILD / "bin/fusion-opt", MODEL, "-o", tmp_path / "tool.onnx"],
        check=True,
        capture_output=True,
    )
    module, _ = tandem.fuse(MODEL)
    assert module.export_onnx(tmp_path / "ours.onnx") is None
    bytes_ = (tmp_path / "ours.onnx").read_bytes()
    assert bytes_ == (tmp_path / "tool.onnx").read_bytes()
    assert module.export_onnx() == bytes_
    module.save(tmp_path / "saved.onnx")
    assert (tmp_path / "saved.onnx").read_bytes() == bytes_
    assert tandem.fuse(tandem.Module.load(MODEL).export_onnx())[1].fused == 4
    assert module.export_onnx(guard="op") != bytes_


def test_export_errors(tmp_path):
    module, _ = tandem.fuse(MODEL)
    with expect(tandem.ErrorCode.IO, r"a\.onnx: error: cannot be written: "):
        module.export_onnx(tmp_path / "none/a.onnx")
    with pytest.raises(ValueError, match="weights is 'burn'"):
        module.export_onnx(weights="burn")
    with pytest.raises(ValueError, match="guard is 'none'"):
        module.export_onnx(guard="none")
    with expect(tandem.ErrorCode.INVALID_ARGUMENT, "in memory"):
        module.export_onnx(weights="copy")
    path = tmp_path / "f.onnx"
    path.write_text("before")
    source = "func.func @main(%x: i7) -> i7 { return %x : i7 }"
    with expect(tandem.ErrorCode.EXPORT, "error: "):
        tandem.Module.parse(source).export_onnx(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_errors(tmp_path):
    code = tandem.ErrorCode
    with expect(code.IO, r"none\.onnx: error: cannot be read: No such file"):
        tandem.fuse(tmp_path / "none.onnx")
    with expect(code.IO, r"none\.mlir: error: cannot be read: No such file"):
        tandem.fuse(tmp_path / "none.mlir")
    with expect(code.PARSE, r"a\.mlir:1:1: error: "):
        tandem.Module.parse("nonsense", name="a.mlir")
    norm = """func.func @norm(%x: tensor<4x8xf32>, %g: {0}) -> tensor<4x8xf32> {{
      %y = tandem.rms_norm %x, %g {{epsilon = 1.0e-5 : f64}} : tensor<4x8xf32>, {0}
      return %y : tensor<4x8xf32>
    }}"""
    with expect(code.PARSE, "gamma has length 4, but the last dimension is 8"):
        tandem.Module.parse(norm.format("tensor<4xf32>"))
    with expect(code.PARSE, "must be rank-1 tensor of floating-point values"):
        tandem.Module.parse(norm.format("tensor<8xi8>"))
    with expect(code.IMPORT, "memory: error: "):
        tandem.Module.from_onnx(b"\x08\x08\xff")
    module = tandem.Module.parse(LONELY, name="lonely.mlir")
    with expect(code.PIPELINE, "no-such-pass"):
        module.run("builtin.module(no-such-pass)")
    with expect(code.PASS, "max-tokens"):
        module.fuse(max_tokens=0)
    with expect(code.PASS, r"lonely\.mlir:3:"):
        module.fuse(require_all=True)
    try:
        module.fuse(require_all=True)
    except tandem.Error as error:
        assert error.report.sites[0].reason == "NoNormConsumer"


def test_wrong_types():
    module = tandem.Module.parse(CHAIN)
    with pytest.raises(TypeError):
        tandem.Module.parse(7)
    with pytest.raises(TypeError):
        tandem.Module.from_onnx(7)
    with pytest.raises(TypeError):
        module.fuse(no_such_option=1)
    with pytest.raises(TypeError):
        module.fuse(tandem.FuseOptions(), max_tokens=3)
    with pytest.raises(TypeError):
        module.fuse(max_tokens="many")
    with pytest.raises(ValueError, match="max_tokens is 18446744073709551619"):
        module.fuse(max_tokens=2**64 + 3)
    with pytest.raises(ValueError, match="pipeline holds a NUL"):
        module.run("builtin.module(cse)\0")
    with pytest.raises(ValueError, match="the path holds a NUL"):
        tandem.Module.load("a\0.mlir")
    with pytest.raises(ValueError, match="guard is 'sometimes'"):
        module.fuse(guard="sometimes")
    with pytest.raises(ValueError, match=r"saved as \.mlir, \.mlirbc or \.onnx"):
        module.save("module.txt")
    with pytest.raises(ValueError, match="change its context"):
        tandem.fuse(module, context=tandem.Context())
    with pytest.raises(ValueError, match="not a report"):
        tandem.Report.from_json("[]")
    with pytest.raises(ValueError, match="version 9"):
        tandem.Report.from_json('{"version": 9}')


def test_callbacks():
    remarks, diagnostics = [], []
    context = tandem.Context(
        on_remark=remarks.append, on_diagnostic=diagnostics.append
    )
    tandem.Module.parse(CHAIN, context=context).fuse()
    tandem.Module.parse(LONELY, context=context).fuse()
    assert [(r.kind, r.name) for r in remarks] == [
        ("passed", "Fused"),
        ("missed", "NoNormConsumer"),
    ]
    assert remarks[0].arguments["pattern"] == "all_reduce_rms_norm"
    with pytest.raises(tandem.Error):
        tandem.Module.parse("nonsense", name="a.mlir", context=context)
    assert [(d.severity, d.file, d.line) for d in diagnostics] == [
        ("error", "a.mlir", 1)
    ]


def test_warnings():
    with pytest.warns(tandem.TandemWarning, match="node_clone") as caught:
        tandem.fuse(MODELS / "glm45_air_tp2_graph.onnx")
        tandem.Module.load(MODELS / "glm45_air_tp2_graph.onnx")
    # They point at whoever called the package, however deep in it they come from.
    assert {warning.filename for warning in caught} == {__file__}
    assert caught[1].lineno == caught[0].lineno + 1


def test_exceptions_of_callbacks_arrive():
    def fail(_):
        raise KeyError("mine")

    context = tandem.Context(on_remark=fail)
    module = tandem.Module.parse(CHAIN, context=context)
    with pytest.raises(KeyError, match="mine"):
        module.fuse()
    with pytest.raises(tandem.Error):  # And only once.
        tandem.Module.parse("nonsense", context=context)


def test_a_callback_must_not_use_its_context():
    errors = []

    def use(_):
        try:
            str(module)
        except tandem.Error as error:
            errors.append(error.code)

    module = tandem.Module.parse(CHAIN, context=tandem.Context(on_remark=use))
    module.fuse()
    assert errors == [tandem.ErrorCode.BUSY]


def test_a_module_keeps_its_context():
    module = tandem.Module.parse(CHAIN, context=tandem.Context())
    gc.collect()
    assert module.fuse().fused == 1


def test_threads():
    context = tandem.Context(on_remark=lambda _: None)
    failures = []

    def work():
        try:
            for _ in range(10):
                assert tandem.Module.parse(CHAIN, context=context).fuse().fused == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
