"""The applier's process: forked when a server starts, and again each time that it has ended."""

import pytest

from lone_process import has_ended, run
from serving import wait_until

SCHEMA = "type Dog @table @export { id: ID @primaryKey  name: String }"

APPLY = f"""
import sys, time
from functools import partial
from pathlib import Path
from rowcast.core.events import PUT
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.opening import open_journal
from rowcast.net.fork_server import Forked, ForkServer
from rowcast.schema import parse_schema
from store_cases import Writer

processes, schema = ForkServer(), {SCHEMA!r}
applier = partial(spawn_applier, processes)
store = open_journal(Path(sys.argv[1]), time.time, schema, applier=applier)
store.open(parse_schema(schema).tables)
process, writer = store.applying._child.process, Writer()
print("forked" if isinstance(process, Forked) else "started")
store.commit([writer.event("u/1", PUT, b"x")])
store.caught_up()
process.kill()
store.commit([writer.event("u/2", PUT, b"y")])
store.caught_up()
print(store.applying.restarts, *[event.payload.decode() for event in store.read(0, 9)])
print("forked" if isinstance(store.applying._child.process, Forked) else "started")
store.close()
processes.close()
"""

HANG = f"""
import os, signal, sys, time
from functools import partial
from pathlib import Path
from rowcast.core.events import PUT
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.applier_process import ProcessApplying
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.opening import log_directory, open_log
from rowcast.journal.writer_lock import WriterLock
from rowcast.net.fork_server import ForkServer
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from store_cases import Writer

processes, schema, place = ForkServer(), {SCHEMA!r}, Path(sys.argv[1])
tables, lock = SqlStore(place, synced=False), WriterLock(place)
lock.acquire()
log = open_log(log_directory(place), tables)
spawn = partial(spawn_applier, processes)
applying = ProcessApplying(
    tables, log_directory(place), schema, log, lock, spawn, heartbeat_timeout=2
)
store, writer = JournaledStore(tables, log, applying, time.time, read_seconds=120), Writer()
store.open(parse_schema(schema).tables)
store.commit([writer.event("u/1", PUT, b"x")])
store.caught_up()
os.kill(applying.pid, signal.SIGSTOP)
store.commit([writer.event("u/2", PUT, b"y")])
while not applying.restarts:
    store.tail.wait(2, 1)
store.caught_up()
print(applying.restarts, applying.hangs, *[it.payload.decode() for it in store.read(0, 9)])
print(repr(store.tail.problem))
store.close()
processes.close()
"""

LEAVE = """
import os
from rowcast.journal.applier_child import spawn_applier
from rowcast.net.fork_server import ForkServer

processes = ForkServer()
child = spawn_applier(processes)
print(child.process.pid, flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_an_applier_is_a_fork_and_so_is_each_later_one(tmp_path):
    told = run(APPLY, tmp_path / "rowcast.db")
    assert ["forked", "1 x y", "forked"] == told


@pytest.mark.slow
def test_an_applier_that_hangs_is_ended_and_started_again(tmp_path):
    """It was left alone: lists and queries, and later all writes, were refused without end."""
    told = run(HANG, tmp_path / "rowcast.db")
    assert ["1 1 x y", "''"] == told[:2]


@pytest.mark.slow
def test_a_forked_applier_ends_with_its_server():
    [pid] = run(LEAVE)
    wait_until(lambda: has_ended(pid), "the end of the applier")


@pytest.mark.slow
def test_a_forked_applier_that_nobody_wanted_ends():
    program = LEAVE.replace("os._exit(0)", "child.close(); print(child.process.wait(30))")
    assert "0" == run(program)[1]


HANG_UP = f"""
import os, signal, sys, time
from functools import partial
from pathlib import Path
from rowcast.core.events import PUT
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.opening import open_journal
from rowcast.net.fork_server import ForkServer
from rowcast.schema import parse_schema
from store_cases import Writer

processes, schema, writer = ForkServer(), {SCHEMA!r}, Writer()
applier = partial(spawn_applier, processes)
store = open_journal(Path(sys.argv[1]), time.time, schema, applier=applier)
store.open(parse_schema(schema).tables)
store.commit([writer.event("u/1", PUT, b"x")])
store.caught_up()  # so it has begun
os.kill(store.applying.pid, signal.SIGHUP)
store.commit([writer.event("u/2", PUT, b"y")])
store.caught_up()
print(store.applying.restarts)
store.close()
processes.close()
"""


@pytest.mark.slow
def test_an_applier_does_not_end_where_certificates_are_read_again(tmp_path):
    """SIGHUP may come to all processes of a server: from ``systemctl kill``, or a terminal."""
    assert ["0"] == run(HANG_UP, tmp_path / "rowcast.db")
