"""A target is imported as Python would import it, and what cannot be is refused with what is there instead."""

import sys
import textwrap

import pytest

from regard.checks.load import load, split_target
from regard.core.errors import TargetError

ATTENTION = """
class Attention:
    def forward(self, x):
        return x
"""


@pytest.fixture(autouse=True)
def _modules_and_path_as_before(monkeypatch):
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def write(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("a/b.py:Attention", ("a/b.py", "Attention")),
        ("a/b.py", ("a/b.py", "")),
        ("a.b:Outer.Inner", ("a.b", "Outer.Inner")),
        ("a.py:build()", ("a.py", "build")),
        ("C:\\code\\b.py", ("C:\\code\\b.py", "")),
        ("C:\\code\\b.py:Attention", ("C:\\code\\b.py", "Attention")),
    ],
)
def test_a_target_is_split_at_its_name(target, parts):
    assert split_target(target) == parts


def test_a_class_is_loaded_with_its_place(tmp_path):
    write(tmp_path, {"model.py": ATTENTION})
    loaded = load(f"{tmp_path / 'model.py'}:Attention")
    assert (loaded.obj.__name__, loaded.file, loaded.line, loaded.notes) == (
        "Attention",
        str(tmp_path / "model.py"),
        2,
        [],
    )


def test_a_file_with_one_candidate_needs_no_name(tmp_path):
    write(tmp_path, {"model.py": ATTENTION})
    assert load(str(tmp_path / "model.py")).name == "Attention"


def test_a_file_with_two_candidates_needs_a_name_and_says_which_there_are(tmp_path):
    write(tmp_path, {"model.py": ATTENTION + ATTENTION.replace("Attention", "OtherAttention")})
    with pytest.raises(TargetError, match="holds 2 candidates; name one of Attention, OtherAttention, as in "):
        load(str(tmp_path / "model.py"))


def test_an_unknown_name_is_refused_with_the_candidates(tmp_path):
    write(tmp_path, {"model.py": ATTENTION})
    with pytest.raises(TargetError, match=r"there is no Attn; candidates found: Attention$"):
        load(f"{tmp_path / 'model.py'}:Attn")


def test_an_unknown_name_in_a_file_without_attention_is_refused_with_what_the_file_defines(tmp_path):
    write(tmp_path, {"model.py": "def build(): ...\n"})
    with pytest.raises(TargetError, match=r"there is no X; no attention was found \(it defines build\)$"):
        load(f"{tmp_path / 'model.py'}:X")


def test_a_file_or_module_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(TargetError, match=r"gone\.py does not exist$"):
        load(f"{tmp_path / 'gone.py'}:Attention")
    with pytest.raises(
        TargetError, match="no_such_module does not exist: no module is named 'no_such_module', and there"
    ):
        load("no_such_module:Attention")


def test_a_folder_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(TargetError, match="is a folder, which may hold many targets; name one, as in"):
        load(str(tmp_path))


def test_a_file_in_a_package_is_imported_as_part_of_it(tmp_path):
    write(
        tmp_path,
        {
            "netpack/__init__.py": "",
            "netpack/sub/__init__.py": "",
            "netpack/sizes.py": "WIDTH = 7",
            "netpack/sub/model.py": "from ..sizes import WIDTH\n" + ATTENTION,
        },
    )
    loaded = load(f"{tmp_path / 'netpack/sub/model.py'}:Attention")
    assert loaded.obj.__module__ == "netpack.sub.model"
    assert load(f"{tmp_path / 'netpack/sub/model.py'}:Attention").obj is loaded.obj


def test_a_package_whose_init_fails_is_entered_without_it_and_that_is_said(tmp_path):
    write(
        tmp_path,
        {
            "brokenpack/__init__.py": "raise RuntimeError('no licence')",
            "brokenpack/sizes.py": "WIDTH = 7",
            "brokenpack/model.py": "from .sizes import WIDTH\n" + ATTENTION,
        },
    )
    loaded = load(f"{tmp_path / 'brokenpack/model.py'}:Attention")
    assert loaded.notes == [
        "imported without running the `__init__.py` of its package, which failed (RuntimeError: no licence)"
    ]


def test_a_lone_file_sees_its_neighbours_and_the_root_of_its_project_and_the_path_ends_last(tmp_path):
    write(
        tmp_path,
        {
            "pyproject.toml": "",
            "src/rooted_helper.py": "B = 2",
            "models/near_helper.py": "A = 1",
            "models/model.py": "from near_helper import A\nfrom rooted_helper import B\n" + ATTENTION,
        },
    )
    before = list(sys.path)
    load(f"{tmp_path / 'models/model.py'}:Attention")
    assert sys.path[: len(before)] == before
    assert str(tmp_path / "models") in sys.path[len(before) :]


def test_a_missing_package_is_stood_in_for_and_named(tmp_path):
    source = """
        from absent_vision.ops import Box, register_model
        import absent_maths.special as special
        @register_model
        def factory(): return Attention()
        class Attention:
            size: Box["n"] = None
            def forward(self, x):
                return special.gamma(x)
            def is_box(self, x):
                return isinstance(x, Box)
    """
    write(tmp_path, {"model.py": source})
    loaded = load(f"{tmp_path / 'model.py'}:Attention")
    assert loaded.notes == [
        "not installed, and stood in for while importing: absent_vision, absent_maths "
        "(a call of theirs is an error, not a result)"
    ]
    assert loaded.obj().is_box(3) is False
    assert not [name for name in sys.modules if name.startswith("absent_")]
    with pytest.raises(
        ImportError, match=r"absent_maths\.special\.gamma is needed, and the package 'absent_maths' is not"
    ):
        loaded.obj().forward(1)


def test_a_class_that_inherits_from_a_missing_package_cannot_be_built(tmp_path):
    write(
        tmp_path, {"model.py": "from absent_base import Layer\nclass Attention(Layer):\n    def forward(self, x): ..."}
    )
    loaded = load(f"{tmp_path / 'model.py'}:Attention")
    with pytest.raises(ImportError, match="the package 'absent_base' is not installed"):
        loaded.obj()


def test_a_missing_package_that_is_called_on_import_makes_the_target_unloadable(tmp_path):
    write(tmp_path, {"model.py": "import absent_jit\n@absent_jit.compile\ndef attention(q, k, v): ..."})
    with pytest.raises(
        TargetError, match=r"absent_jit\.compile is needed, and the package 'absent_jit' is not installed"
    ):
        load(f"{tmp_path / 'model.py'}:attention")


def test_an_optional_import_stays_absent(tmp_path):
    write(tmp_path, {"model.py": "try:\n    import absent_kernel\nexcept ImportError:\n    absent_kernel = None\n"})
    assert load(f"{tmp_path / 'model.py'}:absent_kernel").obj is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys\nsys.exit(3)", r"calls sys\.exit\(3\) when it is imported"),
        ("x = 1\nraise ValueError('bad [seed]')", r"cannot be imported: ValueError \(line 2\): bad \[seed\]"),
        ("x = (", r"cannot be imported: SyntaxError \(line 1\)"),
    ],
)
def test_a_file_that_fails_on_import_says_where(tmp_path, source, message):
    write(tmp_path, {"model.py": source})
    with pytest.raises(TargetError, match=message):
        load(f"{tmp_path / 'model.py'}:Attention")


def test_a_name_in_an_installed_module_is_loaded():
    loaded = load("torch.nn:MultiheadAttention")
    assert (loaded.name, loaded.file.endswith("activation.py")) == ("MultiheadAttention", True)
    assert load("torch.nn.functional:scaled_dot_product_attention").file is None
