"""Messages between nodes: what is sent is what comes, and other bytes are refused."""

import asyncio

import pytest

from rowcast.cluster.frames import Frames
from rowcast.cluster.messages import (
    APPLIED,
    BATCH,
    EVENTS,
    VERDICT,
    applied_of,
    events_of,
    pack,
    pack_applied,
    pack_events,
    pack_verdict,
    unpack,
    verdict_of,
)
from rowcast.cluster.proposals import PLACEHOLDER, Proposal, Read, Unit
from rowcast.cluster.sequencing import Verdict
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.facts import Change
from rowcast.journal.applying import Applied
from rowcast.log.batch_content import Content
from rowcast.store.sql_follow import PartCounts, Report


def test_a_proposal_comes_back():
    events = [
        Event("a", PUT, b"1", retain=True, seq=PLACEHOLDER),
        Event("b", PUT, b"2", seq=PLACEHOLDER + 1),
    ]
    reads = [Read(None, "a", 7, None), Read("Dog", "Dog/1", PLACEHOLDER, (5, "x"))]
    units = [Unit(reads, 1, 0, wants_existed=True), Unit([]), Unit([], 1, 1)]
    content = Content(events, [Change("o", "n", b"v")])
    sent = Proposal.of("a/1", 3, units, content)
    found = Proposal.unpack(sent.pack())
    assert found == sent
    assert [unit.is_empty for unit in found.units] == [False, True, False]
    there = found.content({}.get)
    assert [event.fields for event in there.events] == [event.fields for event in events]
    assert there.changes == content.changes


def test_a_proposal_with_other_events_than_its_units_tell_of_is_refused():
    sent = Proposal.of("a", 1, [Unit([], 2)], Content([Event("a", PUT, b"", seq=PLACEHOLDER)]))
    with pytest.raises(Error) as caught:
        Proposal.unpack(sent.pack()).content({}.get)
    assert caught.value.code is Code.INVALID


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", pack(BATCH, b"x"), pack(BATCH, None)[:-1]], ids=repr
)
def test_bytes_that_are_no_proposal_are_refused(data):
    with pytest.raises(Error) as caught:
        Proposal.unpack(data)
    assert caught.value.code is Code.INVALID


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x63\xc0", b"\x01"], ids=repr)
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(Error) as caught:
        unpack(data)
    assert caught.value.code is Code.INVALID


@pytest.mark.parametrize("error", [None, Error(Code.BUSY, "why", retry_after_seconds=1)], ids=str)
def test_a_verdict_comes_back(error):
    kind, content = unpack(pack_verdict(4, Verdict(2, written=False, error=error), 9))
    number, verdict, until = verdict_of(content)
    assert (kind, number, verdict.units, verdict.written, until) == (VERDICT, 4, 2, False, 9)
    assert repr(verdict.error) == repr(error)
    assert error is None or verdict.error.detail == error.detail


@pytest.mark.parametrize("report", [None, Report(3, 8, 2, [PartCounts(1, 2, 3, 4)])], ids=str)
def test_a_report_of_the_applier_comes_back(report):
    applied = Applied(3, {}, report, "the disk is full")
    kind, content = unpack(pack_applied(applied))
    assert (kind, applied_of(content)) == (APPLIED, applied)


def test_unlogged_events_come_back():
    event = Event("Dog/1", MESSAGE, b"x", qos=1, client="ann")
    kind, content = unpack(pack_events([event]))
    assert kind == EVENTS
    assert [item.fields for item in events_of(content, {}.get)] == [event.fields]


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.sent, self.closed = b"", False

    def writelines(self, parts):
        self.sent += b"".join(parts)

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True


def _connected():
    frames, wire, taken = Frames(), Wire(), []
    frames.received = taken.append
    frames.connection_made(wire)
    return frames, wire, taken


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_messages_are_whole_however_bytes_come(size):
    sender, wire, _ = _connected()
    messages = [b"", b"one", bytes(500)]
    for message in messages:
        sender.send(message)
    receiver, _, taken = _connected()
    for start in range(0, len(wire.sent), size):
        receiver.data_received(wire.sent[start : start + size])
    assert taken == messages


def test_a_message_that_is_refused_ends_the_connection():
    frames, wire, _ = _connected()
    ended = []
    frames.ended = lambda: ended.append(True)

    def refuse(message):
        raise Error(Code.INVALID, "no")

    frames.received = refuse
    frames.data_received(b"\0\0\0\1x")
    assert wire.closed
    frames.connection_lost(None)
    frames.send(b"lost")
    assert (ended, wire.sent) == ([True], b"")


def test_a_length_that_no_message_has_ends_the_connection():
    frames, wire, taken = _connected()
    frames.data_received(b"\xff\xff\xff\xff")
    assert (wire.closed, taken) == (True, [])


def test_a_full_transport_is_told_of():
    frames, _, _ = _connected()
    told = []
    frames.room = told.append
    frames.pause_writing()
    frames.resume_writing()
    assert told == [False, True]
