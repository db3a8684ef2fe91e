"""Which tag may follow which: what a CRF decodes is whole entities, and what the training sentences have stays possible."""

import json
import random
from types import SimpleNamespace

import pytest
import torch

from regard.recipes.data.tagged import with_ends
from regard.recipes.tag_order import NEVER, may_follow, told, torn

TAGS = ["B-X", "E-X", "I-X", "S-X", "B-Y", "E-Y", "O"]
draw = random.Random(0)


def entities(length):
    """BIO tags in which every entity begins with B."""
    made = []
    while len(made) < length:
        kind = draw.choice("XYO")
        made += ["O"] if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * draw.randint(0, 2)
    return made


def scores():
    K = len(TAGS)
    return SimpleNamespace(
        start_transitions=torch.zeros(K), transitions=torch.zeros(K, K), end_transitions=torch.zeros(K)
    )


def test_what_can_be_written_may_follow():
    for _ in range(200):
        tags = with_ends(entities(draw.randint(1, 9)))
        assert all(may_follow(a, b) for a, b in zip([None, *tags], [*tags, None])), tags


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "I-X"), (None, "E-X"), ("O", "I-X"), ("O", "E-X"), ("B-X", "O"), ("B-X", "B-X"), ("B-X", "S-Y"), ("I-X", "E-Y"),
     ("I-X", None), ("B-X", None), ("E-X", "I-X"), ("S-X", "E-X")],
)  # fmt: skip
def test_what_tears_an_entity_or_goes_on_without_one_may_not(before, after):
    assert not may_follow(before, after)


def test_what_cannot_be_is_never_decoded_what_can_keeps_its_score_and_the_crf_stays_as_it_was():
    before = scores()
    crf = told(before, TAGS, [])
    for i, tag in enumerate(TAGS):
        assert crf.start_transitions[i] == (0 if may_follow(None, tag) else NEVER)
        assert crf.end_transitions[i] == (0 if may_follow(tag, None) else NEVER)
        for k, after in enumerate(TAGS):
            assert crf.transitions[i, k] == (0 if may_follow(tag, after) else NEVER)
    assert all((each == 0).all() for each in vars(before).values())


def test_what_the_training_sentences_have_stays_possible_also_read_from_json():
    found = torn([["I-X", "E-X", "O"], ["O", "B-X", "E-Y"], ["O", "B-X", "E-Y"]])
    assert found == [("B-X", "E-Y"), (None, "I-X")]
    crf = told(scores(), TAGS, json.loads(json.dumps(found)))
    assert crf.start_transitions[TAGS.index("I-X")] == 0
    assert crf.transitions[TAGS.index("B-X"), TAGS.index("E-Y")] == 0
    assert crf.start_transitions[TAGS.index("E-X")] == NEVER


def test_whole_entities_are_decoded_whatever_the_scores():
    torchcrf = pytest.importorskip("torchcrf")
    generator = torch.Generator().manual_seed(0)
    some, keep = 5 * torch.randn(50, 6, len(TAGS), generator=generator), torch.ones(50, 6, dtype=torch.bool)

    def all_may(row):
        tags = [TAGS[i] for i in row]
        return all(may_follow(a, b) for a, b in zip([None, *tags], [*tags, None]))

    crf = torchcrf.CRF(len(TAGS), batch_first=True)
    assert not all(map(all_may, crf.decode(some, mask=keep))), "the scores alone tear entities"
    assert all(map(all_may, told(crf, TAGS, []).decode(some, mask=keep)))


def test_parts_of_speech_may_stand_anywhere():
    crf = told(scores(), ["NN", "VB", "IN-HL", "BEZ", "IN", "EX", "S"], [])
    assert all((each == 0).all() for each in vars(crf).values())
