"""Each standard set of the checking data is read by the recipe that takes it, with its known counts, and trains for two steps."""

import pytest

from regard.core.errors import DataError
from regard.recipes.asked import Asked
from regard.recipes.data import labelled, parallel_text, pictures, plain_text, questions, table, tagged
from regard.recipes.run import run


@pytest.fixture
def data(check_data):
    if not (check_data / "data").is_dir():
        pytest.skip("the checking data has no folder data")
    return check_data / "data"


@pytest.mark.slow
def test_aclimdb_has_its_reviews(data):
    splits = labelled.read_labelled(data / "aclImdb.tar.xz")
    assert len(splits.test) == 24_980
    assert 24_800 < len(splits.train) + len(splits.val) <= 24_980  # copies are left out
    assert {row.label for row in splits.train} == {"pos", "neg"}


@pytest.mark.parametrize(
    ("pattern", "total", "repair"),
    [
        ("xquad.en.json", 1190, False),
        ("xquad.zh.json", 1190, False),
        ("qamr.*.json", 33_425, False),
        ("cmrc2018_trial.json", 1002, True),
    ],
)
def test_squad_files_are_read_and_their_spans_hold(data, pattern, total, repair):
    splits = questions.read_questions(data / pattern, repair=repair)
    every = [one for part in splits for one in part]
    assert 0.99 * total <= len(every) <= total  # questions that occur twice are joined
    for one in every:
        assert all(one.context[s : s + len(a)] == a for s, a in zip(one.starts, one.answers))
    assert not {one.title for one in splits.train} & {one.title for one in splits.test}


def test_cmrc_as_it_is_is_refused_because_some_answers_are_not_in_their_place(data):
    with pytest.raises(
        DataError, match=r"question TRIAL_210_QUERY_0: the answer '俗名龙尖' is not at character 14 .* it stands at 13"
    ):
        questions.read_questions(data / "cmrc2018_trial.json")


@pytest.mark.parametrize(
    ("pattern", "counts", "types"),
    [
        ("resume_ner.*.bmes", (3821, 463, 477), 8),
        ("weibo_ner.*.conll", (1350, 270, 270), 8),
        ("wnut17.*.conll", (3394, 1009, 1287), 6),
    ],
)
def test_tagged_files_are_read_into_bio(data, pattern, counts, types):
    splits = tagged.read_tagged(data / pattern)
    assert tuple(map(len, splits)) == counts
    tags = {tag for part in splits for row in part for tag in row.tags}
    assert {tag[0] for tag in tags} == {"B", "I", "O"}
    assert len({tag[2:] for tag in tags if tag != "O"}) == types


def test_series_pictures_pairs_and_text_have_their_sizes(data):
    series = table.read_series(data / "ETTh1.csv")
    assert series.values.shape == (17_420, 7)
    splits = parallel_text.read_pairs(data / "multi30k.*", "en", "de")
    assert tuple(map(len, splits)) == (29_000, 1_014, 1_000)
    assert len(plain_text.read_text(data / "tinyshakespeare.txt")) == 1_115_394


@pytest.mark.slow
def test_cifar_is_read_from_its_zip(data):
    found = pictures.read_pictures(data / "cifar10_images.zip")
    assert len(found.test.labels) == 5_000
    assert found.train.images.shape[1:] == (3, 32, 32)


TINY = ("width=16", "heads=2", "layers=1", "evaluate=2")
TASKS = {
    "lm": ("tinyshakespeare.txt", (*TINY, "context=16")),
    "tag resume": ("resume_ner.*.bmes", TINY),
    "tag weibo": ("weibo_ner.*.conll", TINY),
    "tag wnut": ("wnut17.*.conll", TINY),
    "qa english": ("xquad.en.json", (*TINY, "others=0")),
    "qa chinese": ("cmrc2018_trial.json", (*TINY, "others=0", "repair=true")),
    "series": ("ETTh1.csv", ("model=linear", "past=336", "ahead=96", "evaluate=2")),
    "translate": ("multi30k.*", (*TINY, "limit=300", "pieces=400", "beam=1")),
    "vision": ("cifar10_images.zip", ("width=4", "limit=300", "evaluate=2")),
    "text": ("aclImdb.tar.xz", (*TINY, "limit=300", "length=50", "grams=1")),
}
LARGE = {"translate", "vision", "text", "lm"}  # seconds of reading or of testing on thousands of samples


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in TASKS]
)
def test_a_recipe_trains_on_the_file(data, tmp_path, case):
    name, settings = TASKS[case]
    asked = Asked(data=str(data / name), out=tmp_path, steps=2, batch=8, baselines=False, settings=settings)
    result = run(case.split()[0], asked)
    assert result["steps"] == 2
    assert result["metric"] in result["test"]
