"""The explorer in a real browser: it loads from disk with no network and no message, whatever the tokens, window and language."""

import itertools
import json
import re
import time

import pytest

from regard.html.build import build_page, iframe

pytestmark = pytest.mark.browser
LEFT, TOP = 84, 66  # the margins of the map, in CSS pixels


def test_the_page_loads_with_no_console_message_and_runs_no_token(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    assert page.errors() == []
    assert page.run("return window.hacked") is None
    assert page.text("h1") == text_page.title
    assert page.run("return document.getElementById('failure').hidden")
    labels = text_page.sequences[0].labels
    assert page.find('#query-strip [data-position="0"]').text == labels[0]
    assert page.find('#query-strip [data-position="3"]').text == "the"
    assert page.text('#query-strip [data-position="8"]') == "⏎"


def test_a_right_to_left_token_does_not_turn_its_neighbours_around(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    left = [page.find(f'#query-strip [data-position="{p}"]').rect for p in (1, 2, 3, 4, 5, 6)]
    same_line = [(a["x"], b["x"]) for a, b in itertools.pairwise(left) if abs(a["y"] - b["y"]) < 4]
    assert len(same_line) >= 2
    assert all(a < b for a, b in same_line)
    side = page.plot_side()
    page.point("#map-a", LEFT + 2.5 / 40 * side, TOP + 4.5 / 40 * side)
    assert page.text("#readout").startswith("query 4 \u2068مرحبا\u2069 → key 2 \u2068שלום\u2069: weight ")


def test_nothing_is_asked_of_any_network(page, text_page, tmp_path, driver):
    driver.get_log("performance")
    page.open(text_page, tmp_path)
    page.click("#lift")
    page.keys("#overview", "\ue015", "\ue007")  # down, enter
    sent = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    assert asked, "the log must at least show the page itself"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_language_and_colours_change_words_and_colours_and_no_number(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    page.click('#query-strip [data-position="20"]')
    numbers = [b.text for b in page.driver.find_elements("css selector", "#bars .value")]
    page.choose("language", "zh")
    assert page.text('h2[data-word="overview"]') == "全部注意力头"
    assert page.text("#map-title") == "第 0 层 · 头 0"
    assert page.run("return document.documentElement.lang") == "zh-CN"
    empty = "return [...document.querySelectorAll('[data-word]')].filter(e => !e.textContent || /^[a-z][A-Za-z]+$/.test(e.textContent)).length"
    assert page.run(empty) == 0
    assert [b.text for b in page.driver.find_elements("css selector", "#bars .value")] == numbers
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    page.choose("theme", "dark")
    assert page.run("return getComputedStyle(document.body).backgroundColor") != light
    assert page.errors() == []


def test_a_file_that_was_cut_off_says_so_and_a_broken_block_too(page, text_page, tmp_path):
    page.open(text_page, tmp_path)
    text = page.path.read_text(encoding="utf-8")
    cut = tmp_path / "cut.html"
    cut.write_text(text[: len(text) // 3], encoding="utf-8")
    page.driver.get(cut.as_uri())
    assert "the file was cut off" in page.find("#failure").text
    broken = tmp_path / "broken.html"
    broken.write_text(re.sub(r'(data-block="weights.0.0">).{60}', r"\1" + "A" * 60, text), encoding="utf-8")
    page.driver.get(broken.as_uri())
    page.settle()
    assert page.find("#failure").is_displayed()
    assert "Loading" not in page.find("#failure").text
    assert page.errors()


def test_two_pages_in_one_notebook_do_not_disturb_each_other(page, text_page, tmp_path):
    frames = iframe(build_page(text_page, language="en")) + iframe(build_page(text_page, language="zh"))
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8><body>{frames}</body>", encoding="utf-8"
    )
    page.driver.get((tmp_path / "notebook.html").as_uri())
    titles = []
    for frame in page.driver.find_elements("css selector", "iframe"):
        page.driver.switch_to.frame(frame)
        deadline = time.monotonic() + 20
        while page.run("return document.documentElement.dataset.ready") != "yes" and time.monotonic() < deadline:
            time.sleep(0.05)
        titles.append(page.text("#map-title"))
        page.driver.switch_to.default_content()
    assert titles == ["layer 0, head 0", "第 0 层 · 头 0"]
    assert page.errors() == []


@pytest.mark.parametrize("width", [500, 800, 1280])
def test_pointing_and_choosing_never_move_what_is_under_the_mouse(page, text_page, tmp_path, width):
    page.driver.set_window_size(width, 900)
    try:
        page.open(text_page, tmp_path)
        before = page.find("#query-strip").rect
        page.point('#query-strip [data-position="30"]', 5, 10)
        assert page.find("#query-strip").rect == before
        page.click('#query-strip [data-position="30"]')
        assert page.find("#query-strip .chosen").get_attribute("data-position") == "30"
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        page.driver.set_window_size(1280, 1000)
