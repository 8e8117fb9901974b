"""Asynchronous hooks that suppress their cancellation: they hold up nobody for ever (G22)."""

import asyncio
import logging

from build import ANN, BEN, Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.features.hooks.bounds import HookBounds
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hook_rows import _hooks
from rowcast.features.hooks.hooks import Hooks
from rowcast.writes.write import Receipt
from serving import until

SHORT = HookBounds(seconds=0.01, end_seconds=0.01, stuck=2)


class Stubborn(Hook):
    """Goes on when it is cancelled, until the test lets it end."""

    def __init__(self):
        self.released = asyncio.Event()
        self.asked = []

    async def on_publish(self, caller, event):
        self.asked.append(event.payload)
        if event.payload != b"hang":
            return
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue

    async def on_connect(self, caller):
        await self.on_publish(caller, Event("c", MESSAGE, b"hang"))


def made():
    hooks, hook = Hooks(SHORT), Stubborn()
    hooks.add(hook)
    return Server(hooks=hooks), hook, hooks


def said(payload):
    return Event("u/a", MESSAGE, payload)


def stuck(hooks):
    return next(iter(_hooks(hooks).values()))["stuck"]


async def test_the_next_write_goes_on_and_the_writer_is_answered(caplog):
    room, hook, hooks = made()
    answers = []
    with caplog.at_level(logging.ERROR):
        for payload in (b"hang", b"next"):
            room.kernel.submit(said(payload), ANN, answers.append)
        await until(lambda: len(answers) == 2)
    refused, receipt = answers
    assert (type(refused), refused.code, type(receipt)) == (Error, Code.INTERNAL, Receipt)
    assert hook.asked == [b"hang", b"next"]
    assert "suppresses its cancellation in on_publish" in caplog.text
    assert stuck(hooks) == 1
    hook.released.set()
    await until(lambda: not stuck(hooks))
    await room.stop()


async def test_a_hook_with_too_many_stuck_calls_is_not_called():
    """Each has memory; a stranger's connections would otherwise fill it."""
    room, hook, hooks = made()
    answers = []
    for number in range(2):
        room.kernel.submit(said(b"hang"), Caller(f"user-{number}", ALL, "mqtt"), answers.append)
        await until(lambda number=number: len(answers) == number + 1)
    room.kernel.submit(said(b"plain"), BEN, answers.append)
    await until(lambda: len(answers) == 3)
    assert answers[2].code == Code.INTERNAL
    assert hook.asked == [b"hang"] * 2
    hook.released.set()
    await until(lambda: not stuck(hooks))
    room.kernel.submit(said(b"plain"), BEN, answers.append)
    await until(lambda: len(answers) == 4)
    assert isinstance(answers[3], Receipt)
    await room.stop()


async def test_the_server_stops_though_a_hook_goes_on():
    room, hook, _ = made()
    answers = []
    room.kernel.submit(said(b"hang"), ANN, answers.append)
    await until(lambda: hook.asked)
    await room.stop()
    assert [Code.BUSY] == [answer.code for answer in answers]
    hook.released.set()


async def test_a_hook_that_exits_ends_no_loop():
    """``sys.exit`` in a task ends the loop; here it is a mistake like others."""

    class Exits(Hook):
        async def on_publish(self, caller, event):
            raise SystemExit

    hooks, answers = Hooks(SHORT), []
    hooks.add(Exits())
    room = Server(hooks=hooks)
    room.kernel.submit(said(b"1"), ANN, answers.append)
    await until(lambda: answers)
    assert answers[0].code == Code.INTERNAL
    await room.stop()
