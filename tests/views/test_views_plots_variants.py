"""The scores of variants: every run is a point at its score, the mean a line, the first variant the one that is compared with."""

import matplotlib.pyplot as plt
import pytest

from regard.core.errors import CaptureError
from regard.views import plots

RUNS = {"none": [84.0, 85.0], "注意力": [83.0, 86.0, 84.5]}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_every_run_is_a_point_and_every_variant_has_its_mean():
    ax = plots.scores(RUNS, metric="accuracy", title="gates")
    base, *lines = [line.get_xydata() for line in ax.get_lines()]
    assert base[0][0] == 84.5  # the mean of the first, all the way down
    assert lines[0].tolist() == [[84.0, 0.0], [85.0, 0.0]]
    assert lines[2].tolist() == [[83.0, 1.0], [86.0, 1.0], [84.5, 1.0]]
    assert lines[3][:, 0].tolist() == [84.5, 84.5]
    assert [t.get_text() for t in ax.get_yticklabels()] == list(RUNS)
    assert "accuracy" in ax.get_xlabel()


def test_the_axes_that_are_given_are_drawn_in_and_returned():
    _, ax = plt.subplots()
    assert plots.scores(RUNS, ax=ax) is ax


@pytest.mark.parametrize(("runs", "said"), [({}, "there is no variant to draw"), ({"a": []}, "no finite score of 'a'"),
                                            ({"a": [1.0], "b": [float("nan")]}, "no finite score of 'b'")])  # fmt: skip
def test_nothing_to_draw_is_refused_with_the_name(runs, said):
    with pytest.raises(CaptureError, match=said):
        plots.scores(runs)
