"""One connected client: bytes in through the codec, packets out once per turn of the loop.

A client has no task, except while its CONNECT is answered. ``data_received`` is called by the
transport; ``flush`` by the loop at the end of each turn with pending output, which is then one
write. Neither blocks; output that requires a save is sent by a callback (``write_saved``). Memory
of a client is bounded: its subscription's queue, its window, the socket's buffer. For a client that
stops reading, writing and reading pause, and it is disconnected after a timeout (D4).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from rowcast.core.errors import Error
from rowcast.core.limits import MQTT_PROGRESS_BYTES
from rowcast.doors.mqtt.connections.connection_timers import ConnectionTimers
from rowcast.doors.mqtt.connections.rates import Meter
from rowcast.doors.mqtt.connections.read_size import SHARED_READ_BYTES, fit_reads
from rowcast.doors.mqtt.connections.traffic import Traffic
from rowcast.doors.mqtt.connections.transport import GONE, Receiver, Transport
from rowcast.doors.mqtt.delivery.outgoing import Outgoing
from rowcast.doors.mqtt.delivery.sending import deliver
from rowcast.doors.mqtt.packets.buffered_packets import should_pause_reading
from rowcast.doors.mqtt.packets.dialogue import Dialogue
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.packets import MQTT_5, Auth, Connack, Disconnect, Packet, Publish
from rowcast.mqtt.reasons import Cause, Reason
from rowcast.mqtt.violations import UnsupportedVersion, Violation
from rowcast.writes.write import FireAndForget, Outcome

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker

log = logging.getLogger("rowcast.mqtt")


class Client(Outgoing, Receiver):
    """A connection and, once it has sent CONNECT, its session."""

    __slots__ = (
        "_paused",
        "answered",
        "awaits_store",
        "before",
        "broker",
        "clean_start",
        "close_reason",
        "connected_at",
        "dialogue",
        "early",
        "entered",
        "held",
        "last_seen",
        "media_type",
        "meter",
        "no_reply",
        "noted",
        "opening",
        "patience",
        "peer",
        "quota",
        "refused",
        "submit",
        "submit_run",
        "taken",
        "tells_gaps",
        "tells_seq",
        "transport",
        "unreleased",
    )

    def __init__(
        self, broker: "Broker", transport: Transport, peer: str, media_type: str | None = None
    ) -> None:
        codec = Connection("server", broker.settings.packet_bytes_max, broker.topics)
        super().__init__(broker.deliveries, broker.loop, codec)
        self.broker, self.transport, self.peer = broker, transport, peer
        self.media_type = media_type  # how it wants messages, unless its CONNECT says otherwise
        self.opening: asyncio.Task[None] | None = None  # the task that answers CONNECT
        self.dialogue: Dialogue | None = None  # with an Authentication Method only
        self.held: list[Packet | Violation] = []  # received while CONNECT is being answered
        self.awaits_store = self._paused = False  # a SUBSCRIBE or transaction runs; see ``stopped``
        self.entered = self.tells_gaps = False  # hooks know that it is here; of gap notices (M4)
        self.clean_start, self.connected_at = False, 0.0
        self.last_seen = self.loop.time()
        self.tells_seq = False  # in acknowledgements: MQTT 5, unless ``problems`` forbids it
        self.submit, self.submit_run = broker.kernel.submit, broker.kernel.submit_run
        self.no_reply = FireAndForget(self.note_refusal, at_once=broker.settings.announces_first)
        self.quota = self.refused = 0  # unanswered publishes, at most; refused ones, for statistics
        self.taken = self.answered = 0  # numbers of the last publishes of QoS 1 and 2
        self.early: dict[int, tuple[int, int, Outcome]] = {}
        """Outcomes waiting for earlier answers, by number: first byte, identifier, outcome."""
        self.unreleased: dict[int, None] = {}  # QoS 2 identifiers that it was sent PUBREC for
        self.before, self.noted = Traffic(), False  # for ``Tally``: counted already; to be counted
        self.meter = broker.settings.rates.meter(self.last_seen)  # None without limits (D57)
        self.close_reason = "the connection was lost"  # empty after DISCONNECT
        timeout = broker.settings.connect_timeout_seconds
        self.patience = ConnectionTimers(self, broker.wheel, timeout)

    @property
    def accepted(self) -> bool:
        """Whether its CONNECT was accepted."""
        return self.connected_at > 0

    @property
    def stopped(self) -> bool:
        """Whether sending messages pauses: its socket is full, or it is closing."""
        return self._paused or self.closing

    # -- read side ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Process bytes; a failure affects only this client (D8)."""
        if self.closing:
            return
        try:
            packets = self.connection.receive(data)
            traffic = self.traffic
            traffic.bytes_in += len(data)
            traffic.packets_in += len(packets)
            if len(data) >= SHARED_READ_BYTES:
                fit_reads(self.transport, packets, len(data), self.broker.kernel.committer)
            if not self.noted:
                self.broker.tally.note(self)
            if self.meter is not None and not self._within_rate(self.meter, len(data), packets):
                return
            if packets or len(data) >= MQTT_PROGRESS_BYTES:  # MQTT-3.1.2-22 counts packets
                self.last_seen = self.loop.time()
            if packets:
                if self.broker.samplers and self.caller is not None:
                    for sample in self.broker.samplers:
                        sample(self.caller, packets)
                if self.opening is None and not self.awaits_store:
                    self._handle(packets)
                else:
                    self._hold(packets)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it ends this client alone
            self._fail("a packet of", failure)
        committer, caller = self.broker.kernel.committer, self.caller
        pending = committer.pending
        if pending.size >= pending.calm and not self.closing and caller is not None:
            self.patience.let_disk_follow(committer, caller)

    def _guard(self, what: str, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it ends this client alone
            self._fail(what, failure)

    def _fail(self, what: str, failure: Exception) -> None:
        """Answer a protocol violation, or log a bug; both close the connection."""
        if isinstance(failure, Violation):
            self.refuse(failure)
            return
        log.error("%s %s from %s failed", what, self.name, self.peer, exc_info=failure)
        self.disconnect(Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason")

    def _within_rate(self, meter: Meter, size: int, packets: Sequence[Packet | Violation]) -> bool:
        """Apply rate limits to packets read: pause reading, or disconnect (D57)."""
        messages = sum(type(packet) is Publish for packet in packets)
        seconds = meter.read(size, messages, self.loop.time())
        if not seconds:
            return True
        self.broker.throttled += 1
        if meter.disconnects:
            self.disconnect(Reason.MESSAGE_RATE_TOO_HIGH, "more than the rate that is allowed")
            return False
        self.patience.throttle(seconds)
        self.transport.pause_reading()
        return True

    def _handle(self, packets: list[Packet | Violation]) -> None:
        handlers, runs, start = self.broker.handlers, self.broker.run_handlers, 0
        while start < len(packets) and not self.closing:
            packet = packets[start]
            handle_run = runs.get(type(packet))
            if handle_run is not None:
                end = start + 1
                while end < len(packets) and type(packets[end]) is type(packet):
                    end += 1
                handle_run(self, packets[start:end])  # the rest is not copied
                start = end
            else:
                handler = handlers.get(type(packet))
                if handler is None:
                    raise cast("Violation", packet)
                handler(self, packet)
                start += 1
            if self.opening is not None or self.awaits_store:
                self._hold(packets[start:])
                return

    def _hold(self, packets: list[Packet | Violation]) -> None:
        """Buffer packets until CONNECT is answered, for which clients need not wait (MQTT 5, 3.1).

        But in an AUTH exchange the client must answer, or may disconnect.
        """
        at_once = (Auth, Disconnect, Violation)
        in_dialogue = self.dialogue is not None and self.session is None
        while packets and in_dialogue and not self.held and isinstance(packets[0], at_once):
            self._handle([packets.pop(0)])
        self.held += () if self.closing else packets
        if should_pause_reading(self.held):
            self.transport.pause_reading()

    def opened(self) -> None:
        """Process buffered packets, after CONNECT is answered or a write is stored."""
        self.opening, self.awaits_store = None, False
        held, self.held = self.held, []
        if not self.closing and held:
            self._guard("a packet of", self._handle, held)
        if self.transport is GONE and not (self.opening or self.awaits_store or self.closing):
            self.end(self.close_reason)
        self.read_again()

    @property
    def silenced(self) -> bool:
        """Whether reading pauses, so that its silence does not count."""
        return self._paused or self.patience.throttles or should_pause_reading(self.held)

    def read_again(self) -> None:
        """Resume reading, unless another reason to pause remains."""
        if not self.closing and not self.silenced:
            self.last_seen = self.loop.time()  # it could not be read: silence does not count
            self.transport.resume_reading()

    def note_refusal(self, error: Error) -> None:
        """Count a refused publish; before MQTT 5, and with QoS 0, the client gets no error."""
        self.refused += 1
        self.broker.refusals += 1
        log.debug("a publish of %s was refused: %s", self.name, error.message)

    # -- write side --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all that is due with one call; a failure is this client's alone (D8)."""
        self.scheduled = False
        if self.closing:
            return
        session = self.session
        try:
            if session is not None and not self._paused:
                deliver(self, session)
            elif session is not None and session.subscription is not None:
                session.subscription.note_blocked()
            if self.later and not self.saving:
                self._save()
            if self.out:
                self._write_out(self.out)
        except Error as error:  # the log cannot be read
            self.disconnect(Reason.UNSPECIFIED_ERROR, error.message)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it ends this client alone
            self._fail("the delivery to", failure)

    def _write_out(self, out: list[bytes]) -> None:
        traffic, packets = self.traffic, len(out)
        data = out[0] if packets == 1 else b"".join(out)
        traffic.packets_out += packets
        traffic.bytes_out += len(data)
        if not self.noted:
            self.broker.tally.note(self)
        out.clear()
        self.transport.write(data)

    def _save(self) -> None:
        """Save the session, then send the output that waits for it."""
        session, frames = self.session, self.later
        if session is None:
            return
        self.later, self.saving = [], frames
        self.broker.keeper.save(session, self._saved)

    def _saved(self, error: Error | None) -> None:
        if self.closing:
            return
        if error is not None:
            self.disconnect(Reason.SERVER_BUSY, error.message)
            return
        self.out += self.saving
        self.saving = []
        self.ready()

    def overflow(self) -> None:
        """Drain the subscription's queue now, if the client can be written to."""
        if not self._paused and not self.closing and self.session is not None:
            self.flush()

    def pause_writing(self) -> None:
        """Called when the socket is full: pause messages, and reading."""
        if self._paused or self.closing:
            return
        self._paused = True
        self.transport.pause_reading()
        self.patience.watch_stall()

    def cut(self) -> None:
        """Abort a client that does not read."""
        log.info("%s from %s reads nothing; closing", self.name, self.peer)
        self.broker.stalled += 1
        self.closing, self.close_reason = True, "it reads nothing"
        self.leave()
        self.transport.abort()

    def resume_writing(self) -> None:
        """Called when the socket is writable again."""
        self._paused = False
        self.patience.unwatch_stall()
        self.read_again()
        self.ready()

    def connected(self, keep_alive_seconds: int) -> None:
        """Called when CONNECT is accepted."""
        self.connected_at = self.broker.now()
        self.patience.accept(keep_alive_seconds)

    # -- the end -----------------------------------------------------------------------------------

    def refuse(self, violation: Violation) -> None:
        """Answer a protocol violation (MQTT 5, 4.13), with the reason if possible, and close."""
        log.info("%s from %s: %s", self.name, self.peer, violation.message)
        if isinstance(violation, UnsupportedVersion):
            self.out.append(violation.connack)  # MQTT-3.1.2-2
            self.end()
        elif not self.accepted:
            self._refuse_connect(violation)
        else:
            self.disconnect(violation.reason, violation.message)

    def _refuse_connect(self, violation: Violation) -> None:
        """Answer a malformed CONNECT, if its version has an answer."""
        version = self.connection.version = self.connection.version or violation.version
        answers = version == MQTT_5 or violation.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
        if version and answers:  # MQTT-3.1.3-9 of 3.1.1; otherwise 3.1.1 closes (MQTT-3.1.4-1)
            self.reject(violation.reason, violation.message)
        else:
            self.end(violation.message)

    def reject(self, reason: Reason, message: str) -> None:
        """Refuse a CONNECT: CONNACK with the reason, then close (MQTT-3.2.2-7)."""
        self.send(Connack(session_present=False, reason=reason, properties=self.explain(message)))
        self.end(message)

    def disconnect(
        self, reason: Reason, message: str = "", properties: dict[str, object] | None = None
    ) -> None:
        """Disconnect the client; MQTT 5 gets the reason (MQTT-3.14.0-1)."""
        if self.accepted and not self.closing and self.connection.version == MQTT_5:
            explained = (self.explain(message) or {} if message else {}) | (properties or {})
            self.send(Disconnect(reason, explained or None))
        self.end(Cause(message or Reason(reason).name, reason))

    def end(self, close_reason: str = "") -> None:
        """Send pending output and close; ``connection_lost`` follows."""
        if self.closing:
            return
        self.closing, self.close_reason = True, close_reason
        if self.out:
            self._write_out(self.out)
        self.held.clear()
        if self.dialogue is not None:
            self.dialogue.abandon()
        self.transport.close()
        self.patience.close_soon()
        # Not within this call, which may be in the middle of an announcement.
        self.loop.call_soon(self.leave if self.transport is not GONE else self._lost)

    def leave(self) -> None:
        """Let go of the session now: it waits, or ends."""
        self.broker.leave(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Called when the transport is closed; what was read before is processed first."""
        if self.held and not self.closing:
            self.patience.unwatch_stall()
            self.transport, self._paused = GONE, True  # ``opened`` goes on
        else:
            self._lost()

    def _lost(self) -> None:
        """Release everything, keep or end the session."""
        self.closing = True
        self.held.clear()
        if self.dialogue is not None:
            self.dialogue.abandon()
        self.patience.end()
        try:
            self.leave()  # counts undelivered events
        finally:
            self.connection.lost()
            self.out.clear()
            self.later.clear()
            self.saving.clear()
            self.broker.gone(self)


def client_of(session: Session) -> Client | None:
    """Return the client of a session, which itself knows little of it."""
    return cast("Client | None", session.client)
