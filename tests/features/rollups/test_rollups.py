"""Roll-ups: equal to DuckDB over the log, late, corrected, deleted, over kills (V4)."""

import asyncio
import json
from datetime import UTC, datetime
from random import Random

import duckdb
import pytest

from build import ANN, EPOCH, NOW, Server, refusal, turns
from memory_store import MemoryStore
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.features.rollups import rollup as module
from rowcast.features.rollups.feature import Rollups
from rowcast.features.rollups.totals import BinaryTotal
from rowcast.schema import parse_schema
from rowcast.store.store import Keep

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey at: Date site: String n: Int temp: Float }
type Minutely @table @export @rollup(
  of: "Sensor", by: ["site"], time: "at", every: "1m", late: "2m",
  values: {temp: ["avg", "min", "max", "sum", "count"], n: [sum, min, max]}
)
"""
FUNCTIONS = (
    "temp_avg",
    "temp_min",
    "temp_max",
    "temp_sum",
    "temp_count",
    "n_sum",
    "n_min",
    "n_max",
)
BASE = NOW - NOW % 60


def iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class World:
    """A server with roll-ups; its store outlives kills."""

    def __init__(self, schema=SCHEMA, **facts):
        self.tables = parse_schema(schema).tables
        self.store = MemoryStore(EPOCH)
        self.time = BASE
        self.facts = facts

    async def start(self, schema=None):
        if schema:
            self.tables = parse_schema(schema).tables
        self.server = Server(self.tables, store=self.store, now=lambda: self.time)
        self.feature = Rollups(self.tables)
        self.feature.install(self.server.kernel)
        for rollup in self.feature.rollups:
            for name, value in self.facts.items():
                setattr(rollup, name, value)

        async def facts(owner):
            return self.store.states(owner)

        await self.server.kernel.restore(facts)
        self.rollup = self.feature.rollups[0] if self.feature.rollups else None
        return self

    async def restart(self, schema=None):
        """Kill it, and start it again."""
        self.server.writer.stopped = True
        return await self.start(schema)

    async def write(self, record_id, kind=PUT, **value):
        if "at" in value and value["at"] is not None:
            value["at"] = iso(value["at"])
        payload = b"" if kind == DELETE else json.dumps(value).encode()
        event = Event(f"Sensor/{record_id}", kind, payload, qos=1, retain=True)
        if value.pop("expires", 0):
            event.properties = {"message_expiry_interval": 1}
        return await self.server.kernel.write(event, ANN)

    async def roll(self):
        async def pause():
            await asyncio.sleep(0)

        for rollup in self.feature.rollups:
            await rollup.catch_up(pause)

    async def rows(self, path="Minutely"):
        records = (await self.server.reader.scan(
            next(item for item in self.tables if item.path == path),
            module_filter(path), "", 100_000,
        )).records  # fmt: skip
        return {record.topic: self.server.kernel.transcoder.value(record) for record in records}


def module_filter(path):
    from rowcast.core.topics import TopicFilter

    return TopicFilter(f"{path}/#")


# -- DuckDB over the log ---------------------------------------------------------------------------

QUERY = """
with writes as (
  select *, max(version) over (order by seq) as newest,
    lag(moment) over (partition by id order by seq) as before,
    lag(expires) over (partition by id order by seq) as expires_before,
    from log
), said as (
  select seq, id, newest, site, n, temp, kind <> 'delete' as there,
    case when kind <> 'delete' then moment
      when expires_before > 0 and expires_before * 1e6 <= version then null
      else before end as moment
  from writes
), taken as (
  select *, moment // $every * $every as start from said
  where moment is not null and moment // $every * $every + $every + $late >= newest
    and moment <= newest + 3600000000
), last as (
  select distinct on (id, moment) * from taken order by id, moment, seq desc
)
select site, start, avg(temp), min(temp), max(temp), sum(temp), count(temp), sum(n), min(n), max(n)
from last where there group by site, start
"""


def in_duckdb(world):
    """Return what DuckDB makes of the log: the functions by site and start."""
    rows = []
    for event in world.store.read(0, 1_000_000):
        if not event.topic.startswith("Sensor/") or event.kind not in {PUT, PATCH, DELETE}:
            continue
        value = json.loads(event.payload) if event.payload else {}
        at = value.get("at")
        micros = at and round(datetime.fromisoformat(at).timestamp() * 1e6)
        rows.append((
            event.seq, event.topic.partition("/")[2], event.kind, event.version,
            event.expires_at, micros, value.get("site"), value.get("n"), value.get("temp"),
        ))  # fmt: skip
    with duckdb.connect() as connection:
        connection.execute(
            "create table log (seq bigint, id text, kind text, version bigint, expires double,"
            " moment bigint, site text, n integer, temp double)"
        )
        connection.executemany("insert into log values (?,?,?,?,?,?,?,?,?)", rows)
        found = connection.execute(QUERY, {"every": 60_000_000, "late": 120_000_000}).fetchall()
    return {(site, start): answers for site, start, *answers in found}


async def in_rows(world):
    return {
        (row.get("site"), round(row["at"].timestamp() * 1e6)): [row[name] for name in FUNCTIONS]
        for row in (await world.rows()).values()
    }


async def stream(world, chance, length=250, kill=False):
    """Write a random stream: new, late, corrected, moved, deleted and expired readings."""
    recent = []
    for _ in range(length):
        world.time += chance.choice((0, 0.5, 2, 9, 30))
        at = world.time - chance.choice((0, 0, 0, 5, 61, 130, 200, 400, -30, -4_000))
        record_id = str(chance.randrange(8))
        what = chance.random()
        if what < 0.15 and recent:  # a correction
            record_id, at = chance.choice(recent)
        if what > 0.9:
            await refusal(world.write(record_id, DELETE))
        else:
            site = chance.choice(("A", "B", None))
            temp = chance.choice((None, chance.uniform(-1e6, 1e6), 0.1, 20.5))
            at = chance.choice((at, at, at, at, at, None))
            kind = PATCH if chance.random() < 0.1 else PUT
            n = chance.choice((None, chance.randrange(100)))
            expires = chance.random() < 0.1
            await world.write(record_id, kind, at=at, site=site, n=n, temp=temp, expires=expires)
            recent = [*recent[-30:], *([(record_id, at)] if at is not None else [])]
        if chance.random() < 0.3:
            await world.roll()
        if kill and chance.random() < 0.1:
            if chance.random() < 0.5:
                task = asyncio.ensure_future(world.roll())
                await turns(chance.randrange(8))
                world.server.writer.stopped = True
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await world.restart()
    await world.roll()


def same(one, other):
    assert one.keys() == other.keys()
    for key, answers in one.items():
        for name, mine, theirs in zip(FUNCTIONS, answers, other[key], strict=True):
            expected = theirs if theirs is None else pytest.approx(theirs, rel=1e-9, abs=1e-6)
            assert mine == expected, (key, name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kill", [False, True])
async def test_v4_a_roll_up_is_what_duckdb_makes_of_the_log(seed, kill):
    world = await World(page_events=7).start()
    await stream(world, Random(seed), kill=kill)
    found = await in_rows(world)
    same(found, in_duckdb(world))
    assert len(found) > 20


@pytest.mark.heavy
async def test_a_planted_mistake_is_noticed(monkeypatch):
    """Were a correction added to what it corrects, the rows would differ."""
    monkeypatch.setattr(module.Periods, "take", lambda _self, _key: iter(()))
    world = await World(page_events=7).start()
    await stream(world, Random(1))
    with pytest.raises(AssertionError):
        same(await in_rows(world), in_duckdb(world))


# -- rows ------------------------------------------------------------------------------------------


async def test_a_row_has_a_topic_of_its_group_and_period_and_the_types_of_the_schema():
    world = await World().start()
    await world.write("1", at=BASE + 5, site="Köln/Süd", n=3, temp=20.5)
    await world.write("2", at=BASE + 6, site="Köln/Süd", n=4, temp=21.5)
    await world.write("3", at=BASE + 6, temp=1.0)
    await world.roll()
    rows = await world.rows()
    start = iso(BASE)
    assert {f"Minutely/Köln%2FSüd/{start}", f"Minutely/null/{start}"} == set(rows)
    row = rows[f"Minutely/Köln%2FSüd/{start}"]
    assert ("Köln/Süd", 21.0, 20.5, 21.5, 42.0, 2, 7, 3, 4) == tuple(
        row[name] for name in ("site", *FUNCTIONS)
    )
    assert datetime.fromtimestamp(BASE, UTC) == row["at"]


async def test_a_page_is_one_event_for_each_row_and_what_nobody_wrote_is_none():
    world = await World().start()
    for number in range(50):
        await world.write(str(number), at=BASE + 1, site="A", temp=number)
    await world.roll()
    before = world.server.committer.announced
    await world.roll()
    events = [event for event in world.store.read(0, 999) if event.topic.startswith("Minutely")]
    assert (1, before) == (len(events), world.server.committer.announced)


async def test_pages_of_large_records_have_fewer_of_them(monkeypatch):
    """V4: what a roll-up has in memory at a time is bounded in bytes, not only in events."""
    world = await World(page_bytes=10_000).start()
    for number in range(150):
        payload = {"site": "A", "temp": 1.0, "note": "x" * 2_000}
        await world.write(str(number), at=BASE + number % 60, **payload)
    pages, page = [], world.server.reader.page

    async def read(*arguments):
        found = await page(*arguments)
        pages.append(sum(len(event.payload) for event in found.events))
        return found

    monkeypatch.setattr(world.server.reader, "page", read)
    await world.roll()
    assert [150.0] == [row["temp_sum"] for row in (await world.rows()).values()]
    assert max(pages[1:]) <= 10_000
    assert len(pages) > 15


async def test_a_row_without_readings_is_deleted_and_closed_periods_are_forgotten():
    world = await World().start()
    await world.write("1", at=BASE + 1, site="A", temp=1.0)
    await world.roll()
    await world.write("1", DELETE)
    await world.roll()
    assert {} == await world.rows()
    await world.write("2", at=BASE + 1, site="A", temp=1.0)
    await world.roll()
    world.time += 600
    await world.write("3", at=world.time, site="A", temp=1.0)
    await world.write("2", at=BASE + 1, site="A", temp=9.0)
    await world.write("2", DELETE)
    await world.roll()
    assert (1, 1, 2) == (world.rollup.periods.readings, len(world.rollup.periods.open),
                         world.rollup.too_late)  # fmt: skip
    assert 2 == len([1 for owner, _, _ in world.store.states("rollups/")])
    assert 2 == len(await world.rows())


async def test_clients_write_no_rows_and_administrators_delete_them():
    world = await World().start()
    await world.write("1", at=BASE + 1, site="A", temp=1.0)
    await world.roll()
    (topic,) = await world.rows()
    user = Caller("rita", Grants(read=True, write=True), "http")
    for caller in (user, ANN):
        event = Event(topic, PUT, b"{}", qos=1, retain=True)
        assert Code.NOT_ALLOWED is await refusal(world.server.kernel.write(event, caller))
    event = Event(topic, DELETE, b"", qos=1, retain=True)
    assert Code.NOT_ALLOWED is await refusal(world.server.kernel.write(event.changed(), user))
    await world.server.kernel.write(event, ANN)
    assert {} == await world.rows()


async def test_a_changed_rule_is_applied_to_what_the_log_has():
    world = await World().start()
    await world.write("1", at=BASE + 1, site="A", temp=1.0)
    await world.roll()
    await world.restart(SCHEMA.replace("1m", "10s"))
    await world.write("2", at=BASE + 2, site="A", temp=3.0)
    await world.roll()
    row = (await world.rows())[f"Minutely/A/{iso(BASE)}"]
    assert (2, 2.0) == (row["temp_count"], row["temp_avg"])
    assert 2 == world.rollup.periods.readings
    assert 3 == len(world.store.states("rollups/"))


async def test_a_period_that_the_log_has_a_part_of_is_left_out():
    world = await World().start()
    for second in range(0, 200, 10):
        world.time = BASE + second
        await world.write("1", at=world.time, site="A", temp=second)
    world.store.trim(world.tables[0], Keep(events=12), world.time, 100)
    await world.roll()
    assert [iso(BASE + 120), iso(BASE + 180)] == sorted(
        topic.rpartition("/")[2] for topic in await world.rows()
    )


async def test_too_many_readings_close_the_oldest_period():
    world = await World(readings_max=3).start()
    for second in (0, 10, 60, 70):
        await world.write(str(second), at=BASE + second, site="A", temp=1.0)
    await world.roll()
    await world.write("0", at=BASE, site="A", temp=5.0)
    await world.roll()
    counts = {topic[-10:]: row["temp_sum"] for topic, row in (await world.rows()).items()}
    assert ([2.0, 2.0], 1) == (list(counts.values()), world.rollup.too_late)


async def test_what_the_disk_refuses_is_written_again():
    world = await World().start()
    await world.write("1", at=BASE + 1, site="A", temp=1.0)
    faults = [Error(Code.BUSY, "the disk is full")]

    def fault(_what):
        if faults:
            raise faults.pop()

    world.store.fault = fault
    await world.roll()
    assert 1 == len(await world.rows())


async def test_a_row_that_is_too_large_holds_up_no_other():
    """A group is as long as a client makes it, and its row is longer than its record."""
    world = await World().start()
    most = world.server.kernel.admission.payload_bytes_max
    await world.write("long", at=BASE, site="x" * (most - 100), temp=1.0)
    await world.write("a", at=BASE, site="s", temp=1.0)
    async with asyncio.timeout(60):
        await world.roll()
    assert [row["temp_sum"] for row in (await world.rows()).values()] == [1.0]


async def test_the_feature_follows_the_log_by_itself():
    world = await World().start()
    await world.write("1", at=BASE + 1, site="A", temp=1.0)
    await world.feature.start()
    await turns(50)
    assert 1 == len(await world.rows())
    await world.feature.stop()


@pytest.mark.parametrize("text", ["", ".", "..", "null", "a+b", "#", "%41", "A", "x" * 300, "\n"])
def test_each_value_is_another_level(text):
    level = module._level(text)
    others = [module._level(value) for value in (None, True, 0, "B", "%2E", "%")]
    assert level not in others
    assert not set("/+#\n") & set(level)
    assert 0 < len(level) < 300


def test_a_sum_is_exact_whatever_was_taken_back():
    chance, total, kept = Random(5), BinaryTotal(), []
    for _ in range(2_000):
        kept.append(chance.uniform(-1, 1) * 10 ** chance.randrange(-20, 20))
        total.add(kept[-1], 1)
        if chance.random() < 0.5:
            total.add(kept.pop(chance.randrange(len(kept))), -1)
    while len(kept) > 1:
        total.add(kept.pop(), -1)
    assert (kept[0], 1) == (total.sum, total.count)
