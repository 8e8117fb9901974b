"""One connected client: bytes in through the codec, packets out once per turn of the loop.

There is no task for a client. Its read side is ``receive``, called by the transport; its write side
is ``flush``, called by the loop once at the end of each turn in which something became ready: all
that is due then is one write. Neither blocks; what an asynchronous step takes longer comes back as a
callback. The transport is anything with ``write``, ``close``, ``abort``, ``pause_reading`` and
``resume_reading``: TCP and WebSocket differ only there (FEATURES D4).

What is in memory for a client is bounded: its subscription's queue, its window, the socket's buffer. A
client that stops reading is written to no more, and not read from either.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from app.broker.forms import Form, Parts
from app.broker.handlers import HANDLERS, on_publish, on_puback
from app.broker.session import Session
from app.core.callers import Caller
from app.core.errors import Error
from app.core.events import CURRENT, GAP, RESET, SNAPSHOT, Event
from app.core.limits import MQTT_CLOSE_SECONDS, MQTT_FLUSH_EVENTS, MQTT_KEEP_ALIVE_FACTOR
from app.engine.subscription import Interest
from app.mqtt.connection import Connection
from app.mqtt.encode import encode
from app.mqtt.packets import MQTT_5, Connack, Disconnect, Packet, Puback, Publish, Will
from app.mqtt.reasons import Reason
from app.mqtt.violations import UnsupportedVersion, Violation

if TYPE_CHECKING:
    from app.broker.broker import Broker

log = logging.getLogger("rowcast.mqtt")

MARKS = frozenset({CURRENT, RESET, GAP})


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


class Client:
    """A connection and, once it has sent CONNECT, its session."""

    __slots__ = (
        "_blocked",
        "_close_timer",
        "_crowded",
        "_out",
        "_paused",
        "_scheduled",
        "_timer",
        "broker",
        "caller",
        "closing",
        "connection",
        "form",
        "keep_alive_seconds",
        "last_seen",
        "loop",
        "packet_bytes_max",
        "peer",
        "problems",
        "publishing",
        "received",
        "sent",
        "session",
        "transport",
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
        self.keep_alive_seconds = 0.0
        self.last_seen = self.loop.time()
        self.packet_bytes_max = 0
        """The greatest packet that the client takes; 0 is no limit (MQTT 5, 3.1.2.11.4)."""
        self.problems = True
        """Whether the client wants to be told why (Request Problem Information)."""
        self.publishing = 0
        """Its QoS 1 publishes that are not acknowledged yet."""
        self.received = 0
        self.sent = 0
        self.closing = False
        self._out: list[bytes] = []
        self._scheduled = False
        self._blocked = False
        self._paused = False
        self._crowded = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._timer = self.loop.call_later(
            broker.settings.connect_timeout_seconds, self._connect_timeout
        )

    # -- read side -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes from the transport; a failure is this client's alone (FEATURES D8)."""
        if self.closing:
            return
        self.last_seen = self.loop.time()
        try:
            packets = self.connection.receive(data)
            self.received += len(packets)
            for packet in packets:
                kind = type(packet)
                if kind is Publish:
                    on_publish(self, cast("Publish", packet))
                elif kind is Puback:
                    on_puback(self, cast("Puback", packet))
                elif isinstance(packet, Violation):
                    self.refuse(packet)
                else:
                    HANDLERS[kind](self, packet)
                if self.closing:
                    return
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

    def _relieved(self) -> None:
        self._crowded = False
        self._read_again()

    def _read_again(self) -> None:
        if not self.closing and not self._crowded and not self._paused:
            self.transport.resume_reading()

    @property
    def name(self) -> str:
        """The client id, for logs; a dash before CONNECT."""
        return self.session.client_id if self.session is not None else "-"

    # -- write side ------------------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        """Send a packet at the end of this turn."""
        self.write(encode(packet, self.connection.version))

    def write(self, frame: bytes) -> None:
        """Send bytes at the end of this turn."""
        self._out.append(frame)
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
                self._fill(self.session)
            except Error as error:
                self.disconnect(Reason.UNSPECIFIED_ERROR, error.message)
                return
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self.transport.write(data)

    def overflow(self) -> None:
        """Make room in the subscription's queue now, if the client can take it."""
        if not self._paused and not self.closing and self.session is not None:
            self.flush()

    def _fill(self, session: Session) -> None:
        """Encode what the subscription has, as far as the window allows (MQTT-3.3.4-7)."""
        window = session.window
        room = window.receive_maximum - len(window)
        limit = min(room, MQTT_FLUSH_EVENTS) if session.qos_max else MQTT_FLUSH_EVENTS
        if limit <= 0:
            self._blocked = True
            return
        pairs = session.subscription.take(limit)
        if not pairs:
            return
        out = self._out
        forms = self.broker.forms
        most = self.packet_bytes_max
        for event, interest in pairs:
            if interest is None or event.kind in MARKS:
                self._mark(event, interest)
                continue
            qos = event.qos if event.qos < interest.qos else interest.qos  # MQTT-3.8.4-8; D17
            retain = event.kind is SNAPSHOT or (interest.retain_as_published and event.retain)
            form = interest.form
            if interest.identifiers or event.expires_at:
                parts = self._own(event, interest, qos, retain=retain)
                if parts is None:
                    continue
            elif qos:
                parts = forms.parts(event, form, qos, retain=retain)  # type: ignore[arg-type]
            else:
                parts = (forms.whole(event, form, retain=retain), b"")  # type: ignore[arg-type]
            head, tail = parts
            if most and len(head) + len(tail) + 2 > most:
                self.broker.dropped_large += 1  # MQTT-3.1.2-25: as if it had been sent
            elif qos:
                packet_id = window.next_id()
                window.start(packet_id, event)
                out.append(head + packet_id.to_bytes(2, "big") + tail)
            else:
                out.append(head + tail if tail else head)
        self.sent += len(pairs)
        self.ready()  # there may be more: in the next turn

    def _own(self, event: Event, interest: Interest, qos: int, *, retain: bool) -> Parts | None:
        """Return a frame for this client alone; None when the message has expired."""
        now = self.broker.now()
        if 0 < event.expires_at <= now:  # MQTT-3.3.2-5
            return None
        return self.broker.forms.own_parts(
            event,
            cast("Form", interest.form),
            qos,
            retain=retain,
            identifiers=interest.identifiers,
            now_seconds=now,
        )

    def _mark(self, event: Event, interest: Interest | None) -> None:
        """Tell a client that asked for marks where it stands, under topics of its own."""
        form = cast("Form", interest.form) if interest is not None else self.form
        if form is None or not form.tells_seq:
            return
        name = interest.identifiers[0] if interest is not None and interest.identifiers else 0
        topic = {CURRENT: "$snapshot/end", RESET: "$reset", GAP: "$gap"}[event.kind]
        facts = event.decoded if isinstance(event.decoded, dict) else {}
        self.write(self.broker.mark(form, f"{topic}/{name}", event.seq, facts))

    def acknowledged(self) -> None:
        """Go on after an acknowledgement made room in the window."""
        if self._blocked:
            self._blocked = False
            self.ready()

    def pause_writing(self) -> None:
        """Hear that the socket is full: write nothing more, and read nothing that asks for answers."""
        self._paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Hear that the socket has room again."""
        self._paused = False
        self._read_again()
        self.ready()

    # -- time ------------------------------------------------------------------------------------------

    def connected(self, keep_alive_seconds: int) -> None:
        """Clear the deadline of CONNECT; begin to watch for the client's silence."""
        self._timer.cancel()
        self.keep_alive_seconds = keep_alive_seconds * MQTT_KEEP_ALIVE_FACTOR
        if keep_alive_seconds:
            self._timer = self.loop.call_later(self.keep_alive_seconds, self._keep_alive)

    def _keep_alive(self) -> None:
        """Close when nothing came for one and a half times the Keep Alive (MQTT-3.1.2-22)."""
        left = self.last_seen + self.keep_alive_seconds - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._keep_alive)
        elif self._crowded:  # it is not read from: its silence is ours
            self._timer = self.loop.call_later(self.keep_alive_seconds, self._keep_alive)
        else:
            self.disconnect(Reason.KEEP_ALIVE_TIMEOUT, "nothing was received in time")

    def _connect_timeout(self) -> None:
        log.info("%s sent no CONNECT in time", self.peer)
        self.end()

    # -- the end ---------------------------------------------------------------------------------------

    def refuse(self, violation: Violation) -> None:
        """Answer a breach of the specification (MQTT 5, 4.13): say why if that is possible, and close."""
        log.info("%s from %s: %s", self.name, self.peer, violation.message)
        if isinstance(violation, UnsupportedVersion):
            self._out.append(violation.connack)  # MQTT-3.1.2-2
            self.end()
        elif self.session is None and self.connection.version == MQTT_5:
            self.reject(violation.reason, violation.message)
        else:
            self.disconnect(violation.reason, violation.message)

    def reject(self, reason: Reason, message: str) -> None:
        """Refuse a CONNECT: CONNACK with the reason, then close (MQTT-3.2.2-7)."""
        properties = self.explain(message)
        self.send(Connack(session_present=False, reason=reason, properties=properties))
        self.end()

    def explain(self, message: str) -> dict[str, object] | None:
        """Return a Reason String, where the version has one and the client wants it."""
        if self.connection.version != MQTT_5 or not self.problems:
            return None
        return {"reason_string": message}

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
        if self._out:
            self.transport.write(b"".join(self._out))
            self._out.clear()
        self.transport.close()
        self._close_timer = self.loop.call_later(MQTT_CLOSE_SECONDS, self.transport.abort)

    def lost(self) -> None:
        """Hear that the transport is closed: release everything, publish the will if it is due."""
        self.closing = True
        self._timer.cancel()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._out.clear()
        self.broker.gone(self)
