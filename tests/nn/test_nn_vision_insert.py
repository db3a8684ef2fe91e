"""Gates put into networks of several builds: the right places, the same output at the start, and no trace after removal."""

import copy
import functools
import pickle

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import ShapeError, TargetError
from regard.nn.cbam import CBAM
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.insert import insert, inserted_gates, parameter_groups, remove
from regard.nn.squeeze_excitation import SqueezeExcitation

identity_cbam = functools.partial(CBAM, zero_init=True)


class BasicBlock(nn.Module):
    """As torchvision builds it: an activation used twice, an addition in place."""

    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """As timm builds it: activations of their own, a slot for attention, a drop path that is the identity."""

    def __init__(self, inner, width, stride=1):
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1, self.act1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(width), nn.ReLU()
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.se = SqueezeExcitation(outer)
        self.drop_path = nn.Identity()
        self.act3 = nn.ReLU()
        self.downsample = nn.Sequential(nn.AvgPool2d(stride), nn.Conv2d(inner, outer, 1), nn.BatchNorm2d(outer))

    def forward(self, x):
        shortcut = self.downsample(x)
        x = self.act1(self.bn1(self.conv1(x)))
        x = self.act2(self.bn2(self.conv2(x)))
        x = self.drop_path(self.se(self.bn3(self.conv3(x))))
        return self.act3(x + shortcut)


class ResNet(nn.Module):
    def __init__(self, stages):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        for number, stage in enumerate(stages, 1):
            setattr(self, f"layer{number}", stage)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.LazyLinear(5)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(self.avgpool(x).flatten(1))


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ready(model, image):
    """Lazy layers made, every parameter and statistic drawn."""
    model(image)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                drawn = torch.randn(value.shape, generator=generator) * 0.3
                value.copy_(drawn.abs() + 0.5 if name.endswith("running_var") else drawn)
    return model.eval()


def basic():
    stages = [
        nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8)),
        nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16)),
    ]
    return ready(ResNet(stages), draw(2, 3, 32, 32))


def bottleneck():
    stages = [nn.Sequential(Bottleneck(8, 4), Bottleneck(16, 4)), nn.Sequential(Bottleneck(16, 8, 2))]
    return ready(ResNet(stages), draw(2, 3, 32, 32))


def plain():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.ReLU()),
        nn.Conv2d(12, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.Flatten(),
        nn.Linear(16 * 16 * 16, 5),
    )
    return ready(model, draw(2, 3, 32, 32))


BUILDS = {
    "basic": (basic, "residual", ["layer1.0.bn2", "layer1.1.bn2", "layer2.0.bn2", "layer2.1.bn2"]),
    "bottleneck": (bottleneck, "residual", ["layer1.0.bn3", "layer1.1.bn3", "layer2.0.bn3"]),
    "plain": (plain, "convolution", ["4.1", "6"]),
    "named stages": (basic, ("layer1", "layer2"), ["layer1.1", "layer2.1"]),
}
every_build = pytest.mark.parametrize(("make", "where", "names"), BUILDS.values(), ids=BUILDS.keys())


@every_build
def test_gates_go_to_the_places_of_the_rule_and_the_output_stays_to_the_bit(make, where, names):
    model, x = make(), draw(2, 3, 32, 32, seed=1)
    before = model(x)
    report = insert(model, identity_cbam, where)
    assert [place.name for place in report.places] == names
    assert list(inserted_gates(model)) == sorted(names, key=[n for n, _ in model.named_modules()].index)
    assert torch.equal(model(x), before)


@every_build
def test_every_inserted_gate_acts(make, where, names):
    model, x = make(), draw(2, 3, 32, 32, seed=1)
    insert(model, CBAM, where)
    before = model(x)
    for gate in inserted_gates(model).values():
        kept = copy.deepcopy(gate.state_dict())
        for value in gate.parameters():
            nn.init.constant_(value, 0.5)
        assert (model(x) - before).abs().max() > 0
        gate.load_state_dict(kept)


@every_build
def test_remove_undoes_it_without_a_trace(make, where, names):
    model, x = make(), draw(2, 3, 32, 32, seed=1)
    before, state, text = model(x), list(model.state_dict()), repr(model)
    report = insert(model, CBAM, where)
    assert not torch.equal(model(x), before)
    assert report.remove() == len(names)
    assert torch.equal(model(x), before)
    assert list(model.state_dict()) == state
    assert repr(model) == text
    assert remove(model) == 0


@every_build
def test_the_state_dict_of_the_original_loads_strictly_and_leaves_the_gates(make, where, names):
    original, model = make(), make()
    for value in model.parameters():
        nn.init.zeros_(value)
    insert(model, CBAM, where)
    gates = {name: value.clone() for name, value in model.state_dict().items() if ".inserted." in name}
    model.load_state_dict(original.state_dict())
    for name, value in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    for name, value in gates.items():
        assert torch.equal(model.state_dict()[name], value)


def test_the_state_dict_of_the_whole_loads_with_its_gates():
    first, second = basic(), basic()
    for model in (first, second):
        insert(model, CBAM)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(draw(1, 3, 32, 32)), first(draw(1, 3, 32, 32)))


def test_a_part_of_the_gates_in_a_state_dict_is_still_an_error():
    model = basic()
    insert(model, CBAM)
    state = model.state_dict()
    del state["layer1.0.bn2.inserted.channel.fc1.weight"]
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict(state)


def test_a_copy_goes_through_its_own_gates_and_can_lose_them():
    model, x = basic(), draw(1, 3, 32, 32)
    insert(model, CBAM)
    before, twin = model(x), copy.deepcopy(model)
    for gate in inserted_gates(twin).values():
        for value in gate.parameters():
            nn.init.zeros_(value)
    assert not torch.equal(twin(x), before)
    assert torch.equal(model(x), before)
    assert remove(twin) == 4
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), before)


def test_only_the_named_stages_get_residual_gates():
    report = insert(basic(), CBAM, stages=["layer2"])
    assert [place.name for place in report.places] == ["layer2.0.bn2", "layer2.1.bn2"]


def test_the_stem_gets_a_gate_only_when_asked():
    with pytest.raises(TargetError, match=r"'conv1' belongs to the stem, .* stem=True puts it there"):
        insert(basic(), CBAM, ["conv1"])
    assert insert(basic(), CBAM, ["conv1"], stem=True).places[0].name == "conv1"
    assert insert(plain(), CBAM, "convolution", stem=True).places[0].name == "2"


class Neck(nn.Module):
    """Adds maps of two inputs, as a feature pyramid does: no residual addition."""

    def __init__(self):
        super().__init__()
        self.body, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
        self.neck = Top()

    def forward(self, x):
        first = self.body(x)
        return self.neck(first, self.deep(first))


class Top(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral, self.inner, self.out = (nn.Conv2d(8, 8, 1) for _ in range(3))

    def forward(self, fine, coarse):
        up = nn.functional.interpolate(self.inner(coarse), size=fine.shape[2:])
        return self.out(self.lateral(fine) + up)


def test_a_neck_is_left_alone_unless_it_is_named():
    with pytest.raises(
        TargetError, match="no place for where='residual' among 5 convolutions and 0 residual additions"
    ):
        insert(Neck(), CBAM)
    assert [place.name for place in insert(Neck(), CBAM, "neck").places] == ["neck"]


def test_a_functional_residual_without_a_block_class_is_found():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.one, self.two = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
            self.scale = nn.Parameter(torch.ones(8, 1, 1))

        def forward(self, x):
            x = self.stem(x)
            return torch.relu(x + self.scale * self.two(torch.relu(self.one(x))))

    assert [place.name for place in insert(Flat(), CBAM).places] == ["two"]


def test_the_report_counts_parameters_and_flops():
    model = basic()
    report = insert(model, SqueezeExcitation, example=draw(3, 3, 64, 48))
    added = sum(value.numel() for gate in inserted_gates(model).values() for value in gate.parameters())
    assert report.parameters == added
    assert [place.shape for place in report.places] == [(8, 16, 12), (8, 16, 12), (16, 8, 6), (16, 8, 6)]
    # two dense layers per gate, 8 -> 4 -> 8 or 16 -> 4 -> 16, two operations per weight
    assert report.flops == 2 * (2 * (8 * 4 + 4 * 8)) + 2 * (2 * (16 * 4 + 4 * 16))
    stem_flops = 2 * 3 * 49 * 8 * 32 * 24
    assert stem_flops < report.model_flops < 10 * stem_flops
    text = str(report)
    assert "inserted 4 gates; sizes for an input of 3 x 3 x 64 x 48" in text
    assert "after layer2.1.bn2" in text
    assert f"in all: +{added:,} parameters" in text


def test_optimiser_groups_learn_the_gates_fast_and_the_rest_slowly():
    model = basic()
    insert(model, CoordinateAttention)
    model.conv1.weight.requires_grad_(False)
    groups = parameter_groups(model, lr=0.5)
    assert [(g["name"], g["lr"]) for g in groups] == [("inserted", 0.5), ("pretrained", 0.05)]
    count = sum(len(group["params"]) for group in groups)
    assert count == len(list(model.parameters())) - 1
    gates = {id(v) for gate in inserted_gates(model).values() for v in gate.parameters()}
    assert {id(value) for value in groups[0]["params"]} == gates
    torch.optim.SGD(groups)


def test_a_zero_init_model_trains_from_its_first_step():
    model = basic().train()
    insert(model, identity_cbam)
    optimiser = torch.optim.SGD(parameter_groups(model, lr=0.1))
    model(draw(4, 3, 32, 32)).square().mean().backward()
    optimiser.step()
    assert all(gate.channel.blend.item() != 0 for gate in inserted_gates(model).values())


def test_the_gate_takes_dtype_and_mode_from_its_place():
    model = basic().double().train()
    insert(model, CBAM)
    assert all(value.dtype == torch.float64 for value in model.parameters())
    assert all(gate.training for gate in inserted_gates(model).values())


def test_the_model_is_not_run_and_its_statistics_stay():
    model = basic().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    insert(model, CBAM)
    remove(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training


def test_a_model_with_gates_exports_and_compiles():
    model, x = basic(), draw(2, 3, 32, 32)
    insert(model, CBAM)
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda m: insert(insert(m, CBAM).model, CBAM), r"inserted gates already; remove\(model\) takes them out"),
        (
            lambda m: insert(m, CBAM, ["layer9"]),
            r"'layer9' is neither a rule \(residual, convolution\) nor a module .* it has conv1, bn1",
        ),
        (lambda m: insert(m, CBAM, ["fc"]), "'fc' ran 1 times and gave no single map"),
        (lambda m: insert(m, CBAM, stages=["layer7"]), "no place for where='residual' inside layer7"),
        (lambda m: insert(m, CBAM(8)), "give a class or a function, not an instance"),
        (lambda m: insert(m, lambda channels: None), "made NoneType for 8 channels"),
        (lambda m: insert(nn.Linear(2, 2), CBAM), "Linear has no 2-D convolution"),
        (lambda m: insert(m, CBAM, example=draw(2, 5, 32, 32)), "ResNet does not run on an input of 2 x 5 x 32 x 32"),
        (lambda m: parameter_groups(m, lr=0.1), "call regard.insert first"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_changed(act, text):
    with pytest.raises(TargetError, match=text):
        act(basic())


def test_a_module_that_changes_the_shape_is_no_gate():
    model = basic()
    with pytest.raises(
        ShapeError, match=r"'layer1.0.bn2' makes \(1, 4, 56, 56\) of \(1, 8, 56, 56\); a gate keeps the shape"
    ):
        insert(model, lambda channels: nn.Conv2d(channels, channels // 2, 1))
    assert not inserted_gates(model)


def test_insert_is_a_public_name():
    assert regard.insert is insert


def test_a_norm_of_joined_maps_is_not_taken_for_the_norm_of_the_last_convolution():
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.grow, self.norm = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(12)

        def forward(self, x):
            x = self.stem(x)
            return self.norm(torch.cat([x, self.grow(x)], 1))

    assert [place.name for place in insert(Dense(), CBAM, "convolution").places] == ["grow"]


def test_a_norm_that_holds_its_activation_is_one_layer():
    class NormAct(nn.BatchNorm2d):
        def __init__(self, channels):
            super().__init__(channels)
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(super().forward(x))

    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), NormAct(8))
    assert [place.name for place in insert(model, CBAM, "convolution").places] == ["2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet10t", "resnet26", "seresnet33ts", "regnetx_002", "efficientnet_b0", "densenet121"]
)
def test_timm_networks_get_gates_and_keep_their_output(name):
    from regard.bench.timm_peer import load_timm

    (models,) = load_timm("models")
    model, x = models.create_model(name).eval(), draw(1, 3, 96, 96)
    with torch.no_grad():
        before = model(x)
        where = "convolution" if name == "densenet121" else "residual"
        report = insert(model, identity_cbam, where, example=x)
        assert len(report.places) >= 3
        assert torch.equal(model(x), before)
