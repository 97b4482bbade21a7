"""Each command that the pages for users give is run as it stands, here or by who is
named below, but those of BY_HAND, which no test runs. (Those in ```console blocks, with
what they print: test_console.py.)"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import console
import pytest

PAGES = ["README.md", "docs/tutorial.md", "docs/run.md", "docs/onnxruntime.md"]
PAGES += ["docs/end-to-end.md"] + sorted(
    str(path.relative_to(console.ROOT))
    for path in (console.ROOT / "docs/embedding").glob("*.md")
)

MODEL = "tp2_glm4_f32.rank"
# Blocks that are run below in a folder that looks like the repository's, and the files
# that they ask for: {name: file in test/models}.
HERE = {
    ("README.md", 1): {"model.onnx": f"{MODEL}0.onnx"},
    ("docs/run.md", 0): {},
    ("docs/run.md", 1): {},
    ("docs/onnxruntime.md", 1): {
        **{f"model.rank{rank}.onnx": f"{MODEL}{rank}.onnx" for rank in range(2)},
        **{f"feeds.rank{rank}.npz": f"{MODEL}{rank}.npz" for rank in range(2)},
    },
}
# Blocks that make a clean checkout into something, one after the other; they are run
# with TANDEM_TEST_FULL=1, which takes long and fetches packages.
CLEAN = {
    "python.md": [("docs/embedding/python.md", 0)],
    "pytorch.md": [("docs/embedding/pytorch.md", 0), ("docs/embedding/pytorch.md", 1)],
}
# Blocks that other tests run: {block: (who, what to find there)}.
ELSEWHERE = {
    ("docs/embedding/cpp.md", 0): ("test/install/CheckPackages.cmake", "CPackConfig"),
    ("docs/embedding/pytorch.md", 1): ("python/tests/test_torch_ops.py", "run_page"),
    ("docs/end-to-end.md", 0): ("test/python/test_glm4_moe.py", "page_command"),
}
# Blocks that nothing runs as they stand: {block: why}. They are run by hand, on a fresh
# machine or with GPUs, when they change.
BY_HAND = {
    ("README.md", 0): "./dev demo installs the machine's packages and builds all; "
    "./dev test is what .ci/run does",
    ("docs/onnxruntime.md", 0): "it builds all, and fetches packages",
    ("docs/embedding/pytorch.md", 2): "it fetches PyTorch and needs GPUs for its times; "
    ".ci/run runs these tests only where PyTorch is installed",
}


def blocks_of(page, language="sh"):
    """The page's blocks in a language."""
    text = (console.ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_each_block_is_run():
    there = {(page, n) for page in PAGES for n in range(len(blocks_of(page)))}
    clean = {block for blocks in CLEAN.values() for block in blocks}
    sets = [clean, set(HERE), set(ELSEWHERE) - clean, set(BY_HAND)]
    assert there == set().union(*sets) and len(there) == sum(map(len, sets))
    for who, what in ELSEWHERE.values():
        assert what in (console.ROOT / who).read_text()


def make_folder(folder, files):
    """The repository's files and the build, in a folder of its own."""
    for path in console.ROOT.iterdir():
        if path.name not in ("build", ".git"):
            (folder / path.name).symlink_to(path)
    build = pathlib.Path(shutil.which("fusion-opt")).parents[1]
    (folder / "build").symlink_to(build)
    for name, model in files.items():
        (folder / name).symlink_to(console.ROOT / "test/models" / model)


def run(commands, folder, **environment):
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail"],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout[-4000:]}"
    return done.stdout


needs_tools = pytest.mark.skipif(
    shutil.which("fusion-opt") is None, reason="fusion-opt is not on the PATH"
)


@needs_tools
@pytest.mark.parametrize("page, number", HERE, ids=lambda part: str(part))
def test_block(page, number, tmp_path):
    if page == "docs/onnxruntime.md":
        pytest.importorskip("onnxruntime")
    make_folder(tmp_path, HERE[page, number])
    # As the pages say: without an installed package, `tandem` is `python3 -m tandem`.
    prelude = f'tandem() {{ "{sys.executable}" -m tandem "$@"; }}\n'
    prelude += f'python3() {{ "{sys.executable}" "$@"; }}\n'
    run(prelude + blocks_of(page)[number], tmp_path, **console.environment())


@needs_tools
def test_run_page_in_python(tmp_path):
    """The page's Python, which computes what a block is expected to give."""
    make_folder(tmp_path, {})
    program, _ = blocks_of("docs/run.md", "python")
    (tmp_path / "expected.py").write_text(program)
    run(f"{sys.executable} expected.py", tmp_path, **console.environment())
    assert (tmp_path / "expected.rank0.npz").exists()


@pytest.mark.skipif(
    os.environ.get("TANDEM_TEST_FULL") != "1",
    reason="only with TANDEM_TEST_FULL=1: it builds everything and fetches packages",
)
@pytest.mark.parametrize("name", CLEAN)
def test_clean_checkout(name, tmp_path):
    """The page's commands in a clone, then its program or the README's."""
    clone = tmp_path / "tandem"
    run(f"git clone -q {console.ROOT} {clone}", tmp_path, **os.environ)
    commands = [blocks_of(page)[number] for page, number in CLEAN[name]]
    if name == "pytorch.md":
        (clone / "half.py").write_text(blocks_of("docs/embedding/pytorch.md", "python")[0])
        assert run("\n".join(commands), clone, **os.environ).endswith(
            "fused 1 of 1 all-reduces (0 missed) 2\n"
        )
        return
    (clone / "model.onnx").symlink_to("test/models/glm45_air_tp2_graph.onnx")
    (clone / "readme.py").write_text(blocks_of("README.md", "python")[0])
    commands.append("env/bin/python readme.py")
    assert "\nfused 92 of 92 all-reduces (0 missed)\n" in run(
        "\n".join(commands), clone, **os.environ
    )
