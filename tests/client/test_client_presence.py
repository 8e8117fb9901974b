"""Presence of a program that uses the Python client (C21)."""

import asyncio
import json

import pytest

from http_server import HttpServer
from rowcast.core.callers import Grants
from rowcast.core.topics import TopicFilter
from rowcast.features.websocket_wills.feature import WillsOfWebSockets
from rowcast.features.websocket_wills.wills import WebSocketWills
from rowcast_client import Presence, Problem, Rowcast, SyncPresence, SyncRowcast

TOPIC = "Cat/ann"
HERE, AWAY = {"here": True}, {"here": False}


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        WillsOfWebSockets().install(running.kernel)
        yield running


@pytest.fixture
async def rows(doors):
    async with Rowcast(f"http://127.0.0.1:{doors.port}") as client:
        yield client


def presence(rows, **options):
    return Presence(rows, TOPIC, present=HERE, gone=AWAY, again_seconds=0.01, **options)


async def past(rows):
    return [event["value"]["here"] for event in (await rows.history(TOPIC)).events]


async def until_past(rows, expected):
    async with asyncio.timeout(20):
        while await past(rows) != expected:
            pass


async def test_c21_a_program_is_there_and_gone(doors, rows):
    states = []
    async with presence(rows, on_state=states.append):
        assert [True] == await past(rows)
    assert [True, False] == await past(rows)
    assert ["connecting", "live"] == states
    await doors.until(lambda: not len(doors.kernel.service(WebSocketWills)))
    assert [True, False] == await past(rows), "the will is not written besides"


@pytest.mark.heavy
async def test_c21_a_program_is_there_again_after_a_lost_connection(doors, rows):
    async with presence(rows):
        for connection in [*doors.server.server_state.connections]:
            connection.transport.abort()
        async with Rowcast(rows.url) as others:
            await until_past(others, [True, False, True])


async def test_c21_it_says_so_again_when_another_program_of_the_same_record_goes(rows):
    async with presence(rows):
        async with presence(rows):
            assert [True, True] == await past(rows)
        await until_past(rows, [True, True, False, True])
        await rows.delete(TOPIC)
        async with asyncio.timeout(20):
            while (await rows.query("Cat")).rows == []:
                pass


class Listener:
    """Notes what is written."""

    def __init__(self):
        self.found = []

    def offer(self, event):
        if event.seq:
            self.found.append(json.loads(event.payload)["here"])

    def show(self, event, path):
        """Hear nothing of system rows."""


@pytest.mark.slow
async def test_c21_who_may_not_read_the_record_writes_it_for_each_connection():
    async with HttpServer(grants=Grants(write=True)) as doors:
        WillsOfWebSockets().install(doors.kernel)
        listener = Listener()
        doors.bus.add(TopicFilter(TOPIC), listener)
        async with Rowcast(f"http://127.0.0.1:{doors.port}") as rows, presence(rows):
            for connection in [*doors.server.server_state.connections]:
                connection.transport.abort()
            await doors.until(lambda: [True, False, True] == listener.found)


async def test_c21_what_may_not_be_written_is_refused(rows):
    with pytest.raises(Problem) as refused:
        await Presence(rows, "$SYS/x", present=1, gone=0).open()
    assert refused.value.is_final


async def test_c21_without_asyncio_it_is_the_same(doors, rows):
    def blocking():
        with SyncRowcast(rows.url) as client:
            with SyncPresence(client, TOPIC, present=HERE, gone=AWAY) as here:
                assert client.get(TOPIC).value["here"] is True
                assert here.problem is None
            assert client.get(TOPIC).value["here"] is False
            with pytest.raises(Problem):
                SyncPresence(client, "$SYS/x", present=1, gone=0).open()

    await asyncio.to_thread(blocking)
