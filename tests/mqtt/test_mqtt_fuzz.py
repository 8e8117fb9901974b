"""The fuzzer's invariant holds on its first cases, and it notices when it does not (D61)."""

import itertools

import fuzz
import fuzz_cli
import pytest
from fuzz import Broken, check, make
from fuzz_bytes import SHAPES

from rowcast.mqtt import properties
from rowcast.mqtt.connection import LEGAL, Connection
from rowcast.mqtt.reasons import PacketType
from rowcast.mqtt.wire import Cursor

CASES = 5_000
FEW = 400


@pytest.mark.parametrize("first", range(0, CASES, 1_000))
def test_the_invariant(first):
    """D61: the first of those that scripts/fuzz tries."""
    for seed in range(first, first + 1_000):
        check(make(seed))


@pytest.mark.heavy
def test_every_packet_comes_through():
    """Not only violations are tried: each type is read."""
    read = {type(item) for seed in range(CASES) for item in check(make(seed))}
    assert {kind.TYPE for kind in read if hasattr(kind, "TYPE")} == set(PacketType) == set(SHAPES)


def test_every_state_is_tried():
    states = {make(seed).state for seed in range(FEW)}
    assert states == {state for state in LEGAL if LEGAL[state]}


def test_one_number_is_one_case():
    assert [make(seed) for seed in range(FEW)] == [make(seed) for seed in range(FEW)]


def finds_it():
    for seed in range(FEW):
        try:
            check(make(seed))
        except Broken:
            return True
    return False


def test_a_case_without_a_fault_is_none():
    assert not finds_it()


@pytest.mark.interpreted
def test_another_exception_is_noticed(monkeypatch):
    """D61: a string that is not UTF-8 is a UnicodeDecodeError when nobody looks."""
    monkeypatch.setattr(Cursor, "text", lambda self: self.binary().decode())
    assert finds_it()


@pytest.mark.interpreted
def test_a_lost_byte_is_noticed(monkeypatch):
    """D61: pieces must change nothing."""
    join = Connection._join
    monkeypatch.setattr(Connection, "_join", lambda self, data: join(self, data[1:]))
    assert finds_it()


@pytest.mark.interpreted
def test_memory_that_grows_is_noticed(monkeypatch):
    """D61: a buffer that is never emptied."""
    join = Connection._join

    def keep(self, data):
        joined = join(self, data)
        self._buffer += bytes(4096)
        return joined

    monkeypatch.setattr(Connection, "_join", keep)
    assert finds_it()


def test_a_slow_case_is_noticed(monkeypatch):
    """D61: on a clock of the test's own."""
    ticks = itertools.count()
    monkeypatch.setattr(fuzz.time, "process_time", lambda: 2.0 * next(ticks))
    assert finds_it()


@pytest.mark.heavy
def test_a_value_that_is_written_otherwise_is_noticed(monkeypatch):
    """What was read is written and read again as the same."""
    monkeypatch.setitem(properties._BY_NAME, "content_type", properties._BY_NAME["response_topic"])
    found = [seed for seed in range(CASES) if _differs(seed)]
    assert found


def _differs(seed):
    try:
        check(make(seed))
    except Broken as broken:
        return "another" in str(broken)
    return False


@pytest.mark.interpreted
def test_the_command_replays_and_counts(capsys, monkeypatch):
    assert fuzz_cli.one(7) == 0
    assert capsys.readouterr().out == (fuzz_cli.one(7), capsys.readouterr().out)[1]
    assert fuzz_cli.many(0, 50) == 0
    assert capsys.readouterr().out.startswith("50 cases in ")
    monkeypatch.setattr(Cursor, "text", lambda self: self.binary().decode())
    assert fuzz_cli.many(0, FEW) == 1
    assert "replay it with: scripts/fuzz " in capsys.readouterr().err
