# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tandem bench`, on CPUs."""

import json
import os

import pytest
from conftest import BUILD
from tandem import _flashinfer, _plot, cli

CPU = ["bench", "--device=cpu", "--ranks=2", "--tokens=1,8", "--samples=3"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    arguments = [*CPU, "--hidden=64,128", "--dtype=f32,bf16"]
    for name in ("json", "tune", "plot"):
        arguments += [f"--{name}", str(folder / name)]
    assert cli.main(arguments) == 0
    return folder


def test_writes_figures_profile_and_plot(measured, capfd):
    bench = json.loads((measured / "json").read_text())
    # Two hidden sizes, types and token counts, five subjects.
    assert bench["world_size"] == 2 and len(bench["results"]) == 40
    # So many for small operands on a CPU.
    assert {r["calls"] for r in bench["results"]} == {40}
    profile = json.loads((measured / "tune").read_text())
    assert [(e["hidden"], e["dtype"]) for e in profile["limits"]] == [
        (64, "f32"), (64, "bf16"), (128, "f32"), (128, "bf16")
    ]  # fmt: skip
    svg = (measured / "plot").read_text()
    # All but the link, which a CPU has not; the first of each list.
    assert svg.count("<polyline") == 4 and "hidden 64, f32, timing: chain" in svg
    # Drawn again, with another choice, from the figures.
    again = measured / "again.svg"
    plot = ["bench", "--from", str(measured / "json"), "--plot", str(again)]
    assert cli.main([*plot, "--hidden=128", "--dtype=bf16"]) == 0
    assert "hidden 128, bf16" in again.read_text()
    assert capfd.readouterr() == ("", "")


def test_shows_the_table(capfd):
    assert cli.main([*CPU, "--hidden=8", "--dtype=f32"]) == 0
    output = capfd.readouterr()
    assert "hidden 8, f32, timing: chain" in output.out and "fallback" in output.out
    assert output.err == ""


def test_the_profile_serves(measured):
    from conftest import MODELS

    page = measured / "page.html"
    model = str(MODELS / "tp2_glm4_moe_f32.rank0.onnx")
    profile = str(measured / "tune")
    status = cli.main(["report", model, f"--limits={profile}", "-o", str(page)])
    assert status == 0 and "world_size=2 hidden=64 dtype=f32" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device=cpu", "--ranks=99"], "fusion-bench: '--ranks=99': ranks are a number"),
        (["--device=cpu", "--tokens=8,1"], "token counts must ascend"),
        (["--from=none.json", "--plot=x.svg"], "No such file or directory: 'none.json'"),
        (["--from=none.json"], "--from draws, but there is no --plot"),
        (["--from=a", "--plot=b", "--tune=c"], "--from measures nothing that --tune"),
    ],
)
def test_errors(arguments, message, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", *arguments]) == 1
    output = capfd.readouterr()
    assert message in output.err and output.err.count("\n") == 1
    assert output.out == "" and os.listdir(tmp_path) == []


def test_files_that_are_not_its_own(tmp_path):
    path = tmp_path / "x.json"
    for text in ("[]", "{", '{"results": []}', '{"results": [{"timing": "chain"}]}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="x.json: "):
            _plot.draw_file(path, {})
    with pytest.raises(ValueError, match="nothing was measured"):
        _plot.draw([], "")


def test_no_gpu(capfd, monkeypatch):
    """The reason, where there is none; on a machine with GPUs they are hidden."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cli.main(["bench", "--samples=1", "--tokens=1"]) == 1
    error = capfd.readouterr().err
    assert error.startswith("fusion-bench: ") and error.count("\n") == 1


def test_no_tool(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("TANDEM_LIBRARY_PATH", str(tmp_path / "lib"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["bench"]) == 1
    error = capfd.readouterr().err
    assert "there is no fusion-bench in " in error and str(tmp_path / "bin") in error
    # On the PATH it is found.
    monkeypatch.setenv("PATH", str(BUILD / "bin"))
    assert cli.main(["bench", "--device=cpu", "--ranks=0"]) == 1
    assert "ranks are a number" in capfd.readouterr().err


def test_flashinfer_is_left_out_where_it_is_not(measured, tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    path.write_text((measured / "json").read_text())
    said = _flashinfer.add_to(str(path))
    assert said == "FlashInfer was not measured: these figures are a CPU's"
    bench = json.loads(path.read_text())
    assert bench["flashinfer"] == "not measured: these figures are a CPU's"
    assert len(bench["results"]) == 40
    bench["device"] = "NVIDIA H200"
    monkeypatch.setattr(_flashinfer.importlib.util, "find_spec", lambda name: None)
    assert not _flashinfer.is_importable()
    assert _flashinfer.why_not(bench) == "flashinfer is not importable"
    monkeypatch.setattr(_flashinfer.importlib.util, "find_spec", lambda name: name)
    bench["world_size"] = 3
    assert _flashinfer.why_not(bench) == "FlashInfer has no kernel for 3 ranks"

    def fails(bench):
        raise RuntimeError("a trace\nno such kernel")

    monkeypatch.setattr(_flashinfer, "why_not", lambda bench: "")
    monkeypatch.setattr(_flashinfer, "measure", fails)
    said = _flashinfer.add_to(str(path))
    assert said == "FlashInfer was not measured: it failed: no such kernel"
    monkeypatch.undo()
    monkeypatch.setattr(_flashinfer.importlib.util, "find_spec", lambda name: name)
    del bench["results"][0]["calls"]
    assert "how many calls a sample had" in _flashinfer.why_not(bench)
    bench["pattern"] = "sandwich"
    assert "pattern sandwich is not measured" in _flashinfer.why_not(bench)


def test_flashinfer_beside_the_fused_op(measured):
    bench = json.loads((measured / "json").read_text())
    # f32 is not among its types.
    cases = _flashinfer.cases_of(bench)
    assert cases == [(h, "bf16", t, "chain", 40) for h in (64, 128) for t in (1, 8)]
    # The slowest rank of each sample counts.
    assert _flashinfer.summary([[1, 5, 2], [3, 2, 2]]) == (3, 2, 5)
    for result in bench["results"]:
        result["median"] = 2.0
    bench["results"].append({
        "subject": "flashinfer", "timing": "chain", "hidden": 64, "dtype": "bf16",
        "tokens": 8, "median": 3.0,
    })  # fmt: skip
    heading, line = _flashinfer.table(bench)
    assert heading.split()[-1] == "gain"
    assert line.split() == ["64", "bf16", "chain", "8", "2.00", "3.00", "1.50"]
