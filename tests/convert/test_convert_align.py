"""align(): a PyTorch encoder against its Keras port, aligned, and with planted faults that must be found and named."""

import json

import encoders
import pytest
import torch
from torch import nn

from regard.convert import align
from regard.core.errors import ConversionError

KERAS_FAULTS = {  # planted in the Keras model -> the step of the reference where it shows first
    "transposition": "project",
    "bias": "project",
    "head permutation": "blocks.0.attention",
    "roles swapped": "blocks.0.attention",
    "mask polarity": "blocks.0.attention",
    "mask ignored": "blocks.0.attention",
    "causality": "blocks.0.attention",
    "scale": "blocks.0.attention",
    "residual": "blocks.0.norm1",
    "epsilon": "blocks.0.norm1",
    "activation": "blocks.0.down",
}


@pytest.fixture(scope="module")
def reference():
    pytest.importorskip("keras", reason="needs the extra keras")
    return encoders.torch_encoder()


def test_a_keras_port_with_the_same_weights_is_aligned_step_by_step(reference):
    found = align(reference, encoders.keras_encoder(reference), encoders.inputs())
    assert found.ok
    assert found.parted is None
    assert found.difference < 1e-6
    assert [row.kind for row in found.rows] == ["linear", *("attention", "norm", "linear", "linear", "norm") * 2]
    assert max(row.difference for row in found.rows) < 1e-5
    assert found.json()["status"] == "aligned"


@pytest.mark.parametrize(("fault", "place"), KERAS_FAULTS.items())
def test_a_fault_of_the_port_is_found_where_it_is_and_named(reference, fault, place):
    found = align(reference, encoders.keras_encoder(reference, fault), encoders.inputs())
    assert not found.ok
    assert (found.cause.kind, found.parted.reference) == (fault, place)
    assert found.parted.difference > found.parted.allowed
    assert fault in str(found)
    said = json.loads(json.dumps(found.json(), allow_nan=False))
    assert said["cause"]["kind"] == fault
    assert said["parted"]["reference"] == place


def test_the_words_of_a_cause_say_what_to_do(reference):
    def text(fault):
        return align(reference, encoders.keras_encoder(reference, fault), encoders.inputs()).cause.text

    assert text("epsilon") == "the norm has eps 1e-05 in the reference and 0.001 here; set it to the same"
    assert text("scale") == "the candidate is 4 times the reference"
    assert text("activation") == "the activation is relu in the reference and gelu here"
    assert text("head permutation").endswith("4 heads of 4 channels in the order [3, 2, 1, 0]")
    assert text("residual") == "the candidate lacks the output of project (a residual path)"


def test_keras_can_be_the_reference(reference):
    found = align(encoders.keras_encoder(reference, "transposition"), reference, encoders.inputs())
    assert found.cause.kind == "transposition"
    assert align(encoders.keras_encoder(reference), reference, encoders.inputs()).ok


def test_both_models_are_left_as_they_were(reference):
    keras_model = encoders.keras_encoder(reference)
    before = [dict(vars(layer)) for layer in keras_model.layers]
    reference.train()
    align(reference, keras_model, encoders.inputs())
    assert reference.training
    assert all(part.training for part in reference.modules())
    assert not any(part._forward_hooks for part in reference.modules())
    after = [dict(vars(layer)) for layer in keras_model.layers]
    assert [list(one) for one in after] == [list(one) for one in before]
    assert all(one.get("call") is other.get("call") for one, other in zip(after, before))
    reference.eval()


class Pre(nn.Module):
    """Norm first, where the reference has it last."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        y = self.block.norm1(x)
        x = x + self.block.attention(y, y, y, need_weights=False)[0]
        return x + self.block.down(torch.relu(self.block.up(self.block.norm2(x))))


def test_norms_in_another_order_are_seen(reference):
    block = reference.blocks[0]

    class Post(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block

        def forward(self, x):
            return self.block(x, None)

    found = align(Post(), Pre(block), encoders.inputs()[0])
    assert found.cause.kind == "order of modules"
    assert "the candidate what block.norm1 gives" in found.cause.text


@pytest.mark.parametrize(("scale", "kind"), [(1.0, "scale"), (None, None)])
def test_another_scale_of_the_scores_is_seen_between_torch_and_ours(scale, kind):
    from regard.convert import from_torch

    theirs = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    theirs.in_proj_weight.data *= 4
    ours = from_torch(theirs)
    ours.scale = scale

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = theirs

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    class Ours(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = ours

        def forward(self, x):
            return self.attention(x)

    found = align(Named(), Ours(), encoders.inputs()[0])
    assert (found.cause and found.cause.kind) == kind
    if kind:
        assert found.cause.text == "the scores are scaled by 1; the reference has 0.5"


def test_heads_of_another_number_are_seen():
    made = []
    for heads in (4, 2):
        torch.manual_seed(0)
        made.append(nn.TransformerEncoderLayer(16, heads, 32, batch_first=True))
    found = align(*made, encoders.inputs()[0])
    assert (found.cause.kind, found.parted.reference) == ("number of heads", "self_attn")
    assert found.cause.text == "the reference has 4 heads and the candidate 2"


def test_weights_that_were_never_copied_are_called_so():
    torch.manual_seed(0)
    found = align(nn.Sequential(nn.Linear(16, 16)), nn.Sequential(nn.Linear(16, 16)), encoders.inputs()[0])
    assert found.cause.kind == "weights"
    assert "were they copied?" in found.cause.text


def test_models_that_share_no_step_are_refused_with_what_they_have():
    with pytest.raises(ConversionError, match=r"no step of the reference \(0 \(3, 6, 8\)\) .* pairs="):
        align(nn.Sequential(nn.Linear(16, 8)), nn.Sequential(nn.LayerNorm(16)), encoders.inputs()[0])


def test_a_pair_that_is_no_step_is_refused_by_name():
    model = nn.Sequential(nn.Linear(16, 16))
    with pytest.raises(ConversionError, match="the candidate has no step 'first'; it has 0"):
        align(model, model, encoders.inputs()[0], pairs={"0": "first"})
    assert align(model, model, encoders.inputs()[0], pairs={"0": "0"}).ok


def test_an_input_that_a_model_does_not_take_is_refused_with_its_shape():
    with pytest.raises(ConversionError, match=r"Sequential could not be run on \(2, 3\): RuntimeError"):
        align(nn.Sequential(nn.Linear(16, 16)), nn.Sequential(nn.Linear(16, 16)), torch.zeros(2, 3))
    with pytest.raises(ConversionError, match="a torch module or a Keras model was expected, got list"):
        align([], nn.Linear(2, 2), torch.zeros(2, 2))


def tiny_bert():
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(vocab_size=50, attn_implementation="eager", **sizes)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.randn_like(parameter) / parameter.shape[-1] ** 0.5
    return model


@pytest.mark.parametrize(
    ("fault", "kind", "place"),
    [
        (None, None, None),
        ("scale", "scale", "encoder.layer.0.attention.self"),
        ("mask", "mask ignored", "encoder.layer.0.attention.self"),
        ("key", "transposition", "encoder.layer.1.attention.self.key"),
        ("activation", "activation", "encoder.layer.0.intermediate.intermediate_act_fn"),
        ("embedding", "channel permutation", "embeddings.word_embeddings"),
    ],
)
def test_faults_inside_a_model_of_transformers_are_found(fault, kind, place):
    reference, candidate = tiny_bert(), tiny_bert()
    layers = candidate.encoder.layer
    if fault == "scale":
        layers[0].attention.self.scaling = 1.0
    elif fault == "key":
        layers[1].attention.self.key.weight.data = layers[1].attention.self.key.weight.data.T.contiguous()
    elif fault == "activation":
        layers[0].intermediate.intermediate_act_fn = nn.ReLU()
    elif fault == "embedding":
        table = candidate.embeddings.word_embeddings.weight
        table.data = table.data.flip(1)
    else:
        candidate.set_attn_implementation("sdpa")
    ids = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    given = {"attention_mask": (torch.arange(9) < torch.tensor([[5], [9]])).long()}
    found = align(reference, candidate, ids, named=given, candidate_named={} if fault == "mask" else given)
    assert (found.cause and found.cause.kind) == kind
    assert (found.parted and found.parted.reference) == place
    assert len(found.rows) >= 20


def test_a_mask_that_is_named_by_both_sides_is_tried_once():
    from regard.convert.align_attention import _masks
    from regard.convert.align_record import Step

    mask = torch.zeros(2, 1, 3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -1e9)
    step = Step("a", "attention", None, [torch.zeros(2, 3, 4)], torch.zeros(2, 3, 4), {"attention_mask": mask})
    ((name, attend),) = _masks(step, 3, 3)
    assert name == "attention_mask"
    assert torch.equal(attend[0], torch.ones(3, 3).tril().bool())
