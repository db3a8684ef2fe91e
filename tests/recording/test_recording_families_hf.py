"""The table of families, Hugging Face part: small random models, sdpa and eager, against the library's own eager weights."""

import pytest
import torch

import regard

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

EXACT = 1e-6
SIZES = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
IMAGE = {"image_size": 32, "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
MODELS = {
    "Bert": ("BertModel", "BertConfig", SIZES),
    "GPT2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "Llama grouped": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "Mistral window": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    "T5": ("T5ForConditionalGeneration", "T5Config", {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}),
    "Gemma2 softcap": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "head_dim": 8, "attn_logit_softcapping": 5.0, "sliding_window": 4}),
    "GptOss sinks": ("GptOssForCausalLM", "GptOssConfig", {**GROUPED, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "ViT": ("ViTModel", "ViTConfig", {**IMAGE, "patch_size": 8}),
    "Swin": ("SwinModel", "SwinConfig", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
}  # fmt: skip
IDS = torch.randint(3, 100, (2, 12), generator=torch.Generator().manual_seed(0))
KEEP = torch.ones_like(IDS)
KEEP[1, :4] = 0
NAMES = ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")
TABLE = {}


def build(name, implementation):
    model, config, sizes = MODELS[name]
    sizes = {**sizes, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0} if name not in ("ViT", "Swin") else sizes
    torch.manual_seed(0)
    config = getattr(transformers, config)(**sizes)
    return getattr(transformers, model)._from_config(config, attn_implementation=implementation).eval()


def inputs(name):
    if name in ("ViT", "Swin"):
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    given = {"input_ids": IDS, "attention_mask": KEEP}
    return given | ({"decoder_input_ids": IDS[:, :7]} if name == "T5" else {})


def eager_weights(name):
    """The library's weights, layer by layer in the order of use; None where it returns none."""
    with torch.no_grad():
        out = build(name, "eager")(**inputs(name), output_attentions=True)
    found = {n: list(getattr(out, n, None) or ()) for n in NAMES}
    if name == "T5":
        decoder = [w for pair in zip(found["decoder_attentions"], found["cross_attentions"]) for w in pair]
        return found["encoder_attentions"] + decoder
    if name == "Swin":  # one per stage, of its last layer
        return [None, found["attentions"][0], None, found["attentions"][1]]
    return found["attentions"]


CASES = [
    (n, i)
    for n in MODELS
    for i in ("sdpa", "eager")
    if (n, i) not in (("Gemma2 softcap", "sdpa"), ("GptOss sinks", "sdpa"))
]


@pytest.mark.parametrize(("name", "implementation"), CASES)
@pytest.mark.parametrize("mode", ["no_grad", "inference", "grad"])
def test_hugging_face_models_are_captured_and_their_output_is_bit_identical(name, implementation, mode):
    model, given = build(name, implementation), inputs(name)
    with {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}[mode]():
        plain = model(**given)[0]
        with regard.capture(model, level="full") as cap:
            watched = model(**given)[0]
    assert torch.equal(plain, watched)
    assert [
        text for text in cap.missed if "multiplied no values" not in text
    ] == []  # routers of experts are listed, not captured
    expected = eager_weights(name)
    assert len({r.layer for r in cap.records}) == len(expected)
    error = 0.0
    for record in cap.records:
        if expected[record.layer] is None:
            continue
        mine, theirs = record.weights, expected[record.layer][record.sample][..., : record.keys]
        if "attention_mask" in given and name != "T5":
            rows = KEEP[record.sample].bool()  # rows of padding are nobody's
            mine, theirs = mine[:, rows], theirs[:, rows]
        error = max(error, float((mine - theirs).abs().max()))
    TABLE[f"{name}, {implementation}, {mode}"] = f"captured, output equal, weights {error:.0e}"
    assert error <= EXACT


@pytest.mark.parametrize(
    ("name", "implementation"), [c for c in CASES if c[0] in ("Llama grouped", "Mistral window", "Gemma2 softcap")]
)
def test_generation_is_stitched_into_the_map_of_one_full_pass(name, implementation):
    model = build(name, implementation)
    given = {"input_ids": IDS, "attention_mask": KEEP}
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(**given, **options)
    with regard.capture(model, level="full") as cap:
        watched = model.generate(**given, **options)
    assert torch.equal(plain, watched)
    keep = torch.cat([KEEP, torch.ones(2, plain.shape[1] - 12, dtype=KEEP.dtype)], 1)[:, :-1]
    with torch.no_grad(), regard.capture(model, level="full") as whole:
        model(input_ids=plain[:, :-1], attention_mask=keep)
    assert len(cap.records) == len(whole.records) == 4
    for stitched, full in zip(cap.records, whole.records):
        assert (stitched.steps, stitched.run, stitched.heads) == (6, 0, 4)
        rows = keep[full.sample].bool()
        assert (stitched.weights - full.weights)[:, rows].abs().max() <= EXACT
        assert stitched.pooled.shape == full.pooled.shape
        assert (stitched.pooled - full.pooled)[:, rows].abs().max() <= EXACT
        for score in ("self", "previous", "distance", "sink"):
            assert torch.allclose(stitched.series[score][:, rows], full.series[score][:, rows], atol=1e-5), score


def test_generation_of_an_encoder_decoder_keeps_cross_attention_apart():
    model = build("T5", "sdpa")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    plain = model.generate(IDS, **options)
    with regard.capture(model, samples=0) as cap:
        assert torch.equal(model.generate(IDS, **options), plain)
    kinds = [(r.kind, r.queries, r.keys, r.steps) for r in cap.records]
    assert kinds == [("self", 12, 12, 1)] * 2 + [("self", 5, 5, 5), ("cross", 5, 12, 5)] * 2


def test_a_static_cache_is_stitched_at_the_places_it_fills():
    model = build("Llama grouped", "sdpa")
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(IDS, attention_mask=torch.ones_like(IDS), **options)
    with regard.capture(model, level="full", samples=0) as cap:
        watched = model.generate(
            IDS, attention_mask=torch.ones_like(IDS), cache_implementation="static", disable_compile=True, **options
        )
    assert torch.equal(plain, watched)
    with torch.no_grad(), regard.capture(model, level="full", samples=0) as whole:
        model(input_ids=plain[:, :-1])
    for stitched, full in zip(cap.records, whole.records):
        assert (stitched.steps, stitched.queries) == (5, 16)
        assert (stitched.weights[:, :, :16] - full.weights).abs().max() <= EXACT
        assert stitched.causal


def test_the_table_of_hugging_face_families(capsys):
    if len(TABLE) < len(CASES):
        pytest.skip("the table needs the tests above")
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:40s} {line}" for name, line in TABLE.items()))
    assert len(TABLE) == 3 * len(CASES)
