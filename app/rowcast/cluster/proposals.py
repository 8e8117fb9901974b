"""A proposal: decided writes of a follower, sent to the sequencer to be numbered.

The follower that received a write runs everything that needs its caller, and decides it on the
newest record that it has. It sends the outcome and, with each *unit* (a write, an atomic group, or
changes of facts), the read set of the decision (``Read``). The sequencer carries out the units in
order, up to the first whose read records have changed since; the follower decides the rest again
once it has the newer records (optimistic concurrency control: Kung and Robinson, 1981). So
conditions, patches and deciders of features are never sent, and each write is decided as on a
single server.

The events have no numbers yet. If one depends on an earlier one of the same proposal, it refers to
it by a placeholder number: ``PLACEHOLDER`` plus the index of that event.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self, cast

import msgpack  # type: ignore[import-untyped]

from rowcast.core.errors import Code, Error
from rowcast.log.batch_content import Content, TableOf, decode_content, encode_content
from rowcast.writes.last_write_wins import Stamp

PLACEHOLDER: Final = 1 << 62
"""The first placeholder number; it is above every number of a log."""


class Read(NamedTuple):
    """A member of a read set: a record that a decision depends on."""

    table: str | None
    topic: str
    seq: int
    """Its number, or its placeholder in this proposal; 0 if there was no record."""
    stamp: Stamp | None
    """That of the last deletion where there was none, for a write that may be late; else None."""


class Unit(NamedTuple):
    """A part of a proposal that is carried out as a whole."""

    reads: Sequence[Read] = ()
    events: int = 0
    """How many of the proposal's events belong to this unit: the next ones."""
    changes: int = 0
    """How many of the proposal's changes of facts, likewise."""
    wants_existed: bool = False
    """Whether its node wants to know if there were records."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written or verified for it."""
        return not (self.reads or self.events or self.changes)


class Proposal(NamedTuple):
    """Decided units of one node, in order."""

    node: str
    """The name of one run of a node's process."""
    number: int
    """Greater than that of each earlier proposal of that run."""
    units: Sequence[Unit]
    body: bytes
    """The events and changes of all units, as in a batch (``log/batch_content.py``)."""

    @classmethod
    def of(cls, node: str, number: int, units: Sequence[Unit], content: Content) -> Self:
        """Encode a proposal; its events have their places as numbers."""
        return cls(node, number, units, encode_content(content, PLACEHOLDER))

    def content(self, table_of: TableOf) -> Content:
        """Decode events and changes; raises INVALID where they are not those of the units."""
        content = decode_content(self.body, PLACEHOLDER, table_of)
        events = sum(unit.events for unit in self.units)
        changes = sum(unit.changes for unit in self.units)
        if (len(content.events), len(content.changes)) != (events, changes):
            raise Error(
                Code.INVALID,
                "a proposal does not have as many events as its units",
            )
        return content

    def pack(self) -> bytes:
        """Return it as bytes."""
        packed: bytes = msgpack.packb(self)
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read it from bytes of ``pack``. Raises INVALID for others."""
        try:
            node, number, units, body = msgpack.unpackb(data)
            found = [
                Unit(
                    [_read_of(read) for read in reads],
                    int(events),
                    int(changes),
                    bool(wants_existed),
                )
                for reads, events, changes, wants_existed in units
            ]
        except (ValueError, TypeError, msgpack.UnpackException) as fault:
            raise Error(Code.INVALID, f"a proposal cannot be decoded: {fault}") from None
        return cls(str(node), int(number), found, bytes(body))


class Sequencer(Protocol):
    """The connection to the sequencer."""

    @property
    def problem(self) -> str:
        """Why it cannot be reached now; empty while it can."""

    def propose(self, proposal: Proposal) -> None:
        """Send a proposal, again after each interruption, until its outcome is known.

        The outcome is either an origin in a batch, or a call of ``ForwardingCommitter.judge``.
        """


def _read_of(item: Sequence[object]) -> Read:
    table, topic, seq, stamp = item
    known = cast("list[object] | None", stamp)
    return Read(
        None if table is None else str(table),
        str(topic),
        int(cast("int", seq)),
        None if known is None else (int(cast("int", known[0])), str(known[1])),
    )
