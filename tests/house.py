"""What the tests of the house share: files of the project, as text and as syntax trees."""

import ast
import gc
import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from rowcast.program.cli import COMMANDS

ROOT = Path(__file__).parent.parent
APP = ROOT / "app" / "rowcast"
PARTS = ("app", "bench", "deploy", "docs", "resources", "scripts", "tests", ".ci")
CODE = ("app", "bench", "resources", "scripts")
ROOMS = ("app/rowcast/", "app/rowcast_lake/")
LEFT_OUT = {"__pycache__", "node_modules", "vendored"}
BINARY = {".pyc", ".parquet", ".png", ".db", ".bin"}

FLOORS = {
    "core": 0,
    "schema": 1,
    "codecs": 1,
    "mqtt": 1,
    "auth": 1,
    "net": 1,
    "bus": 2,
    "log": 2,
    "store": 2,
    "rows": 2,
    "settings": 2,
    "journal": 3,
    "engines": 3,
    "reads": 3,
    "subscriptions": 4,
    "writes": 5,
    "seams": 6,
    "routes": 7,
    "kernel": 8,
    "results": 9,
    "features": 10,
    "cluster": 10,
    "doors": 11,
    "api": 11,
    "models": 11,
    "program": 12,
    "lake.columns": 13,
    "lake.stores": 13,
    "lake.archive": 14,
    "lake.snapshots": 14,
    "lake.spark": 14,
    "lake.commands": 15,
}
"""Each room and its floor (docs/architecture.md). ``api`` has one module; ``lake`` is
the package ``rowcast_lake``, programs beside the server."""

NESTED = {"features", "doors", "lake"}
"""Rooms of rooms: each folder in them is a room of its own, ``features.rights``."""

ONLY_WRITERS = {
    "store.append": "app/rowcast/writes/commit.py",
    "log.append": "app/rowcast/journal/journaled_store.py",
    "store.reserve": "app/rowcast/writes/commit.py",
    "bus.publish": "app/rowcast/writes/commit.py",
    "committer.submit": "app/rowcast/kernel/write_path.py",
    "committer.publish_unlogged": "app/rowcast/kernel/write_path.py",
}
"""What only one module may do."""

PROGRAM = {"__main__", "program"}
"""The module and the folder of the top floor: one room."""

STARTED_BY_NAME = {
    "rowcast.program.cli",
    "rowcast.__main__",
    "rowcast.api",
    "rowcast.models",
    "rowcast.journal.applier_main",
    "rowcast.program.worker",
} | {place.module for place in COMMANDS.values()}
"""Modules entered from outside: commands, and the face that resources import."""


def room_of(module: str) -> str:
    """Return the room that a module is in; empty for ``rowcast`` itself and outside."""
    parts = module.split(".")
    if parts[0] == "rowcast_lake":
        return ".".join(["lake", *parts[1:2]])
    if len(parts) < 2:
        return ""
    if parts[1] in PROGRAM:
        return "program"
    return ".".join(parts[1:3]) if parts[1] in NESTED else parts[1]


def floor_of(room: str) -> int | None:
    """Return the floor of a room; None if no room is called so."""
    return FLOORS.get(room, FLOORS.get(room.partition(".")[0]))


@dataclass(frozen=True)
class Source:
    """One Python file, or a sample that stands for one."""

    path: str
    """Relative to the project's root, with ``/``."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return its syntax tree.

        Trees live as long as the tests: no garbage collection needs to visit two million nodes.
        """
        tree = ast.parse(self.text, self.path)
        gc.freeze()
        return tree

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return every node of the tree, as ``ast.walk`` gives them: most rules walk all of it."""
        found: list[ast.AST] = [self.tree]
        for node in found:  # which grows meanwhile; without generators it takes half the time
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    found += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    found.append(value)
        return found

    @property
    def module(self) -> str:
        """Return its dotted name: ``rowcast.core.topics``; a package's is that of its folder."""
        path = self.path.removeprefix("app/").removesuffix(".py").removesuffix("/__init__")
        return path.replace("/", ".")

    @property
    def is_package(self) -> bool:
        """Whether it is an ``__init__.py``."""
        return self.path.endswith("__init__.py")

    @property
    def room(self) -> str:
        """Return the room of ``rowcast`` that it is in; empty outside it."""
        if self.path == "app/rowcast/__init__.py":
            return "api"  # the face of the package, which gives the names of that room
        return room_of(self.module) if self.path.startswith(ROOMS) else ""

    @property
    def floor(self) -> int:
        """Return the floor of its room; the ground for ``rowcast`` itself, the roof outside."""
        if not self.path.startswith(ROOMS):
            return 15
        return floor_of(self.room) or 0


@cache
def text_files() -> tuple[Path, ...]:
    """Return every file of the project that people write, but for ignored and binary ones.

    Ignored folders are not looked into: those of MQTT.js have as many files as the project.
    """
    files = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage"]
    for part in PARTS:
        for folder, below, names in os.walk(ROOT / part):
            below[:] = set(below) - LEFT_OUT
            files += [Path(folder, name) for name in names]
    return tuple(sorted(path for path in files if path.suffix not in BINARY))


def relative(path: Path) -> str:
    """Return a path as seen from the project's root, with ``/``."""
    return path.relative_to(ROOT).as_posix()


@cache
def sources(*parts: str) -> tuple[Source, ...]:
    """Return the Python files below these folders of the project."""
    folders = tuple(f"{part.rstrip('/')}/" for part in parts)
    return tuple(
        _source(path)
        for path in text_files()
        if relative(path).startswith(folders) and _is_python(path)
    )


@cache
def _source(path: Path) -> Source:
    """Return a file, read once: all the rules together would parse the house forty times."""
    return Source(relative(path), path.read_text(encoding="utf-8"))


def _is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    if path.suffix or path.parent.name != "scripts":
        return False
    return "python" in path.read_text(encoding="utf-8").partition("\n")[0]


def expect_none(complaints: list[str]) -> None:
    """Fail with every complaint on its own line, or pass when there is none."""
    if complaints:
        pytest.fail("\n".join([f"{len(complaints)} complaints", *complaints]), pytrace=False)


def assigned(node: ast.AST) -> tuple[str, ast.AST | None]:
    """Return the name and value of a simple assignment."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return "", None
