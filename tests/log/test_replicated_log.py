"""The log of several machines: the interface, rivals, and answers that are lost."""

import random

import pytest
from log_conformance import ALL, Conformance

from batch_cases import batch_after
from engine_conformance import EngineConformance
from memory_engine import MemoryEngine, Shared
from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.log import Head
from rowcast.log.replicated_log import ReplicatedLog, Spool

SMALL_BYTES = 2_000
"""Of a file of the spool."""


class Place:
    """An engine in memory, and the directories of its nodes."""

    def __init__(self, directory, shared=None):
        self.directory = directory
        self.shared = shared or Shared()
        self.logs = []
        self.engines = []

    def start(self, fault=None, append_seconds=5.0):
        engine = MemoryEngine(self.shared, fault)
        self.engines.append(engine)
        log = ReplicatedLog(
            engine,
            self.directory / f"spool{len(self.logs)}",
            append_seconds=append_seconds,
            pause_seconds=0.001,
            segment_bytes=SMALL_BYTES,
        )
        self.logs.append(log)
        return log

    def stop(self):
        for log in self.logs:
            log.close()


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.stop()


class TestMemoryEngine(EngineConformance):
    @pytest.fixture
    def connect(self):
        shared = Shared()
        return lambda: MemoryEngine(shared)


class TestReplicatedLog(Conformance):
    def test_an_old_writer_is_fenced_by_a_new_one_and_stays_so(self, place, log):
        log.append(batch_after(log))
        told = []
        log.on_problem = lambda: told.append(log.problem)
        new = place.start()
        new.append(batch_after(new))
        for _ in range(2):
            with pytest.raises(Error) as caught:
                log.append(batch_after(log))
            assert caught.value.code is Code.CONFLICT
        assert told == [log.problem] == ["another node has appended to the log"]
        new.append(batch_after(new))
        assert place.start().head == Head(3, 3)

    @pytest.mark.parametrize("kind", ["request", "answer"])
    def test_a_lost_request_or_answer_leaves_one_entry(self, place, kind):
        faults = iter([kind, kind])
        log = place.start(lambda: next(faults, ""))
        for _ in range(3):
            log.append(batch_after(log))
        assert [batch.number for batch in log.read(0, ALL)] == [1, 2, 3]
        assert place.start().read(0, ALL) == log.read(0, ALL)

    @pytest.mark.parametrize("kind", ["request", "answer"])
    def test_without_an_answer_in_time_it_says_so_and_appends_nothing_more(self, place, kind):
        faults = iter([kind] + ["request"] * 1000)
        log = place.start(lambda: next(faults), append_seconds=0.01)
        with pytest.raises(Error, match="it is not known whether this was written") as caught:
            log.append(batch_after(log))
        assert caught.value.code is Code.BUSY
        with pytest.raises(Error) as caught:
            log.append(batch_after(log))
        assert caught.value.code is Code.CONFLICT
        assert place.start().head.number == (kind == "answer")

    def test_a_copy_that_cannot_be_written_is_no_refusal(self, place, log, monkeypatch):
        """The log has it: the node gives up, and does not say that it was not written."""
        log.append(batch_after(log))

        def full(self, batch):
            raise Error(Code.BUSY, "the disk is full")

        monkeypatch.setattr(Spool, "take", full)
        with pytest.raises(Error, match="it is not known whether this was written"):
            log.append(batch_after(log))
        assert log.problem == "the disk is full"
        assert place.start().head.number == 2

    def test_a_read_that_is_late_is_not_taken_for_the_end(self, place):
        faults = iter(["answer"])
        log = place.start(lambda: next(faults, ""))
        late = iter([1, 1])
        place.engines[0].late = lambda: next(late, 0)
        log.append(batch_after(log))
        log.append(batch_after(log))
        assert log.head == Head(2, 2)

    def test_what_the_spool_lacks_comes_from_the_engine(self, place, log):
        for _ in range(10):
            log.append(batch_after(log, bytes(500)))
        opened = place.start()
        batches = [batch_after(opened)]
        opened.append(batches[0])
        assert opened.spool.trimmed == 10
        assert opened.read(0, ALL) == log.read(0, ALL) + batches
        assert opened.read(10, ALL) == batches
        assert opened.read(11, ALL) == []

    def test_an_engine_may_begin_where_tables_are(self, tmp_path):
        place = Place(tmp_path, Shared(first=41))
        log = ReplicatedLog(MemoryEngine(place.shared), tmp_path / "spool", last=700)
        assert (log.head, log.term, log.trimmed) == (Head(40, 700), 1, 40)
        log.append(batch_after(log))
        assert place.start().head == Head(41, 701)
        log.close()
        place.stop()


@pytest.mark.parametrize("seed", range(20))
def test_rivals_with_lost_answers_write_one_history(tmp_path, seed):
    """What was acknowledged is there once, under its number, whoever believes to be the writer."""
    rng = random.Random(seed)

    def fault():
        return rng.choice(("", "", "", "answer", "request"))

    place = Place(tmp_path)
    writers, acknowledged, unknown = [], {}, set()
    for n in range(120):
        if not writers or (rng.random() < 0.1 and len(writers) < 8):
            writer = place.start(fault, append_seconds=rng.choice((0, 5)))
            place.engines[-1].late = lambda: rng.choice((0, 0, 1))
            writers.append(writer)
        writer = rng.choice(writers[-2:])
        batch = batch_after(writer, b"%d" % n)
        try:
            writer.append(batch)
        except Error as error:
            assert error.code in {Code.CONFLICT, Code.BUSY}
            if error.code is Code.BUSY:
                unknown.add(batch.data)
            if writer.problem:
                writers.remove(writer)
        else:
            acknowledged[batch.number] = batch.data
    stored = place.shared.entries
    assert {number: stored[number - 1] for number in acknowledged} == acknowledged
    assert set(stored) <= set(acknowledged.values()) | unknown
    numbers = [Batch.read(data).number for data in stored]
    terms = [Batch.read(data).term for data in stored]
    assert numbers == list(range(1, len(stored) + 1))
    assert terms == sorted(terms)
    assert len(acknowledged) > 20
    place.stop()
