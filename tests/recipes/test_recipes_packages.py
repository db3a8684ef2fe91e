"""Archives of packages: found by pip, checked by hash, kept, and never run; what goes wrong says what to do."""

import hashlib
import io
import tarfile
import zipfile

import pytest

from regard.core.errors import DataError
from regard.recipes.data import defaults, packages
from regard.recipes.data.archive import each
from regard.recipes.data.packages import Package, fetch


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A folder that pip takes for the only registry there is."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder, content=b"data"):
    path = folder / "some_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some_data/rows.txt", content)
        archive.writestr("some_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n")
        archive.writestr(
            "some_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("some_data-1.0.dist-info/RECORD", "")
    return path


def source(folder, marker):
    path = folder / "some-data-1.0.tar.gz"
    script = (
        f"open({str(marker)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='some-data', version='1.0')\n"
    )
    with tarfile.open(path, "w:gz") as tar:
        for name, content in (("setup.py", script.encode()), ("rows.txt", b"data")):
            info = tarfile.TarInfo(f"some-data-1.0/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def package(path, manager="wheel", **other):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    given = {"version": "1.0", "sha256": digest, "megabytes": 0.1, "source": "a test", "licence": "MIT"}
    return Package(manager, "some-data", **(given | other))


def test_a_wheel_is_fetched_once_and_its_source_and_licence_are_said(registry, capsys):
    wanted = package(wheel(registry))
    path = fetch(wanted)
    said = capsys.readouterr().err
    assert "fetching some-data 1.0 with pip (0.1 MB, once)\n  source: a test\n  licence: MIT\n" in said
    assert dict(each(path, lambda name: name.endswith("rows.txt"))) == {"some_data/rows.txt": b"data"}
    (registry / "some_data-1.0-py3-none-any.whl").unlink()
    assert fetch(wanted) == path
    assert capsys.readouterr().err == ""


def test_no_line_of_a_source_distribution_is_run(registry, tmp_path):
    marker = tmp_path / "it ran"
    path = fetch(package(source(registry, marker), "source"))
    assert dict(each(path, lambda name: name.endswith("rows.txt"))) == {"some-data-1.0/rows.txt": b"data"}
    assert not marker.exists()


@pytest.mark.parametrize("manager", ["wheel", "source"])
def test_an_archive_with_another_hash_is_refused_and_not_kept(registry, tmp_path, manager):
    path = wheel(registry) if manager == "wheel" else source(registry, tmp_path / "it ran")
    with pytest.raises(
        DataError, match=r"the archive of some-data 1.0 has sha256 \w{16}... and 0{16}... was expected: it is damaged"
    ):
        fetch(package(path, manager, sha256="0" * 64))
    assert not list((tmp_path / "cache").rglob("some*data-1.0*.*"))
    assert not (tmp_path / "it ran").exists()


def test_a_kept_archive_that_was_changed_is_refused_with_its_place(registry):
    wanted = package(wheel(registry))
    path = fetch(wanted)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=r"delete it to fetch it anew; the file is .*some_data-1.0"):
        fetch(wanted)


def test_a_pip_that_cannot_be_stopped_in_time_is_not_asked_for_a_source_distribution(registry, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import pip._internal.operations.prepare as p\ndel p._get_prepared_distribution\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DataError, match="this pip cannot be stopped before it would run the build script of some-data"):
        fetch(package(source(registry, tmp_path / "it ran"), "source"))
    assert not (tmp_path / "it ran").exists()


def test_off_line_says_so_and_names_the_way_out(registry):
    wanted = Package("wheel", "some-data", "1.0", "0" * 64, 1.0, "a test", "MIT")
    with pytest.raises(
        DataError,
        match=r"pip could not fetch some-data 1.0 \(off line, or a mirror without it\): ERROR: .*; without it, give your own files with --data PATH",
    ):
        fetch(wanted)


@pytest.mark.parametrize(("manager", "tool"), [("npm", "npm"), ("apt", "apt-get")])
def test_a_manager_that_is_not_there_is_named(monkeypatch, manager, tool):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        DataError, match=f"some-data comes through {tool}, which is not on this machine; without it, give"
    ):
        fetch(Package(manager, "some-data", "1.0", "", 1.0, "a test", "MIT"))


def test_a_manager_that_takes_too_long_is_stopped(registry, monkeypatch):
    monkeypatch.setattr(packages, "TIMEOUT", 0.01)
    with pytest.raises(DataError, match=r"pip took more than 0.01 s to fetch some-data"):
        fetch(package(wheel(registry)))


def test_no_address_of_a_registry_stands_in_the_code():
    text = "".join(path.read_text(encoding="utf-8") for path in packages.Path(packages.__file__).parent.glob("*.py"))
    assert "://" not in text
    assert "pickle" not in text


def test_a_name_that_is_no_data_set_is_refused_with_those_that_are():
    with pytest.raises(
        DataError, match=r"'imdb' is neither a file or folder nor a data set of text: a, b; or hub:NAME"
    ):
        defaults.named("imdb", {"b": dict, "a": dict}, "text")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fashion", "movie_sentences", "chinese_reviews", "leads", "bible", "peoples_daily"])
def test_the_default_data_sets_have_the_sizes_that_they_promise(name, monkeypatch):
    monkeypatch.delenv("REGARD_CACHE")
    try:
        found = getattr(defaults, name)()
    except DataError as error:
        pytest.skip(f"the package cannot be fetched here: {error}"[:200])
    sizes = {
        "fashion": lambda x: [p.images.shape[0] for p in x[:3]] == [54_000, 6_000, 10_000],
        "movie_sentences": lambda x: sum(map(len, x)) > 10_000,
        "chinese_reviews": lambda x: sum(map(len, x)) == 17_363,
        "leads": lambda x: len(x) > 10_000,
        "bible": lambda x: len(x) > 4_000_000,
        "peoples_daily": lambda x: len(x) == 19_484,
    }
    assert sizes[name](found)
