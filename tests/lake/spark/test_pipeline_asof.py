"""The past that REST tells beside the one that Spark computes from exported files (M6, B14)."""

import json
import random
from datetime import datetime

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("pyspark", reason="NO SPARK: the past is NOT compared with it here")

from past_of_tables import BRANCH, TABLES, Past  # noqa: E402
from states import RETAINED, Files  # noqa: E402

from rowcast_lake.columns.records import plain  # noqa: E402

CURSORS = 50
WRITES, EXPORTS = 400, 6
NEVER = 2**53
PARTS = ("day", "hour")
META = {"_seq", "_ts", "_version", "_origin", "_client", "_op", "_user", "_door"}


@pytest.fixture
def times(pytestconfig):
    """At how many times the past is compared."""
    return pytestconfig.getoption("--times")


def limits_of(moment):
    """Return what a moment includes: all of its millisecond, or all up to its position."""
    if isinstance(moment, int):
        return (moment + 1) * 1_000, NEVER
    return NEVER, int(moment.partition(":")[2])


def value_of(row, table):
    """Return a row of files as REST tells the record, without metadata."""
    if table == BRANCH:
        return json.loads(row["payload_text"])
    record = plain({name: value for name, value in row.items() if name not in {"at", *PARTS}})
    key = record.pop("_id", None)
    return spelled(record if key is None else {"id": key, **record})


def spelled(value):
    """Return a value with times as REST spells them."""
    if isinstance(value, dict):
        return {name: spelled(item) for name, item in value.items()}
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value


class Values:
    """What was written, by position."""

    def __init__(self, files):
        self.rows = {it: files.values(it) for it in TABLES}
        self.rows[BRANCH] = files.values(RETAINED)

    def last(self, position):
        """Return the microsecond of the last one up to a position."""
        known = (rows.items() for rows in self.rows.values())
        return max(row["at"] for items in known for seq, row in items if seq <= position)

    def expect(self, topic, told):
        """What REST tells of a record is what was written."""
        table = topic.partition("/")[0]
        row = self.rows[table][told["_seq"]]
        assert told["_version"] == row["at"], topic
        value = {it: item for it, item in told.items() if it not in META}
        assert {**value_of(row, table), **value} == value_of(row, table)
        assert value_of(row, table).keys() - value.keys() <= ({"id"} if table == "Free" else set())


def of_table(state, table):
    return {topic: seq for topic, seq in state.items() if topic.startswith(f"{table}/")}


async def test_m6_the_past_at_many_times_is_that_of_spark_from_files(spark, tmp_path, times):
    """M6, B14: puts, patches, deletions, expiries, messages; REST, and snapshots with the log."""
    chance = random.Random(11)
    past = Past(tmp_path, chance)
    async with past.running():
        await past.live(WRITES, EXPORTS)
        head = past.kernel.committer.announced
        moments = [past.moment() for _ in range(times)]
        positions = [chance.randrange(1, head) for _ in range(CURSORS)]
        cuts = [int(path.name) for path in past.directory.iterdir() if path.name.isdigit()]
        moments += [f"{past.epoch}:{position}" for position in (*positions, *cuts)]
        told = await past.ask(moments)
    files, limits = Files(spark, past.directory, TABLES), list(map(limits_of, moments))
    states, intervals, values = files.states(limits), files.intervals(limits), Values(files)
    known = values.last(max(cuts))
    for (table, topic, moment, rows, record), limit, state, history in zip(
        told, limits, states, intervals, strict=True
    ):
        own = of_table(state, table)
        assert {it: row["_seq"] for it, row in rows.items()} == own, moment
        if limit[0] <= known and not past.went_back(limit[0]):  # which the last history reaches
            assert of_table(history, table) == own, moment
        seq = state.get(topic)
        over = isinstance(moment, int) and 0 < past.ends.get(seq, 0) <= moment / 1_000
        wanted = None if over else seq  # a read of one record does not tell what is over
        assert (record and record["_seq"]) == wanted, (topic, moment)
        for it, row in (*rows.items(), *([(topic, record)] if record else ())):
            values.expect(it, row)
    assert sum(before <= known for before, _ in limits) > times / 2
    assert sum(record is None for *_, record in told) > times / 10
    seen = {row["_seq"] for *_, rows, _ in told for row in rows.values()}
    assert len(seen) > min(WRITES / 2, times)
