"""What holds for every file of the repository."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
OURS = (".cpp", ".h", ".td", ".def", ".cu", ".cuh", ".c", ".cmake")


def files():
    """All files of ours: what git tracks, without third parties' files."""
    try:
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z"],
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    for name in listed.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and not name.startswith("third_party/"):
            yield path


def test_sources_carry_the_licence():
    missing = [
        str(path.relative_to(ROOT))
        for path in files()
        if path.suffix in OURS or path.name == "dev"
        if path.stat().st_size > 600 and SPDX not in path.read_text()[:900]
    ]
    assert not missing


def test_headers_guard_by_their_path():
    """TANDEM_<PATH>_H: two headers with one guard would hide one another."""
    guards = {}
    for path in files():
        if path.suffix != ".h" or "#ifndef" not in path.read_text():
            continue
        guard = path.read_text().split("#ifndef", 1)[1].split()[0]
        assert guard not in guards, f"{path} and {guards[guard]}: {guard}"
        guards[guard] = path


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_dev_explains_itself(arguments):
    done = subprocess.run(
        [ROOT / "dev", *arguments], capture_output=True, text=True, check=True
    )
    for verb in ("demo", "test", "build", "format", "bench", "docs", "clean"):
        assert f"\n  {verb} " in done.stdout


def test_dev_refuses_an_unknown_verb():
    done = subprocess.run(
        [ROOT / "dev", "dance"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "there is no verb 'dance'" in done.stderr


def test_links_between_pages_lead_somewhere():
    broken = []
    for path in files():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert not broken


def test_scripts_parse():
    for script in ("dev", ".ci/run"):
        subprocess.run(["bash", "-n", ROOT / script], check=True)
