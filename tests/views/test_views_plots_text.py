"""Labels of every language are drawn, whatever style is set before or after, and no global setting is touched."""

import io
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.views import fonts, plots

SENTENCES = {
    "Chinese": "注意力的权重说明模型读取了什么，并不说明“为什么”。繁體字：學習機器翻譯！",
    "Japanese": "注意の重みは、モデルが何を読んだかを示します。カタカナもひらがなも「ー」も。",
    "Korean": "어텐션 가중치는 모델이 무엇을 읽었는지 보여 줍니다. 왜 그런지는 아닙니다!",
}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def draw(ax) -> bytes:
    file = io.BytesIO()
    ax.figure.savefig(file, format="png", dpi=80)
    return file.getvalue()


def labelled(text: str, **how):
    tokens = list(text)
    return plots.heatmap(np.eye(len(tokens)), tokens, title=text, ax=plt.figure(figsize=(14, 14)).add_subplot(), **how)


@pytest.mark.parametrize("language", SENTENCES)
def test_every_glyph_of_a_sentence_is_in_the_bundled_fonts_and_is_drawn(language):
    assert fonts.missing([SENTENCES[language]]) == []
    ax = labelled(SENTENCES[language])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        draw(ax)
    assert [str(w.message) for w in seen if "missing" in str(w.message)] == []
    assert [t.get_text() for t in ax.get_yticklabels()] == [fonts.drawable(c) for c in SENTENCES[language]]


def test_without_our_fonts_the_same_labels_are_missing_so_the_test_above_can_fail():
    _, ax = plt.subplots()
    ax.set_title(SENTENCES["Chinese"])
    with pytest.warns(UserWarning, match="missing from font"):
        draw(ax)


def test_each_glyph_of_a_sentence_is_a_shape_of_its_own_and_not_a_box():
    shapes = {}
    for character in sorted(
        set(SENTENCES["Chinese"] + SENTENCES["Japanese"] + SENTENCES["Korean"]) - set("ー-—―一 “”‘’")
    ):
        with fonts.readable():
            figure = plt.figure(figsize=(0.5, 0.5), dpi=80)
            figure.text(0.2, 0.2, character, fontsize=20)
        figure.canvas.draw()
        shapes.setdefault(np.asarray(figure.canvas.buffer_rgba()).tobytes(), []).append(character)
        plt.close(figure)
    assert [same for same in shapes.values() if len(same) > 1] == []


def test_seaborn_before_or_after_does_not_break_labels():
    seaborn = pytest.importorskip("seaborn")
    try:
        before = labelled(SENTENCES["Chinese"])
        with mpl.rc_context():
            seaborn.set_theme()
            during = labelled(SENTENCES["Korean"])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                draw(before)
                draw(during)
            assert not any(line.get_visible() for line in during.get_xgridlines())
    finally:
        plt.close("all")


@pytest.mark.parametrize("style", ["default", "dark_background", "ggplot", "grayscale"])
def test_no_plot_changes_a_global_setting(style):
    with plt.style.context(style):
        before = mpl.rcParams.copy()
        labelled(SENTENCES["Japanese"])
        plots.entropy_bands(np.ones((3, 9)))
        plots.segment_flow(np.eye(2), ["一", "二"])
        assert mpl.rcParams == before


def test_minus_signs_and_emoji_are_drawn_too():
    weights = np.full((3, 3), 1 / 3)
    ax = plots.lift(weights, ["😀", "−1", "注₁"], title="−2 到 +2 😀")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(ax)
    bar = ax.child_axes[0]
    assert any(label.get_text().startswith("\N{MINUS SIGN}") for label in bar.get_yticklabels())


def test_what_no_font_has_is_written_as_its_code_point(monkeypatch):
    monkeypatch.setattr(fonts, "_family_with", lambda character: None)
    assert fonts.drawable("a\U0001f9ff") == "a⟨U+1F9FF⟩"
    assert fonts.drawable("\x07") == "⟨U+0007⟩"
    assert fonts.drawable("\ud800") == "⟨U+D800⟩"


def test_a_font_of_the_machine_is_used_for_what_ours_lack(monkeypatch):
    monkeypatch.setattr(fonts, "_family_with", lambda character: "Some Symbols")
    monkeypatch.setattr(fonts, "_extra_families", [])
    assert fonts.drawable("\U0001f9ff") == "\U0001f9ff"
    assert fonts.families() == ["DejaVu Sans", "Regard CJK", "Some Symbols"]


def test_white_space_is_visible_and_long_labels_are_cut():
    assert fonts.drawable(" ") == "␣"
    assert fonts.drawable("\n\t") == "⏎⇥"
    assert fonts.drawable("a b") == "a b"
    assert fonts.drawable("x" * 30, 14) == "x" * 13 + "…"


@settings(max_examples=40)
@given(st.text(max_size=12))
def test_any_text_can_be_a_label(text):
    shown = fonts.drawable(text)
    assert all(c.isprintable() or c == "\u200d" for c in shown)
    assert shown.replace(r"\$", "").count("$") == 0


def test_dollar_signs_are_not_mathematics():
    ax = plots.heatmap(np.eye(3), ["$x^2$", "$", r"\frac"], title="$a_b$")
    draw(ax)
    drawn = [t.get_text() for t in ax.get_yticklabels()]
    assert drawn == [r"\$x^2\$", r"\$", r"\frac"]


def test_the_bundled_font_is_never_mistaken_for_another_of_the_machine():
    from matplotlib import font_manager

    fonts.families()
    assert font_manager.findfont(fonts.CJK, fallback_to_default=False) == str(fonts.FONT_FILE)


def test_the_notice_names_the_font_its_licence_and_the_change():
    import pathlib

    notice = " ".join((pathlib.Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8").split())
    for part in ("Droid Sans Fallback", "RegardCJK.ttf", "Apache License, Version 2.0", "outlines are unchanged"):
        assert part in notice
