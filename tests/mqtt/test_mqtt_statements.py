"""The table of normative statements is whole, and what it names is there (D60)."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from breaches import BREACHES
from packets import ROWS
from statements import STATEMENTS, coverage

TESTS = Path(__file__).parent.parent
ROWS_OF = {
    "breach": {row.name for row in BREACHES},
    "packet": {row.name for row in ROWS},
}
FORM = re.compile(r"MQTT-(\d+(\.\d+){1,2}|3-8\.3)-[1-9]\d*")
"""3.1.1 spells one of its statements MQTT-3-8.3-4, and 5.0 one MQTT-4.2-1."""
QUOTE = re.compile(r"(MQTT-\d+(?:[.-]\d+)*)-(\d+)((?:(?:,| and) -\d+)*)( of 3\.1\.1)?")
COUNTS = {"5.0": 251, "3.1.1": 141}
"""How many statements the appendices B list."""

EACH = pytest.mark.parametrize("version", STATEMENTS)


@EACH
def test_every_statement_stands_once(version):
    names = [item.name for item in STATEMENTS[version]]
    assert len(set(names)) == len(names) == COUNTS[version]
    assert [name for name in names if not FORM.fullmatch(name)] == []


@EACH
def test_each_says_something_in_a_sentence(version):
    says = {item.name: item.says for item in STATEMENTS[version]}
    assert [name for name, text in says.items() if text[-1] != "." or len(text) > 160] == []


@EACH
def test_each_has_tests_or_a_reason(version):
    assert [
        item.name for item in STATEMENTS[version] if bool(item.tests) == bool(item.reason)
    ] == []


@cache
def functions(place: str) -> frozenset[str]:
    """Return the tests of ``room.thing``: the module test_room_thing, or room/test_thing."""
    room, _, thing = place.partition(".")
    found = [*TESTS.rglob(f"test_{room}_{thing}.py"), *TESTS.glob(f"{room}/test_{thing}.py")]
    assert found, f"no module of tests is called {place}"
    tree = ast.parse(found[0].read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def exists(name: str) -> bool:
    """Tell whether there is a test, or a row of a table of tests, of this name."""
    table, colon, row = name.partition(": ")
    if colon:
        return row in ROWS_OF[table]
    place, _, function = name.rpartition(".")
    return f"test_{function}" in functions(place)


@pytest.mark.heavy
@EACH
def test_its_tests_exist(version):
    missing = [
        f"{item.name}: {name}"
        for item in STATEMENTS[version]
        for name in item.tests
        if not exists(name)
    ]
    assert missing == [], "rename them in tests/mqtt/statements_*.py too"


def quotes():
    """Return every statement that the project quotes: (where, name, whether it says of 3.1.1)."""
    for folder in ("app", "tests"):
        for file in (TESTS.parent / folder).rglob("*.py"):
            for match in QUOTE.finditer(file.read_text()):
                section, number, more, old = match.groups()
                for each in (number, *re.findall(r"\d+", more)):
                    yield f"{file.name}: {match[0]}", f"{section}-{each}", bool(old)


def test_what_is_quoted_exists():
    known = {version: {item.name for item in items} for version, items in STATEMENTS.items()}
    every = known["5.0"] | known["3.1.1"]
    assert [
        where for where, name, old in quotes() if name not in (known["3.1.1"] if old else every)
    ] == []


@EACH
def test_the_coverage_is_said(version):
    rows = [item for item in STATEMENTS[version] if item.server]
    assert re.match(rf"MQTT {version}: \d+ of {len(rows)} server statements", coverage(version))
