"""Our attention inside transformers models: caches, generation, weights, masks of our own, what is refused, and undo."""

import inspect

import pytest

pytest.importorskip("transformers", reason="needs transformers")
import torch
import transformers
from hf_models import RUN, T, filled, numbers, padded, tokens
from torch import nn

from regard.adapt import hf
from regard.adapt.hf_call import read_mask
from regard.core.errors import AdaptError, BackendError
from regard.core.mask import structure
from regard.core.mask.sequences import Padding
from regard.mask import causal, documents, sliding_window

FUSED = 1e-5


@pytest.fixture(scope="module")
def llama():
    return RUN["llama (GQA)"]().model


@pytest.fixture(scope="module")
def bert():
    return RUN["bert"]().model


def eager_and_ours(model, call, **options):
    with torch.no_grad():
        before = call(model)
        with hf.use(model, **options) as used:
            after = call(model)
    return before, after, used


def cache_argument(model) -> str:
    """transformers renamed it in version 5."""
    taken = inspect.signature(model.forward).parameters
    return "cache" if "cache" in taken else "past_key_values"


def test_weights_are_returned_when_they_are_asked_for_and_only_then(bert):
    def call(model):
        return model(**padded(), output_attentions=True).attentions

    eager, ours, _ = eager_and_ours(bert, call)
    assert len(ours) == len(eager) == 2
    for one, other in zip(eager, ours, strict=True):
        assert one.shape == other.shape == (2, 4, T, T)
        torch.testing.assert_close(other, one, atol=1e-6, rtol=0)
    with hf.use(bert), torch.no_grad():
        assert bert(**padded()).attentions is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_of_a_causal_model_with_sinks_are_those_of_eager_wherever_padding_stands(side):
    model, given = RUN["gpt_oss (sinks)"]().model, padded(side)

    def call(model):
        return model(**given, output_attentions=True).attentions

    eager, ours, _ = eager_and_ours(model, call)
    keep = given["attention_mask"].bool()
    for one, other in zip(eager, ours, strict=True):
        torch.testing.assert_close(other.transpose(1, 2)[keep], one.transpose(1, 2)[keep], atol=1e-6, rtol=0)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_with_a_cache_and_left_padding_writes_the_same_tokens(llama, cache):
    given = padded("left")
    static = {"cache_implementation": "static"} if cache == "static" else {}

    def call(model):
        return model.generate(
            **given, max_new_tokens=6, do_sample=False, pad_token_id=0, disable_compile=True, **static
        )

    eager, ours, used = eager_and_ours(llama, call, backend="open")
    assert eager.shape == (2, T + 6)
    assert eager.tolist() == ours.tolist()
    assert used.calls == {f"model.layers.{i}.self_attn": 1 for i in range(2)}


@pytest.mark.parametrize("name", ["llama (GQA)", "mistral (window)", "gemma2 (softcap)"])
def test_decoding_with_a_cache_is_the_full_forward(name):
    model, ids = RUN[name]().model, tokens()
    with hf.use(model), torch.no_grad():
        full = model(ids, use_cache=False)[0]
        cache = transformers.DynamicCache(config=model.config)
        pieces = [ids[:, :5], *ids[:, 5:].split(1, dim=1)]
        parts = [model(piece, **{cache_argument(model): cache}, use_cache=True)[0] for piece in pieces]
    torch.testing.assert_close(torch.cat(parts, dim=1), full, atol=FUSED, rtol=0)


def test_gradients_are_those_of_eager(bert):
    def gradient():
        bert.zero_grad()
        bert(**padded()).last_hidden_state[padded()["attention_mask"].bool()].square().sum().backward()
        return torch.cat([p.grad.flatten() for p in bert.parameters() if p.grad is not None])

    eager = gradient()
    with hf.use(bert):
        ours = gradient()
    torch.testing.assert_close(ours, eager, atol=1e-5 * eager.abs().max().item(), rtol=0)


def test_dropout_is_applied_in_training_and_not_in_eval(bert):
    ids = tokens()
    with hf.use(bert), torch.no_grad():
        still = [bert(ids).last_hidden_state for _ in range(2)]
        bert.train()
        moving = [bert(ids).last_hidden_state for _ in range(2)]
    bert.eval()
    assert torch.equal(*still)
    assert not torch.equal(*moving)


def test_it_compiles_in_one_graph_after_its_first_forward(llama):
    ids = tokens()
    with hf.use(llama), torch.no_grad():
        plain = llama(ids, use_cache=False).logits
        compiled = torch.compile(llama, backend="aot_eager", fullgraph=True)(ids, use_cache=False).logits
    torch.testing.assert_close(compiled, plain, atol=FUSED, rtol=0)


def test_a_window_of_ours_reaches_no_further(bert):
    ids = tokens()
    other = ids.clone()
    other[:, -1] = 1
    with hf.use(bert, mask=sliding_window(left=1, right=1)) as used, torch.no_grad():
        first, second = bert(ids).last_hidden_state, bert(other).last_hidden_state
        moved = (first - second).abs().amax(dim=(0, 2)) > 0
        assert moved.tolist() == [False] * (T - 3) + [True] * 3  # two layers of one token each
        used.mask = None
        assert ((bert(ids).last_hidden_state - bert(other).last_hidden_state).abs().amax(dim=(0, 2)) > 0).all()


def test_documents_packed_in_one_row_are_computed_as_if_each_stood_alone(bert):
    ids, ends = tokens()[:1], (4, T)
    place = torch.tensor([[*range(4), *range(T - 4)]])
    with torch.no_grad():
        alone = torch.cat([bert(ids[:, :4]).last_hidden_state, bert(ids[:, 4:]).last_hidden_state], dim=1)
        with hf.use(bert, mask=documents(torch.tensor([[0] * ends[0] + [1] * (T - 4)]))):
            packed = bert(ids, attention_mask=torch.ones_like(ids), position_ids=place).last_hidden_state
    torch.testing.assert_close(packed, alone, atol=FUSED, rtol=0)


def test_a_key_mask_that_was_spread_over_the_queries_is_read_as_a_key_mask():
    keep = torch.ones(2, 1, 1, T, dtype=torch.bool)
    mask, bias = read_mask(nn.Identity(), keep.expand(2, 1, T, T), False)
    assert bias is None
    assert isinstance(mask, Padding)
    assert structure.of(mask & sliding_window(2, 2)).plain  # a backend in linear cost can take it


def test_a_float_mask_is_added_to_the_scores(bert):
    given = numbers(2, 1, T, T)

    def call(model):
        return model(tokens(), attention_mask=given).last_hidden_state

    eager, ours, _ = eager_and_ours(bert, call, backend="open")
    assert torch.equal(eager, ours)


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (torch.ones(2, T), r"of shape \(2, 9\); \(B, 1, T, S\) was expected"),
        (torch.ones(2, 1, T, T, dtype=torch.long), r"of torch.int64, whose meaning is not fixed"),
        ("causal", r"a mask of type str; a tensor"),
    ],
)
def test_a_mask_of_unclear_meaning_is_refused(mask, text):
    with pytest.raises(AdaptError, match=text):
        read_mask(nn.Identity(), mask, False)


def called(**given):
    """The function that transformers calls, on random tensors."""
    model = RUN["bert"]().model
    with hf.use(model) as used:
        x = numbers(2, 4, T, 16)
        return used._attend(model.encoder.layer[0].attention.self, x, x, x, None, **given)


def test_an_argument_that_is_not_implemented_is_refused_by_name():
    with pytest.raises(
        AdaptError, match="passes head_mask, indexer_topk to its attention, which ours does not implement"
    ):
        called(head_mask=torch.ones(4), indexer_topk=3)
    output, weights = called(head_mask=None, use_cache=False, position_ids=torch.arange(T))
    assert output.shape == (2, T, 4, 16)
    assert weights is None


def test_packed_sequences_without_a_mask_that_parts_them_are_refused():
    with pytest.raises(AdaptError, match="packed in one row, and no mask that keeps them apart; pass position_ids"):
        called(cu_seq_lens_q=torch.tensor([0, 4, 9]))


class OwnAttention(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.project = inner.query

    def forward(self, hidden_states, *given, **named):
        return self.project(hidden_states), None


def test_one_layer_that_attends_by_itself_is_named_and_accepted_only_when_asked():
    model = RUN["bert"]().model
    layer = model.encoder.layer[1].attention
    layer.self = OwnAttention(layer.self)
    hf.use(model)
    where = r"1 OwnAttention \(encoder.layer.1.attention.self\) attended by themselves"
    with (
        pytest.raises(AdaptError, match=rf"1 attention modules of BertModel called ours, and {where}"),
        torch.no_grad(),
    ):
        model(**padded())
    assert model.config._attn_implementation == "eager"
    with hf.use(model, partial=True) as used, torch.no_grad():
        model(**padded())
    assert used.left == ["encoder.layer.1.attention.self"]
    assert str(used).endswith("1 modules called it, 1 attend without it")


def test_undo_gives_every_part_its_own_attention_back_and_takes_the_names_out():
    model = RUN["clip (two)"]().model
    model.config.vision_config._attn_implementation_internal = "sdpa"
    used = hf.use(model)
    assert {model.config.text_config._attn_implementation, model.config.vision_config._attn_implementation} == {
        used.name
    }
    used.undo()
    used.undo()
    assert model.config.text_config._attn_implementation == "eager"
    assert model.config.vision_config._attn_implementation == "sdpa"
    assert used.name not in transformers.AttentionInterface._global_mapping
    assert used.name not in transformers.AttentionMaskInterface._global_mapping
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_a_model_is_not_used_twice_at_once(bert):
    with (
        hf.use(bert) as used,
        pytest.raises(AdaptError, match=rf"attends with ours already \({used.name}\); call undo"),
    ):
        hf.use(bert)


def test_a_model_without_transformers_inside_is_sent_to_replace():
    with pytest.raises(AdaptError, match=r"Linear holds no transformers model; regard.replace\(model\)"):
        hf.use(nn.Linear(2, 2))
    with pytest.raises(AdaptError, match="a model was expected, got str"):
        hf.use("bert-base-uncased")  # pyright: ignore[reportArgumentType]


def test_masks_and_backends_that_cannot_be_are_refused(bert):
    with pytest.raises(AdaptError, match=r"mask must be a regard.mask or None, got Tensor; dense\(tensor\)"):
        hf.use(bert, mask=torch.ones(2, 2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(AdaptError, match=r"backend='open' is for regard.attention; another attention= was given"):
        hf.use(bert, backend="open", attention=lambda *given, **named: given[0])
    with hf.use(bert, backend="fast"), pytest.raises(BackendError, match="no backend 'fast'"):
        bert(**padded())


def test_another_attention_stands_in(llama):
    seen = []

    def spy(query, key, value, **given):
        seen.append(given["mask"])
        return torch.zeros_like(query)

    with hf.use(llama, attention=spy), torch.no_grad():
        llama(tokens())
        with pytest.raises(AdaptError, match="output_attentions=True needs the weights"):
            llama(tokens(), output_attentions=True)
    assert [repr(mask) for mask in seen][:2] == [repr(causal(offset=0))] * 2


def test_heads_whose_scale_is_no_power_of_two_are_within_rounding():
    config = transformers.BertConfig(hidden_size=48, num_attention_heads=4, num_hidden_layers=2, vocab_size=60)
    config._attn_implementation = "eager"
    model = filled(transformers.BertModel(config))
    eager, ours, _ = eager_and_ours(model, lambda m: m(**padded()).last_hidden_state, backend="open")
    assert (eager - ours).abs().max() <= FUSED
