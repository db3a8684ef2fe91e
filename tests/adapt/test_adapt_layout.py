"""How weights lie: packing and unpacking are inverse for every layout, and what does not fit is refused with the numbers."""

import itertools

import pytest
import torch

from regard.adapt.layout import PACKINGS, Layout, Linear, Projections, pack, unpack
from regard.core.errors import ConversionError

E, HEADS, D = 12, 4, 3


def draws(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def projections(kv_heads: int = HEADS) -> Projections:
    rows = (HEADS * D, kv_heads * D, kv_heads * D)
    q, k, v = (Linear(draws(n, E, seed=i), draws(n, seed=10 + i)) for i, n in enumerate(rows))
    return Projections(q, k, v, Linear(draws(E, HEADS * D, seed=5), draws(E, seed=6)))


def names(kv_heads: int, packed: bool, transposed: bool) -> dict[str, torch.Tensor]:
    """Empty arrays of the shapes that a module of this kind has."""
    rows = {"q": HEADS * D, "k": kv_heads * D, "v": kv_heads * D}
    if packed:
        rows = {"qkv": sum(rows.values())}
    made = {name: torch.zeros((E, n) if transposed else (n, E)) for name, n in rows.items()}
    made |= {f"{name}.bias": torch.zeros(n) for name, n in rows.items()}
    joined = HEADS * D
    return made | {"out": torch.zeros((joined, E) if transposed else (E, joined)), "out.bias": torch.zeros(E)}


LAYOUTS = [
    (packed, kv, Layout(HEADS, kv, packing=p, order=o, transposed=t, head_order=h, group_order=g))
    for packed, kv, p, o, t, h, g in itertools.product(
        (True, False), (4, 2), PACKINGS, ("qkv", "vkq"), (False, True), ("blocks", "strided"), ("grouped", "tiled")
    )
    if (kv == HEADS or p in ("concatenated", "per_head")) and (packed or p == "concatenated") and (packed or o == "qkv")
]


@pytest.mark.parametrize(("packed", "kv_heads", "layout"), LAYOUTS)
def test_what_is_packed_is_unpacked_again(packed, kv_heads, layout):
    ours = projections(kv_heads)
    again = unpack(pack(ours, layout, names(kv_heads, packed, layout.transposed)), layout)
    for mine, theirs in zip(ours, again):
        assert torch.equal(mine.weight, theirs.weight)
        assert torch.equal(mine.bias, theirs.bias)


def test_every_layout_of_the_packed_matrix_is_another_one():
    assert len(LAYOUTS) > 60
    seen = {}
    for packed, kv, layout in LAYOUTS:
        if packed and kv == HEADS and layout.group_order == "grouped" and not layout.transposed:
            rows = pack(projections(), layout, names(kv, True, False))["qkv"]
            seen[tuple(rows[:, 0].tolist())] = layout
    assert len(seen) >= 12  # strided and channel-major rows meet in places; the rest differ


def test_rows_of_each_head_together_are_heads_by_query_key_value():
    qkv = torch.arange(3 * HEADS * D, dtype=torch.float32)[:, None].expand(-1, E)
    got = unpack({"qkv": qkv}, Layout(HEADS, packing="per_head"))
    assert got.query.weight[:, 0].tolist() == [0, 1, 2, 9, 10, 11, 18, 19, 20, 27, 28, 29]
    assert got.key.weight[:4, 0].tolist() == [3, 4, 5, 12]
    assert got.out is None


def test_tiled_query_heads_are_sorted_to_the_key_head_that_they_read():
    heads = torch.arange(HEADS, dtype=torch.float32).repeat_interleave(D)[:, None].expand(-1, E)
    arrays = {"q": heads, "k": heads[: 2 * D], "v": heads[: 2 * D]}
    got = unpack(arrays, Layout(HEADS, 2, group_order="tiled"))
    assert got.query.weight[::D, 0].tolist() == [0, 2, 1, 3]  # heads 0 and 2 read key head 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_heads": 4, "num_kv_heads": 3}, "4 query heads cannot share 3 key heads"),
        (
            {"num_heads": 4, "packing": "side"},
            "packing is one of concatenated, per_head, interleaved, channel_major, got 'side'",
        ),
        ({"num_heads": 4, "order": "qq"}, "order is the letters q, k and v in some order, got 'qq'"),
        ({"num_heads": 4, "head_order": "rows"}, "head_order is one of blocks, strided, got 'rows'"),
    ],
)
def test_a_layout_that_is_none_is_refused(options, said):
    with pytest.raises(ConversionError, match=said):
        Layout(**options)


@pytest.mark.parametrize(
    ("shapes", "heads", "said"),
    [
        ({"q": (10, E), "k": (12, E), "v": (12, E)}, 4, "the query projection makes 10 channels, .* into 4 heads"),
        ({"q": (12, E), "k": (8, E), "v": (12, E)}, 4, "queries have 4 heads of width 3 and keys 4 of width 2"),
        ({"qkv": (35, E)}, 4, r"35 packed rows do not divide into 4 \+ 4 \+ 4 heads of q, k, v"),
        (
            {"q": (12, E), "k": (12, E), "v": (12, E), "out": (E, 10)},
            4,
            "the last projection reads 10 channels, and 4 heads of width 3 make 12",
        ),
    ],
)
def test_widths_that_do_not_fit_are_refused_with_the_numbers(shapes, heads, said):
    with pytest.raises(ConversionError, match=said):
        unpack({name: torch.zeros(shape) for name, shape in shapes.items()}, Layout(heads))


def test_a_bias_that_has_no_place_is_refused_and_one_of_zeros_is_not():
    target = {name: x for name, x in names(HEADS, False, False).items() if not name.endswith(".bias")}
    with pytest.raises(ConversionError, match=r"the layer has 'q.bias' and the target has no place for it"):
        pack(projections(), Layout(HEADS), target)
    silent = Projections(*(Linear(p.weight, torch.zeros_like(p.bias)) for p in projections()))
    assert set(pack(silent, Layout(HEADS), target)) == {"q", "k", "v", "out"}


def test_a_target_of_another_size_is_refused_with_both():
    target = names(HEADS, False, False) | {"q": torch.zeros(8, E)}
    with pytest.raises(ConversionError, match=r"'q' is \(12, 12\) here and \(8, 12\) in the target"):
        pack(projections(), Layout(HEADS), target)
