"""The log as a stream of NATS JetStream: one subject, one message for each batch.

The sequence number that the stream gives a message is the number of its entry: each is published
with ``Nats-Expected-Last-Sequence``, so that a message is stored as the next one or refused (error
10071). The stream keeps its messages in files on a majority of its servers, which must sync each
before they answer (``sync_interval: always``; the server's default may lose minutes of acknowledged
messages to a power failure, Jepsen, NATS 2.12.1). The lease is a second stream, of one message.

There are no consumers: a position is the reader's own, and what it lacks it gets by number
(Direct Get, NATS ADR-31), from any replica; so a read may miss the newest.

The client of NATS runs on a loop and thread of its own; every method here blocks.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import Header, RetentionPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import APIError, NotFoundError

from rowcast.core.errors import Code, Error
from rowcast.engines.nats_connection import Connection
from rowcast.log.engine import Lease, no_answer, not_the_next, too_large

log = logging.getLogger("rowcast.engines")

T = TypeVar("T")

NAME: Final = "NATS JetStream"
EPOCH: Final = "rowcast-epoch"
"""In the metadata of the stream."""
NODES: Final = "rowcast-nodes"
"""Likewise: the addresses of the cluster's nodes by their names, as JSON; see ``nats_group.py``."""
REQUEST_SECONDS: Final = 2.0
"""How long one request waits. A stream without a leader does not answer; the request is made again,
by who still needs it."""
WRONG_SEQUENCE: Final = frozenset({10071, 10164})
"""Error codes of JetStream: "wrong last sequence"; the second, where the header has no number."""
NAME_IN_USE: Final = frozenset({10058, 10148})
"""A stream of this name is there, with another configuration."""
HEADER_BYTES: Final = 256
"""Of a message: what its headers take of the payload's limit."""
PAYLOAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most that nats-server allows (``max_payload``); a commit is seldom over a megabyte."""
PAYLOAD_BYTES_LEAST: Final = 4 * 1024 * 1024
"""What servers must take: a commit of one of the largest values (2 MB) with its properties."""
BYTES_PER_SECOND: Final = 8 * 1024 * 1024
"""What an entry takes at least, beside the time of a request: a network of 100 Mbit/s."""
READS_AT_ONCE: Final = 64
"""Requests for entries on their way: 64 round trips in one, and no more answers in memory."""
RECONNECT_SECONDS: Final = 0.25
"""Between two attempts to connect: servers of this machine, which may be starting."""
CONNECT_SECONDS: Final = 2
"""For one attempt."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which stream, and how it is made if there is none yet."""

    name: str
    """Of the cluster: letters, digits, ``-`` and ``_``."""
    replicas: int
    """On how many servers it is: 1, 3 or 5."""
    bytes_max: int
    """Beyond it the oldest entries go. A node that is further behind needs a copy."""
    epoch: str
    """Of the tables of the node that makes it."""
    first: int = 1
    """The number of its first entry: for tables that have had another log, the next one."""
    patience_seconds: float = 0.0
    """How long it is looked for before it is made, for who would leave that to others."""
    copies_least: int = 0
    """On how many servers it must be; 0: on all ``replicas``."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The addresses of the nodes that vote for it; empty where others do."""


class JetStreamEngine:
    """One node's connection. Raises BUSY when no stream is reached or made within ``seconds``."""

    def __init__(
        self,
        connection: Connection,
        place: Place,
        seconds: float,
        request_seconds: float = REQUEST_SECONDS,
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._place = place
        self._stream, self._lease = f"rowcast-{place.name}", f"rowcast-{place.name}-lease"
        self._subject, self._lease_subject = f"{self._stream}.log", f"{self._stream}.lease"
        self._request_seconds = request_seconds
        self._make_at: float | None = None
        self._loop = make_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rowcast-nats")
        self._thread.start()
        try:
            self._run(self._open(connection, seconds), seconds + request_seconds)
        except BaseException:
            self.close()
            raise

    def _run(self, work: Coroutine[object, None, T], seconds: float) -> T:
        """Run on the loop of the client, and wait; raises BUSY for what is no answer."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except APIError as error:
            raise no_answer(NAME, error.description or str(error)) from error
        except (nats.errors.Error, OSError, LateError, TimeoutError) as error:
            future.cancel()
            raise no_answer(NAME, str(error) or type(error).__name__) from error

    def _ask(self, work: Coroutine[object, None, T]) -> T:
        return self._run(work, self._request_seconds * 2)

    # -- opening -----------------------------------------------------------------------------------

    async def _open(self, connection: Connection, seconds: float) -> None:
        """Connect, and find or make the streams; tries again until the time is over."""
        deadline = self._loop.time() + seconds
        self._client = client = Client()
        while True:
            try:
                if not client.is_connected:
                    await self._connect(client, connection)
                self._streams: JetStreamContext = client.jetstream(timeout=self._request_seconds)
                longest = self._request_seconds + PAYLOAD_BYTES_MAX / BYTES_PER_SECOND
                self._reads = client.jetstream(timeout=longest)
                await self._find()
            except (nats.errors.Error, APIError, OSError, TimeoutError) as error:
                if self._loop.time() > deadline:
                    raise
                log.debug("the stream is not there yet: %s", error)
                await asyncio.sleep(RECONNECT_SECONDS)
            else:
                return

    async def _connect(self, client: Client, connection: Connection) -> None:
        await client.connect(
            list(connection.servers),
            user=connection.user or None,
            password=connection.password or None,
            token=connection.token or None,
            tls=connection.tls,
            user_credentials=str(connection.credentials) if connection.credentials else None,
            name=f"rowcast-{self._place.name}",
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type]
            connect_timeout=CONNECT_SECONDS,
            allow_reconnect=True,
            error_cb=_note,
        )

    async def _find(self) -> None:
        found = await self._made(self._config())
        self._epoch = (found.config.metadata or {}).get(EPOCH, "")
        if not self._epoch:
            raise Error(
                Code.CONFLICT,
                f"the stream {self._stream} was not made by Rowcast; choose another cluster name",
            )
        self._check(found)
        await self._made(self._lease_config())

    def _check(self, found: StreamInfo) -> None:
        """Raise INVALID for servers that take too little, or a log with too few copies."""
        most = int(self._client.max_payload)
        if most < PAYLOAD_BYTES_LEAST:
            raise Error(
                Code.INVALID,
                f"the NATS servers take messages of {most} bytes, too few for a commit; set "
                "`max_payload: 8MB` in their configuration",
            )
        copies, place = found.config.num_replicas or 1, self._place
        wanted = place.copies_least or place.replicas
        if copies < wanted:
            raise Error(
                Code.INVALID,
                f"the stream {self._stream} has {copies} copies, and there are to be {wanted}; run "
                f"`nats stream edit {self._stream} --replicas {wanted}`, and the same for "
                f"{self._lease}, while all servers run",
            )

    def _config(self) -> StreamConfig:
        place, nodes = self._place, dict(self._place.nodes)
        return StreamConfig(
            name=self._stream,
            subjects=[self._subject],
            storage=StorageType.FILE,
            retention=RetentionPolicy.LIMITS,
            num_replicas=place.replicas,
            max_bytes=place.bytes_max,
            allow_direct=True,
            deny_delete=True,
            deny_purge=True,
            first_seq=place.first,
            metadata={EPOCH: place.epoch} | ({NODES: json.dumps(nodes)} if nodes else {}),
        )

    def _lease_config(self) -> StreamConfig:
        return StreamConfig(
            name=self._lease,
            subjects=[self._lease_subject],
            storage=StorageType.FILE,
            num_replicas=self._place.replicas,
            max_msgs=1,
            allow_direct=True,
        )

    async def _made(self, config: StreamConfig) -> StreamInfo:
        """Return a stream, which is made if there is none; who is later gets that of the first."""
        try:
            return await self._streams.stream_info(config.name or "")
        except NotFoundError:
            if config.name == self._stream and await self._is_early():
                raise
        try:
            return await self._streams.add_stream(config)
        except APIError as error:
            if error.err_code not in NAME_IN_USE:
                raise
            return await self._streams.stream_info(config.name or "")

    async def _is_early(self) -> bool:
        """Whether a log is left to others to make: for a time in which all servers are there.

        That they are shows the stream of the lease, which has as many copies.
        """
        if not self._place.patience_seconds:
            return False
        if self._make_at is None:
            await self._made(self._lease_config())
            self._make_at = self._loop.time() + self._place.patience_seconds
        return self._loop.time() < self._make_at

    # -- entries -----------------------------------------------------------------------------------

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log."""
        return self._epoch

    def servers(self) -> set[str]:
        """Return the names of the servers that keep the stream. Raises BUSY."""
        group = self._ask(self._streams.stream_info(self._stream)).cluster
        if group is None or not (group.leader or group.replicas):  # a server without a cluster
            return {str(self._client._server_info["server_name"])}
        names = [group.leader, *(one.name for one in group.replicas or ())]
        return {name for name in names if name}

    def nodes(self) -> dict[str, str]:
        """Return the addresses of the cluster's nodes; empty where no list is kept."""
        config = self._ask(self._streams.stream_info(self._stream)).config
        return cast("dict[str, str]", json.loads((config.metadata or {}).get(NODES, "{}")))

    @property
    def entry_bytes_max(self) -> int:
        """What the servers take in one message (``max_payload``)."""
        return int(self._client.max_payload) - HEADER_BYTES

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the first entry and of the last, as the stream's leader has it."""
        state = self._ask(self._streams.stream_info(self._stream)).state
        if not state.messages:
            last = max(state.last_seq, self._place.first - 1)
            return last + 1, last
        return state.first_seq, state.last_seq

    def append(self, number: int, data: bytes) -> None:
        """Publish an entry as the next message."""
        if len(data) > self.entry_bytes_max:
            raise too_large(len(data), self.entry_bytes_max)
        sequence = self._publish(self._subject, data, self._stream, number - 1)
        if sequence != number:  # cannot be: the stream has compared
            raise Error(Code.CONFLICT, f"entry {number} was stored as {sequence}")

    def _publish(self, subject: str, data: bytes, stream: str, last: int) -> int:
        if last < 0:
            raise not_the_next(last + 1)
        headers = {Header.EXPECTED_LAST_SEQUENCE.value: str(last)}
        seconds = self._request_seconds + len(data) / BYTES_PER_SECOND
        publishing = self._streams.publish(subject, data, seconds, stream=stream, headers=headers)
        try:
            return self._run(publishing, seconds + self._request_seconds).seq
        except Error as error:
            cause = error.__cause__
            if isinstance(cause, APIError) and cause.err_code in WRONG_SEQUENCE:
                raise not_the_next(last + 1) from cause
            raise

    def read(self, after: int, size: int) -> list[bytes]:
        """Get messages by number, as many as fit."""
        found: list[bytes] = []
        wanted, left = 1, size
        while left > 0:
            numbers = range(after + 1, after + 1 + wanted)
            try:
                got = self._run(self._get(numbers), self._read_seconds(wanted))
            except Error:
                if not found:
                    raise
                break  # what has come is enough for now
            for data in got:
                if left > 0:
                    found.append(data)
                    left -= len(data)
            if len(got) < wanted:
                break
            after += wanted
            mean = max(1, (size - left) // len(found))  # no more than what fits, as it seems
            wanted = min(wanted * 4, READS_AT_ONCE, left // mean + 1)
        if not found and self.bounds()[0] > after + 1:
            raise Error(Code.GONE, f"entries up to {self.bounds()[0] - 1} are gone")
        return found

    def _read_seconds(self, count: int) -> float:
        """Return how long entries may take: one alone may be as large as any."""
        large = self.entry_bytes_max / BYTES_PER_SECOND if count == 1 else 0.0
        return self._request_seconds * 2 + large

    async def _get(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the entries with these numbers, up to the first that is not there."""
        tasks = [asyncio.ensure_future(self._get_one(number)) for number in numbers]
        try:
            found: list[bytes] = []
            for task in tasks:
                data = await task
                if data is None:
                    break
                found.append(data)
            return found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _get_one(self, number: int) -> bytes | None:
        if number < 1:
            return None
        try:
            message = await self._reads.get_msg(self._stream, number, direct=True)
        except NotFoundError:
            return None
        return (message.data or b"") if message.seq == number else None

    def trim(self, until: int) -> None:
        """Do nothing: the stream lets go of the oldest beyond its bytes."""

    # -- the lease ---------------------------------------------------------------------------------

    def lease(self) -> Lease:
        """Return the one message of the lease's stream."""
        return self._ask(self._read_lease())

    async def _read_lease(self) -> Lease:
        try:
            message = await self._streams.get_last_msg(
                self._lease, self._lease_subject, direct=True
            )
        except NotFoundError:
            return Lease()
        return Lease(int(message.seq or 0), message.data or b"")

    def take_lease(self, known: int, holder: bytes) -> Lease:
        """Replace the message; ``known`` is its number."""
        return Lease(self._publish(self._lease_subject, holder, self._lease, known), holder)

    def close(self) -> None:
        """Close the connection, and end the thread."""
        client = getattr(self, "_client", None)
        if client is not None and not client.is_closed:
            future = asyncio.run_coroutine_threadsafe(client.close(), self._loop)
            try:
                future.result(self._request_seconds)
            except (nats.errors.Error, OSError, LateError, TimeoutError):
                future.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _note(error: Exception) -> None:
    """Take what the client says of lost connections: it reconnects by itself."""
    log.debug("NATS: %s", error)
