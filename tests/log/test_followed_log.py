"""The end of a log that another node appends to."""

import threading

import pytest

from batch_cases import FULL
from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from serving import PATIENCE_SECONDS

ALL = 10**9


def batch(number, term=1):
    return Batch.make(number, term, 6, FULL, 1)


@pytest.fixture
def log():
    return FollowedLog("5eed5eed", Head(4, 6))


def test_it_begins_where_the_tables_end(log):
    assert (log.head, log.trimmed, log.read(4, ALL)) == (Head(4, 6), 4, [])
    with pytest.raises(Error) as caught:
        log.read(3, ALL)
    assert caught.value.code is Code.GONE


def test_what_came_is_read_in_order_until_it_is_trimmed(log):
    for number in (5, 6, 7):
        log.take(batch(number))
    assert [item.number for item in log.read(4, ALL)] == [5, 6, 7]
    assert [item.number for item in log.read(5, 1)] == [6]
    log.trim(6)
    assert ([item.number for item in log.read(6, ALL)], log.trimmed) == ([7], 6)
    assert log.head.number == 7
    log.close()


@pytest.mark.parametrize(("number", "term"), [(5, 2), (7, 2), (6, 1)], ids=str)
def test_another_batch_is_refused(log, number, term):
    log.take(batch(5, 2))
    with pytest.raises(Error) as caught:
        log.take(batch(number, term))
    assert caught.value.code is Code.CONFLICT
    assert log.head.number == 5


def test_nothing_is_appended_here(log):
    with pytest.raises(Error) as caught:
        log.append(batch(5))
    assert caught.value.code is Code.CONFLICT


def test_who_waits_is_woken(log):
    assert not log.wait(4, 0.0)
    woken = []
    reader = threading.Thread(target=lambda: woken.append(log.wait(4, 20.0)))
    reader.start()
    log.take(batch(5))
    reader.join(PATIENCE_SECONDS)
    assert woken == [True]
