"""A second process that reads for an export, so that large tables are read and written at once.

It reads with a driver of Arrow (``range_reader.py``), several times as fast as this process makes
rows of Python. The keys of a table are divided into ranges. What the other process does not send,
because its values need this one, or because it has failed, is read here: so files and digests are
the same with it and without. Both read the same state of the file: they open their cuts anew until
it is.
"""

import fcntl
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
    SNAPSHOT_REFUSED_RANGES_MAX,
    SNAPSHOT_SHARED_ROWS_MIN,
)
from rowcast.store.read_transaction import Range, ReadTransaction, open_read_transaction
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.table_writer import TableSheet, TableWriter

log = logging.getLogger("rowcast.snapshots")

_PROGRAM: Final = "rowcast_lake.snapshots.range_reader"
_PIPE_BYTES: Final = 1024 * 1024
"""About one range of small rows is on its way then, while this process writes another."""
_JOIN_POLL_SECONDS: Final = 0.01
"""Between two looks whether the thread that receives has ended."""
_START: Final = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    f"import sys; sys.path = {sys.path!r}; from {_PROGRAM} import main; main()"
)
"""Ctrl-C is for the export, which ends this. The path is that of this process, without what ``-m``
adds: the directory that it is called in."""
_KEY_CHARS_MAX: Final = 4 * 1024
"""Of the keys of a range that is asked for: commands then fit into a pipe, and nobody waits."""


def worth_starting(sheets: Sequence[TableWriter], rows_min: int = SNAPSHOT_SHARED_ROWS_MIN) -> bool:
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
        self._serves = True
        self._process = self._started()
        self._ask("open", f"{database.as_uri()}?mode=ro", schema)
        self._received: Queue[Batch | None] = Queue(SNAPSHOT_RANGES_AHEAD)
        self._receiving: threading.Thread | None = None
        self._refused = 0
        """Successive ranges of a table that it could not read."""

    def _started(self) -> "subprocess.Popen[bytes] | None":
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            self._give_up(str(error))
            return None
        if process.stdout is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # the system allows less
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.kill()
        while self._receiving is not None and self._receiving.is_alive():
            with suppress(Empty):
                self._received.get(timeout=_JOIN_POLL_SECONDS)
        self._process.communicate()

    @contextmanager
    def cut(self) -> Iterator[ReadTransaction]:
        """Open a cut that the other process has, too; if it cannot, all is read here."""
        for _ in range(self._tries):
            theirs = self._open_other_cut()
            with open_read_transaction(self._database) as cut:
                if theirs in {"", cut.state}:
                    yield cut
                    return
        self._give_up("the file changes too often")
        with open_read_transaction(self._database) as cut:
            yield cut

    def _open_other_cut(self) -> str:
        """Return the state of the other process's new cut; empty when there is none."""
        self._ask("cut")
        line = self._out.readline() if self._serves else b""
        if not line.endswith(b"\n"):
            self._give_up("it has ended")
            return ""
        return cast("str", json.loads(line))

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
        self._refused = 0
        for part, asked in self._planned(cut, sheet):
            after = part.after
            for batch in self._their_batches() if asked else ():
                yield batch
                after = batch.column(batch.schema.get_field_index(sheet.key))[-1].as_py()
            self._refused = 0 if after == part.upto else self._refused + 1
            if after != part.upto:
                yield from sheet.between(cut, after, part.upto)
        self._ask("end")
        while self._received.get() is not None:
            pass
        self._receiving.join()

    def _planned(self, cut: ReadTransaction, sheet: TableSheet) -> Iterator[tuple[Range, bool]]:
        """Return the ranges of a table in order, and whether the other process was asked for each.

        It is asked ahead, and no more after some that it could not read: such are others, too.
        """
        ahead = deque[tuple[Range, bool]]()
        part = cut.range_after(sheet.table, None, self._range_rows)
        while part.rows and self._refused < SNAPSHOT_REFUSED_RANGES_MAX:
            longest = max(len(str(part.after)), len(str(part.upto)))
            asked = part.size <= self._range_bytes and longest <= _KEY_CHARS_MAX
            if asked:
                self._ask("range", part.after, part.upto)
            ahead.append((part, asked))
            if len(ahead) == SNAPSHOT_RANGES_AHEAD:
                yield ahead.popleft()
            part = cut.range_after(sheet.table, part.upto, self._range_rows)
        yield from ahead
        if part.rows:  # all the rest
            yield Range(part.after, None, 0, 0), False

    def _their_batches(self) -> Iterator[Batch]:
        """Return what the other process has read of its next range; a part when it is lost."""
        while self._serves:
            batch = self._received.get()
            if batch is None:
                self._received.put(None)  # for the end of the table
                self._give_up("it has ended")
            elif batch.num_rows:
                yield batch
            else:
                return

    def _receive(self) -> None:
        """Take the batches of a table, on a thread of its own; None is the last."""
        try:
            for batch in pa.ipc.open_stream(self._out):
                self._received.put(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is read here
            log.debug("the second reader of an export sends no more: %s", error)
        finally:
            self._received.put(None)

    def _ask(self, *command: object) -> None:
        """Send a command; nothing happens once the other process is lost."""
        if not self._serves or self._process is None:
            return
        pipe = cast("IO[bytes]", self._process.stdin)
        try:
            pipe.write(f"{json.dumps(command)}\n".encode())
            pipe.flush()
        except OSError:
            self._give_up("it has ended")

    @property
    def _out(self) -> IO[bytes]:
        return cast("IO[bytes]", cast("subprocess.Popen[bytes]", self._process).stdout)

    def _give_up(self, why: str) -> None:
        """Do without the other process from now on."""
        if self._serves:
            self._serves = False
            log.warning("a second process cannot help this export (%s); it takes longer", why)
