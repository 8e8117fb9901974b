"""One connected client: bytes in through the codec, packets out once per turn of the loop.

There is no task for a client. Its read side is ``receive``, called by the transport; its write side
is ``flush``, called by the loop once at the end of each turn in which something became ready: all
that is due then is one write. Neither blocks; what an asynchronous step takes longer comes back as
a callback. TCP and WebSocket differ only in the transport (FEATURES D4).

What is in memory for a client is bounded: its subscription's queue, its window, the socket's
buffer. A client that stops reading is written to no more, not read from either, and cut off when
its socket takes nothing for long.
"""

import asyncio
import logging
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Protocol

from app.broker.delivery import deliver
from app.broker.forms import Form
from app.broker.handlers import HANDLERS
from app.broker.publishing import on_puback, on_publish
from app.broker.session import Session
from app.core.callers import Caller
from app.core.errors import Error
from app.core.limits import (
    MQTT_CLOSE_SECONDS,
    MQTT_KEEP_ALIVE_FACTOR,
    MQTT_PROGRESS_BYTES,
    MQTT_REASON_CHARS_MAX,
    MQTT_STALL_SECONDS,
)
from app.engine.write import Outcome, Unheard
from app.mqtt.connection import Connection
from app.mqtt.encode import encode
from app.mqtt.packets import MQTT_5, Connack, Disconnect, Packet, Puback, Publish, Will
from app.mqtt.reasons import Reason
from app.mqtt.violations import UnsupportedVersion, Violation

if TYPE_CHECKING:
    from app.broker.broker import Broker

log = logging.getLogger("rowcast.mqtt")


class Transport(Protocol):
    """What carries bytes to and from one client."""

    def write(self, data: bytes) -> None:
        """Send bytes, in order; never blocks."""

    def close(self) -> None:
        """Close when what was written is sent."""

    def abort(self) -> None:
        """Close now."""

    def pause_reading(self) -> None:
        """Deliver no more bytes until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Deliver bytes again."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the peer to take them."""


class Client:
    """A connection and, once it has sent CONNECT, its session."""

    __slots__ = (
        "_close_timer",
        "_crowded",
        "_paused",
        "_scheduled",
        "_stall_timer",
        "_timer",
        "answered",
        "blocked",
        "broker",
        "caller",
        "closing",
        "connection",
        "early",
        "form",
        "keep_alive_seconds",
        "keeps_session",
        "last_seen",
        "loop",
        "out",
        "packet_bytes_max",
        "peer",
        "problems",
        "quota",
        "received",
        "refused",
        "sent",
        "session",
        "submit",
        "taken",
        "tells_seq",
        "transport",
        "unheard",
        "will",
    )

    def __init__(
        self, broker: "Broker", transport: Transport, peer: str, form: Form | None = None
    ) -> None:
        self.broker = broker
        self.transport = transport
        self.peer = peer
        self.loop = broker.loop
        self.connection = Connection("server", broker.settings.packet_bytes_max, broker.topics)
        self.session: Session | None = None
        self.caller: Caller | None = None
        self.form = form
        """How it wants messages; before CONNECT, what a WebSocket's upgrade asked for."""
        self.will: Will | None = None
        self.keeps_session = False
        """Whether it asked for a session that outlives the connection (MQTT 5, 3.1.2.11.2)."""
        self.keep_alive_seconds = 0.0
        self.last_seen = self.loop.time()
        self.packet_bytes_max = 0
        """The greatest packet that the client takes; 0 is no limit (MQTT 5, 3.1.2.11.4)."""
        self.problems = True
        """Whether the client wants to be told why (Request Problem Information)."""
        self.tells_seq = False
        """Whether acknowledgements tell the position: MQTT 5, unless ``problems`` forbids it."""
        self.submit = broker.engine.submit
        self.unheard = Unheard(self.note_refusal)
        self.quota = 0
        """How many of its QoS 1 publishes may be unanswered at once."""
        self.taken = self.answered = 0
        """QoS 1 publishes: the number of the last one, and of the last one answered."""
        self.early: dict[int, tuple[int, Outcome]] = {}
        """Packet identifiers and outcomes that wait for those before them, by number."""
        self.received = self.sent = self.refused = 0
        """Packets, messages and refusals of this connection, for those who look."""
        self.out: list[bytes] = []
        """What is due at the end of this turn."""
        self.blocked = False
        """Whether the window is full: an acknowledgement makes it ready again."""
        self.closing = False
        self._scheduled = False
        self._paused = False
        self._crowded = False
        self._stall_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._timer = self.loop.call_later(
            broker.settings.connect_timeout_seconds, self._connect_timeout
        )

    @property
    def name(self) -> str:
        """The client id, for logs; a dash before CONNECT."""
        return self.caller.client_id if self.caller is not None else "-"

    # -- read side ---------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes from the transport; a failure is this client's alone (FEATURES D8)."""
        if self.closing:
            return
        try:
            packets = self.connection.receive(data)
            if packets or len(data) >= MQTT_PROGRESS_BYTES:  # MQTT-3.1.2-22 asks for packets
                self.last_seen = self.loop.time()
                self.received += len(packets)
                self._handle(packets)
        except Violation as violation:
            self.refuse(violation)
        except Exception:
            log.exception("a packet of %s from %s failed", self.name, self.peer)
            self.disconnect(Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason")
        committer = self.broker.engine.committer
        if committer.crowded and not self._crowded and not self.closing:
            self._crowded = True
            self.transport.pause_reading()
            committer.when_relieved(self._relieved)

    def _handle(self, packets: list[Packet | Violation]) -> None:
        for packet in packets:
            kind = type(packet)
            if kind is Publish:
                on_publish(self, packet)  # type: ignore[arg-type]
            elif kind is Puback:
                on_puback(self, packet)  # type: ignore[arg-type]
            elif isinstance(packet, Violation):
                raise packet
            else:
                HANDLERS[kind](self, packet)
            if self.closing:
                return

    def _relieved(self) -> None:
        self._crowded = False
        self._read_again()

    def _read_again(self) -> None:
        if not self.closing and not self._crowded and not self._paused:
            self.last_seen = self.loop.time()  # it was not heard: its silence was ours
            self.transport.resume_reading()

    def note_refusal(self, error: Error) -> None:
        """Count a publish that was refused; before MQTT 5, and with QoS 0, nobody is told."""
        self.refused += 1
        self.broker.refusals += 1
        log.debug("a publish of %s was refused: %s", self.name, error.message)

    # -- write side --------------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        """Send a packet at the end of this turn, unless the client takes none of its size."""
        frame = encode(packet, self.connection.version)
        if self.packet_bytes_max and len(frame) > self.packet_bytes_max:
            self._send_smaller(packet)
        else:
            self.write(frame)

    def _send_smaller(self, packet: Packet) -> None:
        """Leave out what may be left out (MQTT-3.2.2-19, -20, MQTT-3.4.2-2, -3 and their like)."""
        known = getattr(packet, "properties", None) or {}
        kept = {name: known[name] for name in known if name not in _OPTIONAL}
        frame = encode(_with_properties(packet, kept), self.connection.version)
        if len(frame) <= self.packet_bytes_max:
            self.write(frame)
        elif not self.closing:  # MQTT-3.1.2-24: it cannot be answered
            log.info("%s takes no packet of %d bytes; closing", self.name, len(frame))
            self.end()

    def write(self, frame: bytes) -> None:
        """Send bytes at the end of this turn."""
        self.out.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self.flush)

    def ready(self) -> None:
        """Hear that the subscription has something; it is sent at the end of this turn."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write all that is due with one call."""
        self._scheduled = False
        if self.closing:
            return
        if self.session is not None and not self._paused:
            try:
                deliver(self, self.session)
            except Error as error:
                self.disconnect(Reason.UNSPECIFIED_ERROR, error.message)
                return
            except Exception:
                log.exception("the delivery to %s from %s failed", self.name, self.peer)
                self.disconnect(
                    Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason"
                )
                return
        out = self.out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self.transport.write(data)

    def overflow(self) -> None:
        """Make room in the subscription's queue now, if the client can take it."""
        if not self._paused and not self.closing and self.session is not None:
            self.flush()

    def pause_writing(self) -> None:
        """Hear that the socket is full: write no messages, and read nothing that asks for answers.

        A client that never reads again is cut off: its keep-alive cannot tell, as it is not read.
        """
        if self._paused or self.closing:
            return
        self._paused = True
        self.transport.pause_reading()
        self._watch_stall(self.transport.get_write_buffer_size())

    def _watch_stall(self, waiting_bytes: int) -> None:
        self._stall_timer = self.loop.call_later(MQTT_STALL_SECONDS, self._stalled, waiting_bytes)

    def _stalled(self, waiting_bytes: int) -> None:
        now_waiting = self.transport.get_write_buffer_size()
        if now_waiting < waiting_bytes:
            self._watch_stall(now_waiting)
            return
        log.info("%s from %s reads nothing; closing", self.name, self.peer)
        self.broker.stalled += 1
        self.closing = True
        self.broker.leave(self)
        self.transport.abort()

    def resume_writing(self) -> None:
        """Hear that the socket has room again."""
        self._paused = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self._read_again()
        self.ready()

    # -- time --------------------------------------------------------------------------------------

    def connected(self, keep_alive_seconds: int) -> None:
        """Clear the deadline of CONNECT; begin to watch for the client's silence."""
        self._timer.cancel()
        self.keep_alive_seconds = keep_alive_seconds * MQTT_KEEP_ALIVE_FACTOR
        if keep_alive_seconds:
            self._timer = self.loop.call_later(self.keep_alive_seconds, self._keep_alive)

    def _keep_alive(self) -> None:
        """Close when nothing came for one and a half times the Keep Alive (MQTT-3.1.2-22)."""
        left = self.last_seen + self.keep_alive_seconds - self.loop.time()
        if self._crowded or self._paused:  # it is not read from: its silence is ours
            left = self.keep_alive_seconds
        if left > 0:
            self._timer = self.loop.call_later(left, self._keep_alive)
        else:
            self.disconnect(Reason.KEEP_ALIVE_TIMEOUT, "nothing was received in time")

    def _connect_timeout(self) -> None:
        log.info("%s sent no CONNECT in time", self.peer)
        self.end()

    # -- the end -----------------------------------------------------------------------------------

    def refuse(self, violation: Violation) -> None:
        """Answer a breach of the specification (MQTT 5, 4.13): say why if that can be; close."""
        log.info("%s from %s: %s", self.name, self.peer, violation.message)
        if isinstance(violation, UnsupportedVersion):
            self.out.append(violation.connack)  # MQTT-3.1.2-2
            self.end()
        elif self.session is None:
            self._refuse_connect(violation)
        else:
            self.disconnect(violation.reason, violation.message)

    def _refuse_connect(self, violation: Violation) -> None:
        """Answer a CONNECT that could not be read, where its version has an answer."""
        version = self.connection.version = self.connection.version or violation.version
        told = version == MQTT_5 or violation.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
        if version and told:  # MQTT-3.1.3-9 of 3.1.1; otherwise 3.1.1 closes (MQTT-3.1.4-1)
            self.reject(violation.reason, violation.message)
        else:
            self.end()

    def reject(self, reason: Reason, message: str) -> None:
        """Refuse a CONNECT: CONNACK with the reason, then close (MQTT-3.2.2-7)."""
        self.send(Connack(session_present=False, reason=reason, properties=self.explain(message)))
        self.end()

    def explain(self, message: str) -> dict[str, object] | None:
        """Return a Reason String, where the version has one and the client wants it."""
        if self.connection.version != MQTT_5 or not self.problems:  # MQTT-3.1.2-29
            return None
        clean = message[:MQTT_REASON_CHARS_MAX].encode(errors="replace").decode()
        return {"reason_string": clean.replace("\0", "?")}  # MQTT-1.5.4-1, MQTT-1.5.4-2

    def disconnect(self, reason: Reason, message: str = "") -> None:
        """End the connection from this side; MQTT 5 is told why (MQTT-3.14.0-1)."""
        if self.closing:
            return
        if self.connection.version == MQTT_5 and self.session is not None:
            self.send(Disconnect(reason, self.explain(message) if message else None))
        self.end()

    def end(self) -> None:
        """Send what is due and close; the transport then calls ``lost``."""
        if self.closing:
            return
        self.closing = True
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out.clear()
        self.transport.close()
        self._close_timer = self.loop.call_later(MQTT_CLOSE_SECONDS, self.transport.abort)
        # Not within this call: it may come from the middle of an announcement.
        self.loop.call_soon(self.broker.leave, self)

    def lost(self) -> None:
        """Hear that the transport is closed: release everything, publish the will if it is due."""
        self.closing = True
        for timer in (self._timer, self._close_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self.out.clear()
        self.broker.leave(self)
        self.broker.gone(self)


_OPTIONAL = frozenset({"reason_string", "user_property"})
"""Properties that are left out rather than sending more than the client takes."""


def _with_properties(packet: Packet, properties: dict[str, object]) -> Packet:
    if not is_dataclass(packet) or not hasattr(packet, "properties"):
        return packet
    return replace(packet, properties=properties or None)  # type: ignore[arg-type]
