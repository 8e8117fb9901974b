"""Deltas: what has changed of a record since its reader was sent it last (C16).

A reader that asks for ``?delta=true`` gets each value whole once, and then a JSON merge patch (RFC
7396) as ``delta`` in place of ``value``. The patch is from the value that this reader was sent to
the new one, so it is right whatever the reader was not sent between: conflated values, gaps, hidden
records. A value is sent whole again when no patch can say it, when the patch is no shorter, after a
deletion, and when what was sent is no longer held, because it is bounded.

What is held are the events themselves, which readers share; patches are computed once for all who
were sent the same two values.
"""

from collections import OrderedDict
from typing import cast

from rowcast.core.events import DELETE, MESSAGE, RESET, Event
from rowcast.core.freshness import STALE_PREFIX
from rowcast.core.memory_limits import DELTA_BYTES_MAX, DELTA_TOPICS_MAX
from rowcast.core.merge_diff import NotPatchable, merge_diff
from rowcast.doors.http.streams.frames import MARKS, Frames
from rowcast.subscriptions.addressed import Replayed

Key = tuple[int, str]
"""The number of a stream on a connection, and a topic."""


class Deltas:
    """What one connection was sent."""

    def __init__(
        self,
        frames: Frames,
        topics_max: int = DELTA_TOPICS_MAX,
        bytes_max: int = DELTA_BYTES_MAX,
    ) -> None:
        self._frames = frames
        self._topics_max, self._bytes_max = topics_max, bytes_max
        self._sent: OrderedDict[Key, Event] = OrderedDict()
        self._bytes = 0

    def envelope(self, event: Event, number: int) -> bytes | None:
        """Return the envelope of an event with a delta; None: it is to be sent whole."""
        if event.kind == RESET:
            self._sent.clear()
            self._bytes = 0
        if event.kind in MARKS or isinstance(event, Replayed):
            return None
        before = self._take((number, event.topic))
        if event.kind in {DELETE, MESSAGE} or event.topic.startswith(STALE_PREFIX):
            if before is not None and event.kind == MESSAGE:
                self._keep((number, event.topic), before)
            return None
        self._keep((number, event.topic), event)
        return (self._shared(before, event) or None) if before is not None else None

    def _shared(self, before: Event, event: Event) -> bytes:
        """Return the envelope with a delta; empty when the value is to be sent whole."""
        kept = event.encodings
        if kept is None:
            kept = event.encodings = {}
        # Readers may have been shown different values of one event, by their rights or by hooks.
        shown = hash(before.payload)
        key = (self._frames.name, "delta", event.kind, before.seq, before.version, shown)
        made = kept.get(key)
        if made is None:
            made = kept[key] = self._made(before, event)
        return cast("bytes", made)

    def _made(self, before: Event, event: Event) -> bytes:
        try:
            patch = merge_diff(self._frames.spelled(before), self._frames.spelled(event))
        except NotPatchable:
            return b""
        made, whole = self._frames.with_delta(event, patch), self._frames.envelope(event)
        return made if len(made) < len(whole) else b""

    # -- what is held ------------------------------------------------------------------------------

    def _take(self, key: Key) -> Event | None:
        event = self._sent.pop(key, None)
        if event is not None:
            self._bytes -= len(event.payload)
        return event

    def _keep(self, key: Key, event: Event) -> None:
        self._sent[key] = event
        self._bytes += len(event.payload)
        while len(self._sent) > self._topics_max or self._bytes > self._bytes_max:
            self._take(next(iter(self._sent)))
