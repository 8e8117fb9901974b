"""Reports on shared tables, for a process that takes nothing for long (K1)."""

import asyncio
import logging
import socket
from contextlib import suppress
from types import SimpleNamespace

import pytest_asyncio

from rowcast.cluster.messages import HELLO, pack
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sockets import Connections
from rowcast.log.log import Head
from serving import until

REPORT = pack(0, b"x" * 1000)
MOST = 50_000


@pytest_asyncio.fixture
async def links():
    store = SimpleNamespace(epoch="5eed5eed", on_appended=None)
    log = SimpleNamespace(head=Head(0, 0), trimmed=0, term=1)
    return SequencerLinks(None, store, log, {}.get, reports_bytes_max=MOST)


async def connected(links):
    """Return a process that follows, and the other end of its connection."""
    near, far = socket.socketpair()
    connections = Connections(links)
    await asyncio.get_running_loop().connect_accepted_socket(connections._make, near)
    hello = pack(HELLO, ("worker0/1", "5eed5eed", "", 0))
    far.sendall(len(hello).to_bytes(4) + hello)
    await until(links.sent)
    return far


async def test_the_connection_of_a_process_that_takes_nothing_ends(links, caplog):
    """Each report was kept for it in memory, without end."""
    far = await connected(links)
    with caplog.at_level(logging.ERROR, "rowcast.cluster"):
        while not (full := next(iter(links.links)).full):
            links.tell_applied(REPORT)
        assert full
        for _ in range(MOST // len(REPORT)):
            links.tell_applied(REPORT)
        assert links.links
        links.tell_applied(REPORT)
    assert not links.links
    assert not links.sent()
    assert "has taken nothing for long" in caplog.text
    far.close()


async def test_who_takes_reports_late_gets_all_of_them(links):
    far = await connected(links)
    far.setblocking(False)
    link, told = next(iter(links.links)), 0
    while not link.full:
        links.tell_applied(REPORT)
        told += 1
    heard = bytearray()

    def empty():
        with suppress(BlockingIOError):
            heard.extend(far.recv(1 << 20))
        return not link.full and heard.count(REPORT) == told

    await until(empty)
    for _ in range(MOST // len(REPORT) + 1):
        links.tell_applied(REPORT)
        told += 1
        await until(empty)
    assert links.links
    far.close()
