"""Records become a page: sides, sample and run are chosen, and the numbers are the records'."""

import numpy as np
import pytest
import torch

from regard.core.errors import CaptureError
from regard.recording.page import even_spread, page_of, to_html
from regard.recording.record import Record


def record(queries=6, keys=6, *, full=True, causal=True, **more) -> Record:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, queries, keys, generator=generator)
    if causal:
        scores = scores.masked_fill(~torch.ones(queries, keys).tril(keys - queries).bool(), float("-inf"))
    weights = scores.softmax(-1)
    edges = list(range(0, keys + 1, 2))
    settings = {
        "layer": 0, "path": "layers.0.attn", "kind": "self", "source": "fused", "kernel": "k", "where": "f.py:1", "sample": 0, "run": 0, "steps": 1, "heads": 2,
        "kv_heads": 2, "queries": queries, "keys": keys, "offset": keys - queries, "dtype": "float32", "level": "full" if full else "summary",
        "causal": causal, "head_names": [4, 9],
    } | more  # fmt: skip
    made = Record(**settings)
    made.scores = {"sink": weights[:, :, 0].mean(-1), "self": torch.rand(2, generator=generator)}
    made.received, made.seen_by = weights.sum(1), (weights[0] > 0).sum(0)
    if full:
        made.weights = weights
    else:
        made.pooled = weights.reshape(2, queries // 2, 2, keys // 2, 2).sum(-1).mean(2)
        made.query_edges, made.key_edges = list(range(0, queries + 1, 2)), edges
        made.rows, made.row_weights = torch.tensor([3]), weights[:, 3:4]
    return made


def test_the_page_has_the_weights_heads_scores_and_mask_of_the_record():
    kept = record()
    entry = page_of([kept], list("abcdef")).layers[0]
    assert (entry.weights == kept.weights.numpy()).all()
    assert entry.heads == [4, 9]
    assert entry.trust == {"sink": kept.scores["sink"].tolist()}
    assert (entry.allowed == np.tril(np.ones((6, 6), bool))).all()
    assert np.allclose(entry.received, kept.weights.numpy().sum(1) / np.arange(6, 0, -1))


def test_the_even_spread_of_a_summary_is_that_of_the_dense_mask():
    kept = record(4, 8, full=False)
    allowed = np.tril(np.ones((4, 8)), 4)
    share = allowed / allowed.sum(1, keepdims=True)
    assert np.allclose(even_spread(kept), share.reshape(2, 2, 4, 2).sum(-1).mean(1))
    kept.seen_by[2] = 0  # a padded key
    allowed[:, 2] = 0
    share = allowed / allowed.sum(1, keepdims=True)
    assert np.allclose(even_spread(kept), share.reshape(2, 2, 4, 2).sum(-1).mean(1))


def test_rows_that_were_kept_exactly_come_with_a_pooled_map():
    kept = record(full=False)
    entry = page_of([kept]).layers[0]
    assert entry.weights is None
    assert (entry.rows[3] == kept.row_weights[:, 0].numpy()).all()


def test_source_and_target_are_told_apart_even_at_the_same_length():
    tokens = {"source": list("uvwxyz"), "target": list("abcdef")}
    layers = [
        record(path="encoder.0"),
        record(path="decoder.0.self_attn"),
        record(path="decoder.0.cross", kind="cross", causal=False),
    ]
    data = page_of(layers, tokens)
    assert [(entry.queries, entry.keys) for entry in data.layers] == [(0, 0), (1, 1), (1, 0)]


def test_tokens_that_do_not_match_are_refused_with_both_numbers():
    with pytest.raises(
        CaptureError, match=r"has 6 queries and 6 keys; of the tokens, text has 3; give one label per position"
    ):
        page_of([record()], list("abc"))


def test_one_sample_and_run_is_shown_and_the_others_are_named():
    records = [record(sample=s, run=r) for s in (0, 1) for r in (0, 2)]
    data = page_of(records, sample=1)
    assert len(data.layers) == 1
    assert data.notes == ["Shown: sample 1 of 0, 1.", "Shown: run 0 of 0, 2."]
    with pytest.raises(CaptureError, match="run 1 was not captured; there are 0, 2"):
        page_of(records, run=1)


def test_no_record_is_an_error_and_never_an_empty_page(tmp_path):
    with pytest.raises(CaptureError, match="no attention was captured"):
        to_html([], None, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_records_is_written(tmp_path):
    path = to_html(
        [record(), record(full=False, layer=1)],
        list("abcdef"),
        tmp_path / "page.html",
        trust={"rank": [[0.1, 0.2], None]},
    )
    text = path.read_text(encoding="utf-8")
    assert '"rank":[0.1,0.2]' in text
    assert '"keys":0' in text


def test_a_page_that_is_passed_on_names_no_folder_of_the_machine_that_made_it():
    kept = record(where="/home/somebody/venv/lib/transformers/integrations/sdpa_attention.py:182")
    assert page_of([kept]).layers[0].facts["where"] == "transformers/integrations/sdpa_attention.py:182"
