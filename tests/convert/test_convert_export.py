"""Export: torch.export and ONNX with any batch and length give what the layer gives, rows that see no key included."""

import warnings

import numpy as np
import peers
import pytest
import torch
from torch import nn

from regard import convert
from regard.adapt.onnx_graph import evaluate
from regard.convert.export_forms import FORMS
from regard.core.errors import ConversionError
from regard.mask import causal, dense, padding, sliding_window
from regard.nn import AlibiBias, MultiHeadAttention
from regard.position import Rotary

E, HEADS, D = peers.E, peers.HEADS, peers.D
CLOSE = 2e-6  # float32, two programs that sum in other orders

LAYERS = {
    "plain": {},
    "causal, grouped": {"num_kv_heads": 2, "mask": causal()},
    "causal, grouped, rotary": {"num_kv_heads": 2, "mask": causal(), "position": Rotary(D, pairing="half")},
    "window": {"mask": causal() & sliding_window(left=2)},
    "alibi, grouped, softcap": {
        "num_kv_heads": 2,
        "mask": causal(),
        "attention_bias": AlibiBias(HEADS),
        "softcap": 10.0,
    },
}
TAKES = ((), ("keep",), ("mask",), ("cache",))
CROSS = (("context",), ("context", "keep"))


def layer(name: str) -> MultiHeadAttention:
    return peers.filled(MultiHeadAttention(E, HEADS, **LAYERS[name]))


def table(rows) -> str:
    head = f"{'program':14}{'layer':26}{'takes':16}{'difference':>12}{'nodes':>7}"
    return "\n".join(["", head, *(f"{p:14}{n:26}{' '.join(t) or '-':16}{d:12.1e}{k:>7}" for p, n, t, d, k in rows)])


def measured(program: str, name: str, takes: tuple[str, ...]):
    make = convert.to_exported if program == "torch.export" else convert.to_onnx
    made = make(layer(name), takes=takes)
    return program, name, takes, made.report.difference, sum(made.nodes.values()) or "-"


@pytest.fixture(scope="module")
def grouped_file(tmp_path_factory):
    """An ONNX file of a causal layer with fewer key heads that is told its padding, and the layer."""
    pytest.importorskip("onnxscript", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    path = tmp_path_factory.mktemp("onnx") / "attention.onnx"
    made = layer("causal, grouped")
    return path, made, convert.to_onnx(made, path, takes=["keep"])


def test_torch_export_gives_what_the_layer_gives_at_every_size(capsys):
    rows = [measured("torch.export", "causal, grouped, rotary", takes) for takes in (("keep",), ("cache",))]
    rows.append(measured("torch.export", "plain", ("context", "keep")))
    rows.append(measured("torch.export", "alibi, grouped, softcap", ("keep",)))
    with capsys.disabled():
        print(table(rows))
    assert max(row[3] for row in rows) <= CLOSE


@pytest.mark.slow
def test_the_export_table(capsys):
    pytest.importorskip("onnxscript", reason="needs the extra onnx")
    cells = [(name, takes) for name in LAYERS for takes in TAKES] + [("plain", takes) for takes in CROSS]
    rows = [measured(program, *cell) for program in ("torch.export", "onnx") for cell in cells]
    with capsys.disabled():
        print(table(rows))
    assert len(rows) == 44
    assert max(row[3] for row in rows) <= CLOSE


def test_a_file_of_onnx_runs_outside_of_torch_with_padding_of_any_kind(grouped_file):
    import onnx

    path, made, exported = grouped_file
    assert exported.nodes["Attention"] == 1
    assert (exported.inputs, exported.outputs) == (("query", "keep"), ("output",))
    assert exported.report.difference <= CLOSE
    proto = onnx.load(path)
    assert next(x.version for x in proto.opset_import if x.domain == "") == 23
    keep = torch.tensor([[0, 0, 0, 0], [0, 1, 1, 1], [1, 1, 0, 0]]).bool()  # none, left, right
    x = peers.draws(3, 4, E, seed=8)
    theirs = evaluate(proto, {"query": x.numpy(), "keep": keep.numpy()})[0]
    with torch.no_grad():
        expected = made(x, mask=padding(keep))
    np.testing.assert_allclose(theirs, expected, atol=CLOSE, rtol=0)
    np.testing.assert_allclose(theirs[0], made.out_proj.bias.detach().expand(4, E), atol=CLOSE)  # sees no key


def test_a_cache_outside_of_torch_decodes_as_the_full_forward():
    made = layer("causal, grouped, rotary")
    call = convert.to_exported(made, takes=["cache"]).program.module()
    x = peers.draws(2, 6, E, seed=9)
    _, k, v = made._project(x, x, x)
    positions = torch.arange(3)[None]
    key, value = made.position(k[:, :, :3], positions), v[:, :, :3]
    parts = []
    for t in range(3, 6):
        output, key, value = call(x[:, t : t + 1], key, value)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, dim=1), made(x)[:, 3:], atol=CLOSE, rtol=0)


def test_onnx_is_read_back_with_its_padding_and_its_causality(grouped_file):
    path, made, _ = grouped_file
    with pytest.raises(
        ConversionError, match=r"hides keys by 'sub_\d+', which the graph computes; say what it is with mask="
    ):
        convert.from_onnx(path)
    again = convert.from_onnx(path, mask=causal())
    assert convert.report(again).difference <= 1e-5
    assert (again.num_heads, again.num_kv_heads) == (HEADS, 2)
    assert torch.equal(again.q_proj.weight, made.q_proj.weight)
    x = peers.draws(2, 5, E, seed=10)
    torch.testing.assert_close(again(x), made(x), atol=CLOSE, rtol=0)
    with pytest.raises(ConversionError, match="has 1 Attention nodes, and none with index 1"):
        convert.from_onnx(path, index=1, mask=None)


def handmade(*, op: str = "Attention", rotary: bool = False, **attributes):
    """A small graph as another exporter would write it: one packed matrix, split, Attention on three axes."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    from onnx import TensorProto, helper, numpy_helper

    weights = {"w": peers.draws(E, 3 * E, seed=1), "b": peers.draws(3 * E, seed=2), "o": peers.draws(E, E, seed=3)}
    stored = [numpy_helper.from_array((x / E**0.5).numpy(), name) for name, x in weights.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["packed"]),
        helper.make_node("Split", ["packed"], ["q", "k", "v"], axis=-1, num_outputs=3),
    ]
    query = "q"
    if rotary:
        nodes.append(helper.make_node("Neg", ["q"], ["turned"]))
        query = "turned"
    nodes += [
        helper.make_node(op, [query, "k", "v"] if op == "Attention" else [query, "k"], ["a"], **attributes),
        helper.make_node("MatMul", ["a", "o"], ["y"]),
    ]
    sizes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "T", E]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", sizes[:1], sizes[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model


def test_a_graph_of_another_exporter_is_read():
    made = convert.from_onnx(handmade(q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1))
    assert repr(made.mask) == "causal()"
    assert made.num_heads == HEADS
    assert set(convert.report(made).differences) == {"self", "padding", "causal", "causal and padding"}


def test_a_wrong_reading_of_onnx_is_refused_with_the_right_one():
    model = handmade(q_num_heads=HEADS, kv_num_heads=HEADS)
    with pytest.raises(ConversionError, match=r"the output matches the order q, k, v: pass order='qkv'"):
        convert.from_onnx(model, order="kqv")
    with pytest.raises(
        ConversionError, match=r"the output matches 4 heads and 4 key heads: pass num_heads=4, num_kv_heads=4"
    ):
        convert.from_onnx(model, num_heads=8, num_kv_heads=8)


def test_a_graph_without_attention_is_refused_with_what_it_has():
    with pytest.raises(
        ConversionError, match=r"has no Attention node \(its 5 nodes: Add, MatMul, Split, Sub\); export it at opset 23"
    ):
        convert.from_onnx(handmade(op="Sub"))


def test_what_stands_between_a_projection_and_attention_is_named():
    with pytest.raises(ConversionError, match=r"between Q of the ONNX Attention and its projection stands Neg"):
        convert.from_onnx(handmade(rotary=True, q_num_heads=HEADS, kv_num_heads=HEADS))


def test_opsets_without_the_operator_are_refused():
    with pytest.raises(
        ConversionError,
        match=r"opset 20 has no Attention operator: .* NaN, or off by as much as the values are .*; give opset=23 or later",
    ):
        convert.to_onnx(layer("plain"), opset=20)


@pytest.mark.slow
def test_opset_20_is_wrong_on_rows_that_see_no_key_and_opset_23_is_not(capsys):
    pytest.importorskip("onnxscript", reason="needs the extra onnx")

    class Plain(nn.Module):
        """torch's own call, as anybody would export it."""

        def forward(self, q, mask):
            return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    q = peers.draws(2, 4, 5, 8, seed=1)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0, :, 2] = False
    apart = {}
    for opset in (20, 23):
        with warnings.catch_warnings():  # the exporter's own deprecations
            warnings.simplefilter("ignore")
            program = torch.onnx.export(Plain(), (q, mask), dynamo=True, opset_version=opset, verbose=False)
        names = [x.name for x in program.model_proto.graph.input]
        output = evaluate(program.model_proto, dict(zip(names, (q.numpy(), mask.numpy()))))[0]
        gap = np.abs(output - Plain()(q, mask).numpy())
        apart[opset] = float("inf") if np.isnan(gap).any() else float(gap.max())
    with capsys.disabled():
        print(f"\na row that sees no key: opset 20 is off by {apart[20]:.2g}, opset 23 by {apart[23]:.1g}")
    assert apart[20] > 0.1
    assert apart[23] < CLOSE


def test_inputs_that_do_not_go_together_are_refused_with_those_that_do():
    with pytest.raises(
        ConversionError, match="takes=cache, keep do not go together; what does: nothing; keep; mask; context"
    ):
        convert.to_exported(layer("plain"), takes=["keep", "cache"])
    with pytest.raises(ConversionError, match="takes is some of keep, mask, context, cache, got padding"):
        convert.to_exported(layer("plain"), takes=["padding"])
    odd = peers.filled(MultiHeadAttention(E, HEADS, key_dim=20, value_dim=12))
    with pytest.raises(ConversionError, match="one tensor for keys and values; the layer's have 20 and 12 channels"):
        convert.to_exported(odd, takes=["context"])


@pytest.mark.parametrize("takes", [t for t in FORMS if "cache" not in t])
def test_what_is_exported_is_what_a_call_of_the_layer_gives(takes):
    made = layer("plain" if "context" in takes else "causal, grouped")
    form = FORMS[takes](made)
    given = dict(zip(form.inputs, form.example(3, 5, 4)))
    mask = None
    if "keep" in given:
        mask = padding(given["keep"])
    elif "mask" in given:
        mask = dense(given["mask"])
    expected = made(given["query"], given.get("context"), mask=mask)
    torch.testing.assert_close(form(*given.values()), expected, atol=CLOSE, rtol=0)


def test_a_program_that_differs_is_refused(monkeypatch):
    from regard.convert import export

    monkeypatch.setattr(export, "allowance", lambda largest: -1.0)
    with pytest.raises(ConversionError, match=r"torch\.export and the layer differ by 0 \(allowed -1\)"):
        convert.to_exported(layer("plain"))


def test_another_module_is_converted_before_it_is_exported():
    assert isinstance(export_of(peers.torch_mha()), MultiHeadAttention)
    with pytest.raises(ConversionError, match="an attention module was expected, got int"):
        export_of(3)


def export_of(module):
    from regard.convert.export import exportable

    return exportable(module)
