"""Compiles the hot modules with mypyc, for scripts/compile and for the wheel.

    python scripts/compiled.py            makes build/compiled, and says what it did
    python scripts/compiled.py --check    says why this machine cannot compile, if it cannot

``build/compiled`` is a copy of app/ with an extension module beside the source of each module that
pyproject.toml lists under ``[tool.rowcast]``. Nothing in app/ changes: who wants the compiled
modules puts that directory in front of Python's path. It is made anew when a source has changed.

Hatchling imports this file when it builds a wheel (``CompiledModules``). COMPILED=no gives the pure
wheel, COMPILED=yes fails where nothing can be compiled; otherwise the wheel is compiled if it can
be, and pure if not.

OPTIMIZE=0 (or 1) has the C compiler optimise less, in half of its time: for tests, where
nothing is compiled yet. What was compiled with 2 is kept, which is what everybody else gets.
"""

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
NEEDS = ("mypy>=1.18,<3", "setuptools>=80")
"""What compiles, besides a C compiler; the group ``compile`` of pyproject.toml locks it."""
MARK = "made-by"
"""The file that says at which level, and with what, all object files beside it were made."""

SETUP = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from compiled import is_current
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

class BuildOnAllCores(build_ext):  # its own option is for several extensions, and this is one
    def build_extensions(self):
        one_by_one, names = self.compiler.compile, self.compiler.object_filenames
        def compile(sources, output_dir=None, **options):
            objects = names(sources, output_dir=output_dir)
            stale = [[one] for one, made in zip(sources, objects) if not is_current(made)]
            options |= {"output_dir": output_dir, "extra_preargs": ["-MMD"]}
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda source: one_by_one(source, **options), stale))
            return objects
        self.compiler.compile = compile
        super().build_extensions()

modules = sys.argv.pop(1).split(",")
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
extensions = mypycify(
    [*options, *modules], opt_level=os.environ["OPTIMIZE"], debug_level="0", multi_file=True,
    group_name="rowcast",
)
for extension in extensions:  # a newer compiler's warnings are no reason for the pure wheel
    arguments = extension.extra_compile_args
    extension.extra_compile_args = [text for text in arguments if text != "-Werror"]
setup(
    name="rowcast", packages=[], ext_modules=extensions, cmdclass={"build_ext": BuildOnAllCores}
)
"""
"""Run in a copy of the sources, so that no path of this machine is in what it makes."""


class CannotCompileError(Exception):
    """Why nothing was compiled."""


def hot_modules(root: Path = ROOT) -> list[str]:
    """Return the files to compile, relative to app/."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    return list(project["tool"]["rowcast"]["compiled"])


def obstacle() -> str:
    """Return why this machine cannot compile; empty if it can, as far as can be seen."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]}); on Debian it is the package gcc"
    trial = [*compiler, f"-I{sysconfig.get_path('include')}", "-fsyntax-only", "-xc", "-"]
    done = subprocess.run(trial, input=b"#include <Python.h>", capture_output=True, check=False)
    if done.returncode:
        return (
            "the C compiler finds no headers of Python or of the C library;"
            " on Debian they are the packages python3-dev and libc6-dev"
        )
    return ""


def compiled(root: Path = ROOT) -> Path:
    """Return the directory with the compiled modules, made anew if a source has changed."""
    (root / "build").mkdir(exist_ok=True)
    with (root / "build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes of the tests may want it at once
        return _made(root)


def _made(root: Path) -> Path:
    place, stamp = root / "build" / "compiled", root / "build" / "compiled-of"
    level = optimization(root)
    wanted = _state(root, level)
    if place.exists() and stamp.exists() and stamp.read_text() == wanted:
        return place
    stamp.unlink(missing_ok=True)
    found = _compile(root, level)
    if place.exists():
        shutil.rmtree(place)
    _copy(root / "app", place)
    for file in found:
        shutil.copy2(file, place / file.relative_to(root / "build" / "work"))
    stamp.write_text(wanted)
    return place


def extensions(place: Path) -> Iterator[Path]:
    """Give the extension modules below a directory."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    found = sorted(place.rglob(f"*{suffix}"))
    return (path for path in found if path.relative_to(place).parts[0] != "build")


def is_current(made: str) -> bool:
    """Whether an object file is as new as all it was made of, which the compiler listed beside it.

    mypyc leaves a C file alone that would not change, so a source that is not compiled, or whose
    types nothing compiled needs, makes no object anew.
    """
    try:
        rule = Path(made).with_suffix(".d").read_text()
        needs = rule.replace("\\\n", " ").partition(":")[2].split()
        age = Path(made).stat().st_mtime
        return bool(needs) and all(Path(name).stat().st_mtime <= age for name in needs)
    except OSError:
        return False  # it was never made, or a file of it is gone


def optimization(root: Path = ROOT) -> str:
    """Return how much the C compiler optimises: as asked for, or as before if that was more."""
    mark = root / "build" / "work" / MARK
    asked = os.environ.get("OPTIMIZE", "")
    before = mark.read_text()[0] if mark.exists() else "0"
    return max(asked if asked in {"0", "1"} else "2", before)


def _begin(work: Path, level: str) -> Path:
    """Keep what the same tools made in a run that ended well; return the file that marks one."""
    mark = work / MARK
    if not mark.exists() or mark.read_text() != _tools(level):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
    mark.unlink(missing_ok=True)
    return mark


def _tools(level: str) -> str:
    asked = {name: os.environ.get(name, "") for name in ("CC", "CFLAGS", "CPPFLAGS")}
    return f"{level} {sys.version} {_version('mypy')} {SETUP} {asked}"


def _state(root: Path, level: str) -> str:
    """Return what the compiled modules were made of, and where and with what."""
    told = hashlib.sha256(f"{level} {sys.version} {_version('mypy')} {SETUP}".encode())
    files = sorted(path for path in (root / "app").rglob("*") if path.is_file())
    for path in [root / "pyproject.toml", *files]:
        if "__pycache__" not in path.parts:
            told.update(f"{path.relative_to(root)} {path.stat().st_size} ".encode())
            told.update(path.read_bytes())
    return told.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _compile(root: Path, level: str) -> list[Path]:
    """Compile in a copy of the sources; what it made before is used again where it can be."""
    work = root / "build" / "work"
    problem = obstacle() or ("" if _version("mypy") else "mypy is not installed")
    if problem:
        raise CannotCompileError(problem)
    mark = _begin(work, level)
    for path in [*extensions(work), *(work / item.name for item in (root / "app").iterdir())]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _copy(root / "app", work)
    arguments = [",".join(hot_modules(root)), "--quiet", "build_ext", "--inplace"]
    own = str(Path(__file__).resolve().parent)
    environment = {**os.environ, "PYTHONPATH": own, "PYTHONHASHSEED": "0", "OPTIMIZE": level}
    done = subprocess.run(
        [sys.executable, "-c", SETUP, *arguments], cwd=work, env=environment, check=False
    )
    if done.returncode:
        raise CannotCompileError("mypyc or the C compiler failed; its messages are above")
    found = list(extensions(work))
    if len(found) <= len(hot_modules(root)):  # one for each, and one with the code of all
        raise CannotCompileError(f"only {len(found)} extension modules were made")
    mark.write_text(_tools(level))
    return found


def _copy(source: Path, place: Path) -> None:
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


class CompiledModules(BuildHookInterface):
    """Puts the compiled modules into the wheel, beside their sources."""

    def dependencies(self) -> list[str]:
        """Return what pip installs to build the wheel, where it can be compiled."""
        return [] if self._choice == "no" or obstacle() else list(NEEDS)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add what was made; an editable install runs its sources."""
        if version == "editable" or self._choice == "no":
            return
        root = Path(self.root)
        try:
            place = compiled(root)
        except CannotCompileError as error:
            if self._choice == "yes":
                raise
            print(f"!!! The wheel is pure Python, and slower: {error}", file=sys.stderr)
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(
            {str(path): path.relative_to(place).as_posix() for path in extensions(place)}
        )

    @property
    def _choice(self) -> str:
        return os.environ.get("COMPILED", "")


def get_build_hook() -> type[BuildHookInterface]:
    """Say to hatchling which of this file's classes is the hook."""
    return CompiledModules


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(obstacle() or 0)
    try:
        made = compiled()
        print(f"{made.relative_to(ROOT)}/ has {len(hot_modules())} modules compiled")
    except CannotCompileError as error:
        sys.exit(f"nothing is compiled: {error}")
