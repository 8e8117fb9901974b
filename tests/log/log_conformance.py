"""The interface of a log as tests: each class of them is run on every engine.

A test module derives ``Conformance`` and gives a fixture ``place`` with ``start()``, which opens
the log anew, as another writer or after a restart, and closes the one before.
"""

import threading

import pytest

from batch_cases import FULL, batch_after, fields, table_of
from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.log import Head

ALL = 10**9
LONG_SECONDS = 20.0


class Conformance:
    """What every log does."""

    @pytest.fixture
    def log(self, place):
        return place.start()

    def test_a_new_log_is_empty(self, log):
        assert (log.head, log.term, log.trimmed) == (Head(0, 0), 1, 0)
        assert log.read(0, ALL) == []
        assert len(log.epoch) == 8

    def test_what_was_appended_is_read_in_order(self, log):
        batches = []
        for _ in range(5):
            batches.append(batch_after(log, count=2))
            log.append(batches[-1])
        assert log.head == Head(5, 10)
        assert log.read(0, ALL) == batches
        assert log.read(3, ALL) == batches[3:]
        assert log.read(5, ALL) == []

    def test_a_content_comes_back_whole(self, log):
        log.append(Batch.make(1, log.term, 6, FULL, 1))
        assert fields(log.read(0, ALL)[0].content(table_of)) == fields(FULL)

    def test_a_read_is_bounded_by_bytes_and_has_at_least_one(self, log):
        for _ in range(4):
            log.append(batch_after(log, bytes(1000)))
        assert [batch.number for batch in log.read(0, 1)] == [1]
        assert [batch.number for batch in log.read(1, 1500)] == [2, 3]

    def test_everything_is_there_after_a_restart_in_a_new_term(self, place, log):
        batches = [batch_after(log)]
        log.append(batches[0])
        epoch = log.epoch
        for term in (2, 3):
            log = place.start()
            assert (log.epoch, log.term, log.head) == (epoch, term, Head(term - 1, term - 1))
            batches.append(batch_after(log))
            log.append(batches[-1])
        assert place.start().read(0, ALL) == batches

    def test_a_term_without_a_batch_is_given_again(self, place, log):
        """Terms are in the batches: a writer that appended nothing fenced nobody."""
        log.append(batch_after(log))
        assert [place.start().term, place.start().term] == [2, 2]

    @pytest.mark.parametrize(
        ("number", "term"),
        [(1, 1), (3, 1), (2, 2), (2, 0)],
        ids=["again", "skipped", "later", "former"],
    )
    def test_only_the_next_batch_of_this_term_is_taken(self, log, number, term):
        log.append(batch_after(log))
        with pytest.raises(Error) as caught:
            log.append(Batch.make(number, term, 1, FULL, 1))
        assert caught.value.code is Code.CONFLICT
        assert log.head == Head(1, 1)
        log.append(batch_after(log))
        assert log.head == Head(2, 2)

    def test_trimmed_batches_are_gone_and_later_ones_are_there(self, place, log):
        for _ in range(20):
            log.append(batch_after(log, bytes(500)))
        log.trim(10)
        trimmed = log.trimmed
        assert 0 <= trimmed <= 10
        for _ in range(2):
            assert log.head == Head(20, 20)
            assert [batch.number for batch in log.read(10, ALL)] == list(range(11, 21))
            log = place.start()
        if trimmed:
            with pytest.raises(Error) as caught:
                log.read(trimmed - 1, ALL)
            assert caught.value.code is Code.GONE

    def test_the_last_batch_is_never_trimmed(self, place, log):
        """It has the numbers that a restart goes on from."""
        for _ in range(10):
            log.append(batch_after(log, bytes(500)))
        log.trim(ALL)
        opened = place.start()
        assert (opened.head, opened.term) == (Head(10, 10), 2)

    def test_a_reader_is_woken_by_an_append(self, log):
        assert not log.wait(0, 0.0)
        woken = []
        reader = threading.Thread(target=lambda: woken.append(log.wait(0, LONG_SECONDS)))
        reader.start()
        log.append(batch_after(log))
        reader.join(LONG_SECONDS)
        assert woken == [True]
        assert log.wait(0, 0.0)
        assert not log.wait(1, 0.0)

    def test_a_reader_beside_the_writer_sees_every_batch_once(self, log):
        seen = []

        def follow():
            while len(seen) < 200 and log.wait(len(seen), LONG_SECONDS):
                seen.extend(batch.number for batch in log.read(len(seen), 500))

        reader = threading.Thread(target=follow)
        reader.start()
        for _ in range(200):
            log.append(batch_after(log, bytes(100)))
        reader.join(LONG_SECONDS)
        assert seen == list(range(1, 201))
