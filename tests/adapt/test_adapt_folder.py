"""The folder is the list of adapters: each reads, runs and fills, and each has its doors in regard.convert."""

import importlib
import pathlib

import pytest

import regard.adapt
from regard import convert

DOORS = {  # adapter -> the ends of its from_* and to_*
    "torch_modules": "torch",
    "huggingface": "hf",
    "timm_modules": "timm",
    "x_transformers_modules": "x_transformers",
    "keras_layers": "keras",
    "flax_nnx": "flax",
    "onnx_graph": "onnx",
}


def adapters() -> dict[str, object]:
    names = sorted(path.stem for path in pathlib.Path(regard.adapt.__path__[0]).glob("*.py") if path.stem != "__init__")
    modules = {name: importlib.import_module(f"regard.adapt.{name}") for name in names}
    return {
        name: module for name, module in modules.items() if all(hasattr(module, x) for x in ("find", "run", "store"))
    }


def test_there_are_seven_adapters_and_each_has_its_doors():
    assert set(adapters()) == set(DOORS)
    for end in DOORS.values():
        assert callable(getattr(convert, f"from_{end}"))
        assert callable(getattr(convert, f"to_{end}"))


@pytest.mark.parametrize("name", DOORS)
def test_an_adapter_imports_its_framework_only_when_it_is_used(name):
    text = (pathlib.Path(regard.adapt.__path__[0]) / f"{name}.py").read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    foreign = ("keras", "jax", "flax", "onnx", "onnxruntime", "timm", "transformers", "x_transformers")
    assert not [line for line in head if line.split()[1].split(".")[0] in foreign]
