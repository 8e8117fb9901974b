"""Nothing is left of a connection that was cut, at whatever moment (C26, D5).

The whole program runs in the test's own loop, so its tasks, clients and filters can be counted.
"""

import asyncio
import gc
import itertools
import random
import struct
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET

import pytest

from amounts import amount
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Connect, Publish, Subscribe, Subscription
from serving import PATIENCE_SECONDS, application
from talking import upgrade

CYCLES = amount(long=1_000, short=300)
TOGETHER = 20
HEARD_SECONDS_MAX = 0.01
RESET = struct.pack("ii", 1, 0)


def frame(data):
    """Return bytes as one binary frame of a client, with a mask of zeros."""
    size = len(data)
    head = bytes((0x82, 0x80 | size)) if size < 126 else b"\x82\xfe" + size.to_bytes(2, "big")
    return head + bytes(4) + data


CONNECT = encode(Connect(MQTT_5, ""), MQTT_5)
SUBSCRIBE = encode(Subscribe(1, (Subscription("Counter/#", 1),)), MQTT_5)
PUBLISH = encode(Publish("Counter/1", b'{"n": 1}', 1, True, False, 7), MQTT_5)
COMMAND = b'{"op": "subscribe", "id": "1", "topic": "open/#"}'
EVENTS = b"GET /Counter/ HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
PUT = b"PUT /Counter/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n"

CONVERSATIONS = {
    "events": ("http", (EVENTS,)),
    "websocket": ("http", (upgrade("/Counter/"), frame(COMMAND))),
    "a resource's websocket": ("http", (upgrade("/Example"), frame(b"{}"))),
    "mqtt": ("mqtt", (CONNECT, SUBSCRIBE, PUBLISH)),
    "mqtt over websocket": (
        "http",
        (upgrade("/mqtt", "mqtt"), frame(CONNECT), frame(SUBSCRIBE), frame(PUBLISH)),
    ),
    "put": ("http", (PUT, b'{"n": 1}')),
}


async def converse(program, name, rng):
    """Say a random part of a conversation, hear some of the answer, and cut it off."""
    door, sayings = CONVERSATIONS[name]
    port = program.http_port if door == "http" else program.mqtt_port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for said in part_of(sayings, rng):
            writer.write(said)
            if rng.random() < 0.5:
                async with asyncio.timeout(rng.random() * HEARD_SECONDS_MAX):
                    await reader.read(4096)
    finally:
        if rng.random() < 0.5:
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, RESET)
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def part_of(sayings, rng):
    """Return the first of them, or the first bytes of all."""
    if rng.random() < 0.5:
        return sayings[: rng.randint(1, len(sayings))]
    whole = b"".join(sayings)
    return [whole[: rng.randrange(len(whole))]]


async def cut_many(program, name, rng):
    """Have many such conversations, some at a time, while somebody writes."""
    left = itertools.count()

    async def one_after_the_other():
        while next(left) < CYCLES:
            with suppress(TimeoutError, ConnectionError):
                await converse(program, name, rng)

    await asyncio.gather(*(one_after_the_other() for _ in range(TOGETHER)))


async def settled(condition):
    """Wait until a condition holds; what is in cycles is collected now and then."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            gc.collect()  # takes longer than most turns of the loop, so there are many in between
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.1)


def filters(program):
    """Return how many subscriptions the bus would offer an event to."""
    return len(program.kernel.bus.match("Counter/1")) + len(program.kernel.bus.match("open/1"))


@pytest.mark.slow
@pytest.mark.timeout(5 * PATIENCE_SECONDS)
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_nothing_is_left_of_many_cut_connections(tmp_path, name):
    async with application(tmp_path) as program:
        await converse_once(program)
        tasks = len(asyncio.all_tasks())
        await cut_many(program, name, random.Random(name))
        await settled(lambda: not program.broker.clients)
        await settled(lambda: not filters(program))
        await settled(lambda: len(asyncio.all_tasks()) <= tasks)


async def converse_once(program):
    """Use the program once, so that what it makes on first use is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", program.http_port)
    writer.write(PUT.replace(b"Host: x", b"Host: x\r\nConnection: close") + b'{"n": 1}')
    await reader.read()
    writer.close()
    await writer.wait_closed()
