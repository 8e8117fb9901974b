"""A record that says whether this program is there, by a will on a WebSocket of its own.

    async with Presence(rows, "presence/ann", present="here", gone="away"):
        ...  # presence/ann is "here"; for subscribers of MQTT it is retained

The record is ``gone`` after the end of the block, and when the connection is lost, also after a
kill of the server. Each new connection writes ``present`` again, also when a former one, or another
program, has just gone.
"""

import asyncio
from contextlib import suppress
from typing import Final, Self

from rowcast.core.events import DELETE, PATCH, PUT
from rowcast.core.python_client_limits import PRESENCE_SECONDS_MIN
from rowcast_client.bounds import USUAL, SocketBounds
from rowcast_client.connection import Client
from rowcast_client.events import Event
from rowcast_client.following import LIVE, State
from rowcast_client.link import Will
from rowcast_client.problem import Problem
from rowcast_client.websocket import Socket, SocketSubscription

REFUSED: Final = "refused"
"""The state of a presence that the server no longer takes."""


class Presence:
    """One record that is ``present`` while this program is there; use it with ``async with``.

    ``on_state`` receives ``connecting``, ``live`` and ``waiting``; and ``refused`` when ``present``
    cannot be written any longer, of which ``problem`` says why.
    """

    def __init__(
        self,
        rows: Client,
        topic: str,
        *,
        present: object,
        gone: object,
        patient: bool = False,
        on_state: State | None = None,
        bounds: SocketBounds = USUAL,
        again_seconds: float = PRESENCE_SECONDS_MIN,
    ) -> None:
        self.topic, self.present, self.gone = topic, present, gone
        self.problem: Problem | None = None
        self._on_state = on_state or (lambda _: None)
        self._again_seconds = again_seconds
        self._is_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        will = Will(topic, gone)
        self._socket = Socket(rows, will=will, patient=patient, on_state=self._turn, bounds=bounds)

    async def open(self) -> None:
        """Set the will, and write that this program is there; raises a Problem."""
        await self._socket.open()
        try:
            self._is_due.clear()
            watched = self._socket.subscribe(self.topic, start="new")
            await self._socket.put(self.topic, self.present)
        except BaseException:
            await self._socket.close()
            raise
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._stay()), loop.create_task(self._watch(watched))]

    async def close(self) -> None:
        """Write that this program is gone, and end the connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._tasks and self._socket.is_live:
            with suppress(Problem):  # then the server writes it as the will
                await self._socket.put(self.topic, self.gone)
        await self._socket.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _turn(self, state: str) -> None:
        if state == LIVE:
            self._is_due.set()
        self._on_state(state)

    async def _stay(self) -> None:
        """Write that this program is there, for each connection and when the record says gone."""
        while True:
            await asyncio.sleep(self._again_seconds)
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._socket.put(self.topic, self.present)
            except Problem as problem:
                if problem.is_final:
                    self.problem = problem
                    self._on_state(REFUSED)
                    return
                self._is_due.set()

    async def _watch(self, events: SocketSubscription) -> None:
        with suppress(Problem):  # who may not read the record writes it for each connection only
            async for event in events:
                if event.kind == DELETE or self._is_gone(event):
                    self._is_due.set()

    def _is_gone(self, event: Event) -> bool:
        value = event.value
        written = event.kind in {PUT, PATCH}
        return written and _has(value, self.gone) and not _has(value, self.present)


def _has(value: object, said: object) -> bool:
    """Whether a record says this: it may have more attributes, such as its id."""
    if isinstance(value, dict) and isinstance(said, dict):
        return said.items() <= value.items()
    return value == said
