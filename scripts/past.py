"""Reads of the past, measured: a year of readings in a log on disk, and questions about it.

The log is filled through the store itself, because no door writes events of last year. Each
question is asked a few times over one connection; its median is told, in milliseconds.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from rowcast.core.events import PUT, Event
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from serving import Server

SCHEMA = """
type Weather @table(history: "9999d") @export { origin: ID @primaryKey temp: Float humid: Float }
"""
STATIONS = 10
YEAR_MICROSECONDS = 365 * 86_400 * 1_000_000
BATCH = 1_000
QUESTIONS = (
    "/Weather/S1?from=-180d&to=-179d",
    "/Weather/?from=-180d&to=-179d",
    "/Weather/?from=-1d",
    "/Weather/S1?from=-180d&limit=100",
    "/Weather/S1?last=100",
    "/Weather/S1?from=-180d&to=-179d&every=1h&fn=avg,max",
    "/Weather/?from=-180d&to=-179d&every=1h&fn=avg,max",
    "/Weather/S1?asof=-1d",
    "/Weather/S1?asof=-180d",
    "/Weather/?asof=-1d",
)
TIMES = 7


def fill(folder: Path, rows: int) -> None:
    """Write a year of readings, in turn by all stations."""
    (table,) = parse_schema(SCHEMA).tables
    store = SqlStore(f"sqlite:///{folder / 'rowcast.db'}")
    store.open([table])
    store.reserve(rows)
    begin = int(time.time() * 1e6) - YEAR_MICROSECONDS
    batch = []
    for number in range(rows):
        station = f"S{number % STATIONS}"
        value = {"origin": station, "temp": number % 700 / 10, "humid": float(number % 100)}
        payload = json.dumps(value).encode()
        event = Event(f"Weather/{station}", PUT, payload, "application/json", 1, True, table)
        event.seq, event.version = number + 1, begin + YEAR_MICROSECONDS * number // rows
        event.decoded = value
        batch.append(event)
        if len(batch) == BATCH or number == rows - 1:
            store.commit(batch)
            batch = []
    store.close()


def ask(server: Server) -> None:
    """Ask all questions, and print how long the answers took."""
    with server.client() as client:
        for question in QUESTIONS:
            took = []
            for _ in range(TIMES):
                begin = time.perf_counter()
                answer = client.get(question)
                took.append((time.perf_counter() - begin) * 1_000)
            rows = answer.json()
            count = f"{len(rows)} rows" if isinstance(rows, list) else "1 record"
            print(f"{statistics.median(took):9.1f} ms  {count:>10}  {question}", flush=True)


def main() -> None:
    """Fill, serve, ask."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        print(f"filling a log with {rows:,} events", flush=True)
        fill(data, rows)
        with Server(Path(folder), SCHEMA) as server:
            ask(server)


if __name__ == "__main__":
    main()
