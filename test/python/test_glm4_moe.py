"""The split of the benchmark test/bench/glm4_moe, against transformers' whole model."""

import glob
import json
import os
import shutil
import subprocess
import sys
import threading

import console
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
BENCH = console.ROOT / "test/bench/glm4_moe"
sys.path.insert(0, str(BENCH))

WORLD, LAYERS = 2, 3


@pytest.fixture(scope="module")
def whole():
    share = pytest.importorskip("model")
    torch.manual_seed(7)
    model = transformers.Glm4MoeForCausalLM(share.make_config("tiny", LAYERS))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1 if "norm" in name else 0, 0.2)
    return model.eval()


def on_ranks(work):
    """Runs work(rank, chain) on a thread for each rank; chain adds up over them."""
    barrier, parts, results = threading.Barrier(WORLD), [None] * WORLD, [None] * WORLD

    def body(rank):
        def chain(partial, residual, norm):
            parts[rank] = partial
            barrier.wait(30)
            residual = residual + sum(parts)
            barrier.wait(30)
            return norm(residual), residual

        with torch.no_grad():
            results[rank] = work(rank, chain)

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(WORLD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_split_model_is_the_whole_one(whole):
    import model as share

    tokens = torch.randint(128, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = whole(tokens, use_cache=False).logits

    def work(rank, chain):
        mine = share.make_model(
            "tiny", LAYERS, rank, WORLD, torch.device("cpu"), torch.float32
        )
        weights = {
            name: share.take_share(name, tensor, rank, WORLD)
            for name, tensor in whole.state_dict().items()
        }
        mine.load_state_dict(weights)
        caches = [
            share.LayerCache(2, 9, mine.config, "cpu", torch.float32)
            for _ in range(LAYERS)
        ]
        first = share.run_step(mine, caches, tokens[:, :8], chain)
        for cache in caches:
            cache.position = 8
        return first, share.run_step(mine, caches, tokens[:, 8:], chain)

    ranks = on_ranks(work)
    # A prefill of eight tokens, then a step behind them.
    for step, position in ((0, 7), (1, 8)):
        logits = torch.cat([rank[step] for rank in ranks], -1)
        assert torch.allclose(logits, want[:, position], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(
    shutil.which("fusion-opt") is None, reason="fusion-opt is not on the PATH"
)
def test_benchmark_on_cpus(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", str(BENCH / "run.py"), "--size=tiny"]
    command += ["--layers=2", "--device=cpu", "--dtype=float32", "--batch=3"]
    command += ["--context=5", "--prefill=6", "--samples=1", "--token-limit=4"]
    command += ["--modes=nccl,nccl+kernel,tandem", f"--json={tmp_path / 'out.json'}"]
    environment = dict(console.environment(), OMP_NUM_THREADS="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads((tmp_path / "out.json").read_text())
    # Three tokens fuse; six are above the limit. Two layers have four places.
    assert [(r["phase"], r["mode"], r["fused"], r["fallback"]) for r in out["results"]] == [
        ("decode", "nccl", 0, 0),
        ("decode", "nccl+kernel", 0, 4),
        ("decode", "tandem", 4, 0),
        ("prefill", "nccl", 0, 0),
        ("prefill", "nccl+kernel", 0, 4),
        ("prefill", "tandem", 0, 4),
    ]
    assert "decode 3, tandem: 4 fused calls a step, 0 not fused\n" in done.stdout
    same = [check for check in out["checks"] if check["mode"] == "same inputs"]
    assert [check["places"] for check in same] == [4, 4]
    assert "of 768 elements in 4 places 0 residuals" in done.stdout


def page_command():
    """The first command of docs/end-to-end.md."""
    page = (console.ROOT / "docs/end-to-end.md").read_text()
    return page.split("```sh\n")[1].split("```")[0].strip()


@pytest.mark.skipif(
    len(glob.glob("/dev/nvidia[0-9]*")) < 2, reason="needs two GPUs"
)
def test_page_on_gpus(tmp_path):
    """As it stands, in the root of the repository; but with few layers and samples
    unless TANDEM_TEST_FULL is set, and the figures elsewhere."""
    command = f"{page_command()} --json={tmp_path / 'glm.json'}"
    if "TANDEM_TEST_FULL" not in os.environ:
        command += " --layers=2 --batch=1 --prefill=512 --samples=3"
    done = subprocess.run(
        ["bash", "-c", command], cwd=console.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads((tmp_path / "glm.json").read_text())
    fused = {(r["mode"], r["run"]): r["fused"] for r in out["results"]}
    assert fused["tandem", "graph"] == fused["compile+tandem", "graph"] == 2 * out["layers"]
