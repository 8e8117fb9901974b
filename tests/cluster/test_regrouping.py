"""Writers who have just been answered are waited for, a moment, before the next append."""

from rowcast.cluster.regrouping import SECONDS_MAX, SHARE, Regrouping

MOST = 100
TOOK = 0.008
"""Seconds of the last append."""


class Timer:
    """A call of later."""

    def __init__(self, seconds, call):
        self.seconds, self.call = seconds, call

    def cancel(self):
        self.call = None


class Room:
    """What waits, and the time for which it does."""

    def __init__(self):
        self.timers, self.begun = [], 0
        self.regrouping = Regrouping(self, MOST, self.begin)

    def call_later(self, seconds, call):
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def begin(self):
        self.begun += 1

    def waits(self, *counts):
        return [self.regrouping.waits(count) for count in counts]


def test_it_waits_until_as_many_have_come_as_were_answered():
    room = Room()
    room.regrouping.answered(8, 4, TOOK)
    assert [True, True, False, False] == room.waits(4, 11, 12, 1)
    assert room.timers[0].call is None
    assert not room.begun


def test_it_waits_for_a_share_of_the_last_append():
    room = Room()
    room.regrouping.answered(8, 4, TOOK)
    assert [TOOK * SHARE] == [timer.seconds for timer in room.timers]
    room.timers[0].call()
    assert room.begun == 1
    assert [False] == room.waits(4)


def test_it_waits_no_longer_after_an_append_that_took_long():
    room = Room()
    room.regrouping.answered(8, 4, 6.0)
    assert [SECONDS_MAX] == [timer.seconds for timer in room.timers]


def test_who_writes_alone_does_not_wait():
    room = Room()
    room.regrouping.answered(1, 0, TOOK)
    assert [False] == room.waits(1)
    assert not room.timers


def test_changes_without_a_writer_are_not_waited_for():
    room = Room()
    room.regrouping.answered(0, 9, TOOK)
    assert [False] == room.waits(9)


def test_with_many_it_begins_at_once():
    room = Room()
    room.regrouping.answered(MOST, MOST // 2, TOOK)
    assert [True, False] == room.waits(MOST - 1, MOST)
    room.regrouping.answered(9, MOST, TOOK)
    assert [False] == room.waits(MOST)


def test_the_time_of_an_earlier_append_does_not_end_the_pause_after_a_later_one():
    room = Room()
    room.regrouping.answered(8, 4, TOOK)
    room.regrouping.answered(9, 4, TOOK)
    assert [None] == [timer.call for timer in room.timers[:-1]]
    assert [True, False] == room.waits(12, 13)
