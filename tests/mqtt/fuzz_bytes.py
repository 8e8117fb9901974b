"""Bytes for the fuzzer: noise, packets of the right shape with wrong content, and damage."""

from collections.abc import Callable
from random import Random

from rowcast.mqtt.properties import PROPERTIES, WILL, Wire
from rowcast.mqtt.reasons import PacketType

EDGES = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
"""Bytes at which something changes."""
NUMBERS = (0, 1, 2, 3, 127, 128, 16_383, 16_384, 65_534, 65_535)
TEXTS = (
    b"", b"a", b"a/b", b"a/+", b"#", b"+/b", b"$share/g/a", b"$SYS/x", b"\x00", b"\xff",
    b"\xed\xa0\x80", b"\xef\xbb\xbfa", b"\xc0\xaf", "ü/🐕".encode(), b"x" * 130,
)  # fmt: skip

Part = Callable[[Random, int], bytes]


def noise(rng: Random, most: int) -> bytes:
    """Return up to so many random bytes."""
    return rng.randbytes(rng.randrange(most + 1))


# -- parts of packets ----------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Return a Variable Byte Integer, without a bound."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _byte(rng: Random, _version: int = 5) -> bytes:
    return bytes((rng.choice(EDGES) if rng.random() < 0.5 else rng.randrange(256),))


def _number(rng: Random, _version: int = 5) -> bytes:
    return rng.choice(NUMBERS).to_bytes(2, "big")


def _text(rng: Random, _version: int = 5) -> bytes:
    raw = rng.choice(TEXTS)
    return len(raw).to_bytes(2, "big") + raw


def _topic(rng: Random, _version: int = 5) -> bytes:
    return b"\0\1a" if rng.random() < 0.5 else _text(rng)


def _value(rng: Random, wire: Wire) -> bytes:
    if wire == Wire.BYTE:
        return bytes((rng.choice((0, 1, 1, 2, 255)),))
    if wire == Wire.UINT16:
        return _number(rng)
    if wire == Wire.UINT32:
        return rng.choice((0, 1, 300, 0xFFFF_FFFF)).to_bytes(4, "big")
    if wire == Wire.VARINT:
        return varint(rng.choice((0, 1, 128, 268_435_455, 268_435_456)))
    return _text(rng) + _text(rng) if wire == Wire.PAIR else _text(rng)


def _properties(place: int) -> Part:
    """Return a part: properties of MQTT 5, most of them legal in this place."""
    legal = [item for item in PROPERTIES if place in item.places]

    def part(rng: Random, version: int) -> bytes:
        if version != 5:
            return b""
        body = b""
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 6))):
            item = rng.choice(legal if legal and rng.random() < 0.95 else PROPERTIES)
            body += bytes((item.identifier,)) + _value(rng, item.wire)
        return varint(len(body)) + body

    return part


def _opening(rng: Random, version: int) -> bytes:
    """Return a CONNECT's body, its fields as its flags promise."""
    names = {3: b"\0\6MQIsdp", 4: b"\0\4MQTT", 5: b"\0\4MQTT"}
    name = names[version] if rng.random() < 0.97 else rng.choice((b"\0\4AMQP", b"\0\0"))
    flags = rng.choice((0, 2, 2, 6, 0x0E, 0x16, 0x26, 0x36, 0x82, 0xC2, 0xF6, rng.randrange(256)))
    parts = [name, bytes((version, flags)), _number(rng), _CONNECT_PROPERTIES(rng, version)]
    parts.append(_text(rng))
    if flags & 4:
        parts += (_WILL_PROPERTIES(rng, version), _topic(rng), _text(rng))
    parts += (_text(rng) for bit in (0x80, 0x40) if flags & bit)
    return b"".join(parts)


def _subscriptions(rng: Random, version: int) -> bytes:
    options = (0, 1, 2, 2, 4, 8, 16, 32, 3, 48, 64)
    most = len(options) if version == 5 or rng.random() < 0.2 else 4
    return b"".join(
        _text(rng) + bytes((options[rng.randrange(most)],)) for _ in range(rng.choice((0, 1, 1, 3)))
    )


def _filters(rng: Random, _version: int) -> bytes:
    return b"".join(_text(rng) for _ in range(rng.choice((0, 1, 1, 3))))


def _reasons(rng: Random, _version: int) -> bytes:
    return bytes(rng.choice((0, 1, 2, 0x11, 0x80, 0x87, 0x8F)) for _ in range(rng.randrange(4)))


def _outcome(kind: PacketType) -> Part:
    """Return a part: a reason and properties, either of which may be left out."""
    properties = _properties(kind)

    def part(rng: Random, version: int) -> bytes:
        if version != 5 or rng.random() < 0.3:
            return b""
        reason = bytes((rng.choice((0, 0, 4, 0x10, 0x18, 0x19, 0x80, 0x92, rng.randrange(256))),))
        return reason if rng.random() < 0.3 else reason + properties(rng, version)

    return part


_CONNECT_PROPERTIES = _properties(PacketType.CONNECT)
_WILL_PROPERTIES = _properties(WILL)
_T = PacketType
SHAPES: dict[PacketType, tuple[Part, ...]] = {
    _T.CONNECT: (_opening,),
    _T.CONNACK: (_byte, _reasons, _properties(_T.CONNACK)),
    _T.PUBLISH: (_topic, _number, _properties(_T.PUBLISH), lambda rng, _version: noise(rng, 8)),
    **{kind: (_number, _outcome(kind)) for kind in (_T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP)},
    _T.SUBSCRIBE: (_number, _properties(_T.SUBSCRIBE), _subscriptions),
    _T.SUBACK: (_number, _properties(_T.SUBACK), _reasons),
    _T.UNSUBSCRIBE: (_number, _properties(_T.UNSUBSCRIBE), _filters),
    _T.UNSUBACK: (_number, _properties(_T.UNSUBACK), _reasons),
    _T.PINGREQ: (),
    _T.PINGRESP: (),
    _T.DISCONNECT: (_outcome(_T.DISCONNECT),),
    _T.AUTH: (_outcome(_T.AUTH),),
}
"""The parts of each packet's body."""


def packet(rng: Random, version: int, kind: PacketType) -> bytes:
    """Return a packet of the right shape."""
    flags = 2 if kind in {_T.PUBREL, _T.SUBSCRIBE, _T.UNSUBSCRIBE} else 0
    parts = SHAPES[kind]
    if kind is _T.PUBLISH:
        flags = rng.choice((0, 0, 1, 2, 3, 10, 4, 12, 13, 6))
        parts = parts if flags & 6 else (parts[0], *parts[2:])
    if rng.random() < 0.02:
        flags = rng.randrange(16)
    body = b"".join(part(rng, version) for part in parts)
    return bytes((kind << 4 | flags,)) + varint(len(body)) + body


# -- damage --------------------------------------------------------------------------------------

MUTATIONS = (1, 1, 1, 2, 3, 8)
"""How often a packet is damaged."""


def change(rng: Random, data: bytes, times: int) -> bytes:
    """Damage bytes so often; half of the time the Remaining Length is then made right again."""
    changed = bytearray(data)
    for _ in range(times):
        rng.choice(_DAMAGES)(rng, changed)
    return bytes(changed) if rng.random() < 0.5 else _mended(changed)


def _place(rng: Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1) if rng.random() < 0.7 else min(len(data), rng.randrange(8))


def _set(rng: Random, data: bytearray) -> None:
    at = _place(rng, data)
    data[at : at + 1] = _byte(rng)


def _flip(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _insert(rng: Random, data: bytearray) -> None:
    at = _place(rng, data)
    data[at:at] = noise(rng, 6)


def _remove(rng: Random, data: bytearray) -> None:
    at = _place(rng, data)
    del data[at : at + rng.randrange(1, 6)]


def _repeat(rng: Random, data: bytearray) -> None:
    at = _place(rng, data)
    data[at:at] = data[at : at + rng.randrange(1, 12)] * rng.randrange(1, 4)


def _cut(rng: Random, data: bytearray) -> None:
    del data[_place(rng, data) :]


def _step(rng: Random, data: bytearray) -> None:
    """Add or take one from a byte: lengths and identifiers are off by one."""
    if data:
        at = rng.randrange(len(data))
        data[at] = (data[at] + rng.choice((-1, 1))) % 256


_DAMAGES = (_set, _flip, _insert, _remove, _repeat, _cut, _step)


def _mended(data: bytearray) -> bytes:
    at = 1
    while at < len(data) and data[at] > 127 and at < 4:
        at += 1
    body = bytes(data[at + 1 :])
    return bytes(data[:1]) + varint(len(body)) + body
