"""The loader of resources: every subclass of Resource in ``resources/*.py``.

A file is ordinary Python and is imported once, at start; its hooks and listeners belong to the
loading server. A mistake in it aborts the start with the file and line, because a partially
configured server is worse than none.
"""

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from rowcast.core.errors import Code, Error
from rowcast.core.topics import check_topic
from rowcast.features.hooks.hooks import COLLECTING, Hooks
from rowcast.models import SERVING, Models
from rowcast.routes.resource import Resource
from rowcast.seams.user_code import is_mistake


def load_resources(
    directory: Path, hooks: Hooks | None = None, models: Models | None = None
) -> list[tuple[str, type[Resource]]]:
    """Return (path, class) for each resource class, in order of file and definition.

    Hooks of the files are added to ``hooks``, in the same order; ``models`` provides their imports
    from ``rowcast.models``. A missing directory has none. Raises INVALID for a file that cannot be
    imported, for a bad path, and for a file in place of the directory.
    """
    found: list[tuple[str, type[Resource]]] = []
    for file in _files(directory):
        module = _load(file, hooks or Hooks(), models)
        classes = [item for item in vars(module).values() if _is_resource(item, module)]
        found.extend((_path(item, file), item) for item in classes)
    return found


def check_resources(directory: Path) -> list[str]:
    """Return the files that ``load_resources`` would import, without importing them.

    Raises INVALID for a syntax error.
    """
    found: list[str] = []
    for file in _files(directory):
        try:
            compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        except OSError as error:
            raise Error(Code.INVALID, f"{file}: cannot be read: {error.strerror}") from error
        except (SyntaxError, ValueError, RecursionError) as error:
            line = error.lineno or 1 if isinstance(error, SyntaxError) else 1
            raise Error(Code.INVALID, f"{file}:{line}: {_sentence(error)}") from error
        found.append(file.name)
    return found


def _files(directory: Path) -> list[Path]:
    """Return the files of resources, in the order of their imports."""
    if directory.is_file():
        raise Error(
            Code.INVALID,
            f"{directory} is a file; resources are a directory, whose *.py files are imported: "
            f"name {directory.parent}",
        )
    return [file for file in sorted(directory.glob("*.py")) if not file.name.startswith("_")]


def _is_resource(item: object, module: ModuleType) -> bool:
    return (
        inspect.isclass(item)
        and issubclass(item, Resource)
        and item.__module__ == module.__name__
        and not item.__name__.startswith("_")
    )


def _path(resource: type[Resource], file: Path) -> str:
    path = resource.__name__ if resource.path is None else resource.path.strip("/")
    try:
        check_topic(path or "/")
    except Error as error:
        raise Error(
            Code.INVALID, f"{file}: the path of {resource.__name__} is no topic: {error.message}"
        ) from None
    return path


def _load(file: Path, hooks: Hooks, models: Models | None) -> ModuleType:
    name = f"rowcast_resources.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Error(Code.INVALID, f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    collecting = COLLECTING.set(hooks)
    serving = SERVING.set(models)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if not is_mistake(error):
            raise
        raise Error(Code.INVALID, f"{file}:{_line(error, file)}: {_sentence(error)}") from error
    finally:
        COLLECTING.reset(collecting)
        SERVING.reset(serving)
    return module


def _line(error: BaseException, file: Path) -> int:
    if isinstance(error, SyntaxError):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return (lines[-1] if lines else 1) or 1


def _sentence(error: BaseException) -> str:
    if isinstance(error, Error):
        return error.message
    return f"{type(error).__name__}: {error}"
