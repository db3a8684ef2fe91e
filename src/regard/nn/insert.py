"""Put a gate into an existing convolutional network, say where and at what cost, and take it out again.

The gate becomes a child of the layer it follows, under the name `inserted`, and acts through a forward hook. So the names of
all old parameters stay, an old state dict loads (strictly, too), and `copy.deepcopy`, `torch.save` and `.to()` take the gate along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import ShapeError, TargetError
from regard.nn.insertion_places import Watched, watch, without_values

CHILD = "inserted"
RULES = ("residual", "convolution")


@dataclass(frozen=True)
class Place:
    """One inserted gate: the layer it follows, the map it gates, and what it adds.

    Attributes:
        name: Of the layer before it.
        shape: (C, H, W) of the map, for the example that was run.
        parameters: Numbers that it learns.
        flops: Of its convolutions and matrix products per image, two per multiplication with addition.
    """

    name: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


@dataclass
class Insertion:
    """What `insert` did. `print` shows the table; `remove()` undoes it.

    Attributes:
        places: The gates, in the order of the forward pass.
        model_parameters, model_flops: Of the model before, FLOPs per image.
        example: The shape of the input that sizes and FLOPs are for.
    """

    places: list[Place]
    model_parameters: int
    model_flops: int
    example: tuple[int, ...]
    model: nn.Module = field(repr=False)

    @property
    def parameters(self) -> int:
        """Parameters added."""
        return sum(place.parameters for place in self.places)

    @property
    def flops(self) -> int:
        """FLOPs added per image."""
        return sum(place.flops for place in self.places)

    def remove(self) -> int:
        """Take the gates out again; returns how many there were."""
        return remove(self.model)

    def __str__(self) -> str:
        width = max(len(place.name) for place in self.places)
        count = f"{len(self.places)} gate{'' if len(self.places) == 1 else 's'}"
        lines = [f"inserted {count}; sizes for an input of {' x '.join(map(str, self.example))}"]
        for place in self.places:
            size = " x ".join(map(str, place.shape))
            lines.append(
                f"  after {place.name:<{width}}  {size:>15}  +{place.parameters:,} parameters  +{place.flops:,} FLOPs"
            )
        more = 100 * self.parameters / max(self.model_parameters, 1), 100 * self.flops / max(self.model_flops, 1)
        lines.append(
            f"  in all: +{self.parameters:,} parameters ({more[0]:.2f} %), +{self.flops:,} FLOPs ({more[1]:.2f} %)"
        )
        return "\n".join(lines)


def insert(
    model: nn.Module,
    module: Callable[[int], nn.Module],
    where: str | Sequence[str] = "residual",
    *,
    stages: Sequence[str] | None = None,
    stem: bool = False,
    example: Tensor | None = None,
) -> Insertion:
    """Put a gate into a model by rule. The model is changed; `remove` undoes it.

    Args:
        model: A network of 2-D convolutions that takes one image tensor.
        module: Makes a gate from its number of channels: a class such as `regard.nn.CBAM`, or
            `lambda channels: CBAM(channels, zero_init=True)`, which leaves the output of the model as it is.
        where: "residual": at the end of each residual branch, before the addition. "convolution": after every
            convolution and the norm and activation that follow it. Or names of modules (stages, a neck): after each.
        stages: Only places inside these modules, such as ("layer3", "layer4").
        stem: Whether a gate may follow the first convolution of the network.
        example: An input, for sizes and FLOPs; None: one image of the first usual size that the model takes.

    Returns:
        Where the gates are, the parameters and the FLOPs.

    Raises:
        TargetError: No such place, a name that is not in the model, a gate that is there already, or a model that does
            not run on the example.
    """
    if any(_gate_of(each) is not None for each in model.modules()):
        raise TargetError("the model has inserted gates already; remove(model) takes them out")
    watched = watch(model, example)
    names = _names(model, watched, where, stem)
    names = [name for name in names if stages is None or _inside(name, stages)]
    if not names:
        raise TargetError(_nothing_found(watched, where, stages))
    before = sum(value.numel() for value in model.parameters())
    gates = {name: _made(module, watched.shapes[name], name) for name in names}
    places = [Place(name, watched.shapes[name][1:], *_cost(gate, watched.shapes[name])) for name, gate in gates.items()]
    for name, gate in gates.items():
        _attach(model, name, gate)
    return Insertion(places, before, watched.flops // max(watched.example[0], 1), watched.example, model)


def remove(model: nn.Module) -> int:
    """Take all inserted gates out of a model; returns how many there were."""
    count = 0
    for layer in model.modules():
        for key, hook in list(layer._forward_hooks.items()):
            if hook is _through_gate:
                del layer._forward_hooks[key]
                delattr(layer, CHILD)
                count += 1
    return count


def inserted_gates(model: nn.Module) -> dict[str, nn.Module]:
    """The inserted gates by the name of the layer that each follows."""
    found = {name: _gate_of(layer) for name, layer in model.named_modules()}
    return {name: gate for name, gate in found.items() if gate is not None}


def parameter_groups(model: nn.Module, *, lr: float, pretrained_factor: float = 0.1) -> list[dict]:
    """Optimiser groups for a pretrained model with inserted gates: the old parts learn slowly.

    Args:
        model: After `insert`.
        lr: Learning rate of the gates.
        pretrained_factor: The learning rate of all other parameters is `pretrained_factor * lr`.

    Returns:
        Two groups for any `torch.optim` optimiser, named "inserted" and "pretrained". Frozen parameters are in none.

    Raises:
        TargetError: The model has no inserted gate.
    """
    gates = inserted_gates(model)
    if not gates:
        raise TargetError(
            "the model has no inserted gates, so there is nothing to tell apart; call regard.insert first"
        )
    new = {id(value) for gate in gates.values() for value in gate.parameters()}
    learned = [value for value in model.parameters() if value.requires_grad]
    return [
        {"name": "inserted", "params": [v for v in learned if id(v) in new], "lr": lr},
        {"name": "pretrained", "params": [v for v in learned if id(v) not in new], "lr": pretrained_factor * lr},
    ]


def _through_gate(layer: nn.Module, args, output: Tensor) -> Tensor:
    """The hook: it names no gate, so that a copy of the layer goes through the copy of the gate."""
    return getattr(layer, CHILD)(output)


def _gate_of(layer: nn.Module) -> nn.Module | None:
    hooked = any(hook is _through_gate for hook in layer._forward_hooks.values())
    return getattr(layer, CHILD) if hooked else None


def _names(model: nn.Module, watched: Watched, where: str | Sequence[str], stem: bool) -> list[str]:
    """The layers to follow, each once, in the order of the forward pass."""
    first = watched.groups[0] if watched.groups else []
    if where in RULES:
        chains = watched.branches if where == "residual" else watched.groups
        found = [watched.once(chain) for chain in chains]
        names = [name for name in found if name is not None]
        return [name for name in dict.fromkeys(names) if stem or name not in first]
    modules, names = dict(model.named_modules()), []
    for name in [where] if isinstance(where, str) else where:
        if name not in modules:
            near = ", ".join(n for n, _ in model.named_children())
            raise TargetError(
                f"{name!r} is neither a rule ({', '.join(RULES)}) nor a module of the model; it has {near}"
            )
        while isinstance(modules[name], nn.Sequential) and modules[name]._modules:
            name = f"{name}.{list(modules[name]._modules)[-1]}".lstrip(".")  # children of a Sequential would run twice
        if name in first and not stem:
            raise TargetError(
                f"{name!r} belongs to the stem, where a gate sees little but colours; stem=True puts it there"
            )
        if name not in watched.shapes or watched.calls[name] != 1:
            raise TargetError(
                f"{name!r} ran {watched.calls[name]} times and gave no single map; name a module that gives one"
            )
        names.append(name)
    return list(dict.fromkeys(names))


def _inside(name: str, stages: Sequence[str]) -> bool:
    return any(name == stage or name.startswith(f"{stage}.") for stage in stages)


def _nothing_found(watched: Watched, where: str | Sequence[str], stages: Sequence[str] | None) -> str:
    limit = "" if stages is None else f" inside {', '.join(stages)}"
    seen = f"{len(watched.groups)} convolutions and {len(watched.branches)} residual additions"
    other = "convolution" if where == "residual" else "residual"
    return f"no place for where={where!r}{limit} among {seen}; try where={other!r}, or names of modules"


def _made(module: Callable[[int], nn.Module], shape: tuple[int, ...], name: str) -> nn.Module:
    if isinstance(module, nn.Module):
        raise TargetError(
            "module makes one gate per place from its channels: give a class or a function, not an instance"
        )
    gate = module(shape[1])
    if not isinstance(gate, nn.Module):
        raise TargetError(f"module made {type(gate).__name__} for {shape[1]} channels; it must make an nn.Module")
    with torch.no_grad():
        output = without_values(gate)(torch.empty((1, *shape[1:]), device="meta", dtype=_dtype(gate)))
    if tuple(output.shape) != (1, *shape[1:]):
        raise ShapeError(
            f"the module for {name!r} makes {tuple(output.shape)} of {(1, *shape[1:])}; a gate keeps the shape"
        )
    return gate


def _cost(gate: nn.Module, shape: tuple[int, ...]) -> tuple[int, int]:
    """Parameters, and FLOPs for one image."""
    image = torch.empty((1, *shape[1:]), device="meta", dtype=_dtype(gate))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        without_values(gate)(image)
    return sum(value.numel() for value in gate.parameters()), counter.get_total_flops()


def _dtype(gate: nn.Module) -> torch.dtype:
    return next((value.dtype for value in gate.parameters() if value.is_floating_point()), torch.float32)


def _attach(model: nn.Module, name: str, gate: nn.Module) -> None:
    layer = model.get_submodule(name)
    if hasattr(layer, CHILD):
        raise TargetError(f"{name!r} has a child named {CHILD!r} of its own")
    like = next(iter(layer.parameters()), next(model.parameters()))
    gate.to(device=like.device, dtype=like.dtype if like.is_floating_point() else None).train(model.training)
    gate.register_load_state_dict_pre_hook(_keep_what_is_absent)
    layer.add_module(CHILD, gate)
    layer.register_forward_hook(_through_gate)


def _keep_what_is_absent(gate: nn.Module, state: dict, prefix: str, *others) -> None:
    """A state dict from before the insertion says nothing about the gate: then the gate stays as it is."""
    if not any(name.startswith(prefix) for name in state):
        state.update({prefix + name: value for name, value in gate.state_dict().items()})
