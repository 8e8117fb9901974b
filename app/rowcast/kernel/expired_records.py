"""Deletion of expired records, as ordinary writes (A5, E17).

So subscribers get the deletion, and a record that was rewritten meanwhile stays.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from rowcast.core.callers import SERVER, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event, Record
from rowcast.core.limits import SWEEP_RECORDS_MAX
from rowcast.writes.write import Condition

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.expiries")


async def delete_expired(
    kernel: "Kernel",
    now: WallClock,
    caller: Caller = SERVER,
    *,
    commit_records: int = SWEEP_RECORDS_MAX,
) -> int:
    """Delete the expired records of all tables and topics; return how many.

    ``commit_records`` of them are deleted in one commit, so that writers wait for no more. Failed
    deletions, such as on a full disk, are left for the next call.
    """
    total = 0
    while True:
        records = await kernel.reader.expired(now(), commit_records)
        replaced = kernel.committer.gives_way_at  # by a result that is being staged
        ending = (record for record in records if not replaced(record.topic))
        deletions = (delete_unchanged(kernel, record, caller) for record in ending)
        ended = sum(await asyncio.gather(*deletions))  # in one commit
        total += ended
        if len(records) < commit_records or not ended:
            return total


async def delete_unchanged(kernel: "Kernel", record: Record, caller: Caller = SERVER) -> bool:
    """Delete a record unless it was rewritten meanwhile; return whether it was deleted."""
    deletion = Event(record.topic, DELETE, b"", None, 1, True)
    try:
        await kernel.write(deletion, caller, Condition(seqs=frozenset({record.seq})))
    except Error as error:
        if error.code is not Code.PRECONDITION:
            log.debug("%s was not ended: %s", record.topic, error.message)
        return False
    return True
