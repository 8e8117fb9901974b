"""The messages between a follower and the sequencer.

Each is its kind and its content in MessagePack. A connection begins with HELLO and WELCOME, or
REFUSED; then come proposals one way, batches and verdicts the other, and unlogged events both ways.
Batches are the bytes of the log (``log/batch.py``), in its order, without a gap.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgpack  # type: ignore[import-untyped]

from rowcast.cluster.sequencing import Verdict
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.journal.applying import Applied
from rowcast.log.batch_content import Content, TableOf, decode_content, encode_content
from rowcast.store.sql_follow import PartCounts, Report

HELLO: Final = 1
"""From a follower: the life of its node, the epoch of its tables, what it has in common with the
others (``agreement.py``), and the number of its last batch."""
WELCOME: Final = 2
"""To a follower: the term, and the number of the last batch of the log."""
REFUSED: Final = 3
"""To a follower: why it cannot follow, as a sentence."""
PROPOSAL: Final = 4
"""From a follower: ``Proposal.pack``."""
BATCH: Final = 5
"""To a follower: the next batch."""
VERDICT: Final = 6
"""To a follower: of a proposal that is not in a batch; ``pack_verdict``."""
EVENTS: Final = 7
"""Events that are not logged, announced at once."""
APPLIED: Final = 8
"""To a follower that shares the tables: how far the applier has written them; ``pack_applied``."""
COPY: Final = 9
"""From a node without tables, instead of HELLO: it asks for a copy."""
COPY_PART: Final = 10
"""To it: the next bytes of the database file."""
COPY_END: Final = 11
"""To it: that was all; the SHA-256 of it."""
RELAY: Final = 12
"""Instead of HELLO: whose connection follows, as ``net.relay.Client``; then come its bytes, and no
more messages."""
ROWS_WANTED: Final = 13
"""To a follower: a number, a path below ``$SYS``, an id there or nothing for all, and whether to
end what it stands for."""
ROWS: Final = 14
"""From a follower: that number, its rows by their ids, and a refusal (code, sentence) or None."""

KINDS: Final = frozenset(range(HELLO, ROWS + 1))
Message = tuple[int, object]


def pack(kind: int, content: object) -> bytes:
    """Return a message as bytes."""
    packed: bytes = msgpack.packb((kind, content))
    return packed


def unpack(data: bytes) -> Message:
    """Read a message. Raises INVALID for other bytes."""
    try:
        kind, content = msgpack.unpackb(data)
    except (ValueError, TypeError, msgpack.UnpackException) as fault:
        raise Error(Code.INVALID, f"a message of a node cannot be decoded: {fault}") from None
    if kind not in KINDS:
        raise Error(Code.INVALID, f"a message of a node of the unknown kind {kind!r}")
    return kind, content


def pack_verdict(number: int, verdict: Verdict, until: int) -> bytes:
    """Return the verdict on a proposal, which holds for the log up to a batch."""
    error = verdict.error
    refusal = None if error is None else (error.code.value, error.message, error.detail)
    return pack(VERDICT, (number, verdict.units, refusal, until))


def verdict_of(content: object) -> tuple[int, Verdict, int]:
    """Return what ``pack_verdict`` was given."""
    number, done, refusal, until = cast("Sequence[object]", content)
    error = None
    if refusal is not None:
        code, sentence, detail = cast("Sequence[object]", refusal)
        error = Error(Code(str(code)), str(sentence), **cast("dict[str, object]", detail))
    verdict = Verdict(cast("int", done), written=False, error=error)
    return cast("int", number), verdict, cast("int", until)


def pack_applied(applied: Applied) -> bytes:
    """Return a report of the applier, without results of operations."""
    report = applied.report
    parts = None if report is None else (report.head, report.generation, report.counts)
    return pack(APPLIED, (applied.number, parts, applied.problem))


def applied_of(content: object) -> Applied:
    """Return what ``pack_applied`` was given."""
    number, parts, problem = cast("Sequence[object]", content)
    report = None
    if parts is not None:
        head, generation, counts = cast("tuple[int, int, list[list[int]]]", parts)
        known = [PartCounts(*item) for item in counts]
        report = Report(cast("int", number), head, generation, known)
    return Applied(cast("int", number), {}, report, str(problem))


def pack_events(events: Sequence[Event]) -> bytes:
    """Return unlogged events."""
    return pack(EVENTS, encode_content(Content(events), 0))


def events_of(content: object, table_of: TableOf) -> Sequence[Event]:
    """Return what ``pack_events`` was given."""
    return decode_content(cast("bytes", content), 0, table_of).events
