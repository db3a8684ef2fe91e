"""The algebra of axes says of every view, permutation and broadcast where each axis came from."""

import torch
from hypothesis import given, strategies as st

from regard.intercept import axes as ax
from regard.intercept.axes import Atom


def test_a_split_axis_is_put_together_again_by_its_strides():
    start = ax.fresh(("b", "l", "r"), (6, 4, 5))
    split = ax.viewed(start, (2, 3, 4, 5))
    assert split == ((Atom("b", 2, 3),), (Atom("b", 3, 1),), (Atom("l", 4, 1),), (Atom("r", 5, 1),))
    assert ax.viewed(split, (6, 20)) == ((Atom("b", 2, 3), Atom("b", 3, 1)), (Atom("l", 4, 1), Atom("r", 5, 1)))


def test_a_view_that_cuts_through_axes_is_unknown():
    assert ax.viewed(ax.fresh(("l", "r"), (4, 6)), (3, 8)) is None
    assert ax.viewed(ax.fresh(("l", "r"), (4, 6)), (4, 5)) is None


def test_axes_made_by_broadcasting_are_marked():
    got = ax.broadcast(ax.fresh(("l", "r"), (1, 6)), (2, 3, 6))
    assert got == ((Atom("e", 2, 1),), (Atom("e", 3, 1),), (Atom("r", 6, 1),))
    assert ax.broadcast(ax.fresh(("l",), (4,)), (5,)) is None


def test_overlap_is_of_parts_of_one_axis_only():
    outer, inner = (Atom("b", 2, 3),), (Atom("b", 3, 1),)
    assert not ax.overlaps(outer, inner)
    assert ax.overlaps((Atom("b", 6, 1),), inner)
    assert not ax.overlaps((Atom("l", 3, 1),), inner)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.permutations(range(4)))
def test_arranging_undoes_any_split_and_permutation(batch, heads, rows, columns, order):
    """A tensor (b, l, r) whose b was split and whose axes were permuted comes back element by element."""
    from regard.intercept.assemble import arrange

    x = torch.arange(batch * heads * rows * columns).reshape(batch * heads, rows, columns)
    start = ax.fresh(("b", "l", "r"), x.shape)
    split = ax.viewed(start, (batch, heads, rows, columns))
    moved = x.reshape(batch, heads, rows, columns).permute(*order)
    axes = tuple(split[i] for i in order)
    assert torch.equal(arrange(moved, axes, split), x.reshape(batch, heads, rows, columns))
