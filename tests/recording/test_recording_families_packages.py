"""The table of families, other packages: timm and x-transformers with random weights, captured with equal outputs."""

import importlib.util

import pytest
import torch

import regard

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
SMALL = {"img_size": 64}
TIMM = {  # name -> (options, image size, sites, kinds)
    "vit_tiny_patch16_224": (SMALL, 64, 12, {"self"}),
    "deit3_small_patch16_224": (SMALL, 64, 12, {"self"}),
    "beit_base_patch16_224": (SMALL, 64, 12, {"self"}),
    "eva02_tiny_patch14_224": ({"img_size": 56}, 56, 12, {"self"}),
    "swin_tiny_patch4_window7_224": ({"img_size": 64, "window_size": 4}, 64, 12, {"self"}),
    "xcit_nano_12_p16_224": (SMALL, 64, 14, {"channel", "cross"}),
    "cait_xxs24_224": (SMALL, 64, 26, {"self", "cross"}),
    "levit_128s": ({}, 224, 11, {"self", "cross"}),
    "pvt_v2_b0": ({}, 224, 8, {"self", "cross"}),
    "maxvit_rmlp_pico_rw_256": ({}, 256, 22, {"self"}),
}
X = {
    "plain": {},
    "grouped rotary": {"rotary_pos_emb": True, "attn_kv_heads": 2},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "memory keys": {"attn_num_mem_kv": 4},
    "qk norm": {"attn_qk_norm": True},
}


@pytest.mark.parametrize("name", TIMM)
def test_timm_models_are_captured_whole_and_their_output_is_bit_identical(name):
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    from regard.bench.timm_peer import load_timm

    load_timm("layers")
    import timm

    options, size, sites, kinds = TIMM[name]
    torch.manual_seed(0)
    model, x = timm.create_model(name, pretrained=False, **options).eval(), torch.randn(1, 3, size, size)
    with torch.no_grad():
        plain = model(x)
        with regard.capture(model, samples=0) as cap:
            watched = model(x)
    assert torch.equal(plain, watched)
    assert cap.missed == []
    assert len({r.layer for r in cap.records}) == sites
    assert {r.kind for r in cap.records} == kinds
    for record in cap.records:
        if record.kind == "self" and not record.notes:
            assert torch.allclose(record.scores["row_sum"], torch.ones(record.heads), atol=1e-4)


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("name", X)
def test_x_transformers_are_captured_and_both_their_paths_agree(name, flash):
    x_transformers = pytest.importorskip("x_transformers")

    def build(flash):
        torch.manual_seed(0)
        layers = x_transformers.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash, **X[name])
        return x_transformers.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers).eval()

    ids, found = torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(0)), []
    for way in (flash, False):
        model = build(way)
        with torch.no_grad():
            plain = model(ids)
            with regard.capture(model, level="full") as cap:
                watched = model(ids)
        assert torch.equal(plain, watched)
        assert len(cap.records) == 4
        found.append(cap.records)
    for one, other in zip(*found):
        assert (one.weights - other.weights).abs().max() <= 1e-6
