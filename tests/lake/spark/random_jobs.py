"""Random inputs for jobs, and what DuckDB finds in the same files.

Times are late, equal, missing, before 1970 and around changes of local time (DST) of several zones;
numbers are missing, NaN, endless and huge; series are missing, empty and of odd letters.
"""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from beside import plain, query

from lake import TIME
from rowcast_lake.spark.jobs import JOBS
from rowcast_lake.spark.jobs.job import Given, Reads

LOG = pa.schema([
    ("id", pa.string()), ("s", pa.string()), ("at", TIME), ("v", pa.float64()), ("w", pa.int64()),
    ("_topic", pa.string()), ("_seq", pa.int64()), ("_ts", TIME), ("_op", pa.string()),
    ("_origin", pa.string()), ("_client", pa.string()),
])  # fmt: skip
TOLD = pa.schema([("topic", pa.string()), ("payload", pa.binary()), ("_seq", pa.int64())])
SERIES = ("a", "A", "b", "é/ü", "a b", "", None)
CHANGES = (
    ("America/New_York", "2026-03-08T02:00"), ("America/New_York", "2026-11-01T01:00"),
    ("Europe/Berlin", "2025-10-26T02:00"), ("Australia/Lord_Howe", "2026-04-05T01:00"),
    ("Asia/Kathmandu", "1986-01-01T00:00"), ("UTC", "1969-12-31T23:00"),
    ("UTC", "2024-02-29T23:00"), ("Europe/Paris", "1900-01-01T00:00"),
)  # fmt: skip
"""Zones, and local times about which they change, or the calendar does."""
ORDINARY = [0.0, -0.0, 1.5, -2.25, 3.0, 3.0, 3.0, 1e-9, None, None, math.nan]
ODD = [math.inf, 1e300, 1.7e308, 1e-300]
"""All of one sign: a sum of both depends on the order."""
WHOLE = [None, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1]
OPS = ("put", "put", "put", "patch", "message", "delete")


class World:
    """The events of one table, of which some are in a snapshot, and what a server told."""

    def __init__(self, place, seed):
        self.place, self.chance = place, random.Random(seed)
        self.zone, self.about = self.chance.choice(CHANGES)
        self.numbers = ORDINARY + (ODD if self.chance.random() < 0.5 else [])
        self.now = self.moment()
        self.events = [self._event(seq) for seq in range(1, self.chance.randrange(90) + 1)]
        self.cut = self.chance.randrange(len(self.events) + 1)
        last = max((event["_ts"] for event in self.events), default=self.now)
        self.until = last + timedelta(seconds=self.chance.choice([0, 1, 5000]))
        self._write("events", self.events)
        self._write("changes", self.events[self.cut :])
        self._write("state", self._records())

    def moment(self):
        """A time near the change: local, so that some are there twice and some never."""
        local = datetime.fromisoformat(self.about) + timedelta(
            minutes=self.chance.randrange(-90, 300), seconds=self.chance.choice([0, 0, 0, 7.000001])
        )
        return local.replace(tzinfo=ZoneInfo(self.zone), fold=self.chance.randrange(2)).astimezone(
            UTC
        )

    def _event(self, seq):
        chance = self.chance
        self.now += timedelta(seconds=chance.choice([0, 0, 1, 61, 4000, -2]))
        key, op = f"d{chance.randrange(7)}", chance.choice(OPS)
        late = chance.choice([0, 0, 0, 3600, 86_400])
        value = {
            "s": chance.choice(SERIES), "v": chance.choice(self.numbers), "w": chance.choice(WHOLE),
            "at": None if chance.random() < 0.1 else self.moment() - timedelta(seconds=late),
        }  # fmt: skip
        meta = {"_topic": f"Dog/{key}", "_seq": seq, "_ts": self.now, "_op": op}
        meta |= {"_origin": "log", "_client": "c"}
        return {"id": key, **(value if op != "delete" else {}), **meta}

    def _records(self):
        last = {}
        for event in self.events[: self.cut]:
            if event["_op"] != "message":
                last[event["_topic"]] = event
        return [event for event in last.values() if event["_op"] != "delete"]

    def _write(self, name, rows, schema=LOG):
        if name == "state":
            schema = pa.schema([field for field in LOG if field.name not in DROPPED])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), self.path(name))

    def path(self, name):
        """The file of some of them."""
        return self.place / f"{name}.parquet"

    def tell(self):
        """Write what a server told of its clients, whose clock goes back now and then."""
        chance, rows = self.chance, []
        clock = datetime(2026, 3, 8, 5, tzinfo=UTC)
        for seq in range(1, chance.randrange(80) + 2):
            clock += timedelta(milliseconds=chance.choice([0, 0, 1, 1500, 61_000, 4_000_000, -40]))
            name = chance.choice(["c1", "c2", "c/3", "sse/ann"])
            facts = {"event": chance.choice(["connected", "connected", "disconnected"])}
            facts |= {} if name == "sse/ann" else {"client_id": name}
            if chance.random() < 0.1:
                facts |= {"event": "taken_over"}
            elif chance.random() < 0.1:
                facts |= {"event": "disconnected", "code": 142}
            elif chance.random() < 0.1:
                name, facts = "server/process", {"event": chance.choice(["started", "stopped"])}
            facts["at"] = clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            facts["reason"] = f"r{seq}"
            payload = json.dumps(facts).encode() if chance.random() < 0.97 else b"{"
            rows.append({"topic": f"$SYS/events/{name}", "payload": payload, "_seq": seq})
        self.until = clock + timedelta(seconds=chance.choice([0, 10, 9000]))
        self._write("told", rows, TOLD)


DROPPED = ("_op", "_origin", "_client")


# -- what DuckDB finds -----------------------------------------------------------------------------

READINGS = "select * from '{events}' where _op in ('put','patch','message') and {time} is not null"
LONG = (
    "select s, '{m}' m, {time} t, if({m}::double::varchar = 'nan', null, {m}::double) v, "
    "* exclude (s, v) "
    "from (" + READINGS + ")"
)
STRETCH = "to_timestamp(floor(epoch_us(t) / {us}) * {seconds})"


def rollup(world, time, lengths):
    """Windows of each length, in seconds by name."""
    parts = [
        f"select s, m, '{name}' e, {STRETCH.format(us=length * 10**6, seconds=length)} b, "
        "count(v), min(v), max(v), avg(v), quantile_disc(v, 0.5), "
        f"quantile_disc(v, 0.95) from ({LONG.format(events=world.path('events'), m=m, time=time)}) "
        "where v is not null group by all"
        for name, length in lengths.items()
        for m in ("v", "w")
    ]
    return " union all ".join(parts)


def gaps(world, time, longer):
    """Silences of a series; the last one is until the newest reading of any."""
    readings = READINGS.format(events=world.path("events"), time=time)
    return (
        "select s, f, e, (epoch_us(e) - epoch_us(f)) // 1000000 d, n is null from "
        f"(select s, f, n, coalesce(n, max(f) over ()) e from (select s, {time} f, "
        f"lead({time}) over (partition by s order by {time}) n from ({readings}))) "
        f"where d > {longer}"
    )


def anomalies(world, time, season, span, score, least):
    """Readings far from the median of their group."""
    seasons = {"none": "0", "day": "hour(t)", "week": "(isodow(t) - 1) * 24 + hour(t)"}
    groups = f"{seasons[season]} h, " + (f"floor(epoch(t) / {span}) k" if span else "0 k")
    parts = [
        f"select s, m, t, v, {groups} from "
        f"({LONG.format(events=world.path('events'), m=m, time=time)}) where v is not null"
        for m in ("v", "w")
    ]
    window = "window w as (partition by s, m, h, k)"
    return (
        f"with l as ({' union all '.join(parts)}), "
        f"c as (select *, median(v) over w e, count(v) over w n from l {window}), "
        f"d as (select *, median(abs(v - e)) over w a, avg(abs(v - e)) over w b from c {window}), "
        "r as (select *, (v - e) / case when a > 0 then a / 0.6745 when b > 0 then b / 0.7979 end "
        f"z from d where n >= {least}) select s, m, t, v, e, z from r where abs(z) >= {score}"
    )


def retention(world, time, keep, last):
    """Rows that are recent enough, the last ones of each series."""
    where = (
        f"where {time} >= '{world.until}'::timestamptz - interval ({keep}) second" if keep else ""
    )
    newest = (
        f"qualify row_number() over (partition by s order by {time} desc nulls last, _seq desc)"
    )
    return f"select s, _seq from '{world.path('events')}' {where}" + (
        f" {newest} <= {last}" if last else ""
    )


def fold(world, until):
    """The last write of each topic: ``until`` is a condition."""
    return (
        f"select _topic, _seq, v from (select _topic, _seq, _ts, v, 'put' _op from "
        f"'{world.path('state')}' union all select _topic, _seq, _ts, v, _op from "
        f"'{world.path('changes')}' where _op != 'message') where {until} "
        "qualify row_number() over (partition by _topic order by _seq desc) = 1 and _op != 'delete'"
    )


def history(world):
    """Each value, from when to when."""
    return (
        "select * exclude (_op) from (select _topic, _seq, v, _ts f, lead(_ts) over w u, _op from "
        f"'{world.path('events')}' where _op != 'message' "
        "window w as (partition by _topic order by _seq)) where _op != 'delete'"
    )


def sessions(world):
    """Connections, by the messages of their clients and of the server."""
    zone = f"'{world.until}'::timestamptz"
    return f"""
      with f as (select topic, _seq, try_cast(decode(payload) as json) j
            from '{world.path("told")}'),
      g as (select topic, _seq, j->>'event' what, j->>'client_id' who, j->>'reason' why,
            (j->>'at')::timestamptz t, (j->>'code')::int code from f where j->>'at' is not null),
      h as (select *, sum(case when topic = '$SYS/events/server/process' and what = 'started'
            then 1 else 0 end) over (order by _seq) run from g),
      r as (select run, max(t) alive, max(t) filter (topic = '$SYS/events/server/process'
            and what = 'stopped') stopped from h group by run),
      k as (select * from h where topic != '$SYS/events/server/process'
            and what in ('connected', 'disconnected', 'taken_over')
            and not (what = 'disconnected' and code is not distinct from 142)),
      o as (select topic, run, _seq, t, what, lead(t) over w nt, lead(what) over w nw from k
            where who is not null window w as (partition by topic, run order by t, _seq)),
      p as (select *, what = 'connected' begun, sum(case when what = 'connected' then 1 else -1 end)
            over w known, count(*) filter (what = 'connected') over w starts,
            count(*) filter (what != 'connected') over w ended from k where who is null
            window w as (partition by topic, run order by t, _seq)),
      q as (select *, least(0, min(known) over w) low from p
            window w as (partition by topic, run order by t, _seq)),
      n as (select *, begun or low = coalesce(lag(low) over w, 0) counts,
            case when begun then starts else ended + low end i from q
            window w as (partition by topic, run order by t, _seq)),
      m as (select topic, run, _seq, t, nt, nw from o where what = 'connected' union all
            select a.topic, a.run, a._seq, a.t, b.t, b.what from n a left join n b on
            a.topic = b.topic and a.run = b.run and a.i = b.i and not b.begun and b.counts
            where a.what = 'connected'),
      e as (select substr(topic, 13) c, m.*, stopped, alive,
            run < (select max(run) from r) killed from m join r using (run)),
      x as (select c, t, coalesce(nt, stopped, case when killed then alive end) u, case
            when nw = 'connected' then 'taken_over' when nw is not null then nw
            when stopped is not null then 'server_stopped' when killed then 'server_killed'
            else 'open' end how from e)
      select c, t, case when u < t then t else u end u, how,
            (epoch_us(greatest(coalesce(u, {zone}), t)) - epoch_us(t)) // 1000 / 1000.0 d from x"""


def uptime(world, length):
    """Seconds of each client in each stretch: of the union of its connections."""
    return f"""
      with x as ({sessions(world)}), y as (select c, t, greatest(t, coalesce(u,
      '{world.until}'::timestamptz)) u from x),
      z as (select *, case when t > max(u) over (partition by c order by t, u rows between
      unbounded preceding and 1 preceding) then 1 when row_number() over (partition by c
      order by t, u) = 1 then 1 else 0 end b from y),
      i as (select *, sum(b) over (partition by c order by t, u rows unbounded preceding) n from z),
      j as (select c, n, min(t) t, max(u) u, list(t) l from i group by c, n),
      s as (select *, unnest(generate_series(floor(epoch_us(t) / {length * 10**6})::bigint,
      floor(epoch_us(u) / {length * 10**6})::bigint)) k from j)
      select c, to_timestamp(k * {length}) b,
      sum((epoch_us(least(u, to_timestamp((k + 1) * {length}))) -
      epoch_us(greatest(t, to_timestamp(k * {length})))) // 1000) / 1000.0,
      sum(len(list_filter(l, lambda a: epoch_us(a) >= k * {length * 10**6}
      and epoch_us(a) < (k + 1) * {length * 10**6}))) from s group by c, k"""


# -- both, compared --------------------------------------------------------------------------------

EVERY = {"7m": 420, "1h": 3600, "1d": 86_400, "7d": 604_800}


def compare(spark, world):
    """Run each job on a world with random options; both engines find the same rows."""
    chance = world.chance
    frames = {what: spark.read.parquet(str(world.path(what.value))) for what in Reads}
    time = chance.choice(["at", "_ts"])
    every = dict(chance.sample(sorted(EVERY.items()), 2))
    series = {"by": "s", "time": time}
    jobs = {
        "rollup": (
            {**series, "values": "v,w", "every": ",".join(every)},
            ("s", "measure", "every", "start", "count", "min", "max", "mean", "p50", "p95"),
            rollup(world, f'"{time}"', every),
        ),
        "history": ({}, ("_topic", "_seq", "v", "_valid_from", "_valid_to"), history(world)),
        "compact": ({}, ("_topic", "_seq", "v"), fold(world, "true")),
    }
    longer = chance.choice([1, 60, 3600])
    jobs["gaps"] = (
        {**series, "longer": f"{longer}s"},
        ("s", "from", "to", "seconds", "open"),
        gaps(world, f'"{time}"', longer),
    )
    season, span = chance.choice(["none", "day", "week"]), chance.choice([0, 86_400])
    score, least = chance.choice([2, 5]), chance.choice([1, 3])
    usual = {"season": season, "span": f"{span}s", "score": str(score), "least": str(least)}
    jobs["anomalies"] = (
        {**series, "values": "v,w", **usual},
        ("s", "measure", "at", "value", "expected", "score"),
        anomalies(world, f'"{time}"', season, span, score, least),
    )
    keep, last = chance.choice([(0, 2), (3600, 0), (7200, 3)])
    jobs["retention"] = (
        {**series, "keep": f"{keep}s", "last": str(last)},
        ("s", "_seq"),
        retention(world, f'"{time}"', keep, last),
    )
    at = chance.randrange(len(world.events) + 1)
    jobs["asof"] = ({"at": str(at)}, ("_topic", "_seq", "v"), fold(world, f"_seq <= {at}"))
    for name, (options, columns, sql) in jobs.items():
        agree(world, name, run(frames, name, world.until, options, columns), query(sql))
    world.tell()
    frames = {Reads.EVENTS: spark.read.parquet(str(world.path("told")))}
    length = chance.choice(["1h", "1d"])
    columns = ("client", "connected", "disconnected", "how", "seconds")
    agree(world, "sessions", run(frames, "sessions", world.until, {}, columns),
          query(sessions(world)))  # fmt: skip
    columns = ("client", "start", "seconds", "sessions")
    agree(world, "uptime", run(frames, "uptime", world.until, {"every": length}, columns),
          query(uptime(world, EVERY[length])))  # fmt: skip


def run(frames, name, until, options, columns):
    """Run a job; return its rows, of which no two have one id."""
    job = JOBS[name]
    found = job.compute(Given(frames, job.read_options(options), until))
    ids = [ID] if "id" in found.columns and name not in LOGS else []
    got = [tuple(map(plain, row)) for row in found.select(*columns, *ids).collect()]
    if ids:
        assert len({row[-1] for row in got}) == len(got), name
        got = [row[:-1] for row in got]
    return got


ID = "id"
LOGS = ("compact", "asof", "history", "retention")
"""Jobs whose rows are events or records, with the ids of these."""


def agree(world, name, found, wanted):
    """Both engines say the same, but for the order in which they add numbers up."""
    found, wanted = (sorted(map(even, rows), key=repr) for rows in (found, wanted))
    pairs = zip_longest(found, wanted, fillvalue=())
    different = [(left, right) for left, right in pairs if not alike(left, right)]
    assert not different, (name, world.zone, world.about, different[:3])


def even(row):
    """A row in which zero has no sign."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in row)


def alike(found, wanted):
    return len(found) == len(wanted) and all(map(near, found, wanted))


def near(found, wanted):
    if isinstance(wanted, float) and isinstance(found, float):
        both = math.isnan(found) and math.isnan(wanted)
        return both or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted
