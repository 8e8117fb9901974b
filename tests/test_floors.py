"""The import rule: a room imports lower floors only (docs/architecture.md). This test is that rule.

Each check takes sources and returns complaints, so that it can prove itself on a bad sample.
"""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from house import NESTED, ROOMS, Source, expect_none, floor_of, room_of, sources

FORBIDDEN = {
    room: {
        "asyncio", "anyio", "socket", "ssl", "select", "selectors", "threading", "time", "random",
        "secrets", "sched", "signal", "subprocess", "logging", "pathlib", "os", "io",
    }
    for room in ("core", "mqtt")
}  # fmt: skip
"""No I/O, no clock and no chance on the ground and in the protocol: they are arguments."""

CLOCKS = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom"}
"""Methods that read the clock or throw dice, in modules that are welcome otherwise."""

LIBRARIES = {
    "sqlalchemy": {"store", "features.mirror"},
    "sqlmodel": {"store"},
    "sqlite3": {"store"},
    "psycopg": {"engines"},
    "nats": {"engines"},
    "graphql": {"schema"},
    "pyarrow": {"lake.archive", "lake.columns", "lake.stores", "lake.snapshots", "lake.spark"},
    "pyspark": {"lake.spark"},
    "deltalake": {"lake.snapshots"},
    "pyiceberg": {"lake.snapshots"},
    "gmqtt": {"features.bridges"},
    "prometheus_client": {"features.metrics"},
    "fastapi": {"doors.http", "program"},
    "sse_starlette": {"doors.http", "program"},
    "argon2": {"auth"},
    "jwt": {"auth"},
    "yaml": {"program"},
    "typer": {"program", "lake.commands"},
}
"""The rooms that a library stays in."""

TIES: dict[tuple[str, str], int] = {}
"""Imports against the rule that are left, as (importing room, imported room): how many names.

Each is a feature that the kernel still knows, or one that knows another. They may only become
fewer; a new pair is refused.
"""

PACKAGES = {"rowcast", "rowcast_lake"}

KNOWN = {
    "lake.archive": {"core", "log", "store", "features", "lake"},
    "lake.spark": {"core", "schema", "codecs", "lake"},
    "lake.snapshots": {
        "core",
        "schema",
        "codecs",
        "store",
        "journal",
        "rows",
        "reads",
        "subscriptions",
        "kernel",
        "features",
        "lake",
    },
}
"""What programs beside the server know of it: words and formats; snapshots, the database too."""

ENVIRONMENT_READERS = (
    "app/rowcast/program/config.py",
    "app/rowcast/program/credentials.py",
    "app/rowcast_lake/spark/environment.py",
)
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Give the line and the dotted, absolute name of everything that a file imports."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _is_dynamic_import(node):
            yield node.lineno, node.args[0].value


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".") if source.is_package else source.module.split(".")[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _is_dynamic_import(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return (
        name in {"import_module", "__import__"}
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    )


def upward_imports(source: Source) -> Iterator[str]:
    """A room imports any lower floor, never its own floor's other rooms, never above."""
    for line, name in imports(source):
        if name.split(".")[0] not in PACKAGES or name == "rowcast.__version__":
            continue
        room = room_of(name)
        if room == source.room or room in NESTED or (source.room, room) in TIES:
            continue
        floor = floor_of(room)
        if source.room in KNOWN and room.partition(".")[0] not in KNOWN[source.room]:
            yield f"{source.path}:{line}: {source.room} is another program; it does not know {name}"
        elif floor is None:
            yield f"{source.path}:{line}: {name} is in no room that tests/house.py knows"
        elif floor >= source.floor:
            yield (
                f"{source.path}:{line}: floor {source.floor} ({source.room or 'rowcast'}) must not "
                f"import floor {floor} ({name}); have it passed in as an argument"
            )


def ties() -> Counter[tuple[str, str]]:
    """Count the names that a room imports from one that it must not know, for each pair."""
    found: Counter[tuple[str, str]] = Counter()
    for source in sources("app/rowcast"):
        for _, name in imports(source):
            room = room_of(name)
            if name.split(".")[0] == "rowcast" and (source.room, room) in TIES:
                found[source.room, room] += 1
    return found


def impure_imports(source: Source) -> Iterator[str]:
    """The rooms core and mqtt know no clock, no chance, no socket and no event loop."""
    forbidden = FORBIDDEN.get(source.room, set())
    for line, name in imports(source):
        if name.split(".")[0] in forbidden:
            yield f"{source.path}:{line}: {source.room} must not import {name}; pass it in"
    if not forbidden:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CLOCKS:
            yield f"{source.path}:{node.lineno}: {source.room} must not call {node.func.attr}()"


def leaks(source: Source) -> Iterator[str]:
    """A library stays in the room that wraps it."""
    for line, name in imports(source):
        rooms = LIBRARIES.get(name.split(".")[0])
        if rooms is not None and source.room not in rooms:
            yield f"{source.path}:{line}: {name} belongs to {', '.join(sorted(rooms))} only"


def client_imports(source: Source) -> Iterator[str]:
    """The Python client knows the server's words and formats, and nothing of its inside."""
    for line, name in imports(source):
        if name.split(".")[0] == "rowcast" and room_of(name) not in {"core", "codecs"}:
            yield f"{source.path}:{line}: the client speaks HTTP; it must not import {name}"


def environment_reads(source: Source) -> Iterator[str]:
    """Settings and credentials have one reader each; Spark, another program, has its own."""
    if source.path in ENVIRONMENT_READERS:
        return
    first = ENVIRONMENT_READERS[0]
    for node in source.nodes:
        named = isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT
        taken = (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any(alias.name in ENVIRONMENT for alias in node.names)
        )
        if named or taken:
            yield f"{source.path}:{node.lineno}: reads the environment, which {first} does for all"


def second_matchers(source: Source) -> Iterator[str]:
    """How filters match is said in core/topics.py; the trie says it again, for speed."""
    if source.path in {"app/rowcast/core/topics.py", "app/rowcast/bus/trie.py"}:
        return
    for node in source.nodes:
        for part in ast.walk(node) if isinstance(node, ast.Compare) else ():
            if isinstance(part, ast.Constant) and part.value in {"+", "#"}:
                yield f"{source.path}:{part.lineno}: ask core/topics.py, which knows wildcards"


def resource_imports(source: Source) -> Iterator[str]:
    """Of the server, resources/ imports rowcast alone."""
    for line, name in imports(source):
        if name.split(".")[0] == "rowcast" and floor_of(room_of(name)) is not None:
            yield f"{source.path}:{line}: a resource imports rowcast only, not {name}"


CHECKS = (upward_imports, impure_imports, leaks, environment_reads, second_matchers)


@pytest.mark.heavy
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_room_keeps(check):
    expect_none([complaint for source in sources(*ROOMS) for complaint in check(source)])


def test_resources_import_the_public_face_only():
    checks = (resource_imports,)
    found = [line for source in sources("resources") for check in checks for line in check(source)]
    expect_none(found)


def test_the_client_knows_words_and_formats_only():
    found = [line for source in sources("app/rowcast_client") for line in client_imports(source)]
    expect_none(found)


def test_every_room_has_a_floor():
    rooms = {source.room for source in sources(*ROOMS)} - {"", "lake"}
    assert set() == {room for room in rooms if floor_of(room) is None}


@pytest.mark.heavy
def test_the_kernel_and_features_are_tied_no_more():
    found = ties()
    assert {} == {pair: count for pair, count in found.items() if count > TIES[pair]}


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        pytest.param(
            upward_imports, "app/rowcast/core/a.py", "import rowcast.seams.door", id="above"
        ),
        pytest.param(
            upward_imports, "app/rowcast/core/a.py", "from rowcast import main", id="from the root"
        ),
        pytest.param(
            upward_imports, "app/rowcast/core/a.py", "from ..bus import trie", id="relative"
        ),
        pytest.param(
            upward_imports, "app/rowcast/bus/a.py", "from rowcast.store import x", id="same floor"
        ),
        pytest.param(
            upward_imports,
            "app/rowcast/bus/a.py",
            "def f():\n from rowcast.doors.http import x",
            id="inside a function",
        ),
        pytest.param(
            upward_imports,
            "app/rowcast/bus/a.py",
            "import_module('rowcast.doors.http.rest.rest')",
            id="dynamically",
        ),
        pytest.param(
            upward_imports, "app/rowcast_lake/spark/a.py", "import rowcast.store.x", id="pipeline"
        ),
        pytest.param(
            upward_imports,
            "app/rowcast/doors/http/a.py",
            "import rowcast.cellar.x",
            id="unknown room",
        ),
        pytest.param(
            impure_imports, "app/rowcast/core/a.py", "import asyncio.queues", id="asyncio"
        ),
        pytest.param(
            impure_imports, "app/rowcast/mqtt/a.py", "from time import monotonic", id="time"
        ),
        pytest.param(impure_imports, "app/rowcast/mqtt/a.py", "datetime.now(UTC)", id="clock"),
        pytest.param(
            leaks, "app/rowcast/doors/http/a.py", "from sqlmodel import Field", id="library"
        ),
        pytest.param(
            client_imports, "app/rowcast_client/a.py", "import rowcast.kernel.x", id="client"
        ),
        pytest.param(
            environment_reads,
            "app/rowcast/program/main.py",
            "import os\nos.environ['X']",
            id="environ",
        ),
        pytest.param(
            environment_reads, "app/rowcast/program/main.py", "from os import getenv", id="getenv"
        ),
        pytest.param(second_matchers, "app/rowcast/store/a.py", "x in {'+', y}", id="wildcards"),
        pytest.param(
            resource_imports, "resources/a.py", "from rowcast.kernel import x", id="resource"
        ),
    ],
)
def test_a_bad_sample_is_noticed(check, path, text):
    assert 1 == len(list(check(Source(path, text))))


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (upward_imports, "app/rowcast/bus/a.py", "from rowcast.core.topics import TopicFilter"),
        (
            upward_imports,
            "app/rowcast/bus/a.py",
            "from rowcast.bus.trie import Trie\nfrom . import other",
        ),
        (
            upward_imports,
            "app/rowcast/program/cli.py",
            "from rowcast.program.main import serve\nfrom app import __version__",
        ),
        (upward_imports, "app/rowcast/api.py", "from rowcast.routes.resource import Resource"),
        (impure_imports, "app/rowcast/bus/a.py", "import asyncio"),
        (leaks, "app/rowcast/store/a.py", "import sqlalchemy"),
        (environment_reads, "app/rowcast/program/config.py", "import os\nos.environ"),
        (second_matchers, "app/rowcast/store/a.py", "TopicFilter('a/#').matches(x)"),
        (resource_imports, "resources/a.py", "import json\nfrom rowcast import Resource"),
    ],
)
def test_a_good_sample_passes(check, path, text):
    assert [] == list(check(Source(path, text)))
