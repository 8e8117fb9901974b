"""What keeps a stream running: pauses between attempts, new starts, and the word about its lag."""

import json
import signal

import pytest

pytest.importorskip("pyspark", reason="NO SPARK: streams are NOT tested here")

from pyspark.errors import StreamingQueryException

from rowcast.core.pipeline_limits import STREAM_PATIENCE_SECONDS
from rowcast_lake.spark.remote import Pauses
from rowcast_lake.spark.watching import Watch, keep_running


def test_a_stream_waits_longer_than_ten_minutes_for_its_server():
    """S13: each pause is twice the one before, up to half a minute."""
    waited = []
    pauses = Pauses(STREAM_PATIENCE_SECONDS, waited.append)
    while pauses.wait():
        assert len(waited) < 100
    assert [0.5, 1, 2, 4, 8, 16, 30, 30] == waited[:8]
    assert 600 < sum(waited) <= STREAM_PATIENCE_SECONDS
    pauses.begin()
    assert pauses.wait()
    assert 0.5 == waited[-1]


def test_a_request_that_must_not_be_repeated_is_not():
    assert not Pauses(0).wait()


class Query:
    """A query that finishes some batches, then fails or ends."""

    def __init__(self, run, batches, words=""):
        self.runId, self._words = run, words
        self.recentProgress = batches

    def awaitTermination(self, seconds):  # noqa: N802 - Spark's name
        if self._words:
            raise StreamingQueryException(self._words)
        return True


def batch(number, end=0, latest=0, dropped=0):
    offsets = {"endOffset": json.dumps({"seq": end}), "latestOffset": json.dumps({"seq": latest})}
    operators = [{"numRowsDroppedByWatermark": dropped}]
    return {"batchId": number, "stateOperators": operators, "sources": [offsets]}


def test_a_stream_starts_again_as_long_as_it_gets_on():
    """S13: three failures in a row are passed, a fourth without a batch in between is not."""
    fails = "x\nrowcast.core.errors.Error: no such upload\n  at java"
    runs = [
        Query("1", [], fails), Query("2", [], fails), Query("3", [batch(0, dropped=2)], fails),
        Query("4", [], fails), Query("5", [], fails), Query("6", [batch(1)]),
    ]  # fmt: skip
    said, left = [], iter(runs)
    watch = Watch("rollup", said.append)
    keep_running(lambda: next(left), watch, said.append, restarts=3, pause_seconds=0)
    assert [] == list(left)
    assert 2 == watch.dropped
    assert 5 == len(said)
    assert "starts again from its checkpoint: rowcast.core.errors.Error: no such upload" in said[0]

    left = iter([Query(str(n), [], fails) for n in range(4)])
    with pytest.raises(StreamingQueryException):
        keep_running(
            lambda: next(left), Watch("rollup", print), said.append, restarts=3, pause_seconds=0
        )
    assert [] == list(left)


class Interrupted(Query):
    """A query that runs until it is stopped, while whose call Ctrl-C comes."""

    done = 0
    stopped = False

    def awaitTermination(self, seconds):  # noqa: N802 - Spark's name
        signal.raise_signal(signal.SIGINT)
        self.done += 1
        return False

    def stop(self):
        self.stopped = True


def test_ctrl_c_breaks_no_call_of_spark():
    """S13: the call under way is done, and then the query is stopped."""
    before, query = signal.getsignal(signal.SIGINT), Interrupted("1", [batch(0, dropped=2)])
    watch = Watch("rollup", print)
    keep_running(lambda: query, watch, print)
    assert (1, True, 2) == (query.done, query.stopped, watch.dropped)
    assert before is signal.getsignal(signal.SIGINT)


def test_a_second_ctrl_c_ends_what_hangs():
    query = Interrupted("1", [])
    query.stop = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        keep_running(lambda: query, Watch("rollup", print), print)


def test_the_lag_is_told_at_intervals_and_when_it_is_over():
    """S13: events between the end of a batch and that of the log."""
    said, now = [], [0.0]
    watch = Watch("rollup", said.append, every_seconds=30, now=lambda: now[0])
    for seconds, end in ((0, 100), (10, 400), (31, 5_000), (40, 12_000), (50, 12_000)):
        now[0] = seconds
        watch.look("run", [batch(seconds, end, 12_000)])
    assert [
        "rollup: 11,900 events behind the end of the log",
        "rollup: 7,000 events behind the end of the log",
        "rollup: at the end of the log",
    ] == said
    watch.look("files", [batch(0) | {"sources": [{"endOffset": "3", "latestOffset": "null"}]}])
    assert 3 == len(said)
