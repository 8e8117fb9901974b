"""Exports, measured: a large table on disk, a server beside it, writers that wait for their PUBACK.

The table is filled by SQL. Each round writes for a while without an export, then while one runs;
the 99th percentiles of the two are compared (S17). Rate and memory are the export's own.
"""

import argparse
import os
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import snapshots_jdbc

from postgres_server import running_postgres
from rowcast.mqtt.packets import Puback, Publish
from serving import ROWCAST, Server, environment
from talking import Mqtt

SCHEMA = """
type Reading @table @export {
  id: ID @primaryKey, station: String, at: Date, temperature: Float, humidity: Float,
  count: Int, total: Long, ok: Boolean
}
type Live @table @export { id: ID @primaryKey, n: Long }
"""
FILL = """
INSERT INTO Reading
  (id,station,at,temperature,humidity,count,total,ok,_seq,_version,_client,_qos)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?)
SELECT printf('r%09d',i), 'station-'||(i%500),
  strftime('%Y-%m-%dT%H:%M:%S',1700000000+i,'unixepoch')||'.000000Z',
  (i%4000)/100.0, i%100+0.5, i%1000, i*1000, i%2, i, 1700000000000000+i*1000, 'filler', 1
FROM n
"""
COUNT = "UPDATE rowcast_tables SET records=? WHERE name='Reading'"
WRITERS = 4
PAUSE_SECONDS = 0.002
"""Between two writes of one writer: a busy server, not one that is out of breath."""


class Writers:
    """Clients that write one value after the other, and note how long each took."""

    def __init__(self, server: Server) -> None:
        self.took: list[float] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(server.mqtt_port, f"w{number}"))
            for number in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, port: int, name: str) -> None:
        with Mqtt(port, 5, name) as client:
            number = 0
            while not self._stop.wait(PAUSE_SECONDS):
                number += 1
                packet_id = client.next_id()
                value = b'{"n":%d}' % number
                began = time.perf_counter()
                client.send(Publish(f"Live/{name}", value, 1, True, False, packet_id, None))
                answer = client.receive()
                self.took.append(time.perf_counter() - began)
                assert isinstance(answer, Puback)

    def taken(self) -> list[float]:
        """Return what was noted since the last call."""
        taken, self.took = self.took, []
        return taken

    def stop(self) -> None:
        """End all."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def export(folder: Path) -> tuple[float, float, int]:
    """Export; return seconds by the wall, by the processor, and the greatest memory in bytes."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [ROWCAST, "export", "--data", folder / "data", "--schema", folder / "schema.graphql",
         "--out", folder / "out", "--keep", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    seconds = time.perf_counter() - began
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def beside_jdbc(folder: Path, rows: int, rounds: int, jar: Path) -> None:
    """Export in turn with Spark, which reads the same rows from PostgreSQL; print the ratios."""
    with running_postgres() as database:
        snapshots_jdbc.fill(database, rows)
        for number in range(1, rounds + 1):
            ours, cpu, peak = export(folder)
            theirs = snapshots_jdbc.export(database, jar, rows, folder / "jdbc")
            print(
                f"round {number}: {rows / ours:,.0f} rows/s ({rows / cpu:,.0f} by processor, "
                f"{peak / 1e6:.0f} MB); Spark by JDBC, without its start: "
                f"{rows / theirs:,.0f} rows/s; {theirs / ours:.2f}x"
            )


def p99(took: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return statistics.quantiles(took, n=100)[98] * 1_000


def main() -> None:
    """Measure, and print a line for each round."""
    parser = argparse.ArgumentParser(prog="scripts/snapshots")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jdbc", type=Path, metavar="JAR", help="PostgreSQL's driver, for a peer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowcast-snapshots-") as name:
        folder = Path(name)
        with Server(folder, schema=SCHEMA) as server:
            with closing(sqlite3.connect(folder / "data" / "rowcast.db")) as database:
                database.execute(FILL, (options.rows,))
                database.execute(COUNT, (options.rows,))
                database.commit()
                database.execute("PRAGMA wal_checkpoint")
            seconds, cpu, peak = export(folder)
            said = f"{options.rows:,} rows, nobody writes: {options.rows / seconds:,.0f} rows/s"
            print(f"{said}, {options.rows / cpu:,.0f} by processor, {peak / 1e6:.0f} MB")
            if options.jdbc is not None:
                beside_jdbc(folder, options.rows, options.rounds, options.jdbc.resolve())
            writers = Writers(server)
            quiet, busy = list[float](), list[float]()
            for number in range(1, options.rounds + 1):
                writers.taken()
                threading.Event().wait(min(seconds, 20))
                calm = writers.taken()
                took, cpu, peak = export(folder)
                loud = writers.taken()
                quiet, busy = quiet + calm, busy + loud
                wal = (folder / "data" / "rowcast.db-wal").stat().st_size
                print(
                    f"round {number}: {options.rows / took:,.0f} rows/s, {peak / 1e6:.0f} MB; "
                    f"writes p50 {statistics.median(calm) * 1e3:.2f} -> "
                    f"{statistics.median(loud) * 1e3:.2f} ms, p99 {p99(calm):.2f} -> "
                    f"{p99(loud):.2f} ms; write-ahead log {wal / 1e6:.0f} MB"
                )
            writers.stop()
            print(f"p99 during an export: {p99(busy) / p99(quiet):.2f} times that without")


if __name__ == "__main__":
    main()
