"""A link: one connection to a remote broker, used once.

Only this module uses gmqtt, and works around its limitations: it has no callback for
acknowledgements, does not parse the reason of a PUBACK, has no connect timeout, and reconnects on
its own without releasing packet identifiers. So each connection is a new gmqtt client that never
reconnects; acknowledgements are detected in its storage of unacknowledged packets; reasons are
parsed by wrappers of two of its handlers. The owner of the link decides when to reconnect.

Without an answer to its PINGREQ gmqtt closes the connection, which first waits until all that was
written is sent, and over TLS for the other side's goodbye: for ever, or half a minute, when the
broker is frozen. So a link has its own timer, and aborts.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from gmqtt import Client, Subscription
from gmqtt.mqtt.handler import MQTTConnectError
from gmqtt.mqtt.package import PublishPacket
from gmqtt.storage import PersistentStorage

from rowcast.core.errors import Code, Error
from rowcast.core.gateway_limits import (
    GATEWAY_HEARD_BYTES_HIGH,
    GATEWAY_HEARD_MAX,
    GATEWAY_WRITE_BYTES_HIGH,
)
from rowcast.features.bridges.refusals import REASONS, REFUSED, note_refused, refusal_text
from rowcast.features.bridges.remote import MQTT_5, Remote

Done = Callable[[str | None], None]
"""Called with None when the broker has a message, else with the reason of its refusal."""
OnMessage = Callable[[str, bytes, int, dict[str, Any]], Awaitable[bool]]
"""Handles a message: topic, payload, QoS and gmqtt's properties; False: not acknowledged."""

_OTHER_NAMES: Final = frozenset({62, 64})
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_NEVER: Final = -2
"""gmqtt's value for no reconnects; 0 would be one."""
_SILENCE_KEEP_ALIVES: Final = 1.75
"""Without any packet from the broker, in Keep Alive intervals, after which it counts as lost: gmqtt
sends PINGREQ after 1.3 at the latest, and would close the connection after 2 to 2.5."""


def _ignore(_problem: str) -> None:
    """Do nothing: nobody asks."""


class _Acknowledgements(PersistentStorage):  # type: ignore[misc] # gmqtt has no types
    """gmqtt's storage of unacknowledged packets, which detects acknowledgements."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Done | None = None
        """The callback of the message being published."""
        self.waiting: dict[int, Done] = {}
        self.refusals: dict[int, str] = {}

    def push_message(self, mid: int, raw_package: bytes) -> None:
        """Store a PUBLISH; for QoS 2 again, when PUBREL replaces it."""
        super().push_message(mid, raw_package)
        if self.next is not None:
            self.waiting[mid], self.next = self.next, None

    def remove_message_by_mid(self, mid: int) -> None:
        """Call the callback of an acknowledged or refused message."""
        super().remove_message_by_mid(mid)
        done = self.waiting.pop(mid, None)
        if done is not None:
            done(self.refusals.pop(mid, None))


class _Intake:
    """Counts pending messages, and pauses gmqtt's reading above a bound.

    Receive Maximum (MQTT 5, 3.1.2.11.3) covers neither QoS 0 nor brokers before MQTT 5. gmqtt
    starts a task for each message, so it is counted one turn late: the bound may be exceeded by one
    read.
    """

    def __init__(self) -> None:
        self.count = self.size_bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def bound(self, protocol: Any) -> None:
        """Let reads of a connection wait for room."""
        read = protocol.read

        async def read_when_room(n: int = -1) -> bytes:
            await asyncio.sleep(0)  # so that messages of the last read are counted
            await self._room.wait()
            return cast("bytes", await read(n))

        protocol.read = read_when_room

    def add(self, size_bytes: int) -> None:
        """Count a received message."""
        self.count += 1
        self.size_bytes += size_bytes
        if self._full:
            self._room.clear()

    def done(self, size_bytes: int) -> None:
        """Count down a stored or refused message."""
        self.count -= 1
        self.size_bytes -= size_bytes
        if not self._full:
            self._room.set()

    @property
    def _full(self) -> bool:
        return self.count >= GATEWAY_HEARD_MAX or self.size_bytes >= GATEWAY_HEARD_BYTES_HIGH


class Link:
    """One connection. ``lost`` is called once, when it closes for any reason but ``close``."""

    def __init__(self, remote: Remote, lost: Callable[[str], None]) -> None:
        self._remote = remote
        self._lost: Callable[[str], None] | None = lost
        self._acknowledgements = _Acknowledgements()
        self._client: Client | None = None
        self._intake = _Intake()
        self._flush: Callable[[], None] = _nothing
        self._gathered_bytes = 0
        self._watching: asyncio.TimerHandle | None = None
        self.flying_max = 0
        """The broker's Receive Maximum."""

    async def open(
        self,
        take: OnMessage | None = None,
        filters: Sequence[tuple[str, int]] = (),
        session_seconds: int = 0,
        note: Callable[[str], None] = _ignore,
    ) -> None:
        """Connect, and subscribe to ``filters`` with their QoS; raises BUSY with the reason.

        ``session_seconds``: how long the broker keeps the session of such subscriptions.
        ``note`` is told of filters that the broker refuses: the connection stays.
        """
        client = self._make(take, session_seconds)
        client.on_subscribe = partial(note_refused, filters, note)
        remote = self._remote
        try:
            async with asyncio.timeout(remote.connect_seconds):
                await client.connect(
                    remote.host,
                    remote.port,
                    ssl=remote.tls or False,
                    keepalive=remote.keep_alive_seconds,
                    version=remote.version,
                )
        except (MQTTConnectError, OSError) as failure:  # a TimeoutError is an OSError
            await self.close()
            raise _unreachable(remote, _reason(failure, remote)) from None
        self._watch()
        protocol = client._connection._protocol
        self._intake.bound(protocol)
        self._gather_packets(protocol, client._package_handler)
        allowed = client._package_handler.id_generator._max - 2
        self.flying_max = max(1, min(remote.flying_max, allowed))
        if filters:
            # Retain as published: otherwise a new record and a message would look alike. Before
            # MQTT 5 it cannot: only what was retained when the subscription began says so. A
            # session that goes on has the retained ones already (retain handling 1).
            explains = remote.version == MQTT_5
            once = 1 if explains and session_seconds else 0
            client.subscribe(
                [
                    Subscription(
                        text, qos=qos, retain_as_published=explains, retain_handling_options=once
                    )
                    for text, qos in filters
                ]
            )

    def unsubscribe(self, filters: Sequence[str], done: Callable[[], None]) -> None:
        """Unsubscribe from filters; ``done`` is called when the broker has done it."""
        client = cast("Client", self._client)
        client.on_unsubscribe = lambda *_: done()
        # as bytes, because gmqtt counts the characters of a text as its bytes
        client._connection.unsubscribe([text.encode() for text in filters])

    def _gather_packets(self, protocol: Any, handler: Any) -> None:
        """Send all publishes of one turn with one system call.

        And send no packet larger than the broker's maximum (MQTT-3.2.2-15).
        """
        limit = handler._connack_properties.get("maximum_packet_size")
        most = limit[0] if limit else None
        gathered: list[bytes] = []

        def send_publish(message: object) -> tuple[int | None, bytes]:
            mid, packet = PublishPacket.build_package(message, protocol)
            if most is not None and len(packet) > most:
                handler.id_generator.free_id(mid)
                raise Error(
                    Code.TOO_LARGE,
                    f"packet too large: {len(packet)} bytes, and the broker takes {most}",
                )
            if not gathered:
                asyncio.get_running_loop().call_soon(flush)
            gathered.append(packet)
            self._gathered_bytes += len(packet)
            return mid, packet

        def flush() -> None:
            data = b"".join(gathered)
            gathered.clear()
            self._gathered_bytes = 0
            if data:
                protocol.write_data(data)

        protocol.send_publish = send_publish
        self._flush = flush

    def _make(self, take: OnMessage | None, session_seconds: int) -> Client:
        remote = self._remote
        options: dict[str, Any] = {}
        if remote.version == MQTT_5:
            options["receive_maximum"] = GATEWAY_HEARD_MAX
            if session_seconds:
                options["session_expiry_interval"] = session_seconds
        client = Client(
            remote.client_id,
            clean_session=not session_seconds,
            optimistic_acknowledgement=False,
            persistent_storage=self._acknowledgements,
            **options,
        )
        client.reconnect_retries = _NEVER
        if remote.username:
            client.set_auth_credentials(remote.username, remote.password or None)
        client.on_disconnect = self._on_disconnect
        handler = client._package_handler
        for packet in ("puback", "pubrec"):
            name = f"_handle_{packet}_packet"
            setattr(handler, name, self._reading(getattr(handler, name)))
        if take is not None:

            async def on_message(
                _client: Client, topic: str, payload: bytes, qos: int, properties: dict[str, Any]
            ) -> int:
                self._intake.add(len(payload))
                try:
                    taken = await take(topic, bytes(payload), qos, properties)
                finally:
                    self._intake.done(len(payload))
                if not taken and qos:
                    self._abort("a message is to be sent again")  # so that this is not acknowledged
                return 0

            client.on_message = on_message
        self._client = client
        return client

    def _reading(self, handle: Callable[[int, bytes], None]) -> Callable[[int, bytes], None]:
        """Wrap a handler to parse the reason in a PUBACK or PUBREC (MQTT 5, 3.4.2.1)."""

        def handle_reason(command: int, packet: bytes) -> None:
            reason = packet[2] if len(packet) > 2 else 0
            if reason >= REFUSED:
                mid = int.from_bytes(packet[:2], "big")
                self._acknowledgements.refusals[mid] = refusal_text(reason)
            handle(command, packet)

        return handle_reason

    def _on_disconnect(self, _client: Client, packet: object, _failure: object = None) -> None:
        reason = packet[0] if isinstance(packet, bytes) and packet else 0
        said = f": {REASONS.get(reason, f'reason 0x{reason:02x}')}" if reason else ""
        self._end(f"the broker closed the connection{said}")

    def _watch(self) -> None:
        """Abort the connection when nothing has come for too long; else look again then."""
        if self._client is None:
            return
        keep_alive = self._remote.keep_alive_seconds
        now = time.monotonic()
        silent = now - self._client._connection._last_data_in
        left = _SILENCE_KEEP_ALIVES * keep_alive - silent
        if left <= 0:
            self._abort(f"the broker has not answered for {silent:.0f} s")
        else:
            self._watching = asyncio.get_running_loop().call_later(left, self._watch)

    def _end(self, why: str) -> None:
        if self._watching is not None:
            self._watching.cancel()
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(why)

    def _abort(self, why: str) -> None:
        """Abort the connection."""
        if self._client is not None:
            self._client._connection._transport.abort()
        self._end(why)

    @property
    def crowded(self) -> bool:
        """Whether the broker reads too slowly."""
        transport = self._client._connection._transport  # type: ignore[union-attr]
        waits = transport.get_write_buffer_size() + self._gathered_bytes
        return bool(waits > GATEWAY_WRITE_BYTES_HIGH)

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        properties: dict[str, Any],
        done: Done,
    ) -> None:
        """Send a message; ``done`` is called at once for QoS 0, else when it is acknowledged.

        Raises BUSY when the connection is lost, TOO_LARGE above the broker's maximum.
        """
        client = self._client
        if client is None or not client.is_connected:
            raise _unreachable(self._remote, "the connection is lost")
        if self._remote.version != MQTT_5:
            properties = {}
        self._acknowledgements.next = done if qos else None
        try:
            client.publish(topic, payload, qos=qos, retain=retain, **properties)
        finally:
            self._acknowledgements.next = None
        if not qos:
            done(None)

    async def close(self) -> None:
        """Close the connection without calling ``lost``."""
        self._lost = None
        client, self._client = self._client, None
        self._acknowledgements.waiting.clear()
        if self._watching is not None:
            self._watching.cancel()
        if client is not None:
            with suppress(Exception, asyncio.CancelledError):  # it must be closed in any case
                self._flush()
                async with asyncio.timeout(self._remote.connect_seconds):
                    await client.disconnect()
            if client._connection is not None:  # it may wait for a broker that is frozen
                client._connection._transport.abort()


def _nothing() -> None:
    """Do nothing: not connected."""


def _reason(failure: Exception, remote: Remote) -> str:
    """Return why a connection could not be opened, and what may mend it."""
    if isinstance(failure, TimeoutError):
        return "it does not answer" + ("" if remote.tls else "; a port for TLS needs tls: true")
    if isinstance(failure, ssl.SSLCertVerificationError):
        mend = (
            "set host to a name of its certificate"
            if failure.verify_code in _OTHER_NAMES
            else "set certificate_authority to the file of the authority that signed it"
        )
        why = failure.verify_message.rstrip(".")
        return f"certificate verify failed: {why}; {mend}"
    said = str(getattr(failure, "strerror", None) or failure)
    if remote.tls and isinstance(failure, ssl.SSLError | ConnectionResetError):
        return f"{said}; a port without TLS needs tls: false"
    return said


def _unreachable(remote: Remote, why: str) -> Error:
    return Error(Code.BUSY, f"the broker at {remote.host}:{remote.port} cannot be used: {why}")
