"""The token bucket: the burst, the rate after that, debt, and what is given back (D57, L11)."""

import pytest

from rowcast.core.limits import RATE_BURST_SECONDS
from rowcast.core.rate_limit import KeyedRateLimit, TokenBucket


def test_so_many_at_once_and_then_at_a_rate():
    bucket = TokenBucket(0.2, 0, 2)
    for _ in range(2):
        assert 0 == bucket.wait(0)
        bucket.take(1, 0)
    assert [5, 2.5, 0] == [bucket.wait(now) for now in (0, 2.5, 5)]


def test_what_is_given_back_was_never_taken():
    bucket = TokenBucket(0.1, 0, 1)
    bucket.take(1, 0)
    bucket.give_back()
    bucket.give_back()
    assert 0 == bucket.wait(0)
    bucket.take(1, 0)
    assert 10 == bucket.wait(0)


def test_debt_is_bounded():
    bucket = TokenBucket(1, 0, 1)
    for _ in range(9):
        bucket.take(1, 0, debt_max=2)
    assert 3 == bucket.wait(0)


def test_a_clock_that_goes_back_shortens_no_wait():
    bucket = TokenBucket(1, 10, 1)
    bucket.take(1, 10)
    assert [1, 1] == [bucket.wait(5), bucket.wait(5)]


# -- rates -----------------------------------------------------------------------------------------


def test_what_was_saved_up_may_come_at_once():
    bucket = TokenBucket(10, 0)
    assert [0.0] * 10 == [bucket.take(1, 0) for _ in range(10 * RATE_BURST_SECONDS)]


def test_a_debt_is_paid_by_waiting():
    bucket = TokenBucket(10, 0)
    bucket.take(10 * RATE_BURST_SECONDS, 0)
    assert 2.5 == bucket.take(25, 0)
    assert (1.5, 0.0) == (bucket.take(0, 1), bucket.take(0, 2.5))


def test_no_more_is_saved_up_than_fits():
    bucket = TokenBucket(10, 0)
    bucket.take(0, 1_000)
    assert 1.0 == bucket.take(10 * RATE_BURST_SECONDS + 10, 1_000)


def test_the_mean_rate_is_kept_whatever_the_portions():
    """D57: a hundred portions of seven, each as early as allowed."""
    bucket, now = TokenBucket(10, 0), 0.0
    for _ in range(100):
        now += bucket.take(7, now)
    assert 700 - 10 * RATE_BURST_SECONDS == pytest.approx(now * 10)


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(10, 100)
    bucket.take(10 * RATE_BURST_SECONDS, 100)
    assert bucket.take(1, 50) > 0


def test_taking_only_when_there_is_room():
    bucket = TokenBucket(2, 0)
    assert [True, True, False] == [bucket.take_if_room(1, 0) for _ in range(3)]
    assert [False, True] == [bucket.take_if_room(1, now) for now in (0.4, 0.6)]


def test_more_than_ever_fits_needs_a_full_bucket():
    bucket = TokenBucket(2, 0)
    assert [True, False] == [bucket.take_if_room(100, now) for now in (0, 10)]
    assert bucket.take_if_room(100, 50)


def test_a_rate_below_one_lets_one_through():
    bucket = TokenBucket(0.1, 0)
    assert [True, False, True] == [bucket.take_if_room(1, now) for now in (0, 9, 10.5)]


# -- by key ----------------------------------------------------------------------------------------


def test_each_key_has_its_own_bucket():
    limit = KeyedRateLimit(2, keys_max=10)
    assert [True, True, False] == [limit.allows("a", 1, 0) for _ in range(3)]
    assert [True, True, False] == [limit.allows(key, 2, 0.9) for key in ("b", "c", "a")]


def test_the_key_least_recently_used_makes_room():
    limit = KeyedRateLimit(1, keys_max=2)
    for key in ("a", "b", "a", "c"):
        limit.allows(key, 1, 0)
    assert 2 == len(limit)
    assert [False, True] == [limit.allows(key, 1, 0) for key in ("a", "b")]
