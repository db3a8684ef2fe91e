"""The explorer in a real browser: every number it shows is the captured one, within the error that it states."""

import csv
import re
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.html.page_data import LayerMaps, PageData, TokenSequence

pytestmark = pytest.mark.browser
LEFT, TOP = 84, 66  # the margins of the map, in CSS pixels
FLOAT32 = 1e-7  # what reading a float32 as decimal text may lose, relative


def ready_after(page):
    """Milliseconds from the start of loading until the first head is on the screen and answers."""
    page.driver.refresh()
    while page.run("return document.documentElement.dataset.ready") != "yes":
        time.sleep(0.01)
    return page.run("return performance.now()")


def test_the_value_under_the_cursor_is_the_captured_weight_at_every_zoom(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    weights = text_page.layers[0].weights[0]
    for query, key in ((39, 0), (20, 20), (33, 7)):
        page.point_at_cell(query, key, (0, 40, 0, 40))
        seen = page.readout()
        assert (seen["query"], seen["key"]) == (query, key)
        assert seen["weight"] == pytest.approx(weights[query, key], rel=FLOAT32)
    side = page.plot_side()
    for _ in range(4):
        page.point("#map-a", LEFT + 0.31 * side, TOP + 0.71 * side, wheel=-100)
    seen = page.readout()
    assert (seen["query"], seen["key"]) == (28, 12)  # the point under the wheel stays where it is
    assert seen["weight"] == pytest.approx(weights[28, 12], rel=FLOAT32)
    page.point("#map-a", LEFT + 0.5 * side, TOP + 0.5 * side, drag=(60, -60))
    for across, down in ((0.2, 0.9), (0.6, 0.6), (0.05, 0.95)):
        page.point("#map-a", LEFT + across * side, TOP + down * side)
        seen = page.readout()
        if "weight" in seen:
            assert seen["weight"] == pytest.approx(weights[int(seen["query"]), int(seen["key"])], rel=FLOAT32)
        else:
            assert seen["key"] > seen["query"]


def test_a_coarse_page_states_its_error_and_keeps_it(page, tmp_path, softmax_heads):
    weights = softmax_heads(2, 128, 128, causal=False)
    data = PageData(
        "coarse", [TokenSequence("text", [f"t{i}" for i in range(128)])], [LayerMaps(0, "l", [0, 1], weights=weights)]
    )
    page.open(data, tmp_path, max_bytes=125_000)
    stated = re.fullmatch(
        r"Values are stored in (\d+) steps \(square-root scale up to ([\d.]+)\): the error stands beside each value, and is at most ([\d.e-]+)\.",
        page.text("#format"),
    )
    assert stated, page.text("#format")
    levels, top = int(stated[1]) - 1, float(weights[0].max())
    assert float(stated[2]) == pytest.approx(top, rel=1e-3)
    assert float(stated[3]) == pytest.approx(top * (levels + 0.25) / levels**2, rel=1e-3)
    for query, key in ((5, 99), (64, 64), (127, 0), tuple(np.argwhere(weights[0] == top)[0])):
        page.point_at_cell(query, key, (0, 128, 0, 128))
        seen = page.readout()
        code = round(levels * (weights[0, query, key] / top) ** 0.5)
        assert seen["error"] == pytest.approx(top * (code + 0.25) / levels**2, rel=1e-3)
        assert abs(seen["weight"] - weights[0, query, key]) <= seen["error"] * (1 + 1e-5)


def test_a_weight_that_is_not_a_number_is_said_and_not_hidden(page, tmp_path, softmax_heads):
    weights = softmax_heads(2, 128, 128, causal=False)
    weights[0, 7] = np.nan
    data = PageData(
        "nan", [TokenSequence("text", [str(i) for i in range(128)])], [LayerMaps(0, "l", [0, 1], weights=weights)]
    )
    for limit in (1_000_000, 125_000):
        page.open(data, tmp_path, max_bytes=limit)
        page.point_at_cell(7, 50, (0, 128, 0, 128))
        assert page.text("#readout").endswith(": weight NaN")
        page.point_at_cell(8, 50, (0, 128, 0, 128))
        assert page.readout()["weight"] == pytest.approx(weights[0, 8, 50], abs=page.readout()["error"] + 1e-7)
        assert page.errors() == []
    assert "steps" in page.text("#format")


def test_the_colour_of_a_cell_is_that_of_its_weight_on_the_bar(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    weights = text_page.layers[0].weights[0]
    side = page.plot_side()
    pixel = "return Array.from(document.getElementById('map-a').getContext('2d').getImageData(arguments[0], arguments[1], 1, 1).data)"
    at = lambda q, k: page.run(pixel, round(LEFT + (k + 0.5) / 40 * side), round(TOP + (q + 0.5) / 40 * side))  # noqa: E731
    assert at(0, 0)[:3] == [0xFE, 0xE8, 0x38]  # the top of cividis: weight 1
    low = np.unravel_index(np.argmin(np.where(np.tril(np.ones((40, 40))) > 0, weights, 9)), (40, 40))
    assert at(*low)[:3] == [0x00, 0x22, 0x4E]  # the bottom
    assert at(3, 30)[:3] == [0xDC, 0xDC, 0xE2]  # not allowed: neither


def test_lift_and_the_removed_sink_are_what_their_formulas_say(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    weights = text_page.layers[0].weights[0]
    page.click("#lift")
    page.point_at_cell(25, 11, (0, 40, 0, 40))
    seen = page.readout()
    assert seen["shown"] == pytest.approx(np.log2(weights[25, 11] * 26), abs=1e-5)
    assert seen["weight"] == pytest.approx(weights[25, 11], rel=FLOAT32)
    page.click("#no-sink")
    page.point_at_cell(25, 11, (0, 40, 0, 40))
    without = weights[25, 11] / (1 - weights[25, 0])
    assert page.readout()["shown"] == pytest.approx(np.log2(without * 25), abs=1e-5)
    page.click("#lift")
    page.point_at_cell(26, 11, (0, 40, 0, 40))
    assert page.readout()["shown"] == pytest.approx(weights[26, 11] / (1 - weights[26, 0]), rel=1e-5)


def test_segments_show_their_mass_and_lead_into_the_map(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    weights = text_page.layers[0].weights[0]
    shown = page.run("return [...document.querySelectorAll('#segments button')].map(b => Number(b.dataset.value))")
    expected = [weights[a:b, c:d].sum() / (b - a) for a, b in ((0, 16), (16, 40)) for c, d in ((0, 16), (16, 40))]
    assert shown == pytest.approx(expected, abs=1e-6)
    page.click("#segments tr:nth-child(3) td:nth-child(2) button")  # second segment reading the first
    side = page.plot_side()
    page.point("#map-a", LEFT + 0.5 / 16 * side, TOP + 0.5 / 24 * side)
    assert (page.readout()["query"], page.readout()["key"]) == (16, 0)
    page.click("#fit")
    page.point("#map-a", LEFT + 0.5 / 40 * side, TOP + 0.5 / 40 * side)
    assert (page.readout()["query"], page.readout()["key"]) == (0, 0)


def test_tables_say_the_same_as_the_pictures(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.click('#query-strip [data-position="33"]')
    page.click("#tables summary")
    captions = [c.text for c in page.driver.find_elements("css selector", "#table-room caption")]
    assert len(captions) == 3
    first = page.driver.find_elements("css selector", "#table-room div:nth-child(2) tr:nth-child(3) td")
    row = text_page.layers[0].weights[0][33]
    assert int(first[0].text) == int(np.argmax(row))
    assert float(first[2].text) == pytest.approx(row.max(), rel=1e-3)


def test_the_view_is_saved_as_csv_svg_and_png_with_the_stored_numbers(page, text_page, tmp_path, driver):
    page.open(text_page, tmp_path)
    for ending in ("csv", "svg", "png"):
        page.click(f"#export-{ending}")
    name = "attention-layer0-head0."
    deadline = time.monotonic() + 10
    while (
        not all((driver.downloads / (name + e)).exists() for e in ("csv", "svg", "png")) and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    with open(driver.downloads / (name + "csv"), encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * 41 // 2
    weights, labels = text_page.layers[0].weights[0], text_page.sequences[0].labels
    for row in rows[::37]:
        assert float(row["weight"]) == pytest.approx(weights[int(row["query"]), int(row["key"])], rel=FLOAT32)
    assert rows[0]["query_token"] == labels[0]
    drawing = ET.parse(driver.downloads / (name + "svg")).getroot()
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}rect")) == 40 * 41 // 2 + 4
    assert (driver.downloads / (name + "png")).read_bytes()[:4] == b"\x89PNG"


def test_cross_attention_shows_target_and_source_side_by_side(page, tmp_path, softmax_heads):
    source, target = (
        TokenSequence("source", ["das", "Haus", "ist", "rot"]),
        TokenSequence("target", ["the", "house", "is", "red", "."]),
    )
    weights = softmax_heads(2, 5, 4, causal=False)
    data = PageData(
        "translation",
        [source, target],
        [LayerMaps(0, "decoder.0", [0, 1], "cross", queries=1, keys=0, weights=weights)],
    )
    page.open(data, tmp_path)
    assert page.text("#query-name") == "queries: \u2068target\u2069"
    assert page.text("#key-strip") == "dasHausistrot"
    page.point_at_cell(4, 3, (0, 5, 0, 4))
    assert page.readout()["weight"] == pytest.approx(weights[0, 4, 3], rel=FLOAT32)
    assert "cross-attention" in page.text("#map-title")
    assert page.errors() == []


def test_a_pooled_layer_shows_bins_exact_rows_and_no_single_weight_that_was_not_kept(page, tmp_path, softmax_heads):
    count, bins = 256, 8
    weights = softmax_heads(2, count, count, causal=True)
    edges = np.arange(0, count + 1, count // bins)
    mass = weights.reshape(2, bins, 32, bins, 32).sum(-1).mean(2)
    entry = LayerMaps(
        5, "layers.5", [2, 7], pooled=mass, peak=weights.reshape(2, bins, 32, bins, 32).max((2, 4)), query_edges=edges,
        key_edges=edges, rows={200: weights[:, 200]}, received=weights.mean(1), allowed=np.tril(np.ones((count, count), bool)),
    )  # fmt: skip
    page.open(PageData("pooled", [TokenSequence("text", [f"t{i}" for i in range(count)])], [entry]), tmp_path)
    assert page.text("#format").startswith("Pooled map of 8 × 8 bins over 256 × 256 tokens.")
    page.point_at_cell(100, 40, (0, 256, 0, 256))
    seen = page.readout()
    assert "weight" not in seen
    assert seen["mass"] == pytest.approx(mass[0, 3, 1], rel=1e-6)
    assert "queries 96–127, keys 32–63" in page.text("#readout")
    page.point_at_cell(200, 40, (0, 256, 0, 256))
    assert page.readout()["weight"] == pytest.approx(weights[0, 200, 40], rel=FLOAT32)
    page.click("#lift")
    page.point_at_cell(100, 40, (0, 256, 0, 256))
    even = np.tril(np.ones((count, count))) / np.arange(1, count + 1)[:, None]
    expected = np.log2(mass[0, 3, 1] / even[96:128, 32:64].sum(1).mean())
    assert page.readout()["shown"] == pytest.approx(expected, abs=1e-4)
    assert page.errors() == []


@pytest.mark.slow
def test_twelve_by_twelve_heads_at_512_tokens_are_ready_within_two_seconds_and_show_weights_within_the_stated_error(
    page, tmp_path, softmax_heads
):
    layers = [softmax_heads(12, 512, 512, causal=True, seed=n) for n in range(12)]
    entries = [
        LayerMaps(
            n,
            f"l{n}",
            list(range(12)),
            weights=w,
            allowed=np.tril(np.ones((512, 512), bool)),
            scores={"self": w[:, 9, 9]},
        )
        for n, w in enumerate(layers)
    ]
    page.open(PageData("twelve", [TokenSequence("text", [f"t{i}" for i in range(512)])], entries), tmp_path)
    assert page.path.stat().st_size <= 12_000_000
    assert min(ready_after(page) for _ in range(3)) < 2000
    page.point("#overview", 46 + 24 * 5, 18 + 24 * 7, click=True)
    where = page.text("#map-title")
    layer, head = (int(part.split(" ")[1]) for part in where.split(", "))
    weights = layers[layer][head]
    for query, key, wheel in ((500, 3, 0), (300, 290, -100), (400, 111, -100)):
        side = page.plot_side()
        page.point("#map-a", LEFT + (key + 0.5) / 512 * side, TOP + (query + 0.5) / 512 * side, wheel=wheel)
        seen = page.readout()
        assert seen["error"] > 0
        assert abs(seen["weight"] - weights[int(seen["query"]), int(seen["key"])]) <= seen["error"] * (1 + 1e-4)
        page.click("#fit")
    assert page.errors() == []


@pytest.mark.slow
def test_thirty_two_by_thirty_two_heads_at_8192_tokens_open_and_answer(page, tmp_path):
    random = np.random.default_rng(0)
    edges = np.arange(0, 8193, 128)
    entries = []
    for layer in range(32):
        mass = random.gamma(0.3, 1, (32, 64, 64)).astype(np.float32) * np.tril(np.ones((64, 64), np.float32))
        mass /= mass.sum(-1, keepdims=True)
        received = random.gamma(0.3, 1e-4, (32, 8192)).astype(np.float32)
        more = {"received": received, "series": {"entropy": random.random((32, 8192), dtype=np.float32)}}
        entries.append(
            LayerMaps(
                layer,
                f"l{layer}",
                list(range(32)),
                pooled=mass,
                query_edges=edges,
                key_edges=edges,
                scores={"self": random.random(32)},
                **more,
            )
        )
    page.open(PageData("long", [TokenSequence("text", [f"t{i}" for i in range(8192)])], entries), tmp_path)
    assert min(ready_after(page) for _ in range(3)) < 4000
    page.keys("#overview", "\ue015", "\ue007")
    assert page.text("#map-title") == "layer 1, head 0"
    assert len(page.driver.find_elements("css selector", ".token")) == 800
    page.keys("#search", "t8000")
    assert page.text("#found") == "1 of 1, position 8000"
    assert page.find("#query-strip .chosen").get_attribute("data-position") == "8000"
    page.point_at_cell(8000, 100, (0, 8192, 0, 8192))
    seen = page.readout()
    assert abs(seen["mass"] - entries[1].pooled[0][62, 0]) <= seen["error"] * (1 + 1e-4)
    assert page.errors() == []
