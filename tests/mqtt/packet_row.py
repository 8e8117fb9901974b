"""One row of the packet table, and how its bytes are spelled."""

from dataclasses import dataclass

from rowcast.mqtt.packets import Packet


@dataclass(frozen=True)
class Row:
    """One packet: its value, its bytes, the versions that write it so, and the clause."""

    name: str
    packet: Packet
    data: bytes
    versions: tuple[int, ...]
    clause: str
    to: str = "server"
    """The side that receives it."""
    received: Packet | None = None
    """What a connection makes of it, when that is not ``packet`` (Topic Alias)."""


def wire(*parts: str | bytes) -> bytes:
    """Join hexadecimal text and literal bytes."""
    return b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)


USER = (("k", "v"), ("k", "w"))
V3 = (3, 4)
ALL = (3, 4, 5)
