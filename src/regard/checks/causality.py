"""Is a module meant to be causal? Told by a design, by triangular masks inside, by an option, or (weakly) by its words."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from regard.checks.case import Case
from regard.checks.inner_evidence import all_say
from regard.checks.layers import odd_ones, stacks
from regard.checks.roles import call_role, constructor_role
from regard.checks.sites import attention_sites, causal_matrix
from regard.intercept import Site
from regard.intercept.site import HIDDEN, Step

WORDS = r"\bcausal|autoregress|decoder-only|left[- ]to[- ]right|no peeking|cannot see the future|look[- ]ahead mask|masked self[- ]attention"


STRONG = r"\bcausal( multi-?head)?( self)?[- ]attention|^causal\b|causal:|(?<![a-z])Causal(?=[A-Z]\w*)|autoregressive (self-)?attention"
NAMED = r"(?<!Non)(?<!Not)(?<!Semi)(?<!Anti)(?<!Pseudo)(?<!Partially)(?<=[a-z0-9])Causal((Multi|Single)?Head|Self|Linear|Local|Sliding|Window(ed)?|Dot|Product|Scaled|Softmax|Kernel|Grouped|Query|Flash|Fast|Efficient|Cosine|Masked)*(Attention|Attn|Transformer|Decoder)"
UNITS = re.compile(
    r"(Frame|Block|Chunk|Segment|Patch|Group|Prefix|Window|Image|Scale|Stage|Level|Step|Set|Doc\w*|Page|Row)s?(Wise)?$"
)
WEAKENED = r"non-?causal|not causal|if causal|causal (is|=|or)|optional|bidirectional|whether"


def causal_intent(case: Case, sees: Tensor) -> tuple[str | None, str]:
    """(what says so, kind of fault) — or (None, "") when nothing says so. Kind "question" when only words do."""
    if case.design.causal is False:
        return None, ""
    site = _causal_weights(case)
    if site is not None:
        if site == "causal":
            return "the attention weights inside are lower triangular", "future-leak-nonattention"
        return "a mask inside hides the future, and later steps give it weight again", site
    if case.design.causal:
        return "the design says causal", "causal-missing"
    missing = _layers_without(case)
    if missing:
        paths = ", ".join(s.path for s in missing)
        kind = "causal-off-by-one" if all(one_ahead(s) for s in missing) else "causal-missing"
        return f"the weights of all attention layers but {paths} are lower triangular", kind
    some = _some_heads(case)
    if some is not None:
        return some, "question"
    name = _triangular(case)
    if name is not None:
        return f"{name} is a causal triangle", "causal-missing"
    for pair in case.evidence.attributes:
        name, _, value = pair.partition("=")
        if "decoder" in name and case.signature.masks:
            continue  # such a flag often switches the cache only; the mask comes from the caller
        if constructor_role(name) == "causal" and value == "True" and f"{name}=False" not in case.evidence.attributes:
            return f"{name}=True", "causal-missing"
    if any(call_role(n) in ("mask", "causal_option") for n in [*case.signature.masks, *case.signature.options]):
        return None, ""  # the caller brings the mask
    strong = case.evidence.says(STRONG) or _named(case, sees)
    pairs = [pair.partition("=") for pair in case.evidence.attributes]
    off = any(constructor_role(name) == "causal" and value == "False" for name, _, value in pairs)
    if strong and not off and not case.evidence.says(WEAKENED):
        return f"its text says {strong.strip()!r}", "causal-missing"
    inner = (
        all_say(case, f"{STRONG}|{NAMED}", f"{WEAKENED}|{UNITS.pattern[:-1]}Causal")
        if bool((sees | torch.ones_like(sees).tril()).all())
        else None
    )
    if inner and not off:
        return f"the text of the attention inside says {inner.strip()!r}", "causal-missing"
    said = case.evidence.says(WORDS)
    return (f"its text says {said!r}", "question") if said else (None, "")


def _named(case: Case, sees: Tensor) -> str | None:
    """The name where causal is a later word: FastCausalAttention, not NonCausalAttention.

    The word before may be a unit within which all is seen (FrameCausalAttention); and where part of the future is hidden, the
    mask has a form that the name does not tell.
    """
    named = re.search(NAMED, case.evidence.name)
    whole = bool((sees | torch.ones_like(sees).tril()).all())
    return named.group(0) if named and whole and not UNITS.search(case.evidence.name[: named.start()]) else None


def _causal_weights(case: Case) -> str | None:
    """ "causal" when every site's weights are lower triangular; a kind of fault when they were, and what met the values is not."""
    sites = attention_sites(case)
    if not sites:
        return None
    final = [s.weights() if s.kind == "fused" else s.weights_used for s in sites]
    if all(causal_matrix(w) for w in final):
        return "causal"
    hidden_once = [s for s, w in zip(sites, final) if not causal_matrix(w) and _hides_future(s)]
    return _remade(hidden_once[0]) if hidden_once else None


def _remade(site: Site) -> str:
    """What gave the hidden future its weight back."""
    kept = [(i, k) for i, s in enumerate(site.before) if (k := _kept(s)) is not None and causal_matrix(k.double())]
    if not kept:
        return "double-softmax"
    at, shown = kept[-1]
    if any(s.op in ("tanh", "clamp") for s in site.before[at:]):
        return "softcap-after-mask"
    return "double-softmax" if bool(shown[..., 0, :].any()) else "causal-strict"


def _layers_without(case: Case) -> list[Site]:
    """Layers of a stack whose weights see the future while most of the stack's are lower triangular."""
    out: list[Site] = []
    for stack in stacks(attention_sites(case)):
        out += odd_ones(stack, [causal_matrix(s.weights()) for s in stack])
    return out


def _some_heads(case: Case) -> str | None:
    """Where some heads of one site hide the future and all others hide nothing."""
    for site in attention_sites(case):
        seen = site.visible()
        if seen is None or seen.ndim != 4 or seen.shape[-1] != seen.shape[-2] or seen.shape[-1] < 4:
            continue
        heads = [h.reshape(-1, *h.shape[-2:]) for h in seen.bool().unbind(1)]
        causal = [i for i, h in enumerate(heads) if not bool(h.triu(1).any()) and bool(h.tril(-1).any())]
        open_ = [i for i, h in enumerate(heads) if bool(h.all())]
        if causal and open_ and len(causal) + len(open_) == len(heads):
            return f"of {len(heads)} heads, {', '.join(map(str, causal[:4]))} hide the future"
    return None


def ones_are_added(case: Case) -> bool:
    """Is a triangle of zeros and ones, on the past or on the future, added to the scores of a site?"""
    added = [s.tensor for site in attention_sites(case) for s in site.mask if s.op == "add" and s.tensor is not None]
    for bias in added:
        if bias.ndim < 2 or bias.shape[-1] != bias.shape[-2] or bias.shape[-1] < 4:
            continue
        past = torch.ones(bias.shape[-2:], dtype=torch.bool).tril()
        for ones in (past, past.tril(-1), ~past, past.mT):
            if torch.equal(bias.detach().double(), ones.double().expand_as(bias)):
                return True
    return False


def one_ahead(site: Site) -> bool:
    """Does each query see the whole past and exactly one key of the future?"""
    seen = site.visible()
    if seen is None or seen.shape[-1] < 4 or seen.shape[-2] != seen.shape[-1]:
        return False
    hides_past = ~seen & torch.ones_like(seen).tril(1)
    return not bool(hides_past.any()) and not bool(seen.triu(2).any())


def _hides_future(site: Site) -> bool:
    """A mask on the way (fill, where or a large negative sum) hides exactly the future, whatever came after it."""
    for step in [*site.before, *site.after]:
        if step.op == "softmax" and step.tensor is not None and causal_matrix(step.tensor):
            return True
        kept = _kept(step)
        if kept is not None and causal_matrix(kept.double()):
            return True
    return False


def _kept(step: Step) -> Tensor | None:
    """(..., T, S) True where this step leaves the scores, if it is one that hides."""
    if step.tensor is None or step.tensor.ndim < 2:
        return None
    if step.op in ("fill", "where"):
        return ~(step.tensor if step.op == "fill" or not step.keep else ~step.tensor).bool()
    if step.op in ("add", "sub") and step.tensor.is_floating_point():
        return (step.tensor if step.op == "add" else -step.tensor) > HIDDEN
    return None


def hiding_step(step: Step) -> bool:
    """Does this step hide some scores, and leave others?"""
    kept = _kept(step)
    return kept is not None and bool(kept.any()) and not bool(kept.all())


def _triangular(case: Case) -> str | None:
    """The name of a square buffer that holds a triangle."""
    if not case.subject.is_module:
        return None
    for name, b in case.subject.pristine.named_buffers():
        if b.ndim >= 2 and b.shape[-1] == b.shape[-2] and b.shape[-1] > 3:
            m = b.reshape(-1, *b.shape[-2:])[0]
            upper, lower = m.triu(1), m.tril(-1)
            iu = torch.ones_like(m, dtype=torch.bool).triu(1)
            il = torch.ones_like(m, dtype=torch.bool).tril(-1)
            if bool((m[iu] == m[iu][0]).all()) and bool((m[il] == m[il][0]).all()) and bool(m[iu][0] != m[il][0]):
                del upper, lower
                return name
    return None
