"""Windows, shifted windows, grids and neighbourhoods against a dense reference with an explicit mask, at every size."""

import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st

from regard.core.errors import ShapeError
from regard.nn.grid_attention import GridAttention
from regard.nn.neighborhood import NeighborhoodAttention2D
from regard.nn.shifted_window import ShiftedWindowAttention
from regard.nn.swin_block import SwinBlock
from regard.nn.window_attention import WindowAttention
from regard.nn.window_partition import grid_cells, window_cells, window_merge, window_partition

EXACT = 1e-11  # float64 against float64, sums in another order
C, HEADS = 8, 2
SIZES = list(itertools.product(range(1, 16), repeat=2))
SOME_SIZES = [(1, 1), (1, 9), (7, 2), (4, 4), (5, 8), (8, 5), (9, 13), (15, 11)]


def fixed(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.randn(value.shape, generator=generator, dtype=value.dtype) * 0.5)
    return module


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- the definitions, written out per pair of pixels ---------------------------------------------------------------


def window_groups(length, window, shift):
    shift = 0 if length <= window else shift
    return [(i - shift) // window for i in range(length)]


def grid_groups(length, grid):
    return [i % math.ceil(length / grid) for i in range(length)]


def meet(rows, columns):
    """(H W, H W) bool: whether two pixels are in one group on both axes."""
    group = [(a, b) for a in rows for b in columns]
    return torch.tensor([[first == second for second in group] for first in group])


def offset_bias(module, row_step, column_step, attend, size):
    """(h, H W, H W): the table entry of the offset of two pixels, counted in steps, where they meet."""
    (wh, ww), (H, W) = module.window_size, size
    if module.version == 1:
        table = module.position_bias.table
    else:
        entries = []
        for a, b in itertools.product(range(1 - wh, wh), range(1 - ww, ww)):
            scaled = [8 * d / max(w - 1, 1) for d, w in ((a, wh), (b, ww))]
            spaced = [math.copysign(math.log2(1 + abs(d)) / math.log2(8), d) for d in scaled]
            hidden = (
                module.position_bias.hidden.weight @ draw(1).new_tensor(spaced) + module.position_bias.hidden.bias
            ).clamp(min=0)
            entries.append(16 * torch.sigmoid(module.position_bias.out.weight @ hidden))
        table = torch.stack(entries)
    bias = torch.zeros(HEADS, H * W, H * W, dtype=torch.float64)
    for p, q in attend.nonzero().tolist():
        down, right = (p // W - q // W) // row_step, (p % W - q % W) // column_step
        bias[:, p, q] = table[(down + wh - 1) * (2 * ww - 1) + right + ww - 1]
    return bias


def dense(module, x, attend, bias):
    """Attention over all pixels at once, in float64, with a boolean mask."""
    H, W = x.shape[2:]
    pixels = x.flatten(2).mT
    weight, packed = module.qkv.weight, module.qkv.bias
    qkv = pixels @ weight.T
    if packed is not None:
        qkv = qkv + packed
    elif getattr(module, "q_bias", None) is not None:
        qkv = qkv + torch.cat([module.q_bias, torch.zeros(C, dtype=torch.float64), module.v_bias])
    query, key, value = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=2))
    if getattr(module, "version", 1) == 2:
        query, key = query / query.norm(dim=-1, keepdim=True), key / key.norm(dim=-1, keepdim=True)
        scores = query @ key.mT * module.log_temperature.exp().clamp(max=100)
    else:
        scores = query @ key.mT / math.sqrt(C // HEADS)
    weights = (scores + bias).masked_fill(~attend, -math.inf).softmax(-1)
    mixed = (weights @ value).transpose(1, 2).flatten(2) @ module.out_proj.weight.T + module.out_proj.bias
    return mixed.mT.unflatten(2, (H, W)), weights


def expected(module, x):
    H, W = x.shape[2:]
    (wh, ww), (sh, sw) = module.window_size, module.shift
    if isinstance(module, GridAttention):
        attend = meet(grid_groups(H, wh), grid_groups(W, ww))
        steps = (math.ceil(H / wh), math.ceil(W / ww))
    else:
        attend, steps = meet(window_groups(H, wh, sh), window_groups(W, ww, sw)), (1, 1)
    return (*dense(module, x, attend, offset_bias(module, *steps, attend, (H, W))), attend)


LAYERS = {
    "windows": lambda **o: WindowAttention(C, HEADS, window_size=4, **o),
    "shifted": lambda **o: ShiftedWindowAttention(C, HEADS, window_size=4, **o),
    "shifted by 1 and 3, window 3 x 5": lambda **o: ShiftedWindowAttention(
        C, HEADS, window_size=(3, 5), shift=(1, 3), **o
    ),
    "grid": lambda **o: GridAttention(C, HEADS, grid_size=(3, 4), **o),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


@every_layer
@pytest.mark.parametrize("size", SOME_SIZES)
def test_a_layer_is_dense_attention_with_an_explicit_region_mask(make, size):
    module, x = fixed(make()), draw(2, C, *size)
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected(module, x)[0], rtol=0, atol=EXACT)


@pytest.mark.parametrize("make", [LAYERS["windows"], LAYERS["shifted"]], ids=["windows", "shifted"])
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (5, 8), (9, 6)])
def test_version_2_is_dense_cosine_attention_with_log_spaced_offsets(make, size):
    module, x = fixed(make(version=2)), draw(2, C, *size)
    with torch.no_grad():
        # offsets are computed in float32, as in the authors' code
        torch.testing.assert_close(module(x), expected(module, x)[0], rtol=0, atol=1e-5)


@every_layer
def test_every_size_from_1_x_1_to_15_x_15_has_the_regions_of_the_definition_with_one_module(make):
    module = make()
    for H, W in SIZES:
        if isinstance(module, GridAttention):
            rows, columns = grid_groups(H, module.window_size[0]), grid_groups(W, module.window_size[1])
        else:
            axes = zip((H, W), module.window_size, module.shift)
            rows, columns = (window_groups(*axis) for axis in axes)
        group = torch.tensor([hash((a, b)) for a in rows for b in columns])
        region = module.regions(H, W).flatten()
        assert torch.equal(region[:, None] == region, group[:, None] == group), (H, W)


@every_layer
def test_every_size_runs(make):
    module = fixed(make())
    for H, W in SIZES:
        with torch.no_grad():
            output = module(draw(1, C, H, W))
        assert output.shape == (1, C, H, W)
        assert torch.isfinite(output).all()


@every_layer
def test_the_weights_of_every_pixel_sum_to_one_and_the_other_slots_are_empty(make):
    module = fixed(make())
    for H, W in SOME_SIZES:
        sums = module.inspect(draw(1, C, H, W)).weights.sum(-1)
        assert (sums > 0.5).sum() == HEADS * H * W  # one row per head and pixel
        assert ((sums - sums.round()).abs() < 1e-9).all()


@every_layer
@pytest.mark.parametrize("size", [(5, 8), (9, 13)])
def test_inspect_shows_the_weights_of_the_dense_reference(make, size):
    module, x = fixed(make()), draw(1, C, *size)
    with torch.no_grad():
        output, weights = module.inspect(x)
        assert torch.equal(output, module(x))
        _, reference, _ = expected(module, x)
    cut = module.partition(*size)
    region, (down, right) = cut.regions().flatten(), cut.slots()
    slot = (down[:, None] * module.window_size[1] + right[None]).flatten()
    for p in range(len(region)):
        mates = (region == region[p]).nonzero().flatten()
        shown = weights[0, :, region[p], slot[p], slot[mates]]
        torch.testing.assert_close(shown, reference[0, :, p, mates], rtol=0, atol=EXACT)


def influence(module, H, W):
    """(H W, H W) bool: entry [p, q] says whether output pixel p changes, by any bit, when input pixel q does.

    Image q of one batch has pixel q moved; the same batch without that gives the same roundings everywhere else.
    """
    still = draw(1, C, H, W).expand(H * W, -1, -1, -1).contiguous()
    moved = still.clone()
    q = torch.arange(H * W)
    moved[q, :, q // W, q % W] += draw(C, seed=1)
    with torch.no_grad():
        return (module(moved) != module(still)).any(1).flatten(1).T


@every_layer
@pytest.mark.parametrize("size", [(8, 8), (7, 7), (5, 9), (4, 3)])
def test_the_influence_set_of_every_pixel_is_its_region_and_nothing_else(make, size):
    module = fixed(make())
    assert torch.equal(influence(module, *size), expected(module, draw(1, C, *size))[2])


def test_one_module_has_exact_influence_sets_at_two_sizes_one_after_the_other():
    module = fixed(LAYERS["shifted"]())
    for size in ((8, 8), (6, 10), (8, 8)):
        assert torch.equal(influence(module, *size), expected(module, draw(1, C, *size))[2])


def test_opposite_borders_do_not_see_each_other_where_rolling_before_padding_would_join_them():
    module = fixed(ShiftedWindowAttention(C, HEADS, window_size=4, shift=2))
    seen = influence(module, 7, 7).view(7, 7, 7, 7)
    assert not seen[6, :, 0].any()  # the fault of rolling first: row 0 next to row 6
    assert seen[0, 0, 1, 1]


def test_two_shifted_blocks_connect_neighbouring_windows():
    blocks = torch.nn.Sequential(
        *(fixed(SwinBlock(C, HEADS, window_size=4, shift=shift), seed) for seed, shift in enumerate((0, None)))
    )
    seen = influence(blocks, 8, 8).view(8, 8, 8, 8)
    assert seen[3, 3].all()  # its shifted window touches all four windows


@every_layer
def test_nan_in_another_region_changes_no_bit(make):
    module, x = fixed(make()), draw(1, C, 9, 9)
    clean, region = module(x), module.regions(9, 9)
    x[0, :, 4, 4] = math.nan
    dirty, apart = module(x), region != region[4, 4]
    assert torch.equal(dirty[..., apart], clean[..., apart])
    assert dirty[..., ~apart].isnan().all()


# ---- partition and merge -------------------------------------------------------------------------------------------


@given(data=st.data(), window=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_merging_undoes_partitioning_and_each_window_is_a_rectangle(data, window):
    across = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    H, W = window[0] * across[0], window[1] * across[1]
    x = torch.arange(2 * H * W * 3).view(2, H, W, 3)
    windows = window_partition(x, window)
    assert torch.equal(window_merge(windows, window, (H, W)), x)
    for number in range(windows.shape[1]):
        top, left = number // across[1] * window[0], number % across[1] * window[1]
        rectangle = x[:, top : top + window[0], left : left + window[1]].flatten(1, 2)
        assert torch.equal(windows[:, number], rectangle)


def test_a_window_that_does_not_divide_is_refused_by_the_pure_functions_with_the_numbers():
    with pytest.raises(ShapeError, match="windows of 2 x 3 do not divide an image of 4 x 4"):
        window_partition(torch.ones(1, 4, 4, 1), (2, 3))
    with pytest.raises(ShapeError, match="4 windows of 4 pixels do not fill 4 x 6"):
        window_merge(torch.ones(1, 4, 4, 1), (2, 2), (4, 6))


@given(H=st.integers(1, 30), W=st.integers(1, 30), w=st.integers(1, 9), data=st.data())
def test_cells_cover_every_pixel_once_in_order(H, W, w, data):
    shift = data.draw(st.integers(0, w - 1))
    for cut in (window_cells((H, W), (w, w), (shift, shift)), grid_cells((H, W), (w, w))):
        for segments, length in ((cut.rows, H), (cut.columns, W)):
            places = [start + i for start, count, size in segments for i in range(count * size)]
            assert places == list(range(length))
            assert all(size <= w for _, _, size in segments)
        for order, length in ((cut.row_order, H), (cut.column_order, W)):
            assert order is None or sorted(order) == list(range(length))


# ---- neighbourhoods ------------------------------------------------------------------------------------------------


def nearest(length, kernel):
    seen = min(kernel, length)
    starts = [min(max(i - kernel // 2, 0), length - seen) for i in range(length)]
    return torch.tensor([[start <= j < start + seen for j in range(length)] for start in starts])


@pytest.mark.parametrize("size", [(1, 1), (2, 6), (5, 5), (7, 12), (11, 9)])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_neighbourhood_is_dense_attention_to_the_nearest_square(size, kernel):
    module, x = fixed(NeighborhoodAttention2D(C, HEADS, kernel_size=kernel)), draw(2, C, *size)
    rows, columns = (nearest(length, kernel) for length in size)
    attend = (rows[:, None, :, None] & columns[None, :, None, :]).flatten(2).flatten(0, 1)
    with torch.no_grad():
        torch.testing.assert_close(module(x), dense(module, x, attend, 0.0)[0], rtol=0, atol=EXACT)


def test_every_pixel_has_exactly_its_nearest_square_as_influence_set():
    module = fixed(NeighborhoodAttention2D(C, HEADS, kernel_size=3))
    rows, columns = nearest(7, 3), nearest(5, 3)
    attend = (rows[:, None, :, None] & columns[None, :, None, :]).flatten(2).flatten(0, 1)
    assert torch.equal(influence(module, 7, 5), attend)


def test_every_size_of_a_neighbourhood_runs():
    module = fixed(NeighborhoodAttention2D(C, HEADS, kernel_size=5))
    for H, W in SIZES[::3]:
        with torch.no_grad():
            assert torch.isfinite(module(draw(1, C, H, W))).all()


# ---- gradients, dtypes, memory order, compilers --------------------------------------------------------------------

ALL = {
    **LAYERS,
    "version 2": lambda **o: ShiftedWindowAttention(C, HEADS, window_size=4, version=2, **o),
    "neighbourhood": lambda **o: NeighborhoodAttention2D(C, HEADS, kernel_size=3, **o),
    "block": lambda **o: SwinBlock(C, HEADS, window_size=4, shift=None, **o),
    "block version 2": lambda **o: SwinBlock(C, HEADS, window_size=4, shift=None, version=2, **o),
}
SLOWER = [name for name in ALL if name not in ("shifted", "version 2")]
every_module = pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())


@pytest.mark.parametrize("name", ["windows", "shifted", "grid", "version 2", "neighbourhood"])
def test_gradients_are_the_numerical_ones(name):
    module = fixed(ALL[name]())
    x = draw(1, C, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda image: module(image)[:, :2], x, fast_mode=True)


@every_module
def test_every_parameter_gets_a_gradient(make):
    module = make().train()
    module(torch.randn(2, C, 9, 9, generator=torch.Generator().manual_seed(0))).square().sum().backward()
    for name, value in module.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name


@every_module
def test_memory_order_does_not_change_the_result(make):
    module, x = fixed(make()), draw(2, C, 6, 9)
    turned = x.mT.contiguous().mT
    for other in (x.to(memory_format=torch.channels_last), turned):
        torch.testing.assert_close(module(other), module(x), rtol=0, atol=EXACT)


@every_module
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_close_and_finite(make, dtype):
    module, x = fixed(make()), draw(2, C, 6, 9)
    exact = module(x)
    half = module.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    # the error of a plain run: weights and input rounded, everything else in float64
    rounded = (module.double()(x.to(dtype).double()) - exact).abs().max()
    assert (half.double() - exact).abs().max() <= 4 * rounded + 8 * torch.finfo(dtype).eps * exact.abs().max()


def test_a_zero_image_in_half_precision_has_finite_cosines():
    module = ShiftedWindowAttention(C, HEADS, window_size=4, version=2, qkv_bias=False).half()
    assert torch.isfinite(module(torch.zeros(1, C, 6, 6, dtype=torch.float16))).all()


@pytest.mark.parametrize("name", ["shifted", "version 2", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOWER)])
def test_it_exports_at_a_fixed_size(name):
    make = ALL[name]
    module, x = make().eval(), torch.randn(2, C, 6, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.export.export(module, (x,)).module()(x), module(x))


def compiles(module, sizes):
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for size in sizes:
        x, y = (draw(1, C, *size).requires_grad_() for _ in range(2))
        compiled(x).square().sum().backward()
        module(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=1e-9)


def test_shifted_windows_compile_without_a_graph_break_also_backwards():
    compiles(fixed(LAYERS["shifted"]()), [(5, 6)])


@pytest.mark.slow
@every_module
def test_it_compiles_without_a_graph_break_also_backwards_at_two_sizes(make):
    compiles(fixed(make()), [(6, 9), (8, 4)])


@pytest.mark.parametrize("make", [LAYERS["shifted"], ALL["neighbourhood"]], ids=["shifted", "neighbourhood"])
def test_dropout_acts_in_training_only(make):
    module, x = fixed(make(dropout=0.5)), draw(1, C, 6, 6)
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))


def test_drop_path_leaves_out_whole_branches_in_training_only():
    block, x = fixed(SwinBlock(C, HEADS, window_size=4, drop_path=0.5)), draw(64, C, 4, 4)
    assert torch.equal(block(x), block(x))
    torch.manual_seed(0)
    changed = (block.train()(x) - x).abs().amax((1, 2, 3)) > 0
    assert 0 < (~changed).sum() < 40  # both branches are out for about a quarter of the images


# ---- options and what is refused -----------------------------------------------------------------------------------


def test_another_window_keeps_the_biases_of_the_table_at_its_corners_and_its_middle():
    module = fixed(WindowAttention(C, HEADS, window_size=4))
    before = module.position_bias.table.detach().clone().view(7, 7, HEADS)
    module.set_window_size(8)
    after = module.position_bias.table.view(15, 15, HEADS)
    for old, new in ((0, 0), (3, 7), (6, 14)):
        torch.testing.assert_close(after[new, new], before[old, old])
    x = draw(1, C, 9, 11)
    torch.testing.assert_close(module(x), expected(module, x)[0], rtol=0, atol=EXACT)


def test_version_2_takes_another_window_without_new_parameters():
    module = fixed(WindowAttention(C, HEADS, window_size=4, version=2, pretrained_window=4))
    state = {name: value.clone() for name, value in module.state_dict().items()}
    module.set_window_size(6)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert module.regions(7, 7).max() == 3


def test_the_shift_follows_the_window_when_it_is_not_given():
    module = ShiftedWindowAttention(C, HEADS, window_size=4)
    module.set_window_size((7, 6))
    assert module.shift == (3, 3)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: WindowAttention(8, 3), "8 channels do not divide into 3 heads"),
        (lambda: WindowAttention(8, 2, window_size=0), "at least one pixel, got 0 x 0"),
        (lambda: WindowAttention(8, 2, version=3), "version is 1 or 2"),
        (lambda: ShiftedWindowAttention(8, 2, window_size=4, shift=4), "can be shifted by 0 to 3, got 4"),
        (lambda: NeighborhoodAttention2D(8, 2, kernel_size=4), "kernel_size 4 has no middle"),
        (lambda: WindowAttention(8, 2)(torch.ones(1, 4, 4, 8)), r"made for 8 channels, got 4.*channels are axis 1"),
        (lambda: WindowAttention(8, 2)(torch.ones(1, 8, 0, 8)), "at least one pixel, got a map of 0 x 8"),
    ],
)
def test_what_cannot_be_is_refused_with_the_numbers(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
