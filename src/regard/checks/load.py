"""Turns "file.py:Name", "package.module:Name" or "file.py" into an object, the way Python itself would import it.

A file inside a package is imported as part of that package (found by walking up `__init__.py`), so that its relative imports
work; a file outside one is imported on its own, with its folder and its project's root on the path. The object's code is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.checks.discover import candidates, definitions
from regard.checks.stubs import MissingPackage, StandInFinder
from regard.core.errors import TargetError

ROOT_SIGNS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "requirements.txt")
MOST_STUBS = 12  # a file that misses more packages than this is not worth standing in for


@dataclass
class Loaded:
    """An object and where it is defined. `notes` say what was done to load it that its author would not have done."""

    obj: Any
    name: str
    file: str | None
    line: int | None
    notes: list[str] = field(default_factory=list)


def split_target(target: str) -> tuple[str, str]:
    """Split "place:Name" into place and name; the name is "" when none is given. A trailing "()" is dropped.

    >>> split_target("models/vit.py:Attention")
    ('models/vit.py', 'Attention')
    """
    place, colon, name = target.rpartition(":")
    name = name.removesuffix("()")
    if colon and place and all(part.isidentifier() for part in name.split(".")):
        return place, name
    return target, ""


def load(target: str) -> Loaded:
    """Import what a target names and return the object.

    Args:
        target: "file.py:Name", "package.module:Name", or either without the name where it holds a single candidate.

    Raises:
        TargetError: it does not exist, cannot be imported, or names nothing; the text lists what is there instead.
    """
    place, name = split_target(target)
    path = Path(place)
    if path.is_dir():
        raise TargetError(f"{target} is a folder, which may hold many targets; name one, as in {path / 'file.py'}:Name")
    is_file = path.suffix == ".py" or path.is_file()
    if is_file and not path.is_file():
        raise TargetError(f"{place} does not exist")
    path = path.resolve() if is_file else None
    notes: list[str] = []
    if path and not name:
        name = _only_candidate(path, target)
    module = _import(place, path, notes)
    if not name:
        name = _only_candidate(_file_of(module, target), target)
    obj = _resolve(module, name, target)
    file, line = source_of(obj)
    return Loaded(obj, name, file or (str(path) if path else None), line, notes)


def source_of(obj: Any) -> tuple[str | None, int | None]:
    """File and line where a class or function is defined; of an instance, where its class is. (None, None) for built-ins."""
    subject = obj if isinstance(obj, type) or inspect.isroutine(obj) else type(obj)
    try:
        subject = inspect.unwrap(subject)
        return inspect.getsourcefile(subject), inspect.getsourcelines(subject)[1]
    except (TypeError, OSError, ValueError):
        return None, None


def _only_candidate(path: Path, target: str) -> str:
    try:
        found = [c.name for c in candidates(path)]
    except SyntaxError as error:
        raise TargetError(f"{path} cannot be read: {error}") from error
    if len(found) == 1:
        return found[0]
    if found:
        raise TargetError(
            f"{target} holds {len(found)} candidates; name one of {', '.join(found)}, as in {target}:{found[0]}"
        )
    raise TargetError(
        f"no attention was found in {target}; name what to check, as in {target}:Name{_offer(definitions(path))}"
    )


def _offer(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f" (it defines {', '.join(names[:12])}{more})"


def _file_of(module: ModuleType, target: str) -> Path:
    if not getattr(module, "__file__", None):
        raise TargetError(f"{target} names a module without a file; name what to check, as in {target}:Name")
    return Path(str(module.__file__))


def _resolve(module: ModuleType, name: str, target: str) -> Any:
    obj: Any = module
    for part in name.split("."):
        try:
            obj = getattr(obj, part)
        except AttributeError:
            raise TargetError(f"{target}: there is no {name}{_what_is_there(module)}") from None
    return obj


def _what_is_there(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    try:
        found = [c.name for c in candidates(Path(file))] if file else []
        names = definitions(Path(file)) if file else []
    except (SyntaxError, OSError):
        return ""
    if found:
        return f"; candidates found: {', '.join(found)}"
    return f"; no attention was found{_offer(names)}"


def _import(place: str, path: Path | None, notes: list[str]) -> ModuleType:
    """Import, and again with stand-ins while a third-party package is missing."""
    missing: dict[str, str] = {}  # top-level package -> the module of it that was asked for
    while True:
        try:
            with _project_on_path(path), StandInFinder(missing):
                module = _import_once(place, path, notes)
            if missing:
                notes.append(
                    f"not installed, and stood in for while importing: {', '.join(missing.values())} (a call of theirs is an error, not a result)"
                )
            return module
        except ModuleNotFoundError as error:
            top = (error.name or "").split(".")[0]
            own = path is not None and _is_own(top, path)
            if path is None and place.split(".")[0] == top:
                raise TargetError(
                    f"{place} does not exist: no module is named {error.name!r}, and there is no such file"
                ) from error
            if not top or own or top in missing or isinstance(error, MissingPackage) or len(missing) == MOST_STUBS:
                raise TargetError(f"{place} cannot be imported: {error}") from error
            missing[top] = str(error.name)
        except MissingPackage as error:
            raise TargetError(f"{place} cannot be imported: {error}; pip install it and check again") from error
        except SystemExit as error:
            raise TargetError(f"{place} calls sys.exit({error.code!r}) when it is imported") from error
        except TargetError:
            raise
        except Exception as error:
            raise TargetError(_import_failure(place, path, error, missing)) from error


def _import_failure(place: str, path: Path | None, error: Exception, missing: dict[str, str]) -> str:
    trace, line = error.__traceback__, None
    while trace:
        if path and trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    at = f" (line {line})" if line else ""
    text = str(error).strip().splitlines() or [""]
    without = f"; not installed: {', '.join(missing.values())}" if missing else ""
    return f"{place} cannot be imported: {type(error).__name__}{at}: {text[0]}{without}"


def _is_own(top: str, path: Path) -> bool:
    """A module of the same project, whose absence is not a missing package."""
    return any((root / top).is_dir() or (root / f"{top}.py").is_file() for root in _roots(path))


def _import_once(place: str, path: Path | None, notes: list[str]) -> ModuleType:
    if path is None:
        return importlib.import_module(place)
    package = _package_of(path)
    if package is None:
        return _import_alone(path)
    root, dotted = package
    loaded = sys.modules.get(dotted)
    if loaded is not None and _same_file(loaded, path):
        return loaded
    try:
        module = importlib.import_module(dotted)
        if _same_file(module, path):
            return module
        reason = f"another package is named {dotted.split('.')[0]!r}"
    except ModuleNotFoundError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    module = _import_in_shells(root, dotted, path)
    notes.append(f"imported without running the `__init__.py` of its package, which failed ({reason})")
    return module


def _same_file(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _package_of(path: Path) -> tuple[Path, str] | None:
    """Root folder and dotted name of a file inside a package, or None."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    inside = folder != path.parent and all(part.isidentifier() for part in parts)
    return (folder, ".".join(parts)) if inside else None


def _import_alone(path: Path) -> ModuleType:
    return _execute(f"regard_target_{path.stem}_{zlib.crc32(str(path).encode()):08x}", path)


def _execute(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_in_shells(root: Path, dotted: str, path: Path) -> ModuleType:
    """Import a file of a package whose `__init__` fails: its parents become empty packages that only know where they are."""
    parents = dotted.split(".")[:-1]
    for depth in range(1, len(parents) + 1):
        shell = ModuleType(".".join(parents[:depth]))
        shell.__path__ = [str(root.joinpath(*parents[:depth]))]
        sys.modules[shell.__name__] = shell
    return _execute(dotted, path)


def _roots(path: Path) -> list[Path]:
    """Folders that the file's own imports may start from: its package's root or folder, and its project's root and src."""
    package = _package_of(path)
    roots = [package[0] if package else path.parent]
    for folder in path.parents:
        if any((folder / sign).exists() for sign in ROOT_SIGNS):
            roots += [folder, folder / "src"]
            break
    here = Path.cwd()
    if here in path.parents:
        roots.append(here)
    return list(dict.fromkeys(r for r in roots if r.is_dir()))


@contextmanager
def _project_on_path(path: Path | None):
    """The project's folders first while importing, and last afterwards, so that a late import of its own still works."""
    roots = [str(r) for r in (_roots(path) if path else [Path.cwd()])]
    added = [r for r in roots if r not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for root in added:
            sys.path.remove(root)
        sys.path.extend(added)
