"""A second process that reads for an export, so that large tables are read and written at once.

It reads with a driver of Arrow (``range_reader.py``), several times as fast as this process makes
rows of Python. The keys of a table are divided into ranges. What the other process does not send,
because its values need this one, or because it has failed, is read here: so files and digests are
the same with it and without. Both read the same state of the file: they open their cuts anew until
it is.
"""

import json
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Final, Self, cast

import pyarrow as pa

from rowcast.core.snapshot_limits import (
    SNAPSHOT_CUT_TRIES,
    SNAPSHOT_FETCH_BYTES,
    SNAPSHOT_RANGE_ROWS,
    SNAPSHOT_RANGES_AHEAD,
    SNAPSHOT_SHARED_ROWS_MIN,
)
from rowcast.store.read_transaction import Range, ReadTransaction, open_cut
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import TableSheet, TableWriter

log = logging.getLogger("rowcast.snapshots")

_PROGRAM: Final = "rowcast_lake.snapshots.range_reader"
_PIPE_BYTES: Final = 1024 * 1024
"""About one range of small rows is on its way then, while this process writes another."""
_LEFT_SECONDS: Final = 0.01
"""Until it is looked again whether the thread has ended that receives."""


def pays(sheets: Sequence[TableWriter], rows_min: int = SNAPSHOT_SHARED_ROWS_MIN) -> bool:
    """Whether some table is so large that a second process is worth its start, and can help."""
    large = any(_shared(sheet, rows_min) for sheet in sheets)
    return large and (os.cpu_count() or 1) > 1 and find_spec("adbc_driver_sqlite") is not None


def _shared(sheet: TableWriter, rows_min: int) -> bool:
    return isinstance(sheet, TableSheet) and sheet.plain and sheet.rows >= rows_min


class SecondReader:
    """The other process, until the end of the block."""

    def __init__(
        self,
        database: Path,
        schema: str,
        *,
        rows_min: int = SNAPSHOT_SHARED_ROWS_MIN,
        range_rows: int = SNAPSHOT_RANGE_ROWS,
        range_bytes: int = SNAPSHOT_FETCH_BYTES,
        tries: int = SNAPSHOT_CUT_TRIES,
    ) -> None:
        """Start it.

        ``rows_min`` is the size of a table that it reads; ``range_bytes``, above which a range is
        read here, in smaller parts.
        """
        self._database, self._rows_min, self._tries = database, rows_min, tries
        self._range_rows, self._range_bytes = range_rows, range_bytes
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", _PROGRAM, f"{database.as_uri()}?mode=ro", schema],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=_PIPE_BYTES,
        )
        self._serves = True
        self._received: Queue[Batch | None] = Queue(SNAPSHOT_RANGES_AHEAD)
        self._receiving: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        while self._receiving is not None and self._receiving.is_alive():
            with suppress(Empty):
                self._received.get(timeout=_LEFT_SECONDS)
        self._process.communicate()

    @contextmanager
    def cut(self) -> Iterator[ReadTransaction]:
        """Open a cut that the other process has, too; if it cannot, all is read here."""
        for _ in range(self._tries):
            theirs = self._their_cut()
            with open_cut(self._database) as cut:
                if theirs in {"", cut.state}:
                    yield cut
                    return
        self._lose("the file changes too often")
        with open_cut(self._database) as cut:
            yield cut

    def _their_cut(self) -> str:
        """Return the state of the other process's new cut; empty when there is none."""
        self._ask("cut")
        line = self._out.readline() if self._serves else b""
        if not line:
            self._lose("it has ended")
        return cast("str", json.loads(line)) if line else ""

    def batches(self, cut: ReadTransaction, sheet: TableWriter) -> Iterator[Batch]:
        """Return the rows of a table, sorted by key."""
        shared = self._serves and not cut.staged and _shared(sheet, self._rows_min)
        if not shared or not isinstance(sheet, TableSheet):
            yield from sheet.batches(cut)
            return
        found = cut.declared(sheet.table)
        self._ask("table", sheet.name, cut.epoch, found.mixed, found.rest)
        self._receiving = threading.Thread(target=self._receive, daemon=True)
        self._receiving.start()
        for part in self._planned(cut, sheet):
            after = part.after
            for batch in self._their_batches() if part.size <= self._range_bytes else ():
                yield batch
                after = batch.column(batch.schema.get_field_index(sheet.key))[-1].as_py()
            if after != part.upto:
                yield from sheet.between(cut, after, part.upto)
        self._ask("end")
        while self._received.get() is not None:
            pass
        self._receiving.join()

    def _planned(self, cut: ReadTransaction, sheet: TableSheet) -> Iterator[Range]:
        """Return the ranges of a table in order; the other process learns of its own ahead."""
        ahead = deque[Range]()
        part = cut.range_after(sheet.table, None, self._range_rows)
        while part.rows:
            if part.size <= self._range_bytes:
                self._ask("range", part.after, part.upto)
            ahead.append(part)
            if len(ahead) == SNAPSHOT_RANGES_AHEAD:
                yield ahead.popleft()
            part = cut.range_after(sheet.table, part.upto, self._range_rows)
        yield from ahead

    def _their_batches(self) -> Iterator[Batch]:
        """Return what the other process has read of its next range; a part when it is lost."""
        while self._serves:
            batch = self._received.get()
            if batch is None:
                self._received.put(None)  # for the end of the table
                self._lose("it has ended")
            elif batch.num_rows:
                yield batch
            else:
                return

    def _receive(self) -> None:
        """Take the batches of a table, on a thread of its own; None is the last."""
        try:
            for batch in pa.ipc.open_stream(self._out):
                self._received.put(batch)
        except (OSError, pa.ArrowInvalid) as error:
            log.debug("the second reader of an export sends no more: %s", error)
        self._received.put(None)

    def _ask(self, *command: object) -> None:
        """Send a command; nothing happens once the other process is lost."""
        if not self._serves:
            return
        pipe = cast("IO[bytes]", self._process.stdin)
        try:
            pipe.write(f"{json.dumps(command)}\n".encode())
            pipe.flush()
        except OSError:
            self._lose("it has ended")

    @property
    def _out(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdout)

    def _lose(self, why: str) -> None:
        """Do without the other process from now on."""
        if self._serves:
            self._serves = False
            log.warning("a second process cannot help this export (%s); it takes longer", why)
