"""The mutation operators make the mistakes that they name, one at a time, and leave refusals and texts alone."""

from __future__ import annotations

import ast

import pytest
from operators import mutants

MADE = {
    "y = x.softmax(-1)": "y = x.softmax(-2)",
    "y = x[..., 0]": "y = x[..., 1]",
    "y = f(x, causal=flag)": "y = f(x)",
    "y = m.triu(d)": "y = m.tril(d)",
    "y = q @ k": "y = k @ q",
    "y = q.mT": "y = q",
    "y = q.transpose(i, j)": "y = q",
    "y = s.masked_fill(~keep, v)": "y = s.masked_fill(keep, v)",
    "y = a if c else b": "y = b if c else a",
    "y = a - b": "y = b - a",
    "y = a & b": "y = a | b",
    "y = i < n": "y = i <= n",
    "y = 0.5": "y = 1.0",
    "y = torch.where(c, d)": "y = torch.where(d, c)",
}


@pytest.mark.parametrize("line", MADE)
def test_an_operator_makes_this_mistake(line):
    assert MADE[line] in [mutant.source for mutant in mutants(line)]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    if x < 3:\n        raise ValueError(f'{x} is below {3}')",
        "def __repr__(self):\n    return f(1, size=2)",
        "def f(x: int = 3) -> None:\n    '''Doc.'''",
        "y = max(a, b)",
        "y = Linear(a, a)",
        "@dataclass(frozen=True)\nclass A:\n    x: str",
        "assert x < 3",
    ],
)
def test_refusals_texts_and_symmetric_calls_are_left_alone(source):
    assert not list(mutants(source))


def test_each_mutant_is_one_change_that_can_be_compiled_and_names_its_line():
    source = "def f(q, k):\n    s = q @ k.mT * 0.5\n    return s.softmax(-1)\n"
    found = list(mutants(source))
    assert len(found) == len({m.source for m in found}) > 4
    for mutant in found:
        compile(mutant.source, "mutant", "exec")
        assert mutant.source != ast.unparse(ast.parse(source))
        assert mutant.line in (2, 3)
        assert mutant.statement == (mutant.line, mutant.line)
