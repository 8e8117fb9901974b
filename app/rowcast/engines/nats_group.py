"""The group of NATS servers that keep the log of a cluster, when its nodes change.

JetStream has a group of all servers, which places streams, and a group for each stream. A server
that comes is taken into the first by itself; into a stream's only when that has fewer servers than
copies. The list of the nodes is in the metadata of the log's stream, so all have the same.

A change of nodes is seldom: each call here connects anew, and blocks.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar, cast

import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamInfo
from nats.js.errors import APIError, NotFoundError

from rowcast.core.errors import Code, Error
from rowcast.engines.jetstream import CONNECT_SECONDS, NAME, NODES, REQUEST_SECONDS
from rowcast.engines.nats_connection import Connection
from rowcast.engines.server_status import ServerStatus
from rowcast.log.engine import no_answer

T = TypeVar("T")

META: Final = "$SYS.REQ.SERVER.PING.JSZ"
"""Asks for the state of the group of all servers; its leader answers (NATS, "System events")."""
REMOVE: Final = "$JS.API.SERVER.REMOVE"
"""Has the leader remove a server for good, and place its copies on others, where there are any."""
NOT_MEMBER: Final = 10044
"""Error code of JetStream: it is no member of the group."""


class NatsGroup:
    """That of one cluster; ``user`` and ``system`` are how its accounts are reached."""

    def __init__(self, name: str, user: Connection, system: Connection) -> None:
        self._name, self._user, self._system = name, user, system
        self._streams = (f"rowcast-{name}", f"rowcast-{name}-lease")

    def look(self) -> ServerStatus:
        """Return how all servers stand. Raises BUSY where a group has no leader."""

        async def streams(client: Client) -> list[StreamInfo]:
            context = client.jetstream(timeout=REQUEST_SECONDS)
            return [await context.stream_info(name) for name in self._streams]

        found = _run(self._user, streams)
        keepers = [
            {self._node(name): in_step for name, in_step in _keepers(stream).items()}
            for stream in found
        ]
        servers = {self._node(name): there for name, there in self._meta().items()}
        return ServerStatus(servers, keepers)

    def _node(self, server: str) -> str:
        return server.removeprefix(f"{self._name}-")

    def _meta(self) -> dict[str, bool]:
        answer = self._ask_system(META, {"leader_only": True})
        group = cast("dict[str, object]", _part(answer, "data")).get("meta_cluster")
        if not isinstance(group, dict) or not group.get("leader"):
            raise no_answer(NAME, "its servers have no leader")
        found = {str(group["leader"]): True}
        for one in group.get("replicas") or ():
            found[str(one["name"])] = bool(one.get("current")) and not one.get("offline")
        return found

    def _ask_system(self, subject: str, question: Mapping[str, object]) -> dict[str, object]:
        async def ask(client: Client) -> dict[str, object]:
            answer = await client.request(
                subject, json.dumps(question).encode(), timeout=REQUEST_SECONDS
            )
            return cast("dict[str, object]", json.loads(answer.data))

        return _run(self._system, ask)

    def list(self, nodes: Mapping[str, str]) -> None:
        """Keep a list of nodes. Raises BUSY."""

        async def change(client: Client) -> None:
            context = client.jetstream(timeout=REQUEST_SECONDS)
            config = (await context.stream_info(self._streams[0])).config
            metadata = (config.metadata or {}) | {NODES: json.dumps(dict(nodes))}
            await context.update_stream(replace(config, metadata=metadata))

        _run(self._user, change)

    def copy_to(self, count: int) -> None:
        """Have the log and the lease on so many servers; the copies are made meanwhile."""

        async def change(client: Client) -> None:
            context = client.jetstream(timeout=REQUEST_SECONDS)
            for name in self._streams:
                config = (await context.stream_info(name)).config
                if config.num_replicas != count:
                    await context.update_stream(replace(config, num_replicas=count))

        _run(self._user, change)

    def remove(self, node: str) -> None:
        """Remove the server of a node, which is stopped. Raises BUSY."""
        answer = self._ask_system(REMOVE, {"peer": f"{self._name}-{node}"})
        problem = answer.get("error")
        if isinstance(problem, dict) and problem.get("err_code") != NOT_MEMBER:
            raise no_answer(NAME, str(problem.get("description")))


def _part(whole: Mapping[str, object], name: str) -> object:
    return whole.get(name) or {}


def _keepers(stream: StreamInfo) -> dict[str, bool]:
    """Return the servers of a stream, and whether each is there and has all of it."""
    group = stream.cluster
    if group is None or not group.leader:
        raise no_answer(NAME, f"the stream {stream.config.name} has no leader")
    found = {group.leader: True}
    for one in group.replicas or ():
        found[one.name or ""] = bool(one.current) and not one.offline
    return found


def _run(connection: Connection, work: Callable[[Client], Awaitable[T]]) -> T:
    """Connect, work, and end. Raises BUSY."""
    try:
        return asyncio.run(_with(connection, work))
    except NotFoundError as error:
        raise Error(Code.BUSY, "the cluster has no log yet") from error
    except APIError as error:
        raise no_answer(NAME, error.description or str(error)) from error
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise no_answer(NAME, str(error) or type(error).__name__) from error


async def _with(connection: Connection, work: Callable[[Client], Awaitable[T]]) -> T:
    client = Client()
    await client.connect(
        list(connection.servers),
        user=connection.user,
        password=connection.password,
        max_reconnect_attempts=1,
        connect_timeout=CONNECT_SECONDS,
        allow_reconnect=False,
    )
    try:
        return await work(client)
    finally:
        await client.close()
