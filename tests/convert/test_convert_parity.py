"""The parity table: our layer against the attention of every framework, case by case; printed, and held to a rule.

A difference is allowed up to 1e-6, or twice the peer's own float32 error against our float64 where that is larger.
"""

import copy
import math

import peers
import pytest
import torch

from regard import convert
from regard.adapt import huggingface, keras_layers, onnx_graph, timm_modules, torch_modules, x_transformers_modules
from regard.convert import golden_case
from regard.convert.build import layer_of, projections_of
from regard.convert.verify import Case, cases_for, ours

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # the peers, where they are imported

ALLOWED = 1e-6  # float32, outputs near 1
COLUMNS = ("self", "padding", "causal", "causal and padding", "cross", "gqa")


def rows():
    """Name, package that must be there, adapter, factory, factory with fewer key heads or None."""
    yield "torch.nn.MultiheadAttention", "torch", torch_modules, peers.torch_mha, None
    yield "transformers Bert", "transformers", huggingface, peers.bert, None
    yield "transformers GPT-2", "transformers", huggingface, peers.gpt2, None
    yield "transformers GPT-NeoX", "transformers", huggingface, peers.gpt_neox, None
    yield "transformers Bloom", "transformers", huggingface, peers.bloom, None
    yield "transformers Llama", "transformers", huggingface, peers.llama, lambda: peers.llama(2)
    yield "transformers Whisper", "transformers", huggingface, peers.whisper, None
    yield "timm Attention", "timm", timm_modules, peers.timm_attention, None
    xt = x_transformers_modules
    yield "x_transformers", "x_transformers", xt, peers.x_attention, lambda: peers.x_attention(kv_heads=2)
    yield "onnx Attention", "onnx", onnx_graph, peers.onnx_attention, lambda: peers.onnx_attention(2)
    yield "keras (torch)", "keras", keras_layers, peers.keras_layer, lambda: peers.keras_layer(2)


def measured(adapter, module) -> dict[str, tuple[float, float]]:
    """Case -> (difference to our float32, the peer's error against our float64)."""
    found = adapter.find(module, {})
    layer = layer_of(found)
    exact = copy.deepcopy(layer).double()
    cases = cases_for(found.cases, projections_of(layer), found.facts.mask, layer.scale, layer.num_heads)
    made = {}
    with torch.no_grad():
        for case in cases:
            theirs = adapter.run(module, case.query, case.context, case.attend)
            made[case.name] = gaps(ours(layer, case), theirs, ours(exact, doubled(case)), case)
    return made


def doubled(case: Case) -> Case:
    context = None if case.context is None else case.context.double()
    return Case(case.name, case.query.double(), context, case.extra, case.attend)


def gaps(mine, theirs, exact, case) -> tuple[float, float]:
    seen = case.attend.any(dim=2, keepdim=True)
    return tuple(float((x * seen).abs().amax()) for x in (mine - theirs, theirs.double() - exact))


def stored(door: str) -> dict[str, tuple[float, float]]:
    """The same against outputs that were stored where the framework was installed."""
    kept = golden_case.load(door)
    adapter = keras_layers if door == "keras" else __import__("regard.adapt.flax_nnx").adapt.flax_nnx
    layer = layer_of(adapter.find({n[8:]: x for n, x in kept.items() if n.startswith("weights.")}, {}))
    exact = copy.deepcopy(layer).double()
    with torch.no_grad():
        return {
            case.name: gaps(ours(layer, case), theirs, ours(exact, doubled(case)), case)
            for case, theirs in golden_case.cases_of(kept)
        }


def all_rows() -> dict[str, dict[str, tuple[float, float]]]:
    table = {}
    for name, package, adapter, plain, grouped in rows():
        if package != "torch" and not installed(package):
            continue
        table[name] = measured(adapter, plain())
        if grouped is not None:
            table[name]["gqa"] = max(measured(adapter, grouped()).values())
        if adapter is onnx_graph:  # a graph has either one input or two
            table[name] |= measured(adapter, peers.onnx_attention(cross=True))
    for door in golden_case.STORED:
        name = f"{golden_case.load(door)['made_with']} (stored)"
        table[name] = stored(door)
        if door == "flax":  # its stored case has fewer key heads than query heads
            table[name] = {"gqa": max(table[name].values()), **table[name]}
    return table


def installed(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def test_the_parity_table_is_within_its_rule(capsys):
    table = all_rows()
    lines = [f"{'framework':36}" + "".join(f"{column:>20}" for column in COLUMNS)]
    broken = []
    for name, row in table.items():
        cells = [f"{row[c][0]:.1e}" if c in row else "-" for c in COLUMNS]
        lines.append(f"{name:36}" + "".join(f"{cell:>20}" for cell in cells))
        broken += [(name, c, x) for c, x in row.items() if not x[0] <= max(ALLOWED, 2 * x[1])]
    with capsys.disabled():
        print("\nmax difference, float32 (- : the framework has no such call)", *lines, sep="\n")
    assert not broken
    assert len(table) >= 3
    assert sum("gqa" in row for row in table.values()) >= 1


@pytest.mark.parametrize("door", golden_case.STORED)
def test_a_stored_case_has_every_call(door):
    made = stored(door)
    assert set(made) == {"self", "padding", "causal", "causal and padding", "cross"}
    assert all(0 <= x[0] <= max(ALLOWED, 2 * x[1]) for x in made.values())


def test_a_difference_would_be_seen_by_the_table():
    module = peers.torch_mha()
    found = torch_modules.find(module, {}).told({"order": "kqv"})
    layer = layer_of(found)
    case = cases_for(("self",), projections_of(layer), None, None, peers.HEADS)[0]
    with torch.no_grad():
        gap = gaps(ours(layer, case), torch_modules.run(module, case.query, None, case.attend), ours(layer, case), case)
    assert gap[0] > 0.1
    assert math.isfinite(gap[1])


def test_the_report_of_a_conversion_has_the_numbers():
    report = convert.report(convert.from_torch(peers.torch_mha()))
    assert set(report.differences) == {"self", "padding", "causal", "causal and padding", "cross"}
    assert report.difference <= report.allowed
    assert report.how == "both sides ran"
    assert str(report).startswith("torch.nn.MultiheadAttention, both sides ran: self ")
