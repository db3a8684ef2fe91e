"""Masks: what may attend to what. The public door to `regard.core.mask`."""

from regard.core.mask import (
    Mask as Mask,
    blocks as blocks,
    causal as causal,
    dense as dense,
    dilated as dilated,
    documents as documents,
    from_hf as from_hf,
    from_torch_mha as from_torch_mha,
    global_tokens as global_tokens,
    padding as padding,
    prefix as prefix,
    sliding_window as sliding_window,
    to_additive as to_additive,
    to_torch_mha as to_torch_mha,
)
from regard.core.mask.packed import from_cu_seqlens as from_cu_seqlens, to_cu_seqlens as to_cu_seqlens
