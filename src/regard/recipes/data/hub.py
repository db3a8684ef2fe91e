"""`hub:NAME`: rows of a data set of the Hugging Face hub, through the package `datasets` where it is installed."""

from __future__ import annotations

from typing import Any

from regard.core.errors import DataError, MissingExtraError

PREFIX = "hub:"


def is_hub(data: str | None) -> bool:
    """Whether --data names the hub and not a path."""
    return data is not None and data.startswith(PREFIX)


def rows_of(data: str) -> dict[str | None, list[dict[str, Any]]]:
    """The rows by split ("train", "val", "test").

    Args:
        data: `hub:NAME` or `hub:NAME/CONFIGURATION` with a second colon, such as `hub:imdb` or `hub:glue:sst2`.

    Raises:
        MissingExtraError: `datasets` is not installed.
        DataError: No such data set, or the hub cannot be reached.
    """
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError(
            f"{data} needs the package datasets: pip install datasets; or give --data PATH"
        ) from error
    name, _, configuration = data.removeprefix(PREFIX).partition(":")
    try:
        found = datasets.load_dataset(name, configuration or None)
    except Exception as error:
        raise DataError(
            f"{data} could not be loaded ({type(error).__name__}: {str(error)[:160]}); off line, give --data PATH"
        ) from error
    names = {"validation": "val", "dev": "val"}
    return {names.get(split, split): _named(part) for split, part in found.items()}


def _named(part: Any) -> list[dict[str, Any]]:
    """Rows with the names of classes in the place of their numbers."""
    classes = {name: f.int2str for name, f in part.features.items() if hasattr(f, "int2str")}
    return [
        {k: classes[k](v) if k in classes and v is not None and v >= 0 else v for k, v in row.items()} for row in part
    ]
