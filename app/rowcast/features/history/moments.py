"""Resolution of a time or a cursor to a position in a part of the log.

A time resolves to the position just before the first event of at least that time, so adjacent
windows contain each event once. It knows neither the caller nor the read.
"""

from rowcast.core.errors import Code, Error
from rowcast.core.moments import Moment
from rowcast.core.topic_tables import LogSource
from rowcast.subscriptions.reader import Reader


async def position_of(
    reader: Reader, source: LogSource, moment: Moment, *, kept: bool = True
) -> int:
    """Return the position of a time or cursor in a part of the log.

    Raises GONE for a cursor of another log or beyond the end of this one, and, with ``kept``, for
    one after which events were trimmed. Raises BUSY where this process is behind it.
    """
    cursor, announced = moment.cursor, reader.announced()
    if cursor is None:
        return min(announced, await reader.since(source, moment.version))
    if cursor.epoch != reader.epoch:
        raise Error(Code.GONE, f"{str(cursor)!r} is of another log; this one is {reader.epoch!r}")
    await reader.until_reached(cursor.seq)
    if cursor.seq > (head := reader.reach()):
        raise Error(
            Code.GONE, f"{str(cursor)!r} is beyond the end of the log, {reader.epoch}:{head}"
        )
    trimmed = reader.trimmed([source])
    if kept and cursor.seq < trimmed:
        raise forgotten(reader, str(cursor), trimmed)
    return cursor.seq


def forgotten(reader: Reader, what: str, trimmed: int) -> Error:
    """Return the GONE Error for trimmed events."""
    oldest = f"{reader.epoch}:{trimmed}"
    return Error(
        Code.GONE,
        f"the log no longer has all of {what}; what is left begins after {oldest}",
        oldest=oldest,
    )
