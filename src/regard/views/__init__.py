"""What people look at: text and plots. The only place that draws."""

from importlib import import_module


def __getattr__(name: str):  # `regard.views.plots` without an import of matplotlib before it is used
    if name in ("plots", "text"):
        return import_module(f"regard.views.{name}")
    raise AttributeError(f"module 'regard.views' has no attribute {name!r}")
