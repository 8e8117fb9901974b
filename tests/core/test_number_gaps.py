"""Gaps in the numbers of the log: how many numbers between two places no event has."""

import pytest

from rowcast.core.number_gaps import GAPS_MAX, NumberGaps

SOME = NumberGaps([(1, 100), (104, 200)])
"""Events 1, 101 to 104, and from 201."""


@pytest.mark.heavy
def test_numbers_without_events_are_counted_between_any_two_places():
    has = [1, *range(101, 105), *range(201, 300)]
    for after in range(300):
        for until in range(after, 300):
            events = sum(after < number <= until for number in has)
            assert until - after - SOME.missing(after, until) == events


def test_gaps_are_read_as_they_were_written():
    again = NumberGaps.read(SOME.encoded(), 300)
    assert SOME.encoded() == again.encoded()
    assert SOME.missing(0, 300) == again.missing(0, 300) == 99 + 96


def test_no_gaps_are_an_empty_text():
    assert b"" == NumberGaps().encoded()
    assert 0 == NumberGaps.read(b"", 300).missing(0, 300)


def test_a_gap_that_no_event_follows_any_more_is_not_read():
    """As after a restore: those numbers are used again."""
    assert 99 == NumberGaps.read(SOME.encoded(), 150).missing(0, 300)


def test_what_is_no_gaps_is_read_as_none():
    reverse = NumberGaps([(104, 200), (1, 100)]).encoded()
    for data in (b"x", SOME.encoded()[:-1], reverse):
        assert 0 == NumberGaps.read(data, 300).missing(0, 300)


def test_a_gap_that_is_found_again_grows():
    """Its first events could not be appended, and the server started again."""
    assert 149 == NumberGaps([(1, 100)]).with_gap(1, 150).missing(0, 300)


def test_the_oldest_gaps_are_forgotten():
    gaps = NumberGaps()
    for start in range(GAPS_MAX + 1):
        gaps = gaps.with_gap(10 * start + 1, 10 * start + 3)
    assert len(gaps.encoded()) == 16 * GAPS_MAX
    assert 2 * GAPS_MAX == gaps.missing(0, 10 * GAPS_MAX + 9)
