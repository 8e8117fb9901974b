"""The pace of scans, on clocks that the test moves."""

from itertools import islice
from threading import Thread

import pytest

from rowcast.store.scan_pace import ScanPace

ROWS = 12


class World:
    """Clocks of one thread, and the rests of its scans."""

    def __init__(self, **limits):
        self.now = self.used = 0.0
        self.rests = []
        self.pace = ScanPace(
            slice_seconds=1.0,
            rest_seconds=3.0,
            look_rows=1,
            clock=lambda: self.now,
            used=lambda: self.used,
            rest=self.rest,
            **limits,
        )

    def rest(self, seconds):
        self.rests.append(seconds)
        self.now += seconds

    def scan(self, seconds, cpu):
        """Look at some rows, each of which takes so long, and so much CPU."""
        found = []
        for row in self.pace.rows(range(ROWS)):
            self.now += seconds
            self.used += cpu
            found.append(row)
        assert found == list(range(ROWS))


def test_a_scan_that_nobody_hinders_never_rests():
    world = World()
    world.scan(0.5, 0.5)
    assert world.rests == []


def test_a_scan_rests_after_each_slice_in_which_it_was_hindered():
    world = World()
    world.scan(0.5, 0.25)
    assert world.rests == [3.0] * (ROWS // 2)


def test_the_ratio_says_what_hinders():
    world = World(hindered_ratio=2.5)
    world.scan(0.5, 0.25)
    assert world.rests == []


def test_one_scan_at_a_time():
    """The second begins when the first gives its turn up, however that ends."""
    pace = ScanPace(slice_seconds=60.0, turn_seconds_max=60.0)
    first, found = pace.rows(range(ROWS)), []
    assert next(first) == 0
    second = Thread(target=lambda: found.extend(pace.rows(range(ROWS))))
    second.start()
    second.join(0.05)
    assert second.is_alive()
    assert found == []
    first.close()
    second.join(60)
    assert found == list(range(ROWS))


def test_a_turn_is_not_waited_for_for_ever():
    pace = ScanPace(turn_seconds_max=0.0)
    kept = pace.rows(range(ROWS))
    assert next(kept) == 0
    assert list(islice(pace.rows(range(ROWS)), 3)) == [0, 1, 2]
    assert next(kept) == 1


def test_an_error_of_the_rows_gives_the_turn_up():
    def broken():
        yield 0
        raise ValueError

    pace = ScanPace(turn_seconds_max=60.0)
    with pytest.raises(ValueError):
        list(pace.rows(broken()))
    assert list(pace.rows(range(ROWS))) == list(range(ROWS))
