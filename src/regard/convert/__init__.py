"""Weights between frameworks, verified; the first place where two models part; export."""

from regard.convert.alignment import Alignment as Alignment, align as align
from regard.convert.doors import (
    How as How,
    from_flax as from_flax,
    from_hf as from_hf,
    from_keras as from_keras,
    from_onnx as from_onnx,
    from_timm as from_timm,
    from_torch as from_torch,
    from_x_transformers as from_x_transformers,
    report as report,
)
from regard.convert.export import Exported as Exported, to_exported as to_exported, to_onnx as to_onnx
from regard.convert.int8 import to_int8 as to_int8
from regard.convert.outward import (
    to_flax as to_flax,
    to_hf as to_hf,
    to_keras as to_keras,
    to_timm as to_timm,
    to_torch as to_torch,
    to_x_transformers as to_x_transformers,
)
from regard.convert.replace import Replaced as Replaced, replace as replace
from regard.convert.swin import from_swin as from_swin, to_swin as to_swin
from regard.convert.verify import Conversion as Conversion
