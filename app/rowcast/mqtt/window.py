"""The outbound window: messages of QoS 1 and 2 that are sent and not yet acknowledged.

It hands out packet identifiers, which never collide and wrap at 65,535 (D21), keeps what
was sent in the order to send it again (MQTT-4.4.0-1, MQTT-4.6.0-1), and says when the peer's
Receive Maximum is reached (MQTT 5, 4.9). It must not know what an item is, nor the clock: the
time of sending is given.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from rowcast.core.errors import Code, Error

PACKET_ID_MAX: Final = 65_535
"""Packet identifiers have two bytes, and 0 is none (MQTT-2.2.1-3)."""


_CROWDED: Final = PACKET_ID_MAX // 2
"""From so many flights on, what is acknowledged is noted as free."""
_FREE_NOTED_MAX: Final = 1_024
"""So many identifiers are noted; with more free ones a look at all of them is rare."""
_NEAR: Final = 16
"""So many identifiers are looked at before a noted one is taken."""


class Flight:
    """One message in flight, when it was sent last, how often again, and whether PUBREC came."""

    __slots__ = ("item", "released", "retries", "sent_at")

    def __init__(self, item: object, sent_at: float) -> None:
        self.item = item
        self.sent_at = sent_at
        self.retries = 0
        self.released = False

    def sent_again(self, sent_at: float) -> None:
        """Note that it was sent once more."""
        self.sent_at = sent_at
        self.retries += 1


class Window:
    """The messages in flight to one peer, by packet identifier."""

    __slots__ = ("_flights", "_free", "latest", "receive_maximum")

    def __init__(self, receive_maximum: int = PACKET_ID_MAX) -> None:
        self.receive_maximum = receive_maximum
        self._flights: dict[int, object] = {}
        """Flights, or bare items: a Flight is made when more than the item must be known."""
        self._free: deque[int] | None = None
        """Identifiers that were acknowledged while it was crowded; some may be in flight again.
        A peer that acknowledges its newest message alone would have all others looked at."""
        self.latest = 0
        """The identifier that was given last."""

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[tuple[int, Flight]]:
        """Iterate over the items in flight, in the order of retransmission; bare ones stay bare."""
        for packet_id in list(self._flights):
            item = self._flights.get(packet_id)
            if item is not None:
                yield packet_id, item if isinstance(item, Flight) else Flight(item, 0.0)

    @property
    def upcoming(self) -> int:
        """The identifier that the next message gets if it is free then."""
        return self.latest % PACKET_ID_MAX + 1

    @property
    def full(self) -> bool:
        """Whether nothing more may be sent until an acknowledgement comes (MQTT-3.3.4-7)."""
        return len(self._flights) >= self.receive_maximum

    def next_id(self) -> int:
        """Return a packet identifier that is not in flight (MQTT-2.2.1-3)."""
        flights = self._flights
        if len(flights) >= PACKET_ID_MAX:
            raise Error(Code.BUSY, "All 65,535 packet identifiers are in flight; acknowledge some.")
        number = self.latest
        for looked in range(PACKET_ID_MAX):
            number = number + 1 if number < PACKET_ID_MAX else 1
            if looked == _NEAR:
                number = self._noted() or number
            if number not in flights:
                break
        self.latest = number
        return number

    def _noted(self) -> int:
        """Return an identifier that was noted as free and still is, 0 if there is none."""
        while self._free:
            number = self._free.popleft()
            if number not in self._flights:
                return number
        return 0

    def begin(self, item: object) -> int:
        """Put a message in flight under the next identifier, and return that.

        It is ``next_id`` and ``start`` without the time, for the hot path.
        """
        flights = self._flights
        number = self.latest + 1
        if number > PACKET_ID_MAX or number in flights:
            number = self.next_id()
        self.latest = number
        flights[number] = item
        return number

    def start(self, packet_id: int, item: object, sent_at: float = 0.0) -> None:
        """Put a message in flight under an identifier of ``next_id``."""
        self._flights[packet_id] = Flight(item, sent_at)

    def restore(self, packet_id: int, flight: Flight) -> None:
        """Put a flight of an earlier run back, after those that were put back before."""
        self._flights[packet_id] = flight

    def flight(self, packet_id: int) -> Flight | None:
        """Return the item in flight under an identifier."""
        if packet_id not in self._flights:
            return None
        flight = self._flights[packet_id]
        if not isinstance(flight, Flight):
            flight = self._flights[packet_id] = Flight(flight, 0.0)
        return flight

    def item(self, packet_id: int) -> object | None:
        """Return the item that ``begin`` put in flight under an identifier."""
        return self._flights.get(packet_id)

    def exchange(self, packet_id: int, item: object) -> None:
        """Put another item in the place of one that is in flight."""
        self._flights[packet_id] = item

    def acknowledge(self, packet_id: int) -> object | None:
        """End a flight (PUBACK, PUBCOMP, or a PUBREC that refuses) and return its item."""
        flight = self._flights.pop(packet_id, None)
        if len(self._flights) >= _CROWDED and flight is not None:
            if self._free is None:
                self._free = deque(maxlen=_FREE_NOTED_MAX)
            self._free.append(packet_id)
        return flight.item if isinstance(flight, Flight) else flight

    def release(self, packet_id: int, sent_at: float = 0.0) -> object | None:
        """Note a PUBREC: from now on PUBREL is sent again in its stead; return the item.

        It moves to the end, so that PUBRELs go in the order of their PUBRECs (MQTT-4.6.0-4).
        """
        flight = self.flight(packet_id)
        if flight is None:
            return None
        del self._flights[packet_id]
        flight.released = True
        flight.sent_at = sent_at
        self._flights[packet_id] = flight
        return flight.item
