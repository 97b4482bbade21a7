# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table, the page and the command line."""

import html.parser
import json
import re
import subprocess
import sys

import pytest
import tandem
from conftest import MODELS, ROOT
from tandem import cli

MODEL = MODELS / "tp2_glm4_moe_f32.rank0.onnx"
REASONS = ROOT / "test/Fuse/reasons.mlir"


@pytest.fixture(scope="module")
def reasons():
    context = tandem.Context(allow_unregistered_dialects=True)
    module = tandem.Module.load(REASONS, context=context)
    return tandem.fuse(module, graph=True)[1]


class Page(html.parser.HTMLParser):
    """Checks that what is opened is closed, and nothing is loaded."""

    EMPTY = {"meta", "path", "rect", "line"}

    def __init__(self, text):
        super().__init__()
        self.open, self.count = [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        assert not {"src", "href", "onload"} & {name for name, _ in attributes}
        assert tag not in ("script", "link", "img", "iframe")
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.open or tag not in ("meta",):
            assert self.open.pop() == tag


def test_table(reasons):
    lines = reasons.table().splitlines()
    assert lines[0].split() == "function place pattern or reason guard type".split()
    assert len([line for line in lines if line.startswith("fused ")]) == reasons.fused + 1
    assert len([line for line in lines if line.startswith("MISSED ")]) == reasons.missed
    assert lines[-1] == str(reasons)
    # What to do, for each reason once.
    for reason, sites in reasons.misses().items():
        assert any(line.startswith(f"{reason} ({len(sites)}): ") for line in lines)
    assert max(map(len, reasons.table(width=60).splitlines())) <= 60


def test_page(reasons):
    text = reasons.html(profile=ROOT / "test/Fuse/Inputs/limits.json")
    page = Page(text)
    assert page.count["details"] == len(reasons.sites)
    # The graph around each site, the arrow's definition, and the plot.
    assert page.count["svg"] == len(reasons.sites) + 2
    for reason in reasons.misses():
        assert reason in text
    assert "class=\"bar\"" in text


def test_page_without_graph():
    report = tandem.Report.from_json(tandem.fuse(MODEL)[1].to_json())
    assert Page(report.html()).count["svg"] == 1


def test_page_escapes():
    site = tandem.Site("<f>", '"<b>" at m.onnx:1:1', "missed", "g", "f32", reason="<r>")
    text = tandem.Report("<m>", (site,)).html()
    Page(text)
    assert not re.search("<(m|f|b|r)>", text)


def test_graph_around_a_site():
    text = tandem.fuse(MODEL, graph=True)[1].html()
    pictures = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 4
    for picture in pictures:
        assert picture.count('class="collective"') == 1
        assert "com.microsoft::AllReduce" in picture and ">Add<" in picture


@pytest.mark.parametrize(
    "text, what",
    [
        ("[]", "is not a JSON object"),
        ("{", "Expecting property name"),
        ('{"version": 2, "limits": []}', "has version 2, this program reads version 1"),
        ('{"version": 1}', "has no array 'limits'"),
        ('{"version": 1, "limits": [{"max_tokens": 1.5}]}', r"limits\[0\]: 'max_tokens'"),
        ('{"version": 1, "limits": [{"max_tokens": -2}]}', r"limits\[0\]: 'max_tokens'"),
        ('{"version": 1, "limits": [{"dtype": "fp32", "max_tokens": 3}]}', "'dtype' is not"),
        ('{"version": 1, "limits": [{"hidden": true, "max_tokens": 3}]}', "'hidden' is not"),
        ('{"version": 1, "limits": [3]}', "is not an object"),
        ('{"version": 1, "limits": [{"max_tokens": 1e30}]}', r"limits\[0\]: 'max_tokens'"),
    ],
)
def test_bad_profile(tmp_path, text, what):
    """The page takes what the pass takes, and refuses the rest alike."""
    profile = tmp_path / "p.json"
    profile.write_text(text)
    report = tandem.fuse(MODEL)[1]
    with pytest.raises(ValueError, match=rf"limits file '.*p\.json': .*{what}"):
        report.html(profile=profile)
    if "Expecting" not in what:
        with pytest.raises(tandem.Error, match=what):
            tandem.fuse(MODEL, limits=profile)


def test_profile_of_whole_floats(tmp_path):
    """As other languages write integers; the pass takes them."""
    profile = tmp_path / "p.json"
    profile.write_text('{"version": 1.0, "limits": [{"hidden": 4096.0, "max_tokens": 5e2}]}')
    page = tandem.fuse(MODEL, limits=profile)[1].html(profile=profile)
    assert "hidden=4096<" in page and "500" in page


def test_json_round_trip(reasons):
    again = tandem.Report.from_json(reasons.to_json())
    assert again == reasons
    values = json.loads(reasons.to_json())
    values["sites"][0]["later"] = 1
    later = tandem.Report.from_json(json.dumps(values))
    assert later.sites[0].extra == {"later": 1}
    assert json.loads(later.to_json()) == values


def test_commands(capsys, tmp_path):
    report, page = tmp_path / "r.json", tmp_path / "r.html"
    out = tmp_path / "m.mlirbc"
    assert (
        cli.main(
            ["fuse", str(MODEL), "-o", str(out), "--report", str(report)]
            + ["--html", str(page), "--table", "--max-tokens", "9"]
        )
        == 0
    )
    got = capsys.readouterr()
    assert got.err == "fused 4 of 4 all-reduces (0 missed)\n"
    assert got.out.count("tokens <= 9") == 4
    Page(page.read_text())
    assert tandem.Module.load(out).text().count("fused_all_reduce_norm ") == 4
    assert cli.main(["report", str(report)]) == 0
    assert capsys.readouterr().out == got.out
    assert cli.main(["report", str(report), "-o", str(page)]) == 0
    Page(page.read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fuse", "none.onnx"], "none.onnx: error: cannot be read: No such file"),
        (["report", "none.json"], "tandem: error: "),
        (["fuse", str(MODEL), "-o", "a.txt"], "tandem: error: a.txt: a module is saved"),
        (["fuse", str(MODEL), "--max-tokens", "0"], "max-tokens"),
        (["fuse", str(MODEL), "-o", "/no/such/folder/a.mlir"], "tandem: error: "),
    ],
)
def test_command_errors(arguments, message, capsys):
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_require_all_still_reports(tmp_path, capsys):
    source, report = tmp_path / "m.mlir", tmp_path / "r.json"
    source.write_text(
        "func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
        "  %s = tandem.all_reduce %x : tensor<4x8xf32>\n"
        "  return %s : tensor<4x8xf32>\n}\n"
    )
    arguments = ["fuse", str(source), "--require-all", "--report", str(report)]
    assert cli.main(arguments) == 1
    assert tandem.Report.load(report).missed == 1


def test_module_as_program():
    done = subprocess.run(
        [sys.executable, "-m", "tandem", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"tandem {tandem.__version__}\n"
