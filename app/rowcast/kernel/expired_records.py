"""Deletion of expired records, as ordinary writes (A5, E17).

So subscribers get the deletion, and a record that was rewritten meanwhile stays.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rowcast.core.callers import SERVER, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event, Record
from rowcast.core.limits import SWEEP_RECORDS_MAX
from rowcast.writes.write import Condition

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.expiries")

_OF_ALL: Final = frozenset({Code.BUSY, Code.INTERNAL})
"""Refusals of the server, not of the record: the next record would be refused too."""


class Deletions(NamedTuple):
    """What became of the expired records."""

    deleted: int
    blocked: bool
    """Whether the server takes no writes, so that the rest was not tried."""


async def delete_expired(
    kernel: "Kernel",
    now: WallClock,
    caller: Caller = SERVER,
    *,
    since: float = 0.0,
    commit_records: int = SWEEP_RECORDS_MAX,
) -> Deletions:
    """Delete the records of all tables and topics that expired at ``since`` or after it.

    ``commit_records`` of them are deleted in one commit, so that writers wait for no more. Records
    that may not be deleted are passed; when the disk takes nothing, all are left for the next call.
    """
    total, behind = 0, (since, 0)
    while True:
        records = await kernel.reader.expired(now(), commit_records, behind)
        replaced = kernel.committer.yields_at  # by a result that is being staged
        ending = [record for record in records if not replaced(record.topic)]
        deletions = (delete_unchanged(kernel, record, caller) for record in ending)
        refusals = await asyncio.gather(*deletions)  # in one commit
        ended = refusals.count(None)
        total += ended
        blocked = any(error is not None and error.code in _OF_ALL for error in refusals)
        if len(records) < commit_records or (blocked and not ended):
            return Deletions(total, blocked)
        done = {record.topic for record, error in zip(ending, refusals, strict=True) if not error}
        behind = _behind(behind, [record for record in records if record.topic not in done])


async def delete_unchanged(
    kernel: "Kernel", record: Record, caller: Caller = SERVER
) -> Error | None:
    """Delete a record unless it was rewritten meanwhile; return why it was not deleted."""
    deletion = Event(record.topic, DELETE, b"", None, 1, True)
    try:
        await kernel.write(deletion, caller, Condition(seqs=frozenset({record.seq})))
    except Error as error:
        if error.code is not Code.PRECONDITION:
            log.debug("%s was not ended: %s", record.topic, error.message)
        return error
    return None


def _behind(behind: tuple[float, int], left: Sequence[Record]) -> tuple[float, int]:
    """Return the place behind these records, which follow ``behind`` and are still there."""
    for record in left:
        at, passed = behind
        behind = (at, passed + 1) if record.expires_at == at else (record.expires_at, 1)
    return behind
