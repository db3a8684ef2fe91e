"""The mask algebra: what may attend to what, as expressions over absolute positions. True = attend."""

from regard.core.mask.band import causal as causal, dilated as dilated, sliding_window as sliding_window
from regard.core.mask.convert import (
    from_hf as from_hf,
    from_torch_mha as from_torch_mha,
    to_additive as to_additive,
    to_torch_mha as to_torch_mha,
)
from regard.core.mask.expression import Mask as Mask
from regard.core.mask.sequences import documents as documents, padding as padding
from regard.core.mask.table import blocks as blocks, dense as dense
from regard.core.mask.tokens import global_tokens as global_tokens, prefix as prefix
