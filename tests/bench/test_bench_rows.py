"""A row of the bench says what was measured and whether it reached its target; the compared things give the same."""

import pytest
import torch

from regard.bench import attention, decode, weight_statistics, window
from regard.bench.limits import machine, measure, share
from regard.bench.line import Line, Work, chosen, compare
from regard.bench.suites import SUITES, lines_of, measured
from regard.bench.timing import amount, forward, normal, one_thread, row, training, verdict
from regard.core.errors import BenchError

FIELDS = {"name", "ours", "peer", "quartiles", "ratio", "target", "sense", "verdict", "difference", "memory", "work"}


def steps():
    """One step that multiplies small matrices, and one that also multiplies large ones."""
    small, large = normal(8, 8), normal(400, 400)
    return forward(lambda x: x @ x, small), forward(lambda x: (large @ large, x @ x)[1], small)


@pytest.mark.parametrize(
    ("slower", "sense", "target", "expected"),
    [
        ("peer", "at least", 1.5, "pass"),
        ("ours", "at least", 1.5, "fall-short"),
        ("peer", "at most", 1.5, "pass"),
        ("ours", "at most", 1.5, "fall-short"),
        ("ours", "at least", None, "shown"),
    ],
)
def test_a_row_knows_which_of_the_two_is_faster_and_holds_its_target_in_the_right_direction(
    slower, sense, target, expected
):
    fast, slow = steps()
    ours, peer = (fast, slow) if slower == "peer" else (slow, fast)
    (made,) = compare("square", "itself", lambda: (ours, peer), target, sense=sense).rows(5)
    assert made["verdict"] == expected
    assert set(made) >= FIELDS
    assert made["difference"] == 0.0
    assert made["ratio"] > 0
    faster = made["peer"] / made["ours"]
    assert made["ratio"] == pytest.approx(faster if sense == "at least" else 1 / faster)
    assert (faster > 1) == (slower == "peer")
    for values in made["quartiles"].values():
        assert values == sorted(values)


@pytest.mark.parametrize(
    ("ratio", "target", "sense", "expected"),
    [
        (1.4, 1.5, "at least", "fall-short"),
        (1.5, 1.5, "at least", "pass"),
        (2.0, 1.9, "at most", "fall-short"),
        (1.9, 1.9, "at most", "pass"),
    ],
)
def test_a_verdict_is_a_comparison(ratio, target, sense, expected):
    assert verdict("a", 1.0, 1.0, ratio, target, sense=sense)["verdict"] == expected


def test_an_amount_passes_when_it_is_small_enough():
    assert amount("memory", 99.0, 100.0, "MiB")["verdict"] == "pass"
    assert amount("memory", 101.0, 100.0, "MiB")["verdict"] == "fall-short"
    assert amount("seconds", 3.0, None, "s")["verdict"] == "shown"


def test_the_difference_is_taken_of_outputs_and_gradients_and_only_where_asked():
    x = normal(4)
    one, other = training(lambda x: 2 * x, x), training(lambda x: 2 * x + (x - x.detach()), x)
    assert row("gradients differ", one, other, 1.0, rounds=1)["difference"] > 0
    apart = [forward(lambda x, n=n: x + torch.tensor([0.0, 0, 0, n]), x) for n in (0, 1)]
    assert row("all", *apart, 1.0, rounds=1)["difference"] == pytest.approx(1.0)
    first = torch.tensor([True, True, True, False])
    assert row("the first three", *apart, 1.0, rounds=1, where=first)["difference"] == 0.0


def test_the_memory_of_a_step_is_its_own_and_not_what_an_earlier_one_left():
    from regard.bench import memory

    if not memory.can_measure():
        pytest.skip("the high-water mark of memory is read from /proc, which this system has not")
    for _ in range(2):
        assert 60 < memory.extra(lambda: [torch.ones(1 << 20) for _ in range(16)]) < 72  # 64 MiB in blocks of 4
        assert memory.extra(lambda: torch.ones(1 << 10)) < 4


def test_a_peer_that_is_not_installed_is_a_row_that_says_so():
    line = compare("nothing", "a peer", lambda: 1 / 0, 1.0, needs=["no_such_package"])
    assert line.rows(3) == [
        {"name": "nothing", "against": "a peer", "verdict": "missing", "missing": ["no_such_package"]}
    ]


def test_a_line_that_fails_is_a_row_with_the_reason():
    def run(rounds):
        raise ValueError("the peer of this version\nwants something else")

    (made,) = measured(Line("odd", "a peer", run), 3, {})
    assert (made["verdict"], made["reason"]) == ("failed", "ValueError: the peer of this version")


def test_the_share_of_the_limit_is_that_of_the_longer_of_the_two_times():
    limits = {"gemm": {"float32": 100e9, "bfloat16": 400e9}, "copy": 10e9}
    made = {"ours": 100.0, "work": Work(5e9, 0.0)._asdict()}  # 50 ms of operations in 100 ms
    assert share(made, limits) == pytest.approx(0.5)
    assert share({**made, "work": Work(5e9, 0.8e9)._asdict()}, limits) == pytest.approx(0.8)
    assert share({**made, "work": Work(5e9, 0.0, "bfloat16")._asdict()}, limits) == pytest.approx(0.125)
    assert share({"ours": 1.0}, limits) is None


def test_the_limits_are_positive_and_the_machine_bears_no_name():
    import platform

    limits = measure(rounds=1, size=64)
    assert min(limits["gemm"].values()) > 0
    assert limits["copy"] > 0
    said = machine()
    assert platform.node() not in str({key: said[key] for key in ("cpu", "system", "python")}).split()
    assert said["versions"]["torch"] == torch.__version__


def test_lines_are_chosen_by_a_part_of_the_name_of_their_peer():
    lines = window.lines()
    assert {line.against for line in chosen(lines, ["longformer"])} == {"Longformer (transformers)"}
    assert len(chosen(lines, [])) == len(lines)
    with pytest.raises(BenchError, match=r"no line of window is against xformers; its peers are Longformer"):
        lines_of("window", against=["xformers"])
    with pytest.raises(BenchError, match=r"there is no bench 'windows'; there are attention, window"):
        lines_of("windows")


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_lists_its_lines_without_measuring_and_no_two_are_the_same(suite):
    for quick in (False, True):
        lines = lines_of(suite, quick=quick)
        assert len({(line.what, line.against) for line in lines}) == len(lines) > 0


def test_decoding_steps_give_the_same_as_their_peers():
    rows = [made for line in decode.steps(torch.float32, heads=4, kv_heads=2, keys=64) for made in line.rows(1)]
    assert [made["target"] for made in rows] == [2.5, 12.0]
    assert all(made["difference"] < 1e-5 for made in rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the peers' own code
@pytest.mark.parametrize("suite", [attention, window, decode, weight_statistics])
def test_everything_that_is_compared_gives_the_same(suite):
    with one_thread():
        rows = [made for line in suite.lines(quick=True) for made in line.rows(1)]
    assert len(rows) > 3
    for made in rows:
        if made["verdict"] != "missing":
            assert made["difference"] < (0.2 if "bfloat16" in made["name"] else 1e-4), made  # gradients in 8 bits
