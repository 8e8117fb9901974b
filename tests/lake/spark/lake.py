"""Snapshots and pages of the log made by hand, as the export lays them out; and real weather."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.replay import find_data, read

TIME = pa.timestamp("us", "UTC")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
META = [("_topic", pa.string()), ("_seq", pa.int64()), ("_ts", TIME), ("_version", pa.int64())]
WRITTEN = [("_op", pa.string()), ("_origin", pa.string()), ("_client", pa.string())]
NUMBERS = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
WEATHER = pa.schema(
    [("origin", pa.string()), ("time_hour", TIME)] + [(name, pa.float64()) for name in NUMBERS]
)


def at(seq):
    """When position `seq` was written: one a minute."""
    return EPOCH + timedelta(minutes=seq)


def event(seq, topic, op="put", **value):
    """A row of the log."""
    _, _, key = topic.partition("/")
    written = {"_op": op, "_origin": "log", "_client": "test"}
    meta = {"_topic": topic, "_seq": seq, "_ts": at(seq), "_version": seq * 1000}
    return {"id": key, **value, **meta, **written}


class Lake:
    """A directory of snapshots of one table."""

    def __init__(self, place, table, schema, text=""):
        self.place, self.table, self.text = Path(place), table, text
        self.state = pa.schema([*schema, *META])
        self.log = pa.schema([*self.state, *WRITTEN])

    def snapshot(self, seq, rows):
        """All records at a position."""
        name = f"{seq:018d}"
        self._write(self.place / name, rows, self.state, seq, None)
        newest = self.place / "newest"
        newest.unlink(missing_ok=True)
        newest.symlink_to(name)

    def changes(self, first, last, rows):
        """A page of the log."""
        place = self.place / "changes" / f"seq={first:018d}-{last:018d}"
        self._write(place, rows, self.log, last, first)

    def _write(self, place, rows, schema, seq, first):
        place.mkdir(parents=True)
        files = []
        if rows or first is None:
            (place / self.table).mkdir()
            path = place / self.table / "part-00000.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
            files = [{"path": f"{self.table}/{path.name}", "rows": len(rows)}]
        columns = [{"name": field.name, "type": str(field.type)} for field in schema]
        tables = {self.table: {"files": files, "columns": columns, "partition": None}}
        facts = {"format": 1, "cut": f"log:{seq}", "epoch": "log", "seq": seq, "from_seq": first}
        facts |= {"created": at(seq).isoformat(), "schema": self.text, "tables": tables}
        (place / "manifest.json").write_text(json.dumps(facts))


def weather():
    """Return 26,115 real readings of three stations, in the order of time (CC0)."""
    for reading in read(find_data()):
        values = {name: reading.values.get(name) for name in NUMBERS}
        yield {"origin": reading.station, "time_hour": reading.at, **values}


def weather_log(place):
    """Make a lake of it: nothing at first, then a reading at each position, in two pages."""
    lake = Lake(place, "Weather", WEATHER)
    meta = {"_op": "put", "_origin": "log", "_client": "test"}
    rows = [
        {
            **row,
            "_topic": f"Weather/{row['origin']}",
            "_seq": n,
            "_ts": at(n),
            "_version": n,
            **meta,
        }
        for n, row in enumerate(weather(), 1)
    ]
    lake.snapshot(0, [])
    lake.changes(1, 20_000, rows[:20_000])
    lake.changes(20_001, len(rows), rows[20_000:])
    return lake
