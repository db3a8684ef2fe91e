"""The tutorial's attention: what it calls right is right, what it calls wrong is wrong, and the checker sees both."""

import importlib.util
import inspect
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn

PLACE = pathlib.Path(__file__).parents[1] / "examples" / "tutorial_attention.py"
E, H, B, T, S = 32, 4, 3, 6, 7
SAME = {"rtol": 0.0, "atol": 1e-12}  # float64, sums of at most 64 terms of size 1: rounding stays below 1e-14
DIFFERENT = 1e-3  # a real fault changes outputs of size 0.1 to 1 by far more


def load(path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tutorial = load(PLACE)
FAULTS = {  # class -> the kind of fault, as the checker calls it
    "HeadListAttention": "scale-embed-dim",
    "ReshapedHeadsAttention": "head-split-order",
    "EncoderAttention": "mask-inverted",
    "TranslationAttention": "half-overflow-mask",
    "SentenceAttention": "fully-masked-nan",
    "StreamingAttention": "cache-stale",
    "ClassifierAttention": "dropout-in-eval",
}
RIGHT = ("FusedSelfAttention", "PerHeadSelfAttention", "MultiHeadAttention", "CrossAttention", "CachedCausalAttention")


@pytest.fixture
def draw():
    """Draw tensors of a shape in float64, the same ones in every run."""
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)


def build(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return getattr(tutorial, name)().double().eval()


def oracle(weights, biases, out, **widths) -> nn.MultiheadAttention:
    """torch's own layer with these query, key and value projections."""
    layer = nn.MultiheadAttention(E, H, bias=True, batch_first=True, dtype=torch.float64, **widths).eval()
    with torch.no_grad():
        if widths:
            for parameter, weight in zip((layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight), weights):
                parameter.copy_(weight)
        else:
            layer.in_proj_weight.copy_(torch.cat(weights))
        layer.in_proj_bias.copy_(torch.cat(biases) if biases else torch.zeros(3 * E))
        layer.out_proj.load_state_dict(out.state_dict())
    return layer


def fused(module: nn.Module) -> nn.MultiheadAttention:
    return oracle(module.qkv.weight.chunk(3), module.qkv.bias.chunk(3), module.out)


def padded() -> torch.Tensor:
    """(B, S) bool, True = a real token: all, five, and three of seven."""
    return torch.arange(S)[None] < torch.tensor([S, 5, 3])[:, None]


# --- the right ones ---------------------------------------------------------------------------------------------------


def test_fused_self_attention_equals_torch(draw):
    module, x = build("FusedSelfAttention"), draw(B, T, E)
    torch.testing.assert_close(module(x), fused(module)(x, x, x)[0], **SAME)


def test_attention_as_a_list_of_heads_equals_torch(draw):
    module, x = build("PerHeadSelfAttention"), draw(B, T, E)
    weights = [torch.cat([getattr(head, role).weight for head in module.heads]) for role in ("query", "key", "value")]
    torch.testing.assert_close(module(x), oracle(weights, None, module.out)(x, x, x)[0], **SAME)


@pytest.mark.parametrize("mask", [None, "padded"])
def test_multi_head_attention_equals_torch(draw, mask):
    module, query, key, value = build("MultiHeadAttention"), draw(B, T, E), draw(B, S, E), draw(B, S, E)
    keep = padded() if mask else None
    projections = module.w_query, module.w_key, module.w_value
    theirs = oracle([p.weight for p in projections], [p.bias for p in projections], module.w_out)
    expected = theirs(query, key, value, key_padding_mask=None if keep is None else ~keep)[0]
    torch.testing.assert_close(module(query, key, value, keep), expected, **SAME)


@pytest.mark.parametrize("mask", [None, "padded"])
def test_cross_attention_equals_torch(draw, mask):
    module, x, context = build("CrossAttention"), draw(B, T, E), draw(B, S, 48)
    keep = padded() if mask else None
    weights = [module.to_query.weight, module.to_key.weight, module.to_value.weight]
    theirs = oracle(weights, None, module.to_out, kdim=48, vdim=48)
    expected = theirs(x, context, context, key_padding_mask=None if keep is None else ~keep)[0]
    torch.testing.assert_close(module(x, context, keep), expected, **SAME)


@pytest.mark.parametrize("chunks", [(7,), (1,) * 7, (4, 3), (2, 2, 3)])
def test_cached_causal_attention_equals_torch_in_any_chunks(draw, chunks):
    module, x = build("CachedCausalAttention"), draw(B, S, E)
    outputs, past = [], None
    for chunk in x.split(chunks, dim=1):
        output, past = module(chunk, past)
        outputs.append(output)
    future = torch.ones(S, S, dtype=torch.bool).triu(1)
    torch.testing.assert_close(torch.cat(outputs, 1), fused(module)(x, x, x, attn_mask=future)[0], **SAME)


@pytest.mark.parametrize("name", ["MultiHeadAttention", "CrossAttention"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_sample_without_any_key_gives_zeros_and_finite_gradients(draw, name, dtype):
    module = build(name).to(dtype)
    x, context = draw(B, T, E).to(dtype).requires_grad_(), draw(B, S, 48 if name == "CrossAttention" else E).to(dtype)
    keep = padded()
    keep[1] = False
    output = module(x, context, keep) if name == "CrossAttention" else module(x, context, context, keep)
    bias = (module.to_out if name == "CrossAttention" else module.w_out).bias
    torch.testing.assert_close(output[1], bias.expand(T, E))
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [x, *module.parameters()])


@pytest.mark.parametrize("name", RIGHT)
def test_dropout_acts_in_training_and_never_after_eval(draw, name):
    module, x = build(name), draw(B, T, E)

    def call():
        if name == "MultiHeadAttention":
            return module(x, x, x)
        out = module(x, draw_context) if name == "CrossAttention" else module(x)
        return out[0] if isinstance(out, tuple) else out

    draw_context = draw(B, S, 48)
    assert torch.equal(call(), call())
    module.train()
    assert not torch.equal(call(), call())


# --- the wrong ones: each fault is there ------------------------------------------------------------------------------


def test_the_list_of_heads_is_scaled_by_the_width_of_the_model(draw):
    module, x = build("HeadListAttention"), draw(B, T, E)
    weights = [torch.cat([head.weight for head in heads]) for heads in (module.queries, module.keys, module.values)]
    theirs = oracle(weights, None, module.out)
    assert (module(x) - theirs(x, x, x)[0]).abs().max() > DIFFERENT
    module.scale = (E // H) ** -0.5
    torch.testing.assert_close(module(x), theirs(x, x, x)[0], **SAME)


def test_the_reshaped_heads_mix_up_the_tokens(draw):
    module, x = build("ReshapedHeadsAttention"), draw(B, T, E)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert (module(x[:, order]) - module(x)[:, order]).abs().max() > DIFFERENT
    right = build("FusedSelfAttention")
    torch.testing.assert_close(right(x[:, order]), right(x)[:, order], **SAME)


def test_the_encoder_reads_the_padding_and_ignores_the_words(draw):
    module, x, pad = build("EncoderAttention"), draw(B, S, E), ~padded()
    other = torch.where(pad[..., None], 5 * x, x)
    assert (module(x, pad) - module(other, pad))[~pad].abs().max() > DIFFERENT
    torch.testing.assert_close(module(x, ~pad), fused(module)(x, x, x, key_padding_mask=pad)[0], **SAME)


def test_the_translator_is_fine_in_float32_and_nan_in_half_precision(draw):
    module, x, context = build("TranslationAttention").float(), draw(B, T, E).float(), draw(B, S, E).float()
    assert module(x, context, padded()).isfinite().all()
    assert module.bfloat16()(x.bfloat16(), context.bfloat16(), padded()).isfinite().all()
    assert module.half()(x.half(), context.half(), padded()).isnan().all()


def test_a_sentence_without_words_is_nan(draw):
    module, x, keep = build("SentenceAttention"), draw(B, S, E), padded()
    assert module(x, keep).isfinite().all()
    keep[1] = False
    assert module(x, keep)[1].isnan().all()


def test_the_stream_attends_to_the_sequence_before_the_reset(draw):
    module, first, second = build("StreamingAttention"), draw(B, T, E), draw(B, T, E)
    fresh = build("StreamingAttention")(second)
    module(first)
    module.reset()
    assert (module(second) - fresh).abs().max() > DIFFERENT
    module.keys = module.values = None
    torch.testing.assert_close(module(second), fresh, **SAME)


def test_the_classifier_drops_weights_after_eval(draw):
    module, x = build("ClassifierAttention"), draw(B, T, E)
    assert (module(x) - module(x)).abs().max() > DIFFERENT
    module.dropout = 0.0
    assert torch.equal(module(x), module(x))


# --- the file itself --------------------------------------------------------------------------------------------------


def test_the_file_says_of_every_class_whether_it_is_right():
    classes = {n for n, c in vars(tutorial).items() if inspect.isclass(c) and c.__module__ == PLACE.stem} - {"OneHead"}
    assert classes == {*RIGHT, *FAULTS}
    right, wrong = tutorial.__doc__.split("Right:")[1].split("Wrong,")
    assert all(name in right for name in RIGHT)
    assert all(name in wrong for name in FAULTS)


def test_the_answers_are_given_for_every_fault():
    answers = PLACE.read_text(encoding="utf-8").split("# The answers.")[1]
    assert [line.split()[1] for line in answers.splitlines() if line.startswith("# ") and line[2].isupper()] == [
        *FAULTS
    ]


def test_importing_the_file_prints_nothing_and_leaves_the_random_state_alone():
    code = f"""
import sys, torch
sys.path.insert(0, {str(PLACE.parent)!r})
before = torch.get_rng_state()
import tutorial_attention
assert torch.equal(before, torch.get_rng_state()) and torch.get_default_dtype() == torch.float32
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- and the checker sees it ------------------------------------------------------------------------------------------

checker_is_there = pytest.mark.skipif(
    importlib.util.find_spec("regard.checks.check") is None, reason="regard.checks.check is not there yet"
)


@checker_is_there
@pytest.mark.parametrize(("name", "kind"), FAULTS.items())
def test_the_checker_names_the_fault(name, kind):
    import regard

    report = regard.check(getattr(tutorial, name))
    assert report.status == "checked", report.reason
    # no scale is wrong in itself: a declaration makes it an error, and without one it is asked
    levels = {"error", "question"} if kind == "scale-embed-dim" else {"error"}
    assert kind in {finding.kind for finding in report.findings if finding.level in levels}


@checker_is_there
@pytest.mark.parametrize("name", RIGHT)
def test_the_checker_has_nothing_against_what_is_right(name):
    import regard

    report = regard.check(getattr(tutorial, name))
    assert report.status == "checked", report.reason
    assert report.counts["passed"] > 0
    assert [(f.rule, f.name, f.message) for f in report.errors] == []


@checker_is_there
def test_the_script_of_a_finding_shows_it_without_regard(monkeypatch):
    import regard

    monkeypatch.chdir(PLACE.parents[1])
    report = regard.check("examples/tutorial_attention.py:SentenceAttention", select=["ATT601"])
    (finding,) = report.errors
    assert "regard" not in finding.script
    done = subprocess.run([sys.executable, "-c", finding.script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "finite: False"), done.stderr
