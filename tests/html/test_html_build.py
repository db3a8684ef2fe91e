"""The page as text: what is stored restores within the stated error, sizes are kept, nothing can be read as markup, bad data is refused."""

import base64
import gzip
import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

from regard.core.errors import CaptureError
from regard.html.blocks import EXACT, HALF, Format, encode, encode_bits, error_bound, quantise, restore
from regard.html.build import build_page, iframe, write_page
from regard.html.page_data import LayerMaps, PageData, TokenSequence
from regard.html.quality import received_of, short_series

ROUNDING = 1e-6  # float32 arithmetic, relative to the largest weight


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.S).group(1))


def block_of(page: str, name: str) -> bytes:
    return gzip.decompress(
        base64.b64decode(re.search(rf'data-block="{re.escape(name)}">(.*?)</script>', page).group(1))
    )


@given(st.integers(1, 254), st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60))
def test_eight_bit_codes_restore_within_the_bound_that_the_page_states(levels, values):
    weights = np.array(values, np.float32)
    codes, top = quantise(weights, levels)
    error = np.abs(restore(codes, top, levels) - weights)
    assert (error <= error_bound(codes, top, levels) + ROUNDING * max(top, 1e-30)).all()


def test_the_bound_is_tight_so_that_a_wrong_code_would_break_it():
    codes, top = quantise(np.linspace(0, 1, 10_001, dtype=np.float32), 63)
    error = np.abs(restore(codes, top, 63) - np.linspace(0, 1, 10_001))
    assert (error <= error_bound(codes, top, 63) + ROUNDING).all()
    assert (error > 0.9 * error_bound(codes, top, 63)).any()
    assert (
        np.abs(restore(np.minimum(codes + 1, 63), top, 63) - np.linspace(0, 1, 10_001)) > error_bound(codes, top, 63)
    ).any()


def test_what_is_not_a_number_stays_visible_and_negative_gates_keep_their_sign():
    codes, top = quantise(np.array([0.5, np.nan, np.inf, 0.0]), 254)
    assert codes.tolist() == [254, 255, 255, 0]
    assert top == 0.5
    about, text = encode(np.array([0.5, -0.25], np.float32), Format("sqrt", 63))
    assert about["format"] == "f16"
    assert np.frombuffer(gzip.decompress(base64.b64decode(text)), "<f2").tolist() == [0.5, -0.25]


def test_a_head_of_zeros_is_stored_as_zeros():
    about, text = encode(np.zeros((3, 3)), Format("sqrt", 254))
    assert about["top"] == 0
    assert gzip.decompress(base64.b64decode(text)) == bytes(9)


def test_exact_and_half_formats_and_bits_are_what_they_say():
    values = np.random.default_rng(0).random((5, 7), dtype=np.float32)
    assert (
        np.frombuffer(gzip.decompress(base64.b64decode(encode(values, EXACT)[1])), "<f4").reshape(5, 7) == values
    ).all()
    half = np.frombuffer(gzip.decompress(base64.b64decode(encode(values, HALF)[1])), "<f2").reshape(5, 7)
    assert (np.abs(half - values) <= np.maximum(values * 2.0**-11, 2.0**-25)).all()
    attend = values > 0.5
    bits = np.frombuffer(gzip.decompress(base64.b64decode(encode_bits(attend)[1])), np.uint8)
    assert (np.unpackbits(bits, bitorder="little")[:35].reshape(5, 7).astype(bool) == attend).all()


def test_a_small_page_holds_exact_numbers_and_asks_for_nothing_outside(text_page):
    page = build_page(text_page)
    assert (np.frombuffer(block_of(page, "weights.1.2"), "<f4") == text_page.layers[1].weights[2].reshape(-1)).all()
    markup = re.sub(r'<script type="(application/json|text/plain)".*?</script>', "", page, flags=re.S)
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|//cdn|@import|url\((?!#plot|#scale)|<script src|fetch\(|XMLHttpRequest",
        markup,
    )


def test_no_text_of_the_data_can_end_a_script_or_become_markup(text_page):
    page = build_page(text_page)
    stored = data_of(page)
    assert stored["sequences"][0]["labels"][0] == "</script><script>window.hacked=1</script>"
    assert stored["title"] == text_page.title
    assert page.count("window.hacked=1</script>") == 0
    assert "<img src=x" not in page
    assert "<b>first</b>" not in page
    assert page.count("<title>") == 1


def test_equal_masks_are_stored_once(text_page):
    assert build_page(text_page).count('data-block="allowed') == 1


def test_the_same_data_gives_the_same_bytes(text_page):
    assert build_page(text_page) == build_page(text_page)


def softmax_data(softmax_heads, layers, heads, count, causal=True, sigma=None):
    entries = []
    for layer in range(layers):
        weights = softmax_heads(heads, count, count, causal=causal, seed=layer)
        entries.append(
            LayerMaps(layer, f"l{layer}", list(range(heads)), weights=weights, scores={"self": [0.5] * heads})
        )
    return PageData("sizes", [TokenSequence("text", [f"t{i}" for i in range(count)])], entries)


def test_a_smaller_limit_gives_coarser_numbers_and_is_kept(softmax_heads):
    data = softmax_data(softmax_heads, 2, 2, 96)
    formats = []
    for limit in (1_000_000, 260_000, 150_000, 130_000):
        page = build_page(data, max_bytes=limit)
        assert len(page.encode()) <= limit
        formats.append(data_of(page)["layers"][0].get("weights", [{"format": "pooled"}])[0])
    assert formats[0]["format"] == "f32"
    steps = [{"f32": 9999, "f16": 999, "pooled": 0}.get(f["format"], f.get("levels")) for f in formats]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < steps[0]


def test_a_limit_that_nothing_fits_is_refused_with_both_numbers(text_page):
    with pytest.raises(CaptureError, match=r"the page needs \d+,\d+ bytes at the coarsest and max_bytes is 20,000"):
        build_page(text_page, max_bytes=20_000)


def test_weights_that_do_not_fit_are_pooled_and_the_page_says_so(softmax_heads):
    data = softmax_data(softmax_heads, 1, 1, 700, causal=False)
    page = build_page(data, max_bytes=160_000)
    stored = data_of(page)
    assert "weights" not in stored["layers"][0]
    assert stored["notes"] == ["Full weights did not fit into the size of this page; maps are pooled."]
    about = stored["layers"][0]["pooled"][0]
    codes = np.frombuffer(block_of(page, about["block"]), np.uint8)
    shown = restore(codes, about["top"], about["levels"]).reshape(about["shape"])
    edges = np.array(stored["layers"][0]["queryEdges"])
    mass = np.add.reduceat(
        np.add.reduceat(data.layers[0].weights[0], edges[:-1], 0) / np.diff(edges)[:, None], edges[:-1], 1
    )
    assert np.abs(shown - mass).max() <= error_bound(codes, about["top"], about["levels"]).max() + ROUNDING


def test_received_weight_counts_only_the_queries_that_may_attend():
    weights = np.array([[[1.0, 0.0], [0.25, 0.75]]], np.float32)
    entry = LayerMaps(0, "l", [0], weights=weights, allowed=np.tril(np.ones((2, 2), bool)))
    assert received_of(entry).tolist() == [[0.625, 0.75]]


def test_a_series_with_unknown_values_is_averaged_over_the_known_ones():
    values = np.ones((1, 2000), np.float32)
    values[0, :3] = np.nan
    values[0, 3] = 5
    means, limits = short_series(values)
    assert len(limits) - 1 <= 512
    assert means[0, 0] == 5
    assert means[0, 1:].tolist() == [1.0] * (len(limits) - 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros((2, 3, 4))}, r"weights has shape \(2, 3, 4\); its heads and tokens make \(2, 3, 3\)"),
        ({"weights": None}, "neither weights nor pooled maps"),
        ({"kind": "other"}, "is of kind 'other'; the kinds are self, cross, channel"),
        ({"keys": 4}, "names sequence 4; there are 1"),
        ({"rows": {7: np.zeros((2, 3))}}, "a row for query 7; the queries are 0 to 2"),
        ({"scores": {"entropy": [1.0]}}, "1 values of 'entropy' for 2 heads"),
        ({"pooled": np.zeros((2, 1, 1))}, "not the limits of their bins"),
    ],
)
def test_data_that_does_not_fit_together_is_refused_in_one_sentence(change, message):
    entry = LayerMaps(0, "l", [0, 1], weights=np.full((2, 3, 3), 1 / 3))
    for name, value in change.items():
        setattr(entry, name, value)
    with pytest.raises(CaptureError, match=message):
        build_page(PageData("t", [TokenSequence("text", ["a", "b", "c"])], [entry]))


def test_a_capture_without_attention_is_never_an_empty_page():
    with pytest.raises(CaptureError, match="there is no attention to show"):
        build_page(PageData("t", [TokenSequence("text", ["a"])], []))


def test_a_page_is_written_whole_or_not_at_all(text_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(CaptureError):
        write_page(text_page, path, max_bytes=1000)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(CaptureError, match="there is no folder"):
        write_page(text_page, tmp_path / "no" / "page.html")
    assert write_page(text_page, path) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_notebook_cell_gets_the_page_in_an_iframe_of_its_own(text_page):
    frame = iframe(build_page(text_page))
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count('"') == 12  # six attributes: nothing inside ends one


@pytest.mark.slow
def test_twelve_layers_of_twelve_heads_at_512_tokens_fit_12_megabytes_with_cells_kept(softmax_heads):
    """Random scores are the worst case: neighbouring cells have nothing in common that gzip could use."""
    for causal, least in ((True, 47), (False, 11)):
        page = build_page(softmax_data(softmax_heads, 12, 12, 512, causal=causal))
        assert len(page.encode()) <= 12_000_000
        assert data_of(page)["layers"][0]["weights"][0]["levels"] >= least


def summary_layer(layer: int, heads: int, count: int, bins: int = 64) -> LayerMaps:
    """What a summary capture of a long text holds, with the noise that real maps have."""
    random = np.random.default_rng(layer)
    edges = np.arange(0, count + 1, count // bins)
    mass = random.gamma(0.3, 1, (heads, bins, bins)) * np.tril(np.ones((bins, bins)))
    mass /= mass.sum(-1, keepdims=True)
    return LayerMaps(
        layer, f"l{layer}", list(range(heads)), pooled=mass.astype(np.float32), peak=(mass * random.random(mass.shape)).astype(np.float32),
        query_edges=edges, key_edges=edges, received=random.gamma(0.3, 1e-4, (heads, count)).astype(np.float32),
        series={name: random.gamma(2, 1, (heads, count)).astype(np.float32) for name in ("entropy", "sink", "distance")},
        scores={name: random.random(heads) for name in ("entropy", "sink", "distance", "previous", "induction")},
    )  # fmt: skip


@pytest.mark.slow
def test_thirty_two_layers_of_thirty_two_heads_at_8192_tokens_fit_25_megabytes():
    data = PageData(
        "long", [TokenSequence("text", [f"t{i}" for i in range(8192)])], [summary_layer(n, 32, 8192) for n in range(32)]
    )
    page = build_page(data)
    assert len(page.encode()) <= 25_000_000
    assert data_of(page)["layers"][0]["pooled"][0]["levels"] == 254
