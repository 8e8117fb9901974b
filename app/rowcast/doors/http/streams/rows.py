"""Rows of ``$SYS/streams``: open server-sent event streams and WebSockets (M11).

The counterpart of ``$SYS/sessions`` for readers without a session: a row exists while the stream is
open, and deleting it closes the stream.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import SYSTEM_ROW_ITEMS_LISTED_MAX, SYSTEM_ROW_ITEMS_MAX
from rowcast.doors.http.streams.watch import Open, Watch
from rowcast.kernel.rows.system_rows import SystemRows, time_text

STREAMS: Final = "$SYS/streams"


def stream_rows(watch: Watch) -> type[SystemRows]:
    """Return the resource class that lists and closes the streams of one edge."""

    class StreamRows(SystemRows):
        """One row for each stream, by its number since the server started."""

        path = STREAMS

        def names(self) -> Sequence[str]:
            return list(watch.open)

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:
            found = watch.open.get(name)
            most = SYSTEM_ROW_ITEMS_MAX if whole else SYSTEM_ROW_ITEMS_LISTED_MAX
            return None if found is None else {"id": name} | _facts(found, most)

        async def delete(self) -> None:
            """Close a stream; its reader gets the reason."""
            found = watch.open.get(self.id)
            if found is None:
                raise Error(Code.NOT_FOUND, f"there is no stream {self.id!r}")
            found.stream.refuse(Error(Code.DENIED, "an administrator ended this stream"))

    return StreamRows


def _facts(found: Open, most: int) -> dict[str, object]:
    stream, caller = found.stream, found.stream.caller
    facts: dict[str, object] = {
        "user": caller.user,
        "peer": caller.peer,
        "door": caller.door,
        "path": stream.path,
        "opened": time_text(found.since),
    }
    subscription = stream.subscription
    if subscription is None:
        return facts
    filters = [interest.topics.text for interest in subscription.interests]
    missed = subscription.losses.rows()
    return facts | {
        "filter_count": len(filters),
        "filters": filters[:most],
        "queued": subscription.waiting,
        "from_log": subscription.fallbacks,
        "dropped": sum(missed.values()),
        "gaps": missed,
    }
