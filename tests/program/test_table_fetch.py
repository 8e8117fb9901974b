"""A node that starts gets the tables of the sequencer, also when that hangs meanwhile (K12)."""

import asyncio

import pytest

from memory_engine import MemoryEngine
from rowcast.cluster.lease_keeper import Holder
from rowcast.core.errors import Code, Error
from rowcast.program.table_fetch import TableFetch
from serving import until

HUNG, NEXT = Holder("a", "life-a", "a.example", 1), Holder("b", "life-b", "b.example", 2)


class Nodes:
    """The nodes that are asked: the first one hangs, the others send a copy or refuse once."""

    def __init__(self):
        self.asked, self.left, self.refuses = [], [], False

    async def __call__(self, host, port, *, file):
        self.asked.append((host, port))
        try:
            if host == HUNG.host:
                await asyncio.Event().wait()
        finally:
            self.left.append(host)
        if self.refuses:
            self.refuses = False
            raise Error(Code.BUSY, "the connection was lost")
        file.write_bytes(b"a copy")


@pytest.fixture
def engine():
    return MemoryEngine()


def hold(engine, holder):
    """Give a node the lease."""
    engine.take_lease(engine.lease().version, holder.pack())


def start(engine, stopping, file, nodes):
    getting = TableFetch(engine, "c", stopping, look_seconds=0.01, pause_seconds=0.01)
    return asyncio.create_task(getting.replace(file, nodes))


async def test_a_node_that_hangs_is_left_for_the_next_sequencer(tmp_path, engine):
    hold(engine, HUNG)
    nodes, file = Nodes(), tmp_path / "rowcast.db"
    getting = start(engine, asyncio.Event(), file, nodes)
    await until(lambda: nodes.asked)
    hold(engine, NEXT)
    assert await getting
    assert ([("a.example", 1), ("b.example", 2)], ["a.example", "b.example"]) == (
        nodes.asked,
        nodes.left,
    )
    assert file.read_bytes() == b"a copy"


async def test_a_node_that_gets_a_copy_can_be_stopped(tmp_path, engine):
    hold(engine, HUNG)
    nodes, stopping, file = Nodes(), asyncio.Event(), tmp_path / "rowcast.db"
    getting = start(engine, stopping, file, nodes)
    await until(lambda: nodes.asked)
    stopping.set()
    assert not await getting
    assert nodes.left == ["a.example"]
    assert not file.exists()


async def test_what_did_not_come_is_asked_for_again(tmp_path, engine):
    hold(engine, NEXT)
    nodes, file = Nodes(), tmp_path / "rowcast.db"
    nodes.refuses = True
    assert await start(engine, asyncio.Event(), file, nodes)
    assert len(nodes.asked) == 2


async def test_its_own_tables_are_nobody_elses_copy(tmp_path, engine):
    hold(engine, NEXT._replace(node="c"))
    nodes, stopping = Nodes(), asyncio.Event()
    getting = start(engine, stopping, tmp_path / "rowcast.db", nodes)
    stopping.set()
    assert not await getting
    assert nodes.asked == []
