"""The process of a job of a derived table: reads a snapshot, writes a file of rows (W4).

    python -m rowcast_lake.commands.derive --job jobs/hourly.py --input DIR --output FILE

The server starts it, and takes the file when it ends with 0. It tells progress in lines of JSON on
its standard output; what the job itself prints goes to standard error. It ends by itself when the
server is gone, which closes its standard input, and after ``--seconds``.

The file of a job defines ``derive(tables)``, or ``derive_frame(spark, tables)`` for Spark, whose
tables are data frames.
"""

import argparse
import json
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_BYTES_MAX
from rowcast_lake.columns.records import Row
from rowcast_lake.snapshots.job_tables import JobTables, records_of, write_rows

PLAIN: Final = "derive"
SPARK: Final = "derive_frame"
ENDED: Final = 70
"""The exit code when the server is gone, or the time is over."""


def main() -> None:
    """Run one job."""
    parser = argparse.ArgumentParser(prog="rowcast_lake.commands.derive", description=__doc__)
    parser.add_argument("--job", required=True, type=Path)
    parser.add_argument("--input", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--master", default="")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--bytes", type=int, default=RESULT_BYTES_MAX)
    given = parser.parse_args()
    report = _reporter(sys.stdout)
    sys.stdout = sys.stderr  # what the job prints is no progress
    _end_in_time(given.seconds, alone=not given.master)
    try:
        run(given, report)
    except Error as error:
        sys.exit(f"{given.job.name}: {error.message}")


def run(given: argparse.Namespace, report: Callable[..., None]) -> None:
    """Run a job on a snapshot, and write its result; raises Error for one that is none."""
    job: Path = given.job
    tables = JobTables(given.input, lambda part: report(progress=part))
    report(cut=tables.cut, rows_in=tables.records)
    names = runpy.run_path(str(job), run_name="rowcast_job")
    if callable(names.get(SPARK)):
        from rowcast_lake.spark.job_frames import rows_of_frames  # noqa: PLC0415 - optional

        paths = {name: table.path for name, table in tables.items()}
        rows: Iterable[Row] = rows_of_frames(
            names[SPARK], job.stem, paths, given.master, given.bytes
        )
    elif callable(names.get(PLAIN)):
        rows = records_of(names[PLAIN](tables))
    else:
        message = f"define {PLAIN}(tables), or {SPARK}(spark, tables) for Spark"
        raise Error(Code.INVALID, message)
    report(rows_out=write_rows(rows, given.output, given.bytes))


def _reporter(out: TextIO) -> Callable[..., None]:
    def report(**facts: object) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    return report


def _end_in_time(seconds: float, *, alone: bool) -> None:
    """End this process when the server is gone, or the time is over; nobody waits for it then.

    0: it was started by hand. The standard input is the server's unless Spark has started it.
    """
    if not seconds:
        return

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin, whose lock would hold up the end
            pass
        os._exit(ENDED)

    if alone:
        threading.Thread(target=watch, daemon=True).start()
    timer = threading.Timer(seconds, os._exit, (ENDED,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
