"""The rest of the applier between two transactions, which ends when somebody waits for one."""

import os
from math import inf

import pytest
from journal_place import JournalPlace
from lagging import LaggingApplying

from rowcast.journal.applier_main import _Process
from rowcast.journal.opening import log_directory
from rowcast.journal.pipes import APPLY, HURRY, NOTICE, STOP, SharedNumber
from rowcast.store.store import Change

SCHEMA = "type Dog @table @export { id: ID @primaryKey }"


@pytest.fixture
def server(tmp_path):
    """Give a store with three batches that are not applied, an applier, and what tells it."""
    place = JournalPlace(tmp_path, LaggingApplying)
    store = place.start(())
    place.applying.paused = True
    for number in range(3):
        store.commit([], [Change("owner", str(number), b"x")])
    read, tells = os.pipe()
    reports, write = os.pipe()
    opened = {
        "database": str(place.path), "log": str(log_directory(place.path)), "schema": SCHEMA,
    }  # fmt: skip
    wanted = SharedNumber()
    process = _Process(read, write, wanted, opened)
    yield process, lambda kind, number: os.write(tells, NOTICE.pack(kind, number))
    wanted.close()
    process._tables.close()
    process._lock.release()
    for handle in (read, tells, reports, write):
        os.close(handle)
    place.close()


def test_it_rests_after_a_transaction(server):
    """Else each batch of a busy log is a transaction of its own."""
    process, tell = server
    assert process._rest_seconds() is None
    tell(APPLY, 1)
    assert process._take_notices(0)
    assert 0 == process._rest_seconds()
    assert process._apply()
    assert 1 == process._tables.applied()
    process._rests_until = inf
    tell(APPLY, 3)
    assert process._take_notices(0)
    assert inf == process._rest_seconds()


@pytest.mark.parametrize(("kind", "number"), [(HURRY, 2), (STOP, 3)])
def test_it_does_not_rest_while_somebody_waits(server, kind, number):
    """A reader waits for what was in the log when it asked, a stop for everything."""
    process, tell = server
    process._rests_until = inf
    tell(APPLY, 2)
    tell(kind, number)
    assert process._take_notices(0)
    assert 0 == process._rest_seconds()
    assert process._apply()
    process._rests_until = inf
    tell(APPLY, 3)
    assert process._take_notices(0)
    assert process._rest_seconds() == (inf if kind == HURRY else None)


def test_it_applies_what_came_while_it_rested(server):
    """It is not told of each batch, and has a look when its rest has ended."""
    process, tell = server
    tell(APPLY, 1)
    assert process._take_notices(0)
    process._shared.cell[0] = 3
    assert 0 == process._rest_seconds()
    assert process._apply()
    assert 3 == process._tables.applied()
    assert process._rest_seconds() is None


def test_it_reads_notices_that_wait_at_once(server):
    process, tell = server
    for number in (1, 2, 3):
        tell(APPLY, number)
    tell(HURRY, 2)
    assert process._take_notices(0)
    assert (3, 2) == (process._wanted, process._hurried)
