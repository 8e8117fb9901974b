"""Rows of ``$SYS/streams``: open server-sent event streams and WebSockets (M11).

The counterpart of ``$SYS/sessions`` for readers without a session: a row exists while the stream is
open, and deleting it closes the stream. Where other processes follow this one, their streams are
listed behind its own, as ``<node>/<number>``.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import SYSTEM_ROW_ITEMS_LISTED_MAX, SYSTEM_ROW_ITEMS_MAX
from rowcast.doors.http.streams.watch import Open, Watch
from rowcast.routes.system_rows import SystemRows, time_text

STREAMS: Final = "$SYS/streams"


def stream_rows(watch: Watch) -> type[SystemRows]:
    """Return the resource class that lists and closes the streams of one edge."""

    class StreamRows(SystemRows):
        """One row for each stream, by its number since the server started."""

        path = STREAMS

        others: Mapping[str, dict[str, object]] = MappingProxyType({})

        async def refresh(self) -> None:
            """Ask other processes."""
            if watch.elsewhere is not None and (not self.id or "/" in self.id):
                self.others = await watch.elsewhere.rows(STREAMS, self.id)

        def names(self) -> Sequence[str]:
            return [*watch.open, *self.others]

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:
            found = watch.open.get(name)
            return self.others.get(name) if found is None else _row(watch, name, found, whole=whole)

        async def delete(self) -> None:
            """Close a stream; its reader gets the reason."""
            if watch.elsewhere is not None and "/" in self.id:
                await watch.elsewhere.end(STREAMS, self.id)
                return
            found = watch.open.get(self.id)
            _end(found, self.id)

    return StreamRows


def _end(found: Open | None, name: str) -> None:
    if found is None:
        raise Error(Code.NOT_FOUND, f"there is no stream {name!r}")
    found.stream.refuse(Error(Code.DENIED, "an administrator ended this stream"))


def _row(watch: Watch, name: str, found: Open, *, whole: bool) -> dict[str, object]:
    most = SYSTEM_ROW_ITEMS_MAX if whole else SYSTEM_ROW_ITEMS_LISTED_MAX
    row = {"id": name} | _facts(found, most)
    return row if watch.elsewhere is None else row | {"node": watch.elsewhere.node}


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
