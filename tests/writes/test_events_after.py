"""How many events a reader is behind, over starts of the server, which leave out numbers."""

from contextlib import closing

from build import Server
from rowcast.core.limits import SEQ_RESERVE
from rowcast.store.sqlite import SqlStore


async def started(path, topics, position=None):
    """Start a server on the tables, write, and tell how many events a reader is behind.

    Returns the last number, and the events after ``position``, by default after the first write.
    """
    room = Server(store=SqlStore(path))
    with closing(room.store):
        for topic in topics:
            receipt = await room.put(topic)
            position = position or receipt.event.seq
        return receipt.event.seq, room.committer.events_after(position)


async def test_numbers_that_a_start_leaves_out_are_not_events(tmp_path):
    path = tmp_path / "rowcast.db"
    assert (2, 1) == await started(path, ["u/1", "u/2"])
    for more in range(1, 4):
        last, behind = await started(path, ["u/3"], position=1)
        assert last > more * SEQ_RESERVE
        assert 1 + more == behind


async def test_a_start_that_writes_nothing_leaves_nothing_out(tmp_path):
    path = tmp_path / "rowcast.db"
    await started(path, ["u/1", "u/2"])
    room = Server(store=SqlStore(path))
    with closing(room.store):
        assert [2, 1, 0, 0] == [room.committer.events_after(number) for number in (0, 1, 2, 50)]


async def test_tables_that_have_no_gaps_yet_count_as_before(tmp_path):
    """A directory of an earlier version: what it left out is not known."""
    path = tmp_path / "rowcast.db"
    await started(path, ["u/1"])
    await started(path, ["u/2"])
    with closing(SqlStore(path)) as store:
        store.open(())
        with store._database.writing() as cursor:
            cursor.execute("DELETE FROM rowcast_states WHERE owner='log'")
    last, behind = await started(path, ["u/3"], position=1)
    assert 2 + SEQ_RESERVE == behind
    assert last > 2 * SEQ_RESERVE
