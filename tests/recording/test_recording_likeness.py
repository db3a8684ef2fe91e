"""Heads that do the same are found as such, by their maps and by what they add to the model; others are not."""

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import CaptureError
from regard.recording.likeness import ROWS, head_clusters, map_distances, output_cosine
from regard.recording.store import load

E, H, D, T = 24, 4, 6, 20


def twins() -> regard.nn.MultiHeadAttention:
    """Heads 0 and 2 are equal; head 3 attends as head 1 does and adds something else."""
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(E, H).eval()
    with torch.no_grad():
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj):
            weight, bias = projection.weight.view(H, D, E), projection.bias.view(H, D)
            weight[:] = torch.randn(weight.shape, generator=torch.Generator().manual_seed(int(weight.numel())))
            weight[2], bias[2] = weight[0], bias[0]
        for projection in (layer.q_proj, layer.k_proj):
            weight, bias = projection.weight.view(H, D, E), projection.bias.view(H, D)
            weight[3], bias[3] = weight[1], bias[1]
        columns = layer.out_proj.weight.view(E, H, D)
        columns[:, 2] = -2 * columns[:, 0]  # a multiple, also a negative one, is the same thing said again
    return layer


@pytest.fixture(scope="module")
def cap():
    layer = twins()
    with torch.no_grad(), regard.capture(layer) as cap:
        layer(torch.randn(1, T, E, generator=torch.Generator().manual_seed(1)))
    return cap


def test_heads_with_the_same_map_are_at_distance_zero_and_in_one_group(cap):
    distance, names = cap.head_distances()
    assert names == ["L0 H0", "L0 H1", "L0 H2", "L0 H3"]
    assert distance[0, 2] < 1e-3
    assert distance[1, 3] < 1e-3
    assert distance[0, 1] > 0.15
    assert cap.head_clusters() == [["L0 H0", "L0 H2"], ["L0 H1", "L0 H3"]]


def test_outputs_tell_apart_what_maps_call_equal(cap):
    distance, _ = cap.head_distances(by="outputs", layers=0)
    assert distance[0, 2] < 1e-5
    assert distance[1, 3] > 0.3
    assert cap.head_clusters(by="outputs", within=0.1) == [["L0 H0", "L0 H2"], ["L0 H1"], ["L0 H3"]]


def test_the_cosine_is_that_of_the_open_form_and_survives_a_file(cap, tmp_path):
    layer = cap.model
    x = torch.randn(1, T, E, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        _, weights = layer.inspect(x)
        value = layer.v_proj(x).view(T, H, D).transpose(0, 1)  # (H, T, D)
        heads = weights[0] @ value
        added = torch.stack([heads[h] @ layer.out_proj.weight[:, h * D : (h + 1) * D].T for h in range(H)])
    expected = torch.nn.functional.cosine_similarity(added[:, None], added[None], dim=-1).mean(-1)
    assert torch.allclose(cap.records[0].output_cosine, expected, atol=1e-5)
    again = load(cap.save(tmp_path / "a.safetensors"))
    assert torch.equal(again.records[0].output_cosine, cap.records[0].output_cosine)


def test_long_outputs_are_compared_on_spread_rows():
    g = torch.Generator().manual_seed(0)
    output = torch.randn(2, 3 * ROWS, 4, generator=g)
    project = torch.randn(8, 8, generator=g)
    every = torch.linspace(0, 3 * ROWS - 1, ROWS).round().long()
    assert torch.equal(output_cosine(output, project), output_cosine(output[:, every], project))


def test_what_cannot_be_compared_is_refused(cap):
    with pytest.raises(CaptureError, match="by='values'; heads are compared by 'maps' or by 'outputs'"):
        cap.head_distances(by="values")
    with pytest.raises(CaptureError, match=r"symmetric square; got \(2, 3\)"):
        head_clusters(torch.zeros(2, 3))

    class Bare(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q)

    with regard.capture(Bare()) as bare:
        bare.model(torch.randn(1, 2, 5, 4))
    with pytest.raises(CaptureError, match="no output projection of matching width"):
        bare.head_distances(by="outputs")
    two = torch.nn.Sequential(Bare(), Bare())
    with regard.capture(two) as both:
        two(torch.randn(1, 2, 5, 4))
    with pytest.raises(CaptureError, match="outputs are compared within one layer; give layers=0 to 1"):
        both.head_distances(by="outputs")
    with regard.capture(Bare()) as sizes:
        sizes.model(torch.randn(1, 2, 5, 4))
        sizes.model(torch.randn(1, 2, 9, 4))
    with pytest.raises(CaptureError, match="different sizes"):
        map_distances(sizes.records)


def test_the_fast_path_of_an_encoder_layer_tells_what_the_slow_path_tells():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, H, 32, batch_first=True).eval()
    x = torch.randn(2, T, E, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), regard.capture(layer) as fast:
        layer(x)
    with regard.capture(layer) as slow:
        layer(x)
    assert [r.source for r in fast.records + slow.records] == ["native_mha"] * 2 + ["fused"] * 2
    for one, other in zip(fast.records, slow.records, strict=True):
        assert torch.allclose(one.output_cosine, other.output_cosine, atol=1e-5)
        assert torch.allclose(one.scores["output"], other.scores["output"], atol=1e-5)
