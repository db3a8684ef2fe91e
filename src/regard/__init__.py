"""Attention you can trust: layers, a checker and views. Names load on first use, so `import regard` loads no torch."""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {  # public name -> the file that defines it
    "attention": "regard.core.attention",
    "attention_weights": "regard.core.attention",
    "explain_backend": "regard.core.attention",
    "attention_statistics": "regard.core.statistics",
    "AttentionStatistics": "regard.core.statistics",
    "check": "regard.checks.check",
    "Report": "regard.checks.report",
    "Finding": "regard.checks.report",
    "Design": "regard.checks.design",
    "capture": "regard.recording.capture",
    "watch": "regard.recording.watch",
    "insert": "regard.nn.insert",
    "replace": "regard.convert.replace",
    "plan": "regard.advise.planning",
}
_MODULES = (
    "mask",
    "bias",
    "position",
    "reference",
    "nn",
    "convert",
    "adapt",
    "parallel",
    "core",
    "checks",
    "views",
    "html",
    "recording",
    "intercept",
    "pytest",
)

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = import_module(f"regard.{name}")
    else:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; public names: {', '.join(sorted(__all__))}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
