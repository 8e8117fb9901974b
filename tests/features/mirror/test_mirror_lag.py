"""How far the mirror is behind: what its own tables have in the log, and it has not (K16)."""

from types import SimpleNamespace

import pytest

from rowcast.core.events import PUT, Event
from rowcast.features.mirror.mirror import Mirror

TABLE = SimpleNamespace(name="Dog")


class Log:
    """A log that grows; every position not of the mirror's tables is of others."""

    def __init__(self):
        self.position = 0
        self.mirror = Mirror(SimpleNamespace(reader=self), [TABLE], database=None)

    def announced(self):
        return self.position

    def others_write(self, count):
        self.position += count

    def write(self):
        self.position += 1
        self.mirror.offer(self.event())

    def write_result(self, count):
        first = self.position + 1
        self.position += count
        self.mirror.fall_behind(self.event(first))

    def event(self, seq=None):
        seq = seq or self.position
        return Event(topic=f"Dog/{seq}", kind=PUT, payload=b"{}", seq=seq, table=TABLE)


@pytest.fixture
def log():
    return Log()


def test_what_others_write_is_not_its_lag(log):
    log.others_write(100)
    assert 0 == log.mirror.lag
    log.write()
    log.others_write(100)
    assert 1 == log.mirror.lag


def test_it_is_counted_from_the_first_event_that_it_lacks(log):
    log.others_write(100)
    for _ in range(3):
        log.write()
    assert 3 == log.mirror.lag


def test_all_events_of_a_result_are_its_lag(log):
    """Only the first of them is told: the others are in the log."""
    log.write_result(50)
    assert 50 == log.mirror.lag


def test_the_records_of_a_result_do_not_count_as_noted(log):
    """Else those of one that retention removes before it is applied would stay as they were."""
    log.write()
    before = log.position
    assert log.mirror.changed.covers(before - 1)
    log.write_result(50)
    assert not log.mirror.changed.covers(before)
    assert log.mirror.changed.covers(log.position)
