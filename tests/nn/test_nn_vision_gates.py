"""The gates against their formulas, at every small size, in every memory order and dtype, and what they may look at."""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from regard.core.errors import ShapeError
from regard.nn.bam import BAM
from regard.nn.cbam import CBAM
from regard.nn.channel_attention import ChannelAttention
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention, adaptive_kernel
from regard.nn.spatial_attention import SpatialAttention
from regard.nn.spatial_channel_se import SpatialChannelSE
from regard.nn.squeeze_excitation import SqueezeExcitation

EXACT = 1e-12  # float64 against the open formula in float64: rounding only
C = 12


def fixed(module, seed=0):
    """The module in float64 and eval, every parameter and statistic drawn from its own generator."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                drawn = torch.randn(value.shape, generator=generator, dtype=value.dtype) * 0.5
                value.copy_(drawn.abs() + 0.5 if name.endswith("running_var") else drawn)
    return module


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def spatial_module(channels, **options):
    return SpatialAttention(**options)


GATES = {
    "squeeze_excitation": SqueezeExcitation,
    "efficient_channel": EfficientChannelAttention,
    "channel": ChannelAttention,
    "spatial": spatial_module,
    "cbam": CBAM,
    "bam": BAM,
    "coordinate": CoordinateAttention,
    "spatial_channel_se": SpatialChannelSE,
}
every_gate = pytest.mark.parametrize("make", GATES.values(), ids=GATES.keys())
WITHOUT_BATCH_STATISTICS = {
    **GATES,
    "bam": lambda channels, **options: BAM(channels, norm=None, **options),
    "coordinate": lambda channels, **options: CoordinateAttention(channels, norm=None, **options),
}


# ---- the formulas, written out -------------------------------------------------------------------------------------


def conv(x, layer, **options):
    return nn.functional.conv2d(x, layer.weight, layer.bias, **options)


def bottleneck(vector, module):
    """(B, C) through two dense layers written as matrix products."""
    first, second = module.fc1, module.fc2
    zero = torch.zeros((), dtype=vector.dtype)
    hidden = (vector @ first.weight[:, :, 0, 0].T + (zero if first.bias is None else first.bias)).clamp(min=0)
    return hidden @ second.weight[:, :, 0, 0].T + (zero if second.bias is None else second.bias)


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def expect_squeeze_excitation(m, x):
    return x * sigmoid(bottleneck(x.flatten(2).sum(2) / (x.shape[2] * x.shape[3]), m))[:, :, None, None]


def expect_efficient_channel(m, x):
    means = x.flatten(2).sum(2) / (x.shape[2] * x.shape[3])
    weight, half = m.conv.weight[0, 0], m.conv.weight.shape[-1] // 2
    logit = torch.zeros_like(means)
    for channel in range(means.shape[1]):
        for tap in range(-half, half + 1):
            if 0 <= channel + tap < means.shape[1]:
                logit[:, channel] += weight[half + tap] * means[:, channel + tap]
    return x * sigmoid(logit)[:, :, None, None]


def expect_channel(m, x):
    flat = x.flatten(2)
    return (
        x
        * sigmoid(bottleneck(flat.sum(2) / flat.shape[2], m) + bottleneck(flat.sort(2).values[..., -1], m))[
            ..., None, None
        ]
    )


def expect_spatial(m, x):
    seen = torch.stack([x.sum(1) / x.shape[1], x.sort(1).values[:, -1]], 1)
    side = m.conv.weight.shape[-1]
    padded = nn.functional.pad(seen, [side // 2] * 4)
    logit = torch.zeros_like(x[:, 0])
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            logit[:, i, j] = (padded[:, :, i : i + side, j : j + side] * m.conv.weight[0]).sum((1, 2, 3))
    return x * sigmoid(logit)[:, None]


def expect_cbam(m, x):
    return expect_spatial(m.spatial, expect_channel(m.channel, x))


def frozen_norm(x, norm):
    shape = (1, -1, 1, 1)
    scaled = (x - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + norm.eps).sqrt()
    return scaled * norm.weight.view(shape) + norm.bias.view(shape)


def expect_bam(m, x):
    channel = x.mean((2, 3), keepdim=True)
    channel = frozen_norm(conv(channel, m.channel[1]), m.channel[2]).clamp(min=0)
    channel = frozen_norm(conv(channel, m.channel[4]), m.channel[5])
    s = m.spatial
    y = frozen_norm(conv(x, s[0]), s[1]).clamp(min=0)
    y = frozen_norm(conv(y, s[3], padding=4, dilation=4), s[4]).clamp(min=0)
    y = frozen_norm(conv(y, s[6], padding=4, dilation=4), s[7]).clamp(min=0)
    y = frozen_norm(conv(y, s[9]), s[10])
    return x + x * sigmoid(channel + y)


def expect_coordinate(m, x):
    out = torch.empty_like(x)

    def embed(means):  # (B, C, L)
        y = frozen_norm(conv(means[..., None], m.conv1), m.bn1)
        return y * (y + 3).clamp(0, 6) / 6

    rows = sigmoid(conv(embed(x.sum(3) / x.shape[3]), m.conv_h))[..., 0]
    columns = sigmoid(conv(embed(x.sum(2) / x.shape[2]), m.conv_w))[..., 0]
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            out[:, :, i, j] = x[:, :, i, j] * rows[:, :, i] * columns[:, :, j]
    return out


def expect_spatial_channel_se(m, x):
    pixel = sigmoid((x * m.spatial.weight.view(1, -1, 1, 1)).sum(1, keepdim=True) + m.spatial.bias)
    return expect_squeeze_excitation(m.channel, x) + x * pixel


EXPECT = {name: globals()[f"expect_{name}"] for name in GATES}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (4, 7), (9, 3)])
def test_a_gate_is_its_formula(name, size):
    module, x = fixed(GATES[name](C)), draw(2, C, *size)
    with torch.no_grad():
        torch.testing.assert_close(module(x), EXPECT[name](module, x), rtol=0, atol=EXACT)


@every_gate
def test_every_size_from_1_x_1_to_15_x_15_runs_and_inspect_shows_the_same_output(make):
    module = fixed(make(C))
    for rows in range(1, 16):
        for columns in range(1, 16):
            x = draw(1, C, rows, columns, seed=rows * 16 + columns)
            with torch.no_grad():
                output, gates = module.inspect(x)
                assert output.shape == x.shape
                assert torch.isfinite(output).all()
                assert torch.equal(module(x), output)
            for gate in gates.values():
                assert torch.broadcast_shapes(gate.shape, x.shape) == x.shape


@every_gate
def test_the_output_is_the_input_times_the_gates_that_inspect_shows(make):
    module, x = fixed(make(C)), draw(2, C, 5, 7)
    output, gates = module.inspect(x)
    added = isinstance(module, SpatialChannelSE)
    product = sum(gates.values()) if added else math.prod(gates.values())
    torch.testing.assert_close(output, x * product, rtol=0, atol=EXACT)


@every_gate
def test_gates_stay_within_their_bounds_however_large_the_input(make):
    module = fixed(make(C))
    for size in (1, 4, 1000):
        for name, gate in module.inspect(size * draw(2, C, 5, 7)).gates.items():
            low, high = (1, 2) if name == "factor" else (0, 1)
            assert gate.min() >= low
            assert gate.max() <= high


@every_gate
def test_gates_react_to_their_input(make):
    module = fixed(make(C))
    first, second = (module.inspect(draw(1, C, 5, 7, seed=s)).gates for s in (1, 2))
    for name in first:
        assert (first[name] - second[name]).abs().max() > 1e-3, name


@every_gate
def test_zero_init_is_the_identity_to_the_bit_and_can_learn(make):
    module = make(C, zero_init=True)
    x = draw(2, C, 5, 7, dtype=torch.float32)
    assert torch.equal(module(x), x)
    module(x).square().sum().backward()
    blends = [value for name, value in module.named_parameters() if name.endswith("blend")]
    assert blends
    assert all(value.grad.abs().item() > 0 for value in blends)


@every_gate
def test_a_blend_of_one_is_the_gate_without_zero_init(make):
    plain, blended = fixed(make(C)), make(C, zero_init=True).double().eval()
    missing, unexpected = blended.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert all(name.endswith("blend") for name in missing)
    with torch.no_grad():
        for name, value in blended.named_parameters():
            if name.endswith("blend"):
                value.fill_(1)
    x = draw(2, C, 5, 7)
    torch.testing.assert_close(blended(x), plain(x), rtol=0, atol=EXACT)


# ---- what a gate may look at ---------------------------------------------------------------------------------------


def changed_gates(module, x, place):
    """Where each gate moves when one pixel of channel 0 moves."""
    moved = x.clone()
    moved[0, 0, place[0], place[1]] += 3.0
    before, after = module.inspect(x).gates, module.inspect(moved).gates
    return {name: (before[name] - after[name]).abs()[0] > 1e-9 for name in before}


@pytest.mark.parametrize("name", ["squeeze_excitation", "channel"])
def test_a_channel_gate_has_one_value_per_channel_and_sees_far_pixels_and_other_channels(name):
    module, x = fixed(GATES[name](C, min_channels=C)), draw(1, C, 6, 8)
    assert module.inspect(x).gates["channel"].shape == (1, C, 1, 1)
    assert changed_gates(module, x, (5, 7))["channel"].all()


def test_the_channel_gate_sees_the_maximum_and_not_only_the_mean():
    module, x = fixed(ChannelAttention(C, min_channels=C)), draw(1, C, 6, 8).abs()
    moved = x.clone()
    moved[0, 0, 0, 0] += 5
    moved[0, 0, 5, 7] -= 5  # the mean is kept
    assert (module.gate(x) - module.gate(moved)).abs().max() > 1e-3


def test_an_eca_gate_sees_exactly_its_neighbours_on_the_channel_axis():
    module, x = fixed(EfficientChannelAttention(C, kernel_size=5)), draw(1, C, 3, 4)
    moved = x.clone()
    moved[0, 6] += 1
    reached = ((module.gate(x) - module.gate(moved)).abs()[0, :, 0, 0] > 1e-12).nonzero().flatten()
    assert reached.tolist() == [4, 5, 6, 7, 8]


def test_a_spatial_gate_sees_exactly_its_square_and_is_the_same_for_all_channels():
    module, x = fixed(SpatialAttention(5)), draw(1, C, 9, 11)
    moved = changed_gates(module, x, (4, 8))["spatial"]
    expected = torch.zeros(1, 9, 11, dtype=torch.bool)
    expected[0, 2:7, 6:11] = True
    assert torch.equal(moved, expected)


def test_row_gates_follow_rows_and_column_gates_follow_columns():
    module, x = fixed(CoordinateAttention(C)), draw(1, C, 6, 9)
    moved = changed_gates(module, x, (4, 7))
    assert moved["rows"].any(0).flatten().nonzero().flatten().tolist() == [4]
    assert moved["columns"].any(0).flatten().nonzero().flatten().tolist() == [7]


def test_moving_mass_inside_a_row_leaves_the_row_gates():
    module, x = fixed(CoordinateAttention(C)), draw(1, C, 6, 9)
    moved = x.clone()
    moved[0, 0, 2, 3] += 2
    moved[0, 0, 2, 7] -= 2
    before, after = module.inspect(x).gates, module.inspect(moved).gates
    torch.testing.assert_close(before["rows"], after["rows"], rtol=0, atol=EXACT)
    touched = (before["columns"] - after["columns"]).abs().amax((0, 1, 2)) > 1e-9
    assert touched.nonzero().flatten().tolist() == [3, 7]


def test_a_transposed_image_exchanges_rows_and_columns():
    module, x = fixed(CoordinateAttention(C)), draw(1, C, 6, 9)
    with torch.no_grad():
        module.conv_w.weight.copy_(module.conv_h.weight)
        module.conv_w.bias.copy_(module.conv_h.bias)
    straight, turned = module.inspect(x).gates, module.inspect(x.mT.contiguous()).gates
    torch.testing.assert_close(straight["rows"], turned["columns"].mT, rtol=0, atol=EXACT)


@every_gate
def test_an_image_does_not_see_the_rest_of_its_batch(make):
    module, x = fixed(make(C)), draw(3, C, 4, 5)
    other = x.clone()
    other[1:] = draw(2, C, 4, 5, seed=9)
    assert torch.equal(module(x)[0], module(other)[0])


# ---- gradients, dtypes, memory order, compilers --------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHOUT_BATCH_STATISTICS)
def test_gradients_are_the_numerical_ones(name):
    module = fixed(WITHOUT_BATCH_STATISTICS[name](3, zero_init=True))
    x = draw(1, 3, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(module, x)


@every_gate
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_errs_at_most_twice_as_much_as_its_formula_in_that_precision(make, dtype):
    module, x = fixed(make(C)), draw(2, C, 6, 7).to(dtype).double()
    exact = module(x)
    half = module.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    name = next(key for key, value in GATES.items() if value is make)
    rounding = (EXPECT[name](module, x.to(dtype)).double() - exact).abs().max()
    floor = torch.finfo(dtype).eps * exact.abs().max()  # one rounding of the result
    assert (half.double() - exact).abs().max() <= 2 * rounding + floor


@every_gate
def test_channels_last_gives_the_same_values_and_gradients_and_keeps_its_order(make):
    module, x = fixed(make(C)), draw(2, C, 5, 7)
    direction = draw(2, C, 5, 7, seed=3)
    results = []
    for order in (torch.contiguous_format, torch.channels_last):
        given = x.to(memory_format=order).detach().requires_grad_()
        output = module(given)
        assert output.is_contiguous(memory_format=order)
        results.append((output, *torch.autograd.grad(output, [given, *module.parameters()], direction)))
    for plain, last in zip(*results):
        torch.testing.assert_close(plain, last, rtol=0, atol=EXACT)


@every_gate
def test_the_gradient_path_and_the_path_without_gradient_give_the_same_values(make):
    module, x = fixed(make(C)), draw(2, C, 5, 7)
    for image in (x, x.to(memory_format=torch.channels_last)):
        with torch.no_grad():
            without = module(image)
        torch.testing.assert_close(module(image.clone().requires_grad_()), without, rtol=0, atol=EXACT)


def test_a_tie_for_the_maximum_gives_its_gradient_to_one_pixel():
    module, x = (
        fixed(ChannelAttention(C, min_channels=C)),
        torch.ones(1, C, 3, 3, dtype=torch.float64, requires_grad=True),
    )
    (gradient,) = torch.autograd.grad(module.gate(x).sum(), x)
    flat = gradient[0].flatten(1)
    torch.testing.assert_close(flat[:, 1:], flat[:, 1:2].expand(-1, 8))  # the mean alone
    assert (flat[:, 0] - flat[:, 1]).abs().min() > 1e-9


@every_gate
def test_a_gate_exports_with_free_batch_and_size(make):
    module = make(C).eval()
    batch, rows, columns = (torch.export.Dim(name, min=2, max=64) for name in ("batch", "rows", "columns"))
    program = torch.export.export(
        module, (draw(2, C, 5, 7, dtype=torch.float32),), dynamic_shapes=({0: batch, 2: rows, 3: columns},)
    )
    x = draw(3, C, 9, 4, dtype=torch.float32)
    torch.testing.assert_close(program.module()(x), module(x))


# Dynamo itself makes an instance of an autograd.Function while it traces one; nothing of ours does.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@every_gate
def test_a_gate_compiles_without_a_graph_break_also_backwards(make):
    torch.compiler.reset()
    module = fixed(make(C))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for size in ((5, 7), (4, 6)):
        x, y = (draw(2, C, *size).requires_grad_() for _ in range(2))
        compiled(x).square().sum().backward()
        module(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["squeeze_excitation", "channel", "cbam"])
def test_per_sample_gradients_through_vmap_are_those_of_each_sample(name):
    module, x = fixed(GATES[name](C)), draw(3, C, 4, 5)
    one = torch.func.grad(lambda image: module(image[None]).square().sum())
    together = torch.func.vmap(one)(x)
    torch.testing.assert_close(together, torch.stack([one(image) for image in x]), rtol=0, atol=EXACT)


# ---- what is refused, and options ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in GATES if n != "spatial"])
def test_another_number_of_channels_is_refused_with_both_numbers(name):
    with pytest.raises(ShapeError, match=r"made for 12 channels, got 5 in \(2, 5, 4, 12\).*channels are axis 1"):
        GATES[name](C)(draw(2, 5, 4, C))


@every_gate
def test_an_image_without_a_batch_axis_is_refused(make):
    with pytest.raises(ShapeError, match=r"takes \(B, C, H, W\), got 3 axes: \(12, 4, 5\)"):
        make(C)(draw(C, 4, 5))


@pytest.mark.parametrize("name", ["squeeze_excitation", "channel", "cbam", "bam", "spatial_channel_se"])
@given(channels=st.integers(1, 70), reduction=st.integers(1, 64), floor=st.integers(1, 9))
def test_a_bottleneck_is_never_narrower_than_its_floor(name, channels, reduction, floor):
    module = GATES[name](channels, reduction=reduction, min_channels=floor)
    narrow = min(
        value.shape[0] for key, value in module.named_parameters() if key.endswith(("fc1.weight", "channel.1.weight"))
    )
    assert narrow == max(channels // reduction, floor)


def test_a_reduction_of_zero_is_refused_with_the_numbers():
    with pytest.raises(ShapeError, match="must be 1 or more, got 12, 0 and 4"):
        SqueezeExcitation(C, reduction=0)


@pytest.mark.parametrize("make", [lambda: SpatialAttention(4), lambda: EfficientChannelAttention(C, kernel_size=4)])
def test_an_even_kernel_is_refused(make):
    with pytest.raises(ShapeError, match="kernel_size 4 has no middle; give an odd number"):
        make()


def test_bam_says_why_it_cannot_train_on_one_image():
    with pytest.raises(ShapeError, match="give norm=None, or a batch of 2 or more"):
        BAM(C)(draw(1, C, 4, 4, dtype=torch.float32))
    assert BAM(C, norm=None)(draw(1, C, 4, 4, dtype=torch.float32)).shape == (1, C, 4, 4)


@given(channels=st.integers(1, 4096))
def test_the_adaptive_kernel_is_odd_and_next_to_its_formula(channels):
    size = adaptive_kernel(channels)
    assert size % 2 == 1
    assert abs(size - (math.log2(channels) / 2 + 0.5)) <= 1


def test_the_larger_of_two_gated_maps_is_another_way_to_combine():
    module, x = fixed(SpatialChannelSE(C, combine=torch.maximum)), draw(1, C, 3, 4)
    output, gates = module.inspect(x)
    assert torch.equal(output, torch.maximum(x * gates["channel"], x * gates["spatial"]))
