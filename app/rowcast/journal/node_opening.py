"""Opens the tables of a node of a cluster, with the log of all nodes as their log.

The files beside the database, named after it with ``-spool``, are a copy of what its applier has
not written yet. They are begun anew each time: the engine and the other nodes have the rest.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.journal.applier import NEWEST, checksum_in
from rowcast.journal.applier_child import Spawn, spawn_applier
from rowcast.journal.applier_process import ProcessApplying
from rowcast.journal.follower_store import FollowerStore
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.log_replay import WAIT_SECONDS, replay_own_log
from rowcast.journal.opening import spool_directory
from rowcast.journal.spooled_applying import SpooledApplying
from rowcast.journal.tail import Tail
from rowcast.journal.writer_lock import WriterLock
from rowcast.journal.written_schema import check_head
from rowcast.log.batch import Batch
from rowcast.log.engine import Engine
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.log.replicated_log import ReplicatedLog, Spool
from rowcast.log.segment import sync_directory
from rowcast.store.sql_database import file_of
from rowcast.store.sqlite import SqlStore

OTHER_LOG: Final = (
    ". If these are the ones to keep, begin the cluster's log anew with them instead, as "
    'docs/cluster.md says under "A server becomes a cluster"'
)
"""What else may be done about tables of another log: nodes without records may have begun one."""

LOST_END: Final = "its engine has lost its end, was restored to an earlier state, or begun anew"

BEHIND_ITSELF_SECONDS: Final = 20.0
"""How long a log may end before a node's tables do. After servers of JetStream were killed and cut
off, they told for some seconds that a log of 1,559 entries ended with 137."""
LOOK_SECONDS: Final = 0.2
"""Between two looks at where it ends."""


class Tables(NamedTuple):
    """What is known of the tables of a node before they are opened."""

    epoch: str = ""
    """Of their log; empty where there are none yet."""
    applied: int = 0
    """The number of the last batch that they have."""
    head: int = 0
    """The number of the last event."""
    checksum: int = 0
    """Of that batch; 0 if it is not known."""


def inspect_tables(url: str) -> Tables:
    """Return what is known of the tables at a URL. Raises BUSY while another process has them."""
    if not file_of(url).is_file():
        return Tables()
    store = SqlStore(url, synced=False)
    try:
        return _known(store)
    finally:
        store.close()


def _known(store: SqlStore) -> Tables:
    applied = store.applied()
    checksum = checksum_in(store.facts([NEWEST]).get(NEWEST, b""), applied)
    return Tables(store.epoch, applied, store.head(), checksum)


def prepare_tables(url: str, declared: Sequence[Table]) -> Tables:
    """Have tables that had a log of their own take what it has, and look at them."""
    replay_own_log(file_of(url), declared, time.monotonic() + WAIT_SECONDS)
    return inspect_tables(url)


def needs_copy(tables: Tables, engine: Engine) -> str:
    """Return why a node cannot begin with its tables, and needs a copy of another node's.

    Empty if it can, or if nobody's copy may replace them: those of another log, or ahead of it.
    """
    first, _ = engine.bounds()
    if not tables.epoch:
        return "has no tables" if first > 1 else ""
    if tables.epoch == engine.epoch and tables.applied + 1 < first:
        return f"was away for long: it has batches up to {tables.applied}, the log from {first}"
    return ""


def replace_tables(database: Path, copy: Path) -> None:
    """Put a copy in place of a database, whose write-ahead log would be taken as the copy's.

    On return all of it is on the disk: a loss of power leaves no name with a part of a file.
    """
    with copy.open("rb") as opened:
        os.fsync(opened.fileno())
    for end in ("-wal", "-shm"):
        database.with_name(f"{database.name}{end}").unlink(missing_ok=True)
    copy.rename(database)
    sync_directory(database.parent)


def _settled_bounds(engine: Engine, applied: int, seconds: float) -> tuple[int, int]:
    """Return the bounds of a log, once it has a batch, or when it lacks it for so long."""
    deadline = time.monotonic() + seconds
    while True:
        first, last = engine.bounds()
        if applied <= last or time.monotonic() >= deadline:
            return first, last
        time.sleep(LOOK_SECONDS)


def other_batch(engine: Engine, number: int, checksum: int) -> str:
    """Return how the log differs from what a node has, of which a batch is the last; empty if not.

    ``checksum``: of that batch; 0 if it is not known. Blocks; raises BUSY.
    """
    if not checksum:
        return ""
    try:
        found = engine.read(number - 1, 1)
    except Error as error:
        if error.code is Code.GONE:  # older than the log: nobody can tell
            return ""
        raise
    if not found or Batch.read(found[0]).checksum == checksum:
        return ""
    return (
        f"the log has another batch {number} than they: {LOST_END}, and another node has written "
        "since"
    )


def _check_end(tables: Tables, log: ReplicatedLog, engine: Engine) -> None:
    """Raise BUSY where a node has what the log lacks: writes after it would not be in its tables.

    So it is no sequencer, and others may be; or servers of JetStream tell too early an end.
    """
    problem = other_batch(engine, tables.applied, tables.checksum)
    if tables.applied > log.head.number:
        problem = (
            f"they have batches up to {tables.applied}, and the log ends at {log.head.number}: "
            f"{LOST_END}"
        )
    if problem:
        what = 'docs/cluster.md says under "Backup and restore of a cluster" what to do'
        raise Error(
            Code.BUSY,
            f"the tables of this node are no longer those of the log: {problem}; {what}",
            retry_after_seconds=1,
        )


def check_tables(
    tables: Tables, engine: Engine, place: Path, seconds: float = BEHIND_ITSELF_SECONDS
) -> None:
    """Raise CONFLICT where tables cannot follow the log of an engine. Blocks.

    ``seconds``: how long the log may end before the tables do until that is believed.
    """
    problem, more = "", ""
    ours = tables.epoch == engine.epoch
    first, last = _settled_bounds(engine, tables.applied if ours else 0, seconds)
    if tables.epoch and tables.epoch != engine.epoch:
        problem = f"they are of the log {tables.epoch}, and the cluster's is {engine.epoch}"
        more = OTHER_LOG
    elif tables.applied > last:
        problem = (
            f"they have batches up to {tables.applied}, and the log of the cluster ends at {last}: "
            f"{LOST_END}"
        )
    elif tables.applied + 1 < first:  # the copy that it got is too old by now
        problem = f"they have batches up to {tables.applied}, and the log begins at {first}"
    elif tables.epoch:
        problem = other_batch(engine, tables.applied, tables.checksum)
    if problem:
        raise Error(
            Code.CONFLICT,
            f"the tables in {place} cannot follow: {problem}; move that directory away, and start "
            f"this node again: it gets a copy of those of another node{more}",
        )


class _Opened(NamedTuple):
    tables: SqlStore
    lock: WriterLock
    spool: Path


def _open(url: str, epoch: str) -> _Opened:
    tables = SqlStore(url, synced=False, epoch=epoch)
    try:
        lock = WriterLock(tables.path)
        lock.acquire()
        tables.look_again()
    except BaseException:
        tables.close()
        lock.release()
        raise
    return _Opened(tables, lock, spool_directory(tables.path))


def open_sequencer(
    url: str,
    engine: Engine,
    now: WallClock,
    schema: str,
    tail: Tail | None = None,
    *,
    applier: Spawn = spawn_applier,
    made: Callable[[ReplicatedLog], None],
) -> JournaledStore:
    """Open the store of the sequencer; ``made`` gets its log. Blocks; raises BUSY."""
    tables, lock, spool = _open(url, engine.epoch)
    try:
        log = ReplicatedLog(engine, spool, tables.head())
        try:
            _check_end(_known(tables), log, engine)
            check_head(tables, log.head.number, schema)
        except BaseException:
            log.close()
            raise
    except BaseException:
        tables.close()
        lock.release()
        raise
    made(log)
    applying = ProcessApplying(tables, spool, schema, log, lock, applier)
    store = JournaledStore(tables, log, applying, now, tail)
    store.sweeps = False  # its first batch has that done, at all nodes
    return store


def open_follower(
    url: str,
    epoch: str,
    now: WallClock,
    schema: str,
    tail: Tail | None = None,
    *,
    applier: Spawn = spawn_applier,
) -> FollowerStore:
    """Open the store of a follower. Blocks; raises BUSY."""
    tables, lock, place = _open(url, epoch)
    known = _known(tables)
    followed = FollowedLog(epoch, Head(known.applied, known.head), known.checksum)
    spool = Spool(place, epoch, known.applied)
    applying = ProcessApplying(tables, place, schema, spool, lock, applier)
    spooled = SpooledApplying(followed, spool, applying)
    store = FollowerStore(tables, followed, spooled, now, tail)
    store.schema = schema
    return store
