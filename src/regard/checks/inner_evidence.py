"""What the authors of the layers inside say, where the attention of a larger model runs in a class of its own."""

from __future__ import annotations

from torch import nn

from regard.checks.case import Case
from regard.checks.evidence import Evidence, read_evidence
from regard.checks.plan import read_signature
from regard.checks.sites import attention_sites


def inner_evidence(case: Case) -> list[Evidence]:
    """The texts of the classes in which attention runs, each once; not the subject's own class, nor those of torch."""
    return [read_evidence(m) for m in inner_attention(case)]


def inner_attention(case: Case) -> list[nn.Module]:
    """One module of each class in which attention runs."""
    if not case.subject.is_module:
        return []
    found: dict[type, nn.Module] = {}
    for site in attention_sites(case):
        module = site.innermost
        if isinstance(module, nn.Module) and not type(module).__module__.startswith("torch."):
            found.setdefault(type(module), module)
    found.pop(type(case.subject.pristine), None)
    return list(found.values())


def all_say(case: Case, pattern: str, unless: str) -> str | None:
    """The first match, if the class of every attention inside says so in its name or its text, and takes no mask from outside."""
    inner = inner_attention(case)
    texts = [read_evidence(m) for m in inner]
    if not inner or any(s.innermost is case.subject.pristine for s in attention_sites(case)):
        return None
    if any(read_signature(m.forward).masks for m in inner) or any(t.says(unless) for t in texts):
        return None
    said = [t.says(pattern) for t in texts]
    return said[0] if all(said) else None
