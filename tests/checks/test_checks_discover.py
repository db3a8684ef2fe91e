"""Candidates are found in the text, in the styles that people write, and nothing is imported."""

import subprocess
import sys
import textwrap

import pytest

from regard.checks.discover import candidates, discover
from regard.core.errors import TargetError


def names(tmp_path, source):
    file = tmp_path / "model.py"
    file.write_text(textwrap.dedent(source))
    return [(c.name, c.why) for c in candidates(file)]


def test_a_class_is_found_by_its_softmax_whatever_its_name(tmp_path):
    source = """
        class Mixer(nn.Module):
            def forward(self, x):
                return (x @ x.transpose(1, 2)).softmax(-1) @ x
    """
    assert names(tmp_path, source) == [("Mixer", "softmax")]


def test_a_softmax_without_a_product_of_tokens_is_a_classifier(tmp_path):
    source = """
        class Classifier(nn.Module):
            def forward(self, x):
                return self.fc(x).softmax(-1)
    """
    assert names(tmp_path, source) == []


def test_a_class_is_found_by_its_name_alone(tmp_path):
    source = """
        class LinearAttention(nn.Module):
            def forward(self, q, k, v):
                return q * (k * v).cumsum(1)
    """
    assert names(tmp_path, source) == [("LinearAttention", "named")]


@pytest.mark.parametrize(
    "statement",
    [
        "class AttentionConfig:\n    heads = 8",
        "class AttentionKind(Enum):\n    A = 1",
        "@dataclass\nclass AttentionOutput:\n    x: int\n    def __call__(self): ...",
        "class AttentionError(Exception):\n    pass",
        "class TestAttention(unittest.TestCase):\n    def test_it(self): pass",
        "class BaseAttention(nn.Module):\n    def forward(self, x):\n        raise NotImplementedError",
        "class AttentionLoss(nn.Module):\n    def forward(self, x):\n        return x",
        "class FlashAttentionFn(torch.autograd.Function):\n    def forward(ctx, q): return q",
    ],
)
def test_what_only_has_attention_in_its_name_and_cannot_run_is_left_out(tmp_path, statement):
    assert names(tmp_path, statement) == []


def test_a_fused_call_under_another_name_is_seen(tmp_path):
    source = """
        from torch.nn.functional import scaled_dot_product_attention as sdpa
        class Block(nn.Module):
            def forward(self, x):
                return sdpa(x, x, x)
    """
    assert names(tmp_path, source) == [("Block", "fused call")]


def test_a_helper_and_a_base_of_the_same_file_count_as_the_class_itself(tmp_path):
    source = """
        def mix(q, k, v):
            return torch.einsum("bqk,bkd->bqd", F.softmax(torch.einsum("bqd,bkd->bqk", q, k), -1), v)
        class Core(nn.Module):
            def forward(self, x):
                return mix(x, x, x)
        class Child(Core):
            pass
    """
    assert names(tmp_path, source) == [("mix", "softmax"), ("Core", "softmax"), ("Child", "softmax")]


def test_gates_are_candidates_and_plain_sigmoids_are_not(tmp_path):
    source = """
        class Recalibrate(nn.Module):
            def forward(self, x):
                return x * torch.sigmoid(self.fc(x.mean((2, 3))))[..., None, None]
        class Swish(nn.Module):
            def forward(self, x):
                return x * torch.sigmoid(x)
    """
    assert names(tmp_path, source) == [("Recalibrate", "gate")]


def test_a_factory_is_not_a_candidate(tmp_path):
    assert names(tmp_path, "def build():\n    return MultiheadAttention(8, 2)") == []


def test_folders_are_read_in_order_without_environments_and_with_what_could_not_be_read(tmp_path):
    attention = "class Attention(nn.Module):\n    def forward(self, x): return x"
    for place in ("b.py", "a.py", ".venv/x.py", "env/x.py", "__pycache__/y.py"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(attention)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "old.py").write_text("print 'two'")
    found, unreadable = discover(tmp_path)
    assert [c.file.name for c in found] == ["a.py", "b.py"]
    assert [u.file.name for u in unreadable] == ["old.py"]
    assert "SyntaxError" in unreadable[0].reason


def test_a_place_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(TargetError, match=r"nowhere does not exist"):
        discover(tmp_path / "nowhere")


def test_nothing_is_imported_or_run(tmp_path):
    (tmp_path / "model.py").write_text("raise SystemExit(9)\nclass Attention:\n    def forward(self, x): return x")
    code = f"""
import pathlib, sys
from regard.checks.discover import discover
found, unreadable = discover(pathlib.Path({str(tmp_path)!r}))
print(len(found), len(unreadable), "torch" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "False"]


def test_what_forward_does_not_reach_is_not_what_the_class_does(tmp_path):
    source = """
        class Sampler(nn.Module):
            def forward(self, ids):
                return F.cross_entropy(self.net(ids), ids).mean() * self.weight
            def generate(self, ids):
                return torch.multinomial(self.net(ids).softmax(-1), 1) @ self.table
        class Backbone(nn.Module):
            def __init__(self, planes):
                self.fc, self.pool, self.softmax = nn.Linear(planes * 4, 10), nn.AdaptiveAvgPool2d(1), nn.Softmax(-1)
            def forward(self, x):
                return self.softmax(self.fc(self.pool(x).flatten(1)))
        class Held(nn.Module):
            def __init__(self):
                self.run = self._open
            def forward(self, x):
                return self.run(x)
            def _open(self, x):
                return (x @ x.mT).softmax(-1) @ x
    """
    assert names(tmp_path, source) == [("Held", "softmax")]


def test_weighted_sums_without_a_matrix_product_are_attention_and_entropies_are_not(tmp_path):
    source = """
        class Free(nn.Module):
            def forward(self, x):
                weights = torch.softmax(self.k(x), 1)
                return torch.sigmoid(self.q(x)) * torch.mul(weights, self.v(x)).sum(dim=1, keepdim=True)
        class FreeFull(nn.Module):
            def forward(self, x):
                k, bias = torch.exp(self.k(x)), torch.exp(self.bias)
                below = bias @ k
                return torch.sigmoid(self.q(x)) * (bias @ (k * self.v(x))) / below
        class Surprise(nn.Module):
            def forward(self, logits):
                p = logits.softmax(-1)
                return -(p * p.log()).sum(-1)
        class Surprise2(nn.Module):
            def forward(self, logits, x):
                return x.mean() * entropy(logits)
        def entropy(logits):
            p = logits.softmax(-1)
            return -(p * log(p)).sum(-1)
        class Kernel(nn.Module):
            def forward(self, x):
                return torch.exp(-(x @ self.points) ** 2) / 2
        class Trainer(nn.Module):
            def forward(self, x, y):
                return F.cross_entropy(self.net(x), y) + (self.sure(x).sigmoid() * x).mean()
    """
    assert names(tmp_path, source) == [("Free", "softmax"), ("FreeFull", "softmax")]


def test_placeholders_that_return_nothing_and_tools_that_look_at_a_model_are_left_out(tmp_path):
    source = """
        class NoAttention(nn.Module):
            def forward(self, x):
                '''Nothing to add.'''
                return None
        class AttentionViewer:
            def __call__(self, x):
                return [w.mean(1) for w in self.model(x).attentions]
    """
    assert names(tmp_path, source) == []
