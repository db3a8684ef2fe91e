"""Every recipe from its data to a prediction: it trains on a few samples, reports, saves, predicts and can be viewed."""

import itertools
import json
import random

import numpy as np
import pytest
import torch

from regard.cli_train import captured_recipe
from regard.core.errors import CaptureError, DataError
from regard.recipes import lm, matching, qa, series, tag, text, translate, vision, word_rows, words
from regard.recipes.asked import Asked
from regard.recipes.compare import compare, markdown
from regard.recipes.data.questions import Question
from regard.recipes.job import changed
from regard.recipes.run import recipe, run, tasks
from regard.recipes.spans import best_spans, joined, judged, tokenized

draw = random.Random(0)
WORDS = ["red", "green", "blue", "dog", "cat", "runs", "sleeps", "house", "tree", "small"]


def sentence(count=6):
    return " ".join(draw.choice(WORDS) for _ in range(count))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """For each task, data of its own in a layout of its own."""
    folder = tmp_path_factory.mktemp("files")
    rows = [
        {"text": f"{sentence()} {'good' if i % 2 else 'bad'}", "label": "pos" if i % 2 else "neg"} for i in range(300)
    ]
    (folder / "text.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "lm.txt").write_text(" ".join(sentence() for _ in range(150)))
    hours = [f"2020-01-{1 + i // 24:02d} {i % 24:02d}:00" for i in range(24 * 28)]
    lines = [f"{h},{np.sin(i / 4):.4f},{np.cos(i / 7):.4f}" for i, h in enumerate(hours)]
    (folder / "series.csv").write_text("date,a,b\n" + "\n".join(lines))
    tokens = [[(w, "B-ANIMAL" if w in ("dog", "cat") else "O") for w in sentence(8).split()] for _ in range(150)]
    (folder / "tag.conll").write_text("\n\n".join("\n".join(f"{w} {t}" for w, t in row) for row in tokens))
    articles = []
    for i in range(80):
        context = f"{sentence(4)} . the {WORDS[i % 3]} one is number{i} here . {sentence(3)}"
        answer = {"text": f"number{i}", "answer_start": context.index(f"number{i}")}
        qas = [{"id": str(i), "question": f"which is the {WORDS[i % 3]} one", "answers": [answer]}]
        articles.append({"title": f"t{i}", "paragraphs": [{"context": context, "qas": qas}]})
    (folder / "qa.json").write_text(json.dumps({"data": articles}))
    (folder / "pairs").mkdir()
    source = [sentence(5) for _ in range(150)]
    (folder / "pairs/train.en").write_text("\n".join(source))
    (folder / "pairs/train.de").write_text("\n".join(s.upper() for s in source))
    return {"text": folder / "text.jsonl", "lm": folder / "lm.txt", "series": folder / "series.csv", "tag": folder / "tag.conll",
            "qa": folder / "qa.json", "translate": folder / "pairs", "vision": "digits"}  # fmt: skip


SMALL = {
    "text": ("width=16", "heads=2", "counted=500", "batch=16", "dropout=0"),
    "lm": ("width=16", "heads=2", "layers=1", "context=16", "buckets=100", "batch=8"),
    "series": ("width=8", "heads=2", "past=48", "ahead=12", "batch=16"),
    "tag": ("width=16", "heads=2", "layers=1", "buckets=100", "batch=16", "dropout=0"),
    "qa": ("width=16", "heads=2", "layers=1", "batch=8", "length=60", "others=1"),
    "translate": ("width=16", "heads=2", "layers=1", "batch=16", "pieces=300", "beam=2", "warmup=2"),
    "vision": ("width=4", "stem_stride=1", "batch=32", "limit=320"),
}
INPUTS = {
    "text": "the dog is good",
    "lm": "red dog",
    "tag": "dog runs",
    "qa": "which one ||| the red one is here",
    "translate": "red dog",
}


def small(task, files, out, steps=6, *more, **other):
    settings = (*SMALL[task], f"evaluate={steps}", *more)
    return Asked(data=str(files[task]), out=out, steps=steps, settings=settings, **other)


def test_the_tasks_are_those_of_the_issue():
    assert sorted(tasks()) == ["lm", "qa", "series", "tag", "text", "translate", "vision"]


@pytest.mark.parametrize("task", sorted(SMALL))
def test_a_recipe_trains_reports_saves_and_predicts(task, files, tmp_path):
    result = run(task, small(task, files, tmp_path / "run"))
    assert result["steps"] == 6
    assert all(np.isfinite(value) for value in result["test"].values())
    assert result["metric"] in result["test"]
    restored = recipe(task).restore(tmp_path / "run")
    if task in INPUTS:
        assert restored.predict(INPUTS[task])
    if task == "series":
        assert len(restored.predict(str(files[task]))) == 1 + 12
    if task == "vision":
        from PIL import Image

        Image.new("L", (20, 10), 128).save(tmp_path / "x.png")
        assert len(restored.predict(str(tmp_path / "x.png"))) == 3


@pytest.mark.parametrize("task", sorted(INPUTS))
def test_a_trained_model_opens_in_the_viewer(task, files, tmp_path):
    run(task, small(task, files, tmp_path / "run", 2, baselines=False))
    cap = captured_recipe(tmp_path / "run", INPUTS[task], "full")
    assert cap.records
    page = cap.to_html(tmp_path / "page.html")
    assert page.stat().st_size > 10_000


def test_a_model_of_images_says_that_it_has_no_tokens(files, tmp_path):
    run("vision", small("vision", files, tmp_path / "run", 2))
    with pytest.raises(CaptureError, match="a model of vision has no tokens to show; regard predict"):
        captured_recipe(tmp_path / "run", "x", "full")


@pytest.mark.parametrize(
    ("task", "steps", "enough"),
    [("text", 60, ("accuracy", 90)), ("tag", 60, ("f1", 90)), ("vision", 60, ("accuracy", 75))],
)
def test_what_can_be_learned_is_learned(task, steps, enough, files, tmp_path):
    more = ("width=8", "lr=0.02") if task == "vision" else ("lr=0.01",)
    result = run(task, small(task, files, tmp_path / "run", steps, *more, baselines=False))
    assert result["test"][enough[0]] > enough[1]


def test_each_image_is_moved_on_its_own_and_mirrored_or_not():
    torch.manual_seed(0)
    image = torch.randint(1, 256, (1, 2, 5, 7), dtype=torch.uint8)
    both = torch.nn.functional.pad(torch.cat([image, image.flip(3)]), (1, 1, 1, 1))
    allowed = [one[:, i : i + 5, k : k + 7] for one in both for i in range(3) for k in range(3)]
    made = vision.moved(image.expand(200, -1, -1, -1), 1)
    seen = {next(n for n, one in enumerate(allowed) if torch.equal(one, found)) for found in made}
    assert len(seen) == 18  # every one of them comes up
    assert torch.equal(vision.moved(image, 0).sum(), image.sum())


def test_a_mirrored_judgement_is_the_same_for_an_image_and_its_mirror_image():
    torch.manual_seed(0)
    about = {"settings": vars(vision.Settings(width=4, mirror=True)), "classes": ["a", "b"], "shape": [1, 20, 20]}
    model, images = vision.network(about).eval(), torch.randn(3, 1, 20, 20)
    torch.testing.assert_close(vision.judged(model, images, about), vision.judged(model, images.flip(3), about))
    plain = vision.judged(model, images, {"settings": {"mirror": False}})
    assert torch.equal(plain, model(images))
    assert not torch.allclose(plain, model(images.flip(3)))


def test_erasing_takes_out_one_square_of_at_most_its_size():
    torch.manual_seed(0)
    gone = (vision.erased(torch.ones(300, 2, 9, 12), 4) == 0).float()
    assert torch.equal(gone[:, 0], gone[:, 1])
    heights, widths = gone[:, 0].amax(2).sum(1), gone[:, 0].amax(1).sum(1)
    assert torch.equal(heights * widths, gone[:, 0].sum((1, 2)))  # rectangles
    assert (heights.max(), widths.max(), heights.min() > 0) == (4, 4, True)
    assert gone[:, 0].amax(0).all()  # any place may be hit
    assert torch.equal(vision.erased(torch.ones(2, 1, 5, 5), 0), torch.ones(2, 1, 5, 5))


@pytest.mark.parametrize("gate", ["none", "se", "eca", "cbam", "ca", "window"])
@pytest.mark.parametrize("where", ["residual", "stages", "stem"])
def test_each_gate_fits_in_each_place_and_its_cost_is_said(gate, where):
    settings = vision.Settings(gate=gate, where=where, width=8)
    about = {"settings": vars(settings), "classes": ["a", "b"], "shape": [1, 28, 28]}
    model = vision.network(about)
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 2)
    assert (about["cost"]["parameters"] == 0) == (gate == "none")


def test_a_gate_or_place_that_there_is_not_is_refused():
    about = {"settings": vars(vision.Settings(gate="sse")), "classes": ["a"], "shape": [1, 28, 28]}
    with pytest.raises(
        DataError, match=r"gate=sse at where=residual: gates are none, se, .*; places are residual, stages, stem"
    ):
        vision.network(about)


def test_packed_rows_give_the_scores_of_padded_ones():
    torch.manual_seed(0)
    about = {"settings": vars(text.Settings(width=16, counted=50)), "words": 40, "classes": ["a", "b"]}
    model = text.network(about).eval()
    ids = torch.randint(2, 40, (3, 7))
    lengths = torch.tensor([7, 3, 5])
    ids[torch.arange(7) >= lengths[:, None]] = 0
    with torch.no_grad():
        row, where = text._packed(ids, lengths)
        torch.testing.assert_close(model(*row, **where), model(ids, lengths), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rotary", "alibi", "relative"])
def test_padding_has_no_effect_whatever_the_positions(position):
    torch.manual_seed(0)
    about = {
        "settings": vars(text.Settings(width=16, position=position, grams=2, buckets=50, counted=50)),
        "words": 40,
        "classes": ["a", "b"],
    }
    model = text.network(about).eval()
    ids = torch.randint(2, 40, (1, 5))
    longer = torch.nn.functional.pad(ids, (0, 4))
    with torch.no_grad():
        torch.testing.assert_close(
            model(longer, torch.tensor([5])), model(ids, torch.tensor([5])), atol=1e-6, rtol=1e-5
        )


@pytest.mark.parametrize("change", [{}, {"window": 5}, {"linear": True}, {"grams": 1}, {"layers": 0}])
def test_generation_with_a_cache_is_that_without(change):
    torch.manual_seed(0)
    model = lm.Model(30, lm.Settings(**({"width": 16, "heads": 2, "layers": 2, "buckets": 60} | change))).eval()
    start = [5, 6, 7, 8]
    assert lm.generate(model, start, 12, cached=True) == lm.generate(model, start, 12, cached=False)


def test_a_character_sees_nothing_of_what_comes_after_it():
    torch.manual_seed(0)
    model = lm.Model(30, lm.Settings(width=16, heads=2, layers=2, buckets=60)).eval()
    ids = torch.randint(2, 30, (1, 10))
    other = ids.clone()
    other[0, 6:] = torch.randint(2, 30, (4,))
    with torch.no_grad():
        assert torch.equal(model(ids)[:, :6], model(other)[:, :6])


@pytest.mark.parametrize("model", ["linear", "patch", "points"])
def test_each_model_of_series_forecasts(model):
    settings = series.Settings(model=model, past=48, ahead=12)
    made = series.network({"settings": vars(settings), "channels": ["a", "b"]})
    hours = torch.arange(60)[None].expand(3, -1)
    assert made(torch.randn(3, 48, 2), hours, torch.ones(3, 48, dtype=torch.bool)).shape == (3, 12, 2)


def test_rows_that_were_not_measured_have_no_effect_on_the_forecast_of_points():
    torch.manual_seed(0)
    made = series.network(
        {"settings": vars(series.Settings(model="points", past=20, ahead=4)), "channels": ["a", "b"]}
    ).eval()
    past, hours, keep = torch.randn(2, 20, 2), torch.arange(24)[None].expand(2, -1), torch.rand(2, 20) < 0.6
    keep[:, -1] = True
    other = torch.where(keep[..., None], past, torch.randn(2, 20, 2))
    with torch.no_grad():
        torch.testing.assert_close(made(past, hours, keep), made(other, hours, keep))


@pytest.mark.parametrize("model", ["cross", "both", "concat", "recurrent"])
def test_each_reader_points_inside_its_context(model):
    torch.manual_seed(0)
    reader = qa.Reader(qa.Settings(model=model, width=16, heads=2), 50).eval()
    context, question = torch.randint(3, 6, (2, 12, word_rows.COLUMNS)), torch.randint(3, 6, (2, 5, word_rows.COLUMNS))
    context[1, 7:] = 0
    scores = reader(context, question)
    spans = best_spans(scores)
    assert all(0 <= a <= b < n for (a, b), n in zip(spans, (12, 7)))


def test_readers_have_about_equally_many_parameters():
    counts = {m: sum(p.numel() for p in qa.Reader(qa.Settings(model=m), 100).parameters()) for m in ("cross", "concat")}
    assert 0.97 < counts["cross"] / counts["concat"] < 1.03


def test_spans_survive_tokens_and_joined_contexts():
    tokenizer = words.learn(["the elbe is long . a b c"], least=1, special=("[NONE]",))
    one = Question("1", "", "The Elbe is long .", "what is long", (4,), ("Elbe",))
    other = Question("2", "", "a b c", "what", (), ())
    passage, distractor = tokenized(tokenizer, one), tokenized(tokenizer, other)
    assert passage.text(passage.start, passage.end) == "Elbe"
    for place in (0, 1):
        whole = joined([distractor], passage, place, 50)
        assert whole.text(whole.start, whole.end) == "Elbe"
    assert whole.text(1, len(whole.context) - 1) == ""  # from one context into another


def test_the_answer_overlaps_with_the_likeliest_spans():
    scores = torch.full((1, 6, 6), -1e4)
    scores[0, 5, 5], scores[0, 1, 2], scores[0, 1, 3] = 1.0, 0.9, 0.9  # two that nearly agree, and one alone
    assert best_spans(scores, among=1) == [(5, 5)]
    assert best_spans(scores) in ([(1, 2)], [(1, 3)])


def question_rows(context, question):
    texts = [context, question]
    tokenizer = words.learn(texts, least=1, special=("[NONE]",))
    return tokenized(tokenizer, Question("1", "", context, question, (), ()))


def test_questions_say_the_same_word_the_same_stem_and_the_share_of_the_question_in_each_passage():
    passage = question_rows("Rivers flow . Publishers printed it", "who published the rivers")
    context, question = passage.context.clone()[None], passage.question[None]
    context[0, 4:, word_rows.PASSAGE] = 2
    layer = matching.Matching(8, 30)
    of_context, of_question = layer.features(context, question)
    assert of_context[0, :, 0].tolist() == [0, 1, 0, 0, 0, 0, 0]  # the same word: Rivers
    assert of_context[0, :, 2].tolist() == [0, 1, 0, 0, 1, 0, 0]  # the same stem: Publishers too
    assert of_question[0, :, 2].tolist() == [0, 1, 0, 1]
    assert of_context[0, :, 4].tolist() == [0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25]
    assert of_context[0, 1:, 5].tolist() == [1] * 6


def test_padding_changes_nothing_of_what_matches():
    passage = question_rows("Rivers flow . Publishers printed it", "who published the rivers")
    longer = [torch.nn.functional.pad(rows[None], (0, 0, 0, 3)) for rows in (passage.context, passage.question)]
    layer = matching.Matching(8, 30)
    for short, long in zip(layer.features(passage.context[None], passage.question[None]), layer.features(*longer)):
        torch.testing.assert_close(short, long[:, : short.shape[1]])


def test_a_word_that_every_context_has_is_not_rare():
    rows = [question_rows(f"the {word} .", "x").context for word in ("river", "tower")]
    rarity = matching.rarities(rows, 10)
    assert rarity[rows[0][1, word_rows.ID]] == 0
    assert rarity[words.UNKNOWN] == 1


def test_answers_are_judged_by_words_and_chinese_ones_by_characters():
    english = Question("1", "", "the big river", "q", (4,), ("big river",))
    chinese = Question("2", "", "易北河很长", "q", (0,), ("易北河",))
    assert judged(["the big river"], [english])["exact"] == 100
    assert judged(["易北"], [chinese])["f1"] == pytest.approx(80)
    assert judged([""], [english._replace(starts=(), answers=())])["exact"] == 100


def test_a_beam_of_one_takes_the_likeliest_piece_each_time():
    torch.manual_seed(0)
    model = translate.Translator(translate.Settings(width=16, heads=2), 40).eval()
    source = torch.randint(4, 40, (3, 6))
    source[1, 4:] = 0
    for row, found in zip(source, translate.search(model, source, 1, 9)):
        ids = [translate.BEGIN]
        while len(ids) < 10 and ids[-1] != translate.END:  # without a cache, each sentence alone
            scores = model(row[row != 0][None], torch.tensor([ids]))[0, -1]
            scores[[words.PAD, words.UNKNOWN, translate.BEGIN]] = -torch.inf
            ids.append(int(scores.argmax()))
        assert found == [i for i in ids[1:] if i != translate.END]


def test_a_sentence_is_translated_alike_alone_and_among_others():
    torch.manual_seed(2)
    model = translate.Translator(translate.Settings(width=16, heads=2), 12).eval()
    source = torch.randint(4, 12, (5, 7))
    source[2, 3:] = 0
    together = translate.search(model, source, 3, 20)
    assert together == [translate.search(model, row[row != 0][None], 3, 20)[0] for row in source]
    assert len({len(found) for found in together}) > 1  # some are done before others


def test_a_beam_wide_enough_for_all_beginnings_finds_the_best_target():
    torch.manual_seed(1)
    model = translate.Translator(translate.Settings(width=16, heads=2), 8).eval()  # the pieces 4 to 7, and the end
    source = torch.randint(4, 8, (4, 5))
    targets = [list(ids) for n in range(3) for ids in itertools.product(range(4, 8), repeat=n)]

    def score(row, ids, penalty):
        scores = model(row[None], torch.tensor([[translate.BEGIN, *ids]])).log_softmax(-1)[0]
        return float(sum(scores[i, k] for i, k in enumerate([*ids, translate.END]))) / (len(ids) + 1) ** penalty

    with torch.no_grad():
        for penalty in (0.0, 1.0, 2.0):
            best = [max(targets, key=lambda ids: score(row, ids, penalty)) for row in source]
            assert translate.search(model, source, 25, 3, penalty) == best


def test_alignment_is_a_distribution_over_the_source():
    torch.manual_seed(0)
    model = translate.Translator(translate.Settings(width=16, heads=2), 40).eval()
    weights = translate.alignment(model, torch.randint(4, 40, (1, 6)), torch.randint(4, 40, (1, 5)))
    assert weights.shape == (5, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))


@pytest.mark.parametrize("model", ["attention", "bilstm", "none"])
@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize(("buckets", "evidence"), [(0, 0), (50, 0), (0, 2), (50, 2)])
def test_taggers_ignore_padding(model, crf, buckets, evidence):
    torch.manual_seed(0)
    given = {"buckets": buckets, "evidence": evidence, "counted": 500}
    settings = vars(tag.Settings(model=model, crf=crf, width=16, heads=2, layers=1, **given))
    made = tag.Tagger({"settings": settings, "words": ["a"] * 30, "tags": ["O", "B-X", "I-X"], "letters": False}).eval()
    ids, parts = torch.randint(2, 30, (1, 5)), torch.randint(1, 50, (1, 5, 2))
    if buckets:
        torch.nn.init.normal_(made.encoder.extra.embed.weight)
    if evidence:
        made.counts.table.random_(0, 9)
    longer, more = torch.nn.functional.pad(ids, (0, 3)), torch.nn.functional.pad(parts, (0, 0, 0, 3))
    with torch.no_grad():
        a = made(ids, torch.tensor([5]), parts)
        b = made(longer, torch.tensor([5]), more)[:, :5]
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert len(made.decode(ids, torch.tensor([5]), parts)[0]) == 5


def test_the_table_of_variants_is_resumed_and_says_mean_spread_and_cost(files, tmp_path, monkeypatch):
    monkeypatch.setattr(vision, "VARIANTS", {"none": {"gate": "none"}, "SE": {"gate": "se"}})
    asked = small("vision", files, tmp_path / "t", 2)
    table = compare("vision", asked, seeds=2)
    assert [row["name"] for row in table["rows"]] == ["none", "SE"]
    assert [len(row["scores"]) for row in table["rows"]] == [2, 2]
    done = tmp_path / "t/SE/seed-1/result.json"
    before = done.stat().st_mtime_ns
    (tmp_path / "t/SE/seed-0/result.json").unlink()
    assert compare("vision", asked, seeds=2)["rows"][1]["scores"] == table["rows"][1]["scores"]
    assert done.stat().st_mtime_ns == before
    assert "| SE |" in markdown(table)
    with pytest.raises(DataError, match="vision has the variants none, SE, not 'CBAM'"):
        compare("vision", asked, seeds=1, only=["CBAM"])


@pytest.mark.parametrize(
    ("words_", "said"),
    [
        ("hads=4", r"--set hads=4: text has no such setting; it has heads=4"),
        ("heads=many", r"--set heads=many: heads is of type int, now 4"),
        ("heads", r"--set heads: text has no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused(words_, said):
    with pytest.raises(DataError, match=said):
        changed(text.Settings(), [words_], "text")


@pytest.mark.parametrize("task", ["text", "lm", "tag", "qa", "series", "translate", "vision"])
def test_data_that_is_not_there_is_refused_with_the_names_that_are(task, tmp_path):
    with pytest.raises(DataError, match=f"'nowhere' is neither a file or folder nor a data set of {task}: "):
        run(task, Asked(data="nowhere", out=tmp_path))
