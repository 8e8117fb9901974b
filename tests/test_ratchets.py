"""Figures of the house that may only fall.

Each is a measure of how hard the code is to change: the Python calls that one request costs, how
far modules are knotted together, how long functions and files are. A change that raises one is
refused; a change that lowers one writes the new figure down here, so that it stays.
"""

import ast
import sys
from collections.abc import Sequence

import pytest

import calls
from house import ROOMS, Source, room_of, sources

LAYERED = ("kernel", "doors.http", "doors.mqtt")
"""Rooms with rooms inside."""

NOT_STORED = "plain message, not stored"
CALLS = {
    "retained PUBLISH": 71,
    "plain message": 61,
    NOT_STORED: 22,
    "PUT": 83,
    "GET": 13,
    "CONNECT": 190,
}
"""Calls of functions of ``app/rowcast`` by Python 3.11, one subscriber, as the server comes. Those
that store a plain message, which is announced first, are among them; without a history of
undeclared topics there are none. Of a CONNECT, what depends on time is not among them."""
EXACTLY_ONCE = {"clean": 475, "durable": 1125}
"""The same for all packets of 20 messages of QoS 2 that come together, in memory: from a clean
session to a subscriber whose session is clean, or durable."""
CIRCLE = 5
"""Modules of the largest circle of imports; those for type checkers count."""
CROSSINGS = {"kernel": 0, "doors.http": 85, "doors.mqtt": 48}
"""Imports between the rooms inside a room, and from them up to the room itself."""
SIZES = {
    "functions over 30 lines": 59,
    "lines of the longest function": 59,
    "modules over 400 lines": 11,
    "lines of the longest module": 493,
}


# -- calls of one request --------------------------------------------------------------------------


async def _retained(running, counter):
    return await calls.of_publish(running, counter, calls.RETAINED, "Dog/#")


async def _plain(running, counter):
    return await calls.of_publish(running, counter, calls.PLAIN, "plain/#")


REQUESTS = {
    "retained PUBLISH": _retained,
    "plain message": _plain,
    NOT_STORED: _plain,
    "PUT": calls.of_put,
    "GET": calls.of_get,
    "CONNECT": calls.of_connect,
}


@pytest.mark.heavy
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.gettrace() is not None,
    reason="newer Pythons call no function for a comprehension; coverage counts its own calls",
)
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_costs_no_more_calls(name, tmp_path):
    counter = calls.Calls()
    settings = {"topics.undeclared": "route"} if name == NOT_STORED else {}
    async with calls.server(tmp_path, counter, settings) as running:
        found = await REQUESTS[name](running, counter)
    shown = "\n".join(f"{count:4} {function}" for function, count in found.most_common())
    assert found.total() <= CALLS[name], f"{name}: {found.total()} calls:\n{shown}"


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.gettrace() is not None,
    reason="newer Pythons call no function for a comprehension; coverage counts its own calls",
)
@pytest.mark.parametrize("session", EXACTLY_ONCE)
async def test_messages_of_qos_2_cost_no_more_calls(session):
    """The answers of one read are handled together, as its PUBLISHes are."""
    found = await calls.of_exactly_once(calls.Calls(), 20, durable=session == "durable")
    shown = "\n".join(f"{count:4} {function}" for function, count in found.most_common())
    assert found.total() <= EXACTLY_ONCE[session], f"{found.total()} calls:\n{shown}"


@pytest.mark.heavy
async def test_calls_are_counted_on_the_threads_of_the_server_too(tmp_path):
    """The ratchet would be blind to the writer's thread otherwise."""
    counter = calls.Calls()
    async with calls.server(tmp_path, counter) as running:
        found = await _retained(running, counter)
    assert {
        "doors/mqtt/client.py:Client.data_received",
        "journal/journaled_store.py:JournaledStore.append",
    } < set(found)


# -- imports ---------------------------------------------------------------------------------------


def imports_of(files: Sequence[Source]) -> dict[str, set[str]]:
    """Return, for each module, the modules of the project that it imports anywhere in it."""
    known = {source.module for source in files}
    found = {}
    for source in files:
        named: set[str] = set()
        for node in source.nodes:
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        found[source.module] = (named & known) - {source.module} if not source.is_package else set()
    return found


def largest_circle(graph: dict[str, set[str]]) -> set[str]:
    """Return the largest set of modules each of which imports all others, directly or not.

    Kosaraju's algorithm: the order in which a walk leaves the modules, then walks backwards.
    """
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        _walk(graph, start, seen, order)
    backwards: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            backwards[target].add(name)
    seen, largest = set(), set()
    for start in reversed(order):
        circle: list[str] = []
        _walk(backwards, start, seen, circle)
        largest = max(largest, set(circle), key=len)
    return largest


def _walk(graph: dict[str, set[str]], start: str, seen: set[str], left: list[str]) -> None:
    """Visit what can be reached and was not; ``left`` gets each module when all behind it is."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(graph[start]))]
    while path:
        name, targets = path[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                path.append((target, iter(graph[target])))
                break
        else:
            left.append(name)
            path.pop()


def crossings(graph: dict[str, set[str]], room: str) -> list[tuple[str, str]]:
    """Return the imports that a rule one level deeper would refuse.

    A room inside a room may be imported by the modules beside it, as those that join it to the
    rest; it imports neither them nor another room inside.
    """
    inside = len(room.split(".")) + 2
    return [
        (name, target)
        for name, targets in graph.items()
        for target in targets
        if room_of(name) == room_of(target) == room
        and len(name.split(".")) > inside
        and name.split(".")[:inside] != target.split(".")[:inside]
    ]


def test_no_circle_of_imports_grows():
    circle = largest_circle(imports_of(sources(*ROOMS)))
    assert len(circle) <= CIRCLE, sorted(circle)


@pytest.mark.parametrize("room", LAYERED)
def test_rooms_inside_a_room_import_each_other_no_more(room):
    found = crossings(imports_of(sources(*ROOMS)), room)
    assert len(found) <= CROSSINGS[room], found


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}
    assert {"a", "b", "c"} == largest_circle(graph)


# -- sizes -----------------------------------------------------------------------------------------


def sizes(files: Sequence[Source]) -> dict[str, int]:
    """Return the figures of ``SIZES``; a docstring is no part of its function."""
    modules = [source.text.count("\n") for source in files]
    functions = [
        node.end_lineno
        - node.lineno
        + 1
        - len((ast.get_docstring(node, clean=False) or "").splitlines())
        for source in files
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "functions over 30 lines": sum(lines > 30 for lines in functions),
        "lines of the longest function": max(functions),
        "modules over 400 lines": sum(lines > 400 for lines in modules),
        "lines of the longest module": max(modules),
    }


@pytest.mark.parametrize("name", SIZES)
def test_nothing_becomes_longer(name):
    assert sizes(sources(*ROOMS))[name] <= SIZES[name]


# -- limits ----------------------------------------------------------------------------------------


def patched_limits(files: Sequence[Source]) -> list[str]:
    """Return where a test replaces a constant of a module, ``setattr(module, "SOME_MAX", 3)``.

    A limit that a test wants smaller is an argument with a default. ``mock.patch.object`` counts.
    """
    return [
        f"{source.path}:{node.lineno}"
        for source in files
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"setattr", "object"}
        and any(_is_constant(argument) for argument in node.args[:2])
    ]


def _is_constant(argument: ast.expr) -> bool:
    """Tell whether an argument is the name of a constant, with or without its module."""
    text = argument.value if isinstance(argument, ast.Constant) else None
    return isinstance(text, str) and text.rpartition(".")[2].isupper()


@pytest.mark.slow
def test_tests_replace_no_constant():
    assert [] == patched_limits(sources("tests"))


def test_a_replaced_constant_is_found():
    text = 'mp.setattr("a.b.SOME_MAX", 1)\nmp.setattr(b, "SOME_MAX", 1)\nmp.setattr(b, "some", 1)\n'
    text += 'mock.patch.object(b, "SOME_MAX", 1)\n'
    found = patched_limits([Source("tests/a.py", text)])
    assert ["tests/a.py:1", "tests/a.py:2", "tests/a.py:4"] == found
