"""The names under which attention keeps its matrices and its sizes, in many code bases: a table, and how to search it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from regard.core.errors import ConversionError

_WORDS = {"q": "qs?|queries|query", "k": "ks?|keys|key", "v": "vs?|values|value"}
_AROUND = r"^(?:(?:to|w|lin|linear|fc|proj|dense|in_proj)_?)?(?:{0})(?:_?(?:proj|projection|lin|linear|layer|dense|fc|w|attn))?$"
_ROLES = {
    "qkv": re.compile(
        r"^(?:(?:to|w|lin|linear|fc)_?)?(?:qkv|query_key_value)(?:_?(?:proj|projection|linear|layer|dense))?$"
        r"|^(?:in_proj|c_attn|w_?pack|att_?proj)$",
        re.IGNORECASE,
    ),
    "kv": re.compile(r"^(?:(?:to|w|lin|linear)_?)?(?:kv|key_value)(?:_?(?:proj|linear))?$", re.IGNORECASE),
    **{letter: re.compile(_AROUND.format(words), re.IGNORECASE) for letter, words in _WORDS.items()},
    "out": re.compile(
        r"^(?:(?:to|w|lin|linear|fc|c)_?)?(?:out|output|o|dense|proj|projection|unify_?heads|attention_output)"
        r"(?:_?(?:proj|projection|lin|linear|layer|dense))?$|^fc$",
        re.IGNORECASE,
    ),
}
_LEFT_OUT = re.compile(  # what a checkpoint may hold besides: computed tables, and the norm after the last projection
    r"(?:inv_freq|masked_bias|relative_position_index|causal_mask|mask|tril)$|LayerNorm"
)
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "nheads", "num_query_heads", "h")
KV_HEADS = ("num_kv_heads", "num_key_value_heads", "n_kv_heads", "n_kv_head", "kv_heads")
HEAD_DIM = ("head_dim", "attention_head_size", "head_size", "key_value_proj_dim", "dim_head", "d_head", "d_k")


def find_arrays(tensors: Mapping[str, Tensor], source: str, *, strict: bool = False) -> tuple[dict[str, Tensor], dict]:
    """The arrays by role, and the path of each.

    Args:
        tensors: Parameters by path, such as "self.query.weight".
        source: For messages.
        strict: Refuse a name that no role has: for checkpoints, where nothing can be run to find out.

    Raises:
        ConversionError: Names of no known attention, of more than one, missing or extra ones.
    """
    stems = _stems(tensors)
    found = {role: [stem for stem in stems if _is(role, stem)] for role in _ROLES}
    places = _choose(found, source, list(tensors))
    arrays: dict[str, Tensor] = {}
    paths: dict[str, str] = {}
    for role, stem in places.items():
        for kind, name in (("weight", role), ("bias", f"{role}.bias")):
            path = stems[stem].get(kind)
            if path is not None:
                arrays[name], paths[name] = tensors[path], path
    if strict and "out" not in arrays:
        raise ConversionError(
            f"{source} has no last projection that we know by name; its entries are {known_names(tensors)}; give its "
            "entries too, such as output.dense of BERT"
        )
    unused = [path for path in tensors if path not in paths.values() and tensors[path].ndim in (1, 2)]
    extra = [path for path in unused if not _LEFT_OUT.search(path)]  # a table of masks has more axes
    if strict and extra:
        raise ConversionError(
            f"{source} has {len(extra)} entries that are no part of an attention: {known_names(extra)}; give "
            "one attention's entries, without the prefix of the model"
        )
    return arrays, paths


def _stems(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, str]]:
    """Path without its last word -> kind -> path. Torch's packed `in_proj_weight` counts as in_proj.weight."""
    stems: dict[str, dict[str, str]] = {}
    for path, tensor in tensors.items():
        match = re.match(r"^(.*?)[._]?(weight|kernel|bias)$", path)
        if match and match[1] and tensor.ndim in (1, 2):
            kind = "bias" if match[2] == "bias" else "weight"
            if (kind == "bias") == (tensor.ndim == 1):
                stems.setdefault(match[1], {})[kind] = path
    return {stem: kinds for stem, kinds in stems.items() if "weight" in kinds}


def _is(role: str, stem: str) -> bool:
    words = [word for word in stem.split(".") if not word.isdigit()]
    return bool(words) and bool(_ROLES[role].match(words[-1]))


def _choose(found: dict[str, list[str]], source: str, names: list[str]) -> dict[str, str]:
    separate = all(found[letter] for letter in "qkv")
    if separate:
        roles = ("q", "k", "v")
    elif found["q"] and found["kv"]:
        roles = ("q", "kv")
    elif found["q"] and found["qkv"]:  # GPT-2's cross-attention: q_attn, and keys and values in c_attn
        found["kv"], roles = found["qkv"], ("q", "kv")
    else:
        roles = ("qkv",)
    places: dict[str, str] = {}
    for role in roles:
        if not found[role]:
            wanted = [x for x in "qkv" if not found[x]] if any(found[x] for x in "qkv") else []
            what = f"no matrix for {' and '.join(wanted)}" if wanted else "no matrices of queries, keys and values"
            raise ConversionError(f"{source} has {what} that we know by name; its entries are {known_names(names)}")
        if len(found[role]) > 1:
            raise ConversionError(
                f"{source} has {len(found[role])} matrices that may be {role!r}: {', '.join(found[role][:4])}; give the one "
                "attention module, or the entries under its prefix"
            )
        places[role] = found[role][0]
    outs = [stem for stem in found["out"] if stem not in places.values()]
    if outs:
        query = places[roles[0]]
        near = max(_shared(stem, query) for stem in outs)
        nearest = [stem for stem in outs if _shared(stem, query) == near]
        if len(nearest) > 1:
            raise ConversionError(f"{source} has {len(nearest)} last projections: {', '.join(nearest[:4])}")
        places["out"] = nearest[0]
    return places


def _shared(one: str, other: str) -> int:
    """How many words two paths begin with alike."""
    pairs = zip(one.split("."), other.split("."))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), 0)


def size_of(module: nn.Module, names: tuple[str, ...]) -> int | None:
    """The first of these attributes that the module, a part of it or its config has as a positive whole number."""
    holders: list[Any] = list(module.modules())
    holders += [holder.config for holder in holders if hasattr(holder, "config")][:1]
    for holder in holders:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and nothing else, by path; those of norms and the like too."""
    return dict(module.named_parameters())


def known_names(keys: Iterable[str]) -> str:
    """A short list for messages."""
    names = sorted(keys)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
