"""Readers are judged when they come and when rights change, and each by itself (C28)."""

import asyncio
import logging

import pytest

from rowcast.core.errors import Code, Error
from rowcast.doors.http.streams.watch import Watch

GONE = Error(Code.UNAUTHENTICATED, "the user was removed")


class Reader:
    """A stream whose right to stay the test decides."""

    path = "/Dog/"
    subscription = None

    def __init__(self, raised=None):
        self.raised = raised
        self.judged, self.refusals = 0, []

    def judge(self):
        self.judged += 1
        if self.raised is not None:
            raise self.raised

    def refuse(self, error):
        self.refusals.append(error)

    def look(self, now):
        """Do nothing."""


@pytest.fixture
async def watch():
    made = Watch(asyncio.Event(), 60.0, lambda: 0.0, lambda _: None)
    yield made
    for opened in list(made.open.values()):
        made.remove(opened.stream)


async def test_who_lost_its_right_while_it_came_is_refused_at_once(watch):
    reader = Reader(GONE)
    watch.add(reader)
    assert reader.refusals == [GONE]


async def test_one_that_cannot_be_judged_is_refused_and_others_are_judged(watch, caplog):
    """It would stay with rights that nobody knows, and keep those after it from being judged."""
    readers = [Reader(), Reader(), Reader()]
    for reader in readers:
        watch.add(reader)
    readers[0].raised, readers[2].raised = RuntimeError("a bug"), GONE
    with caplog.at_level(logging.ERROR):
        watch.judge()
    assert [reader.judged for reader in readers] == [2, 2, 2]
    [refusal] = readers[0].refusals
    assert (refusal.code, readers[1].refusals, readers[2].refusals) == (Code.INTERNAL, [], [GONE])
    assert "the reader of /Dog/ could not be judged" in caplog.text
