"""Tiny random models of transformers and their inputs: name -> factory. Heads have 16 channels: their scale is a power of 2.

Then (q * scale) @ k and (q @ k) * scale are the same numbers, and "equal to eager" can mean equal in every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn

B, T, VOCABULARY = 2, 9, 60


class Subject(NamedTuple):
    model: nn.Module
    inputs: dict[str, torch.Tensor]


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(length: int = T, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (B, length), generator=torch.Generator().manual_seed(seed))


def padded(side: str = "right") -> dict[str, torch.Tensor]:
    """Tokens of a batch whose second sample has three of padding."""
    keep = torch.ones(B, T, dtype=torch.long)
    keep[1, -3:] = 0
    return {"input_ids": tokens(), "attention_mask": keep if side == "right" else keep.flip(1)}


def filled(model: nn.Module) -> nn.Module:
    """Fixed random weights, large enough that the softmax is not flat; in eval mode."""
    for seed, parameter in enumerate(model.parameters()):
        if parameter.ndim > 1:
            parameter.data = numbers(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5
    return model.eval()


def made(model: str, config: str, **settings: Any) -> nn.Module:
    """A model of this class with a configuration of these settings, attending eagerly."""
    options = getattr(transformers, config)(**settings)
    options._attn_implementation = "eager"
    return filled(getattr(transformers, model)(options))


SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48}
SMALL |= {"vocab_size": VOCABULARY}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 16}


def encoder(model: str, config: str, **settings: Any) -> Callable[[], Subject]:
    return lambda: Subject(made(model, config, **{**SMALL, **settings}), padded())


def decoder(model: str, config: str, **settings: Any) -> Callable[[], Subject]:
    return lambda: Subject(made(model, config, **{**GROUPED, **settings}), padded())


def gpt2() -> Subject:
    return Subject(
        made("GPT2LMHeadModel", "GPT2Config", n_embd=64, n_head=4, n_layer=2, vocab_size=VOCABULARY, **IDS), padded()
    )


def t5() -> Subject:
    sizes = {"d_model": 64, "d_kv": 16, "num_heads": 4, "num_layers": 2, "d_ff": 48, "vocab_size": VOCABULARY}
    return Subject(made("T5Model", "T5Config", **sizes), {**padded(), "decoder_input_ids": tokens(5, 3)})


def bart() -> Subject:
    sides = {
        f"{side}_{name}": x for side in ("encoder", "decoder") for name, x in (("layers", 2), ("attention_heads", 4))
    }
    widths = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_model": 64, "vocab_size": VOCABULARY}
    return Subject(made("BartModel", "BartConfig", **sides, **widths), {**padded(), "decoder_input_ids": tokens(5, 3)})


def whisper() -> Subject:
    sides = {
        f"{side}_{name}": x for side in ("encoder", "decoder") for name, x in (("layers", 2), ("attention_heads", 4))
    }
    widths = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_model": 64, "vocab_size": VOCABULARY, "num_mel_bins": 8}
    ids = {
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "max_source_positions": 10,
    }
    model = made("WhisperModel", "WhisperConfig", **sides, **widths, **ids)
    return Subject(model, {"input_features": numbers(B, 8, 20), "decoder_input_ids": tokens(5, 3)})


def vit() -> Subject:
    model = made("ViTModel", "ViTConfig", **{**SMALL, "image_size": 16, "patch_size": 4})
    return Subject(model, {"pixel_values": numbers(B, 3, 16, 16)})


def clip() -> Subject:
    text = {**SMALL, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = {"text_config": text, "vision_config": {**SMALL, "image_size": 16, "patch_size": 4}, "projection_dim": 8}
    return Subject(made("CLIPModel", "CLIPConfig", **config), {**padded(), "pixel_values": numbers(B, 3, 16, 16)})


def opt() -> Subject:
    return Subject(made("OPTModel", "OPTConfig", **{**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 64}), padded())


IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
WINDOW = {"sliding_window": 4}
MIXED = {"layer_types": ["sliding_attention", "full_attention"], **WINDOW}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
RUN: dict[str, Callable[[], Subject]] = {  # architectures in which ours must compute what eager computes
    "bert": encoder("BertModel", "BertConfig"),
    "roberta": encoder("RobertaModel", "RobertaConfig", pad_token_id=0),
    "electra": encoder("ElectraModel", "ElectraConfig", embedding_size=64),
    "modernbert (window)": encoder("ModernBertModel", "ModernBertConfig", local_attention=4, **IDS),
    "gpt2": gpt2,
    "gpt_neox": encoder("GPTNeoXModel", "GPTNeoXConfig", **IDS),
    "phi": decoder("PhiModel", "PhiConfig"),
    "opt": opt,
    "llama (GQA)": decoder("LlamaForCausalLM", "LlamaConfig"),
    "mistral (window)": decoder("MistralModel", "MistralConfig", **WINDOW),
    "mixtral (experts)": decoder("MixtralModel", "MixtralConfig", **EXPERTS, **WINDOW),
    "qwen2 (window)": decoder("Qwen2Model", "Qwen2Config", use_sliding_window=True, **MIXED),
    "qwen3 (norms)": decoder("Qwen3Model", "Qwen3Config"),
    "gemma2 (softcap)": decoder(
        "Gemma2Model", "Gemma2Config", query_pre_attn_scalar=16, attn_logit_softcapping=5.0, **MIXED
    ),
    "gemma3 (window)": decoder("Gemma3TextModel", "Gemma3TextConfig", query_pre_attn_scalar=16, **MIXED),
    "gpt_oss (sinks)": decoder("GptOssModel", "GptOssConfig", **EXPERTS, **MIXED),
    "t5 (bias)": t5,
    "bart (cross)": bart,
    "whisper (cross)": whisper,
    "vit": vit,
    "clip (two)": clip,
}


def bloom() -> Subject:
    return Subject(
        made("BloomModel", "BloomConfig", hidden_size=64, n_head=4, n_layer=2, vocab_size=VOCABULARY), padded()
    )


def xlnet() -> Subject:
    sizes = {"d_model": 64, "n_head": 4, "n_layer": 2, "d_inner": 48, "vocab_size": VOCABULARY}
    return Subject(made("XLNetModel", "XLNetConfig", **sizes), padded())


def longformer() -> Subject:
    ids = tokens(16)
    model = made("LongformerModel", "LongformerConfig", **SMALL, attention_window=4, pad_token_id=0)
    return Subject(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def falcon() -> Subject:
    return Subject(made("FalconModel", "FalconConfig", **{**SMALL, "multi_query": True}), padded())


REFUSED: dict[str, Callable[[], Subject]] = {  # architectures that never call the interface
    "falcon": falcon,
    "bloom": bloom,
    "xlnet": xlnet,
    "deberta-v2": encoder("DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "longformer": longformer,
    "deberta": encoder("DebertaModel", "DebertaConfig"),
    "mpnet": encoder("MPNetModel", "MPNetConfig"),
}
