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
process, writer = store._applying._child.process, Writer()
print("forked" if isinstance(process, Forked) else "started")
store.commit([writer.event("u/1", PUT, b"x")])
store.caught_up()
process.kill()
store.commit([writer.event("u/2", PUT, b"y")])
store.caught_up()
print(store._applying.restarts, *[event.payload.decode() for event in store.read(0, 9)])
print("forked" if isinstance(store._applying._child.process, Forked) else "started")
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
def test_a_forked_applier_ends_with_its_server():
    [pid] = run(LEAVE)
    wait_until(lambda: has_ended(pid), "the end of the applier")


@pytest.mark.slow
def test_a_forked_applier_that_nobody_wanted_ends():
    program = LEAVE.replace("os._exit(0)", "child.close(); print(child.process.wait(30))")
    assert "0" == run(program)[1]
