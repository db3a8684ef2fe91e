"""Dropout turned off at the call, wherever the rate is kept."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode


class NoDropout(TorchFunctionMode):
    """Every call of torch's dropout functions and kernels gets a rate of 0, whatever attribute the rate is kept in."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in (
            "dropout",
            "dropout1d",
            "dropout2d",
            "dropout3d",
            "alpha_dropout",
            "feature_dropout",
            "dropout_",
            "feature_alpha_dropout",
        ):
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs["dropout_p"] = 0.0
            if len(args) > 4:
                kwargs.pop("dropout_p")
        return func(*args, **kwargs)
