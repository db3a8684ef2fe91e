"""Token labels are readable in any script, and a word is never taken by its first occurrence alone."""

import pytest
import torch

from regard.core.errors import CaptureError
from regard.recording.tokens import Tokens, readable


@pytest.fixture(scope="module")
def byte_level():
    """A byte-level tokenizer without merges: every byte is a token."""
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def test_several_tokens_of_one_character_are_numbered(byte_level):
    tokens = Tokens.from_tokenizer(byte_level, "注意 ok\n")
    assert tokens.labels == ["注₁", "注₂", "注₃", "意₁", "意₂", "意₃", "␣", "o", "k", "⏎"]
    assert tokens.find("意") == [range(3, 6)]


def test_merged_tokens_have_the_text_of_their_words(byte_level):
    tokens = Tokens.from_tokenizer(byte_level, "注意 ok")
    assert tokens.merged().labels == ["注意", "␣ok"]
    weights = torch.softmax(torch.randn(9, 9), -1)
    merged = tokens.merge(weights)
    assert tuple(merged.shape) == (2, 2)
    assert torch.allclose(merged.sum(-1), torch.ones(2))
    assert torch.allclose(merged[0, 1], weights[:6, 6:].sum(-1).mean())


def test_a_word_that_occurs_twice_is_refused_with_its_positions():
    tokens = Tokens(["the", "cat", "saw", "the", "dog"])
    with pytest.raises(CaptureError, match=r"'the' occurs 2 times, at 0, 3; say which: \('the', 0\) is the first"):
        tokens.position("the")
    assert tokens.position("the", 1) == range(3, 4)
    assert tokens.position("dog") == range(4, 5)
    assert tokens.position(2) == range(2, 3)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (("bird",), "'bird' is not among the 5 tokens"),
        (("the", 2), r"'the' occurs 2 time\(s\); occurrence 2 does not exist"),
        ((7,), "there is no position 7; positions are 0 to 4"),
    ],
)
def test_what_is_not_there_is_refused(ask, text):
    with pytest.raises(CaptureError, match=text):
        Tokens(["the", "cat", "saw", "the", "dog"]).position(*ask)


def test_labels_and_ids_of_other_lengths_are_refused():
    with pytest.raises(CaptureError, match="there are 2 labels and 3 ids"):
        Tokens(["a", "b"], ids=torch.arange(3))
    with pytest.raises(CaptureError, match=r"weights are \(3, 3\) and there are 2 tokens"):
        Tokens(["a", "b"]).merge(torch.ones(3, 3))


def test_special_tokens_keep_their_names_and_right_to_left_text_is_left_alone():
    assert readable("שלום a", [(0, 0), (0, 4), (4, 6)], ["[CLS]", "x", "y"]) == ["[CLS]", "שלום", "␣a"]


def test_words_fall_back_on_letters_that_touch():
    tokens = Tokens(
        ["un", "seen", "!", "好", "的"], text="unseen!好的", offsets=[(0, 2), (2, 6), (6, 7), (7, 8), (8, 9)]
    )
    assert tokens.merged().labels == ["unseen", "!", "好", "的"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_hugging_face_tokenizer_gives_the_same_labels(byte_level):
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level)
    assert Tokens.from_tokenizer(fast, "注a").labels == ["注₁", "注₂", "注₃", "a"]
