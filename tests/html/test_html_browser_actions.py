"""The explorer in a real browser: each action changes what it should, and nothing else."""

import numpy as np
import pytest

from regard.html.page_data import LayerMaps, PageData, TokenSequence

pytestmark = pytest.mark.browser
FLOAT32 = 1e-7  # what reading a float32 as decimal text may lose, relative


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_a_click_in_the_overview_chooses_that_head_and_changes_what_shows_it(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    before = page.snapshot()
    token = page.find('#query-strip [data-position="20"]')
    page.point("#overview", 46 + 26 * 2 + 10, 18 + 26 * 1 + 10, click=True)
    assert token.is_displayed()  # the tokens are the same, and are not made again
    after = page.snapshot()
    assert page.text("#map-title") == "layer 1, head 2"
    assert {"map", "overview", "trust", "map-title", "bars", "segments", "key-strip"} <= changed(before, after)
    page.point_at_cell(30, 4, (0, 40, 0, 40))
    assert page.readout()["weight"] == pytest.approx(text_page.layers[1].weights[2][30, 4], rel=FLOAT32)


def test_the_keyboard_does_what_the_mouse_does(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.keys("#overview", "\ue015", "\ue014", "\ue007")  # down, right, enter
    assert page.text("#map-title") == "layer 1, head 1"
    page.keys("#map-a", "\ue015", "\ue015", "\ue014")
    assert page.readout()["query"] == 2
    assert page.readout()["key"] == 1
    page.keys("#map-a", "\ue007")
    assert page.find("#query-strip .chosen").get_attribute("data-position") == "2"
    page.keys("#map-a", "\ue00c")
    assert not page.driver.find_elements("css selector", "#query-strip .chosen")
    page.keys("#query-strip", "\ue014", "\ue007")
    assert page.find("#query-strip .chosen").get_attribute("data-position") == "1"


def test_switches_change_the_map_and_only_what_depends_on_them(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    untouched = {"overview", "trust", "segments", "map-title", "format", "query-strip"}
    for switch, also in (("#lift", set()), ("#log", {"key-strip"}), ("#no-sink", {"key-strip", "bars"})):
        before = page.snapshot()
        page.click(switch)
        on = page.snapshot()
        assert {"map", "bar"} & changed(before, on), switch
        assert not untouched & changed(before, on), switch
        assert changed(before, on) <= {"map", "bar"} | also, switch
        page.click(switch)
        assert changed(before, page.snapshot()) == set(), f"{switch} off again must look as before"


def test_pointing_at_tokens_colours_the_other_side_both_ways_and_leaving_restores_it(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    weights = text_page.layers[0].weights[0]
    before = page.snapshot()
    page.point('#query-strip [data-position="30"]', 5, 10)
    top = int(np.argmax(weights[30]))
    assert f"{top} " in page.text("#token-readout").split("most: ")[1].split(" · ")[0]
    assert (
        page.run(f"return document.querySelector('#key-strip [data-position=\"{top}\"]').style.background")
        == "rgb(254, 232, 56)"
    )
    assert page.find('#key-strip [data-position="35"]').get_attribute("class") == "token hidden-key"
    page.point('#key-strip [data-position="6"]', 5, 10)
    readers = weights[:, 6]
    assert (
        page.run(
            f"return document.querySelector('#query-strip [data-position=\"{np.argmax(readers)}\"]').style.background"
        )
        == "rgb(254, 232, 56)"
    )
    page.point("h1", 5, 5)
    assert changed(before, page.snapshot()) == set()


def test_choosing_a_query_draws_its_row_as_bars_that_sum_with_the_rest(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.click('#query-strip [data-position="33"]')
    row = text_page.layers[0].weights[0][33]
    bars = page.run(
        "return [...document.querySelectorAll('#bars li')].map(b => [Number(b.dataset.position), Number(b.dataset.value)])"
    )
    assert [place for place, _ in bars] == list(np.argsort(-row, kind="stable")[:20])
    assert [value for _, value in bars] == pytest.approx(np.sort(row)[::-1][:20], rel=1e-6)
    assert "14 other keys" in page.text("#bar-rest")
    rest = float(page.text("#bar-rest").split(": ")[1])
    assert rest + sum(value for _, value in bars) == pytest.approx(1, abs=1e-3)


def test_search_steps_through_every_occurrence_by_position(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.keys("#search", "the")
    seen = []
    for _ in range(5):
        seen.append(page.text("#found"))
        page.click("#next")
    assert seen == [f"{n} of 4, position {p}" for n, p in ((1, 3), (2, 9), (3, 21), (4, 33), (1, 3))]
    page.click("#previous")
    assert page.find("#query-strip .chosen").get_attribute("data-position") == "3"
    assert len(page.driver.find_elements("css selector", "#query-strip .match")) == 4
    page.keys("#search", "zzz")
    assert page.text("#found") == "not found"


def test_search_finds_a_word_that_was_split_and_counts_a_split_character_once(page, tmp_path, softmax_heads):
    labels = [
        "[CLS]",
        "看",
        "注",
        "意",
        "力",
        "cat",
        "her",
        "ine",
        "注₁",
        "注₂",
        "注₃",
        "意",
        "力",
        "H₂",
        "▁play",
        "##ing",
    ]
    weights = softmax_heads(1, 16, 16, causal=False)
    page.open(PageData("words", [TokenSequence("text", labels)], [LayerMaps(0, "l", [0], weights=weights)]), tmp_path)
    expected = {
        "注意力": "1 of 2, position 2", "注": "1 of 2, position 2", "the": "not found", "catherine": "1 of 1, position 5",
        "H₂": "1 of 1, position 13", "playing": "1 of 1, position 14", "cat her": "1 of 1, position 5",
    }  # fmt: skip
    for text, found in expected.items():
        page.run("document.getElementById('search').value = ''")
        page.keys("#search", text)
        assert page.text("#found") == found, text
    page.run("document.getElementById('search').value = ''")
    page.keys("#search", "注意力")
    page.click("#next")
    assert page.text("#found") == "2 of 2, position 8"
    assert len(page.driver.find_elements("css selector", "#query-strip .match")) == 3 + 5


def test_two_heads_stand_side_by_side_and_their_difference_is_exact(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.point("#overview", 46 + 26 * 3 + 10, 18 + 26 * 2 + 10, click=True, shift=True)
    assert page.text("#caption-b") == "B: layer 2, head 3"
    assert page.text("#map-title") == "layer 0, head 0"
    one, two = text_page.layers[0].weights[0], text_page.layers[2].weights[3]
    page.point_at_cell(28, 9, (0, 40, 0, 40), "#map-b")
    assert page.readout()["weight"] == pytest.approx(two[28, 9], rel=FLOAT32)
    page.click("#difference")
    page.point_at_cell(28, 9, (0, 40, 0, 40))
    assert f"A − B {float(f'{one[28, 9] - two[28, 9]:.4g}'):g}" in page.text("#readout")
    page.choose("other", "")
    assert not page.find("#map-b").is_displayed()
    assert not page.find("#difference").is_selected()
