"""The table of architectures: ours inside real transformers models equals their eager attention, or is refused with a reason."""

import pytest

pytest.importorskip("transformers", reason="needs transformers")
import torch
import transformers
from hf_models import REFUSED, RUN, Subject

from regard.adapt import hf
from regard.core.errors import AdaptError

FUSED = 1e-5  # float32 through two layers: kernels sum in another order
CHANGED = 1e-3  # what a dropped mask changes at the least; the prototype's dropped mask changed 1.06


def outputs(subject: Subject) -> dict[str, torch.Tensor]:
    """What the model gives, at the tokens that are not padding (the rows of others are nobody's promise)."""
    with torch.no_grad():
        given = subject.model(**subject.inputs)
    keep = subject.inputs.get("attention_mask")
    tensors = {name: x for name, x in given.items() if isinstance(x, torch.Tensor)}
    seen = {name: keep is not None and x.ndim == 3 and x.shape[:2] == keep.shape for name, x in tensors.items()}
    return {name: x[keep.bool()] if seen[name] else x for name, x in tensors.items()}


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


def row(name: str) -> tuple[str, float, float, int, str]:
    """Name, difference with "open", difference with what is chosen, calls, and why it is refused."""
    subject = {**RUN, **REFUSED}[name]()
    eager = outputs(subject)
    found = []
    for backend in ("open", None):
        try:
            with hf.use(subject.model, backend=backend) as used:
                found.append(difference(eager, outputs(subject)))
                calls = sum(used.calls.values())
        except AdaptError as error:
            return name, 0.0, 0.0, 0, str(error)
    assert difference(eager, outputs(subject)) == 0.0, "undo() left something behind"
    return name, found[0], found[1], calls, ""


def test_the_table_of_architectures(capsys):
    rows = [row(name) for name in (*RUN, *REFUSED)]
    with capsys.disabled():
        print(f"\nours in transformers {transformers.__version__}, against eager, at tokens that are not padding")
        print(f"{'architecture':22} {'open':>9} {'chosen':>9} {'calls':>6}")
        for name, exact, fused, calls, why in rows:
            numbers = f"{exact:9.1e} {fused:9.1e} {calls:6}" if not why else f"refused: {why[:70]} ..."
            print(f"{name:22} {numbers}")
    by_name = {name: rest for name, *rest in rows}
    assert sum(not by_name[name][3] for name in RUN) >= 14
    for name in RUN:
        exact, fused, calls, why = by_name[name]
        assert (why, exact) == ("", 0.0), name
        assert fused <= FUSED, name
        assert calls >= 2, name
    for name in REFUSED:
        assert "does not go through transformers' attention interface" in by_name[name][3], name


def test_a_mask_that_is_dropped_would_show_in_the_table():
    subject = RUN["bert"]()
    masked = outputs(subject)
    blind = Subject(subject.model, {"input_ids": subject.inputs["input_ids"]})
    with torch.no_grad():
        bare = subject.model(**blind.inputs).last_hidden_state[subject.inputs["attention_mask"].bool()]
    assert (masked["last_hidden_state"] - bare).abs().max() > CHANGED


@pytest.mark.parametrize("name", ["bloom", "xlnet", "deberta-v2", "longformer"])
def test_a_model_that_takes_the_setting_and_never_calls_it_is_refused_after_its_first_forward(name, monkeypatch):
    subject = REFUSED[name]()
    eager = outputs(subject)
    takes_all = classmethod(lambda cls: True)  # as from_pretrained(attn_implementation=...) takes it without asking
    monkeypatch.setattr(transformers.PreTrainedModel, "_can_set_attn_implementation", takes_all)
    hf.use(subject.model)
    with pytest.raises(AdaptError, match=r"took the setting and never called our attention: 2 \w+ \("):
        outputs(subject)
    assert subject.model.config._attn_implementation == "eager"
    assert difference(eager, outputs(subject)) == 0.0
