"""What the documentation shows is what the tools print."""

import shutil

import console
import pytest

PAGES = [
    page
    for page in sorted(console.ROOT.glob("docs/**/*.md"))
    + [console.ROOT / "README.md"]
    if page.is_file() and "```console" in page.read_text()
]


def test_parse_and_refresh():
    page = "a\n```console\n$ echo 1 \\\n  2\nold\n$ false\n```\n$ b\n"
    assert console.refresh(page) == (
        "a\n```console\n$ echo 1 \\\n  2\n1 2\n$ false\n```\n$ b\n"
    )


def test_here_documents():
    page = "```console\n$ cat <<'END'\n$ a\nEND\nold\n$ echo 1\n```\n"
    assert console.refresh(page) == (
        "```console\n$ cat <<'END'\n$ a\nEND\n$ a\n$ echo 1\n1\n```\n"
    )


@pytest.mark.skipif(
    shutil.which("fusion-opt") is None, reason="fusion-opt is not on the PATH"
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_current(page):
    text = page.read_text()
    assert text == console.refresh(text), (
        f"run test/python/console.py --update {page}"
    )
