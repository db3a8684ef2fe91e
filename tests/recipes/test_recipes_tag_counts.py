"""Tags that n-grams had in training: the counts are those of open loops, and no sentence is told its own tags."""

import math
import random

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from regard.recipes.asked import Asked
from regard.recipes.run import run
from regard.recipes.tag import Settings, Tagger, restore
from regard.recipes.tag_counts import PRIOR, TagCounts
from regard.recipes.words import UNKNOWN

TAGS, BUCKETS, ROUNDING = 3, 100_003, 1e-5  # so many buckets that these few n-grams do not meet
draw = random.Random(0)
ROWS = [[draw.randint(1, 6) for _ in range(draw.randint(1, 9))] for _ in range(12)]  # 1: an unknown token
RIGHT = [[draw.randrange(TAGS) for _ in row] for row in ROWS]


def kinds_at(row, place, sizes):
    """The n-grams around a place, with the kind of each; None where one is unknown or reaches over an end."""
    for size in range(1, sizes + 1):
        for after in range(size):
            begin, end = place + after - size + 1, place + after + 1
            whole = begin >= 0 and end <= len(row) and UNKNOWN not in row[begin:end]
            yield (size, after, *row[begin:end]) if whole else None


def told(row, place, kind, others, sizes):
    """Slowly: the logarithm of each tag's share, of that n-gram in other sentences, over its share of all tokens."""
    every = [1 + sum(tags.count(k) for tags in RIGHT) for k in range(TAGS)]
    usual = [n / sum(every) for n in every]
    wanted = list(kinds_at(row, place, sizes))[kind]
    counts = [0] * TAGS
    for i in others:
        for p in range(len(ROWS[i])):
            if wanted is not None and list(kinds_at(ROWS[i], p, sizes))[kind] == wanted:
                counts[RIGHT[i][p]] += 1
    return [math.log((n + PRIOR * u) / (sum(counts) + PRIOR) / u) for n, u in zip(counts, usual)]


def counted(sizes):
    made = TagCounts(TAGS, sizes, BUCKETS)
    made.count([torch.tensor(row) for row in ROWS], [torch.tensor(tags) for tags in RIGHT])
    return made


def padded(rows):
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


@pytest.mark.parametrize("sizes", [1, 2, 3])
def test_a_training_sentence_is_told_what_the_others_alone_tell_and_a_new_one_what_all_tell(sizes):
    counts = counted(sizes)
    own, new = counts(padded(ROWS), padded(RIGHT)), counts(padded(ROWS))
    assert own.shape == (len(ROWS), max(map(len, ROWS)), sizes * (sizes + 1) // 2, TAGS)
    for i, row in enumerate(ROWS):
        others = [j for j in range(len(ROWS)) if j != i]
        for place in range(len(row)):
            for kind in range(counts.kinds):
                assert own[i, place, kind].tolist() == pytest.approx(
                    told(row, place, kind, others, sizes), abs=ROUNDING
                )
                assert new[i, place, kind].tolist() == pytest.approx(
                    told(row, place, kind, range(len(ROWS)), sizes), abs=ROUNDING
                )


def test_padding_unknown_tokens_and_n_grams_that_nobody_saw_tell_nothing():
    counts = counted(2)
    assert counts(torch.tensor([[0, UNKNOWN, 99]])).abs().max() == 0


def test_the_company_of_a_sentence_changes_nothing():
    counts = counted(3)
    together = counts(padded(ROWS), padded(RIGHT))
    for i, row in enumerate(ROWS):
        alone = counts(torch.tensor([row]), torch.tensor([RIGHT[i]]))[0]
        assert torch.equal(together[i, : len(row)], alone)


def test_a_hidden_token_takes_all_its_n_grams_with_it_and_still_counts_in_what_is_taken_out():
    counts, row, tags = counted(2), torch.tensor([[2, 3, 2, 3]]), torch.tensor([[0, 1, 0, 1]])
    counts.count([row[0]], [tags[0]])
    made = counts(row, tags, torch.tensor([[False, True, False, False]]))
    assert made.abs().max() == 0, "nobody else has these n-grams, and the sentence is not told its own"
    new = counts(row, None, torch.tensor([[False, True, False, False]]))[0].abs().sum(-1) > 0  # (T, G)
    assert new.tolist() == [[True, False, False], [False, False, False], [True, False, True], [True, True, False]]


def test_a_tagger_is_told_of_other_sentences_only_while_it_learns():
    settings = vars(Settings()) | {"width": 16, "heads": 2, "buckets": 0, "evidence": 2, "counted": 997, "dropout": 0.0}
    about = {"settings": settings, "words": list("abcdefg"), "tags": list("xyz"), "letters": False}
    torch.manual_seed(0)
    model = Tagger(about).eval()
    ids, right = torch.tensor([[2, 3, 4]]), torch.tensor([[0, 1, 2]])
    model.counts.count([ids[0]], [right[0]])
    lengths, parts = torch.tensor([3]), ids.new_zeros(1, 3, 0)
    scores = model(ids, lengths, parts)
    blind = Tagger(about).eval()
    blind.load_state_dict(model.state_dict())
    blind.counts.table.zero_()
    assert not torch.allclose(scores, blind(ids, lengths, parts))
    assert torch.allclose(model(ids, lengths, parts, right), blind(ids, lengths, parts, right), atol=ROUNDING)


def test_a_tagger_with_counts_and_an_average_trains_is_saved_and_reads_a_sentence(tmp_path):
    words = "红绿狗猫跑睡屋"
    rows = [[draw.choice(words) for _ in range(8)] for _ in range(150)]
    lines = ["\n".join(f"{w} {'B-ANIMAL' if w in '狗猫' else 'O'}" for w in row) for row in rows]
    (tmp_path / "tag.conll").write_text("\n\n".join(lines), encoding="utf-8")
    given = (
        "width=16",
        "heads=2",
        "layers=1",
        "buckets=0",
        "batch=16",
        "evaluate=10",
        "evidence=2",
        "counted=500",
        "average=0.9",
    )
    asked = Asked(data=str(tmp_path / "tag.conll"), out=tmp_path / "run", steps=40, watch=0, settings=given)
    assert run("tag", asked)["test"]["f1"] == 100
    assert restore(tmp_path / "run").predict("红狗") == ["红\tO", "狗\tB-ANIMAL"]
