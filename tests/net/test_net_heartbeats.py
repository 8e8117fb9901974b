"""A process that shows no heartbeat for long hangs; one that is slow does not."""

import os

from rowcast.net.heartbeats import Silence, readable


def looks(silence, count):
    """Return what so many looks that find nothing say."""
    return [silence.missed() for _ in range(count)]


def test_a_process_hangs_once_it_was_silent_for_its_timeout():
    silence = Silence(3)
    silence.received()
    assert looks(silence, 3) == [False, False, True]


def test_each_heartbeat_begins_anew():
    """Pauses of ten seconds, one after the other, are those of a busy machine."""
    silence = Silence()
    for _ in range(100):
        silence.received()
        assert not any(looks(silence, 10))
        assert not silence.is_long
    assert silence.seconds == 10


def test_the_first_heartbeat_may_take_longer():
    silence = Silence(3, 5)
    assert looks(silence, 5) == [False, False, False, False, True]
    silence.received()
    assert looks(silence, 3) == [False, False, True]


def test_a_warning_comes_before_the_end():
    silence = Silence(4)
    silence.received()
    told = [(silence.missed(), silence.is_long) for _ in range(4)]
    assert told == [(False, False), (False, True), (False, True), (True, True)]


def test_a_handle_is_readable_once_something_is_there():
    read, write = os.pipe()
    assert not readable(read, 0)
    os.write(write, b"x")
    assert readable(read, None)
    os.close(write)
    os.close(read)
