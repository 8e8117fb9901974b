"""Sessions and uptime, from what the server tells of its clients."""

import json
import random
from datetime import timedelta

import pyarrow as pa
import pytest

from lake import EPOCH, TIME, Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="NO SPARK: sessions are NOT tested here")

from beside import compute, query, rows, same  # noqa: E402

from rowcast_lake.spark.inputs import Snapshots  # noqa: E402

TABLE = "mqtt_sys_events"
COLUMNS = pa.schema(
    [("topic", pa.string()), ("payload", pa.binary()), ("timestamp", TIME), ("_seq", pa.int64())]
)
SERVER = "server/process"


class Told:
    """What a server tells, and when each client really was connected."""

    def __init__(self):
        self.seq = self.now = self.last = 0
        self.rows, self.true = [], []
        self.open = {}

    def tell(self, name, what, after=1, **facts):
        self.now += after
        self.last = self.now
        self.seq += 1
        at = (EPOCH + timedelta(seconds=self.now)).isoformat(timespec="milliseconds")
        facts = {"event": what, "at": at.replace("+00:00", "Z"), "peer": "127.0.0.1", **facts}
        payload = json.dumps(facts).encode()
        row = {"topic": f"$SYS/events/{name}", "payload": payload, "_seq": self.seq}
        self.rows.append({**row, "timestamp": EPOCH + timedelta(seconds=self.now)})

    def connect(self, name):
        self.tell(name, "connected", client_id=name)
        self.open[name] = self.now

    def end(self, name, how, at=None):
        begun, at = self.open.pop(name), self.now if at is None else at
        self.true.append((name, begun, at, how))

    def stop(self, how):
        """The server ends, in order or not; and the next one starts, an hour later."""
        at = self.last  # a killed server tells nothing of the time after what it told last
        if how == "server_stopped":
            self.tell(SERVER, "stopped")
            at = self.now
        for name in list(self.open):
            self.end(name, how, at)
        self.tell(SERVER, "started", after=3600)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Twelve clients, 350 things that happen to them, a server that is stopped and killed."""
    chance, told = random.Random(4), Told()
    told.tell(SERVER, "started")
    for step in range(350):
        name = f"c{chance.randrange(12)}"
        told.now += chance.randrange(60)
        if step % 100 == 99:
            told.stop("server_killed" if step == 199 else "server_stopped")
        elif name not in told.open:
            told.connect(name)
        elif chance.random() < 0.6:
            told.tell(name, "disconnected", client_id=name, reason="bye")
            told.end(name, "disconnected")
        elif chance.random() < 0.5:
            told.tell(name, "taken_over", client_id=name)
            told.end(name, "taken_over")
            told.tell(name, "disconnected", after=0, client_id=name, code=142)
            told.connect(name)
        else:  # the end of the old one was not told
            told.now += 1
            told.end(name, "taken_over")
            told.now -= 1
            told.connect(name)
    place = tmp_path_factory.mktemp("sessions")
    lake = Lake(place, TABLE, [])
    lake.state = COLUMNS
    lake.snapshot(told.seq, told.rows)
    return place, told


def test_sessions_are_those_that_were(spark, history):
    """S9: ends that were told, take-overs, a stopped and a killed server, who is still there."""
    place, told = history
    source = Snapshots(spark, place, TABLE)
    columns = ("client", "connected", "disconnected", "how")
    wanted = [(*who, how) for *who, how in told.true]
    wanted += [(name, begun, None, "open") for name, begun in told.open.items()]
    assert {"open", "disconnected", "taken_over", "server_stopped", "server_killed"} == {
        row[-1] for row in wanted
    }

    def moment(seconds):
        return None if seconds is None else EPOCH.replace(tzinfo=None) + timedelta(seconds=seconds)

    wanted = [(name, moment(a), moment(b), how) for name, a, b, how in wanted]
    same(rows(compute(source, "sessions"), *columns), sorted(wanted, key=repr))


def test_uptime_is_that_of_duckdb(spark, history):
    """S9: seconds of each client in each hour, over restarts and until the cut."""
    place, told = history
    source = Snapshots(spark, place, TABLE)
    until = source.until.replace(tzinfo=None)
    found = compute(source, "uptime", every="1h")
    begun = [(name, a, b) for name, a, b, _ in told.true]
    begun += [(name, a, None) for name, a in told.open.items()]
    values = ", ".join(
        f"('{name}', timestamp '{EPOCH:%Y-%m-%d}' + interval ({a}) second, "
        + ("null" if b is None else f"timestamp '{EPOCH:%Y-%m-%d}' + interval ({b}) second")
        + ")"
        for name, a, b in begun
    )
    wanted = query(
        "with s as (select c, a, coalesce(b, timestamp "
        f"'{until}') b from (values {values}) v(c, a, b)), "
        "h as (select c, a, b, unnest(generate_series(date_trunc('hour', a), b, interval 1 hour)) "
        "h from s) select c, h, sum(epoch_ms(least(b, h + interval 1 hour)) - "
        "epoch_ms(greatest(a, h))) / 1000.0, count(*) filter (a >= h) from h group by all"
    )
    same(rows(found, "client", "start", "seconds", "sessions"), wanted)
    shares = [row[0] for row in rows(found, "share")]
    assert all(0 <= share <= 1 for share in shares)


def test_streams_of_a_user_are_counted_not_confused(spark, tmp_path):
    """S9: three streams of one user at once are an uptime without overlap."""
    told = Told()
    told.tell(SERVER, "started")
    for what, after in (("connected", 10), ("connected", 10), ("disconnected", 10),
                        ("connected", 10), ("disconnected", 10), ("disconnected", 10)):  # fmt: skip
        told.tell("sse/ann", what, after, user="ann", door="sse")
    lake = Lake(tmp_path, TABLE, [])
    lake.state = COLUMNS
    lake.snapshot(told.seq, told.rows)
    source = Snapshots(spark, tmp_path, TABLE)
    lengths = [row[1] for row in rows(compute(source, "sessions"), "connected", "seconds")]
    assert [20.0, 30.0, 20.0] == lengths
    found = rows(compute(source, "uptime", every="1d"), "client", "seconds", "sessions")
    assert [("sse/ann", 50.0, 3)] == found


def test_an_end_without_a_start_ends_no_later_stream(spark, tmp_path):
    """S9: of a stream that began before the log does, as after retention has trimmed it."""
    told = Told()
    told.tell(SERVER, "started")
    for what, after in (("disconnected", 10), ("connected", 10), ("connected", 10),
                        ("disconnected", 10), ("disconnected", 10), ("disconnected", 10),
                        ("connected", 10)):  # fmt: skip
        told.tell("sse/ann", what, after, user="ann", door="sse")
    lake = Lake(tmp_path, TABLE, [])
    lake.state = COLUMNS
    lake.snapshot(told.seq, told.rows)
    source = Snapshots(spark, tmp_path, TABLE)
    found = [row[1:] for row in rows(compute(source, "sessions"), "connected", "how", "seconds")]
    closed = [("disconnected", 20.0), ("disconnected", 20.0)]
    assert closed == found[:2]
    assert found[2][0] == "open"
    spent = rows(compute(source, "uptime", every="1h"), "seconds")
    assert spent[0][0] >= 30.0
    assert all(seconds >= 0 for (seconds,) in spent)
