"""Whatever bytes come, in whatever pieces: packets, then at most one Violation; nothing is raised.

And the pieces change nothing; a case takes less than a second of the processor; what is kept stays
within its bounds; what was read is written and read again as the same (D61). One number
decides all that happens in a case: ``make(seed)`` gives it, ``check`` tries it.
"""

import time
from dataclasses import dataclass
from random import Random

from fuzz_bytes import MUTATIONS, change, noise, packet
from packets import ROWS

from rowcast.core.bounded import ClearedCache
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, MQTT_PACKET_BYTES_MAX
from rowcast.mqtt.connection import LEGAL, Connection, Role, State
from rowcast.mqtt.decode import READERS, check_first_byte
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Packet
from rowcast.mqtt.reasons import PacketType
from rowcast.mqtt.violations import Violation
from rowcast.mqtt.wire import Cursor, remaining_length

CASE_SECONDS_MAX = 1.0
"""Processor time that one case may take (D61)."""
ALIASES = 8
"""Topic Aliases that a case's connection takes."""
LENGTH_BYTES_MAX = 5
"""A first byte and its Remaining Length: what may wait before the size is known."""

STANDS: tuple[tuple[Role, State, int], ...] = (
    ("server", State.AWAITS_CONNECT, 0),
    ("server", State.AUTHENTICATES, 5),
    ("server", State.SERVES, 3),
    ("server", State.SERVES, 4),
    ("server", State.SERVES, 5),
    ("server", State.SERVES_WITH_AUTH, 5),
    ("client", State.AWAITS_CONNACK, 3),
    ("client", State.AWAITS_CONNACK, 4),
    ("client", State.AWAITS_CONNACK_WITH_AUTH, 5),
    ("client", State.USES_3, 3),
    ("client", State.USES_3, 4),
    ("client", State.USES_5, 5),
    ("client", State.USES_5_WITH_AUTH, 5),
)
"""Where a connection may stand when the bytes come: role, state, version."""
SEEDS = {
    (state, version): [
        row.data
        for row in ROWS
        if version in row.versions and row.packet.TYPE in LEGAL[state] and len(row.data) < 4096
    ]
    for _, state, _ in STANDS
    for version in (3, 4, 5)
}
"""The packet table by where its packets are legal; the large ones only cost time."""
FITTING = 0.9
"""How often a packet is one that is legal where the connection stands."""


@dataclass(frozen=True)
class Case:
    """Bytes, the places where they are cut, and who reads them."""

    seed: int
    role: Role
    state: State
    version: int
    packet_bytes_max: int
    knows_topic: bool
    """Whether the topic ``a`` was seen before: the quick way is taken for it."""
    data: bytes
    cuts: tuple[int, ...]

    def connection(self) -> Connection:
        """Return a connection that stands where the case says."""
        topics = ClearedCache(MATCH_CACHE_TOPICS_MAX)
        topics |= {b"a": "a"} if self.knows_topic else {}
        reader = Connection(self.role, self.packet_bytes_max, topics, self.version)
        reader.topic_alias_maximum = ALIASES
        reader._move(self.state)
        return reader

    def pieces(self) -> list[bytes]:
        """Return the bytes as they are cut."""
        ends = (*self.cuts, len(self.data))
        return [self.data[a:b] for a, b in zip((0, *self.cuts), ends, strict=True)]


class Broken(AssertionError):  # noqa: N818 - a failed expectation
    """The invariant does not hold."""


def make(seed: int) -> Case:
    """Return the case of this number."""
    rng = Random(seed)
    role, state, version = rng.choice(STANDS)
    spoken = version or rng.choice((3, 4, 5))
    parts = [_part(rng, state, spoken) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
    data = b"".join(parts)
    count = rng.choice((0, 1, 1, 2, 3, 7))
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(count))
    if rng.random() < 0.05 and len(data) < 200:
        cuts = list(range(1, len(data)))
    most = rng.choice((16, 64, 300)) if rng.random() < 0.1 else MQTT_PACKET_BYTES_MAX
    return Case(seed, role, state, version, most, rng.random() < 0.5, data, tuple(cuts))


def _part(rng: Random, state: State, version: int) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return noise(rng, 24)
    whole = SEEDS[state, version]
    if kind < 0.4 and whole:
        part = rng.choice(whole)
    else:
        legal = sorted(LEGAL[state]) if rng.random() < FITTING else list(PacketType)
        part = packet(rng, version, rng.choice(legal))
    return part if rng.random() < 0.4 else change(rng, part, rng.choice(MUTATIONS))


def check(case: Case) -> list[Packet | Violation]:
    """Try a case; return what came out, raise Broken when the invariant does not hold."""
    began = time.process_time()
    try:
        whole = _read(case, [case.data])
        cut = _read(case, case.pieces())
        version = case.version
        for item in whole:
            version = item.version if isinstance(item, Connect) else version
            if not isinstance(item, Violation):
                _write_and_read(item, version)
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"{type(error).__name__} was raised: {error}") from error
    if time.process_time() - began > CASE_SECONDS_MAX:
        raise Broken(f"it took more than {CASE_SECONDS_MAX} s of the processor")
    if [_told(item) for item in whole] != [_told(item) for item in cut]:
        raise Broken(f"whole it is {whole}, in pieces {cut}")
    return whole


def _told(item: Packet | Violation) -> object:
    return (item.reason, item.message) if isinstance(item, Violation) else item


def _read(case: Case, pieces: list[bytes]) -> list[Packet | Violation]:
    """Feed a connection, looking after each piece at what it keeps."""
    reader = case.connection()
    received: list[Packet | Violation] = []
    for piece in pieces:
        received += reader.receive(piece)
        if len(reader._buffer) >= max(case.packet_bytes_max, LENGTH_BYTES_MAX):
            raise Broken(f"{len(reader._buffer)} bytes wait")
        if len(reader._aliases) > ALIASES or len(reader._topics) > MATCH_CACHE_TOPICS_MAX:
            raise Broken("more is remembered than may be")
    if any(isinstance(item, Violation) for item in received[:-1]):
        raise Broken(f"something follows a violation: {received}")
    if received and isinstance(received[-1], Violation) and not reader.closed:
        raise Broken("a violation does not end the connection")
    return received


def _write_and_read(item: Packet, version: int) -> None:
    raw = encode(item, version)
    kind = check_first_byte(raw[0], version)
    size, start = remaining_length(raw, 1)
    cursor = Cursor(raw, start, start + size)
    again = READERS[kind](cursor, raw[0] & 15, version)
    cursor.finish()
    if again != item:
        raise Broken(f"it is written and read as another: {item} {again}")
