"""Our attention inside real Hugging Face models: `use(model)`, and `undo()`.

transformers has two tables, one of attention functions and one of functions that make masks. A function without its mask
function gets no mask at all, without a warning; so both are filled here, and the first forward is watched.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any

from torch import Tensor, nn

from regard.adapt.hf_call import Attention, Settings, run
from regard.adapt.hf_count import Count, in_classes
from regard.core.attention import attention as ours
from regard.core.errors import AdaptError, MissingExtraError
from regard.core.mask.expression import Mask

_log = logging.getLogger("regard.adapt")
_names = (f"regard_{number}" for number in itertools.count(1))


class Used:
    """A model in which our attention stands. Made by `use()`.

    Attributes:
        name: What the model's config now calls its attention.
        calls: After the first forward: path of an attention module -> number of calls, in that forward.
        left: After the first forward: paths of the modules that attended without us; empty unless `partial=True`.
        mask: Joined (and) with the mask of every call from now on; may be set anew before each forward.
    """

    def __init__(self, model: nn.Module, roots: list[Any], settings: Settings, partial: bool):
        self.name = next(_names)
        self.calls: dict[str, int] = {}
        self.left: list[str] = []
        self._model, self._settings, self._partial = model, settings, partial
        self._before = _implementations(roots)
        self._count: Count | None = None
        self._handles: list[Any] = []
        _register(self.name, self._attend)
        try:
            for root in roots:
                _set(root, self.name)
        except BaseException:
            self.undo()
            raise
        self._count = Count(model)
        for holder in _holders(model, roots):
            self._handles += [holder.register_forward_hook(self._first_forward)]

    @property
    def mask(self) -> Mask | None:
        return self._settings.mask

    @mask.setter
    def mask(self, mask: Mask | None) -> None:
        _check_mask(mask)
        self._settings.mask = mask

    def undo(self) -> None:
        """Give every part of the model the attention it had. A second call does nothing."""
        self._stop()
        for config, name in self._before:
            config._attn_implementation_internal = name
        self._before = []
        _unregister(self.name)

    def __enter__(self) -> Used:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def __str__(self) -> str:
        if self._count is not None:
            return f"{type(self._model).__name__}: {self.name}, no forward yet"
        left = f", {len(self.left)} attend without it" if self.left else ""
        return f"{type(self._model).__name__}: {self.name}, {len(self.calls)} modules called it{left}"

    def _attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any = None, **given: Any
    ) -> tuple[Tensor, Tensor | None]:
        """What transformers calls."""
        if self._count is not None:
            self._count.called(module)
        return run(self._settings, module, query, key, value, attention_mask, given)

    def _first_forward(self, module: nn.Module, given: Any, output: Any) -> None:
        count = self._count
        if count is None:
            return
        self._stop()
        self.calls, self.left = dict(count.calls), count.left()
        if self.left and not (self._partial and self.calls):
            self.undo()
            raise AdaptError(_bypassed(self._model, self.calls, self.left))
        if not self.calls:
            self.undo()
            raise AdaptError(
                f"{type(self._model).__name__} took the setting and never called our attention in its first forward; it has "
                "its own attention back. regard.replace(model) exchanges the modules that it can read"
            )
        _log.info("%s", self)

    def _stop(self) -> None:
        """No more watching."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._count is not None:
            self._count.stop()
            self._count = None


def use(
    model: nn.Module,
    *,
    backend: str | None = None,
    mask: Mask | None = None,
    attention: Attention = ours,
    partial: bool = False,
) -> Used:
    """Let a Hugging Face model, or what holds one (sentence-transformers), attend with `regard.attention`.

    Args:
        model: Changed in place: its config names our attention until `undo()`.
        backend: One of `regard.attention`'s; None chooses by rule. "open" adds and multiplies in the order of eager.
        mask: Joined (and) with the model's own mask in every call, such as `sliding_window(left=64, right=64)`.
        attention: Computes the output in place of `regard.attention`, with its arguments, such as what
            `regard.parallel.sequence_parallel` returns.
        partial: Accept that some attention modules of the model do not call the interface; `.left` lists them.

    Returns:
        The handle. The first forward counts the calls per attention module and raises, with the model as it was before,
        when one attended without us. `output_attentions=True` gives weights, before dropout.

    Raises:
        AdaptError: No transformers model inside, or one that does not go through transformers' attention interface.
        MissingExtraError: transformers is not installed.
    """
    roots = _roots(model)
    _check_mask(mask)
    if attention is not ours and backend is not None:
        raise AdaptError(f"backend={backend!r} is for regard.attention; another attention= was given, so leave it out")
    held = [name for _, name in _implementations(roots) if str(name).startswith("regard_")]
    if held:
        raise AdaptError(f"{type(model).__name__} attends with ours already ({held[0]}); call undo() of that first")
    return Used(model, roots, Settings(backend, mask, attention), partial)


def _roots(model: Any) -> list[Any]:
    """The outermost transformers models."""
    try:
        from transformers import PreTrainedModel
    except ImportError as error:
        raise MissingExtraError("this needs transformers; install regard[hf]") from error
    if not isinstance(model, nn.Module):
        raise AdaptError(f"a model was expected, got {type(model).__name__}")
    found = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    inner = {id(part) for module in found for part in module.modules() if part is not module}
    roots = [module for module in found if id(module) not in inner]
    if not roots:
        raise AdaptError(
            f"{type(model).__name__} holds no transformers model; regard.replace(model) exchanges the attention modules of "
            "any PyTorch model"
        )
    return roots


def _holders(model: nn.Module, roots: list[Any]) -> list[nn.Module]:
    """The roots and what they lie in: a holder may call `root.forward`, which runs no hook of the root."""
    inside = {id(root) for root in roots}
    return [module for module in model.modules() if any(id(part) in inside for part in module.modules())]


def _implementations(roots: list[Any]) -> list[tuple[Any, Any]]:
    """Every config of these models and of their parts, with the name of its attention."""
    found: dict[int, tuple[Any, Any]] = {}

    def add(config: Any) -> None:
        if config is None or id(config) in found or not hasattr(config, "_attn_implementation_internal"):
            return
        found[id(config)] = (config, config._attn_implementation_internal)
        for name in getattr(config, "sub_configs", None) or {}:
            add(getattr(config, name, None))

    for root in roots:
        for module in root.modules():
            add(getattr(module, "config", None))
    return list(found.values())


def _set(root: Any, name: str) -> None:
    """Name our attention in the config, and see that it stuck."""
    quiet = logging.getLogger("transformers.modeling_utils")
    level = quiet.level
    quiet.setLevel(logging.ERROR)  # what it warns of is refused below
    try:
        root.set_attn_implementation(name)
    except (KeyError, ValueError, AttributeError) as error:
        raise AdaptError(
            f"{type(root).__name__} does not take another attention: {type(error).__name__}: {error}"
        ) from error
    finally:
        quiet.setLevel(level)
    if root.config._attn_implementation != name:
        raise AdaptError(
            f"{type(root).__name__} does not go through transformers' attention interface, so no attention but its own can "
            "stand in it; regard.replace(model) exchanges the modules that it can read"
        )


def _bypassed(model: nn.Module, calls: dict[str, int], left: list[str]) -> str:
    """The refusal after the first forward."""
    name, who = type(model).__name__, in_classes(model, left)
    if not calls:
        return (
            f"{name} took the setting and never called our attention: {who} attended by themselves; the model has its own "
            "attention back. regard.replace(model) exchanges the modules that it can read"
        )
    return (
        f"{len(calls)} attention modules of {name} called ours, and {who} attended by themselves; the model has its own "
        "attention back. partial=True accepts that"
    )


def _check_mask(mask: Any) -> None:
    if mask is not None and not isinstance(mask, Mask):
        raise AdaptError(
            f"mask must be a regard.mask or None, got {type(mask).__name__}; dense(tensor) makes one of a tensor"
        )


def _register(name: str, function: Any) -> None:
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise MissingExtraError(
            "this needs transformers with a mask interface (4.53 or later); install regard[hf]"
        ) from error
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, sdpa_mask)


def _unregister(name: str) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    for table in (AttentionInterface, AttentionMaskInterface):
        table._global_mapping.pop(name, None)
