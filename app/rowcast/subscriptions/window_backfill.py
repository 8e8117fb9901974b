"""Backfill of a window: what happened to it since its reader's position, then maybe its records.

Each reader comes to the log's head by its own backfill, and is told of later events by the window
that all of them share. So its floor is the position of the window, when the backfill begins.
"""

from rowcast.core.events import CURRENT, Event
from rowcast.subscriptions.backfill import Lost, snapshot_of
from rowcast.subscriptions.live_query import Unknown, WindowReplay, entering
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter


class WindowBackfill:
    """The steps of an interest's window after a position, and its records with the mark CURRENT.

    ``fresh``: the reader has nothing of it yet, so no steps are told. ``partial``: it may lack some
    records, because it left before it had all, so what has changed is told as if it entered.
    ``since`` None is the position of the subscription when it begins.
    """

    __slots__ = ("_fresh", "_partial", "_records", "_replay", "_since", "done", "interest")

    def __init__(
        self,
        interest: SubscribedFilter,
        since: int | None = None,
        *,
        fresh: bool = False,
        partial: bool = False,
        records: bool = False,
    ) -> None:
        self.interest = interest
        self.done = False
        self._since = since
        self._fresh = fresh
        self._partial = partial
        self._records = records
        self._replay: WindowReplay | None = None

    async def read(self, _reader: Reader, position: int) -> list[Pair]:
        """Return the next page; raises Lost when the steps are not known."""
        since = None if self._fresh else position if self._since is None else self._since
        try:
            replay = self._replay or await self._begin(since)
            steps = await replay.read()
            ended = replay.done and self._records
            records = await replay.current() if ended else ()
        except Unknown as unknown:
            raise Lost(
                self.interest, since or position, unknown.trimmed, unknown.reason
            ) from unknown
        interest = self.interest  # may have been replaced meanwhile
        if self._partial:
            steps = [entering(step) for step in steps]
        pairs: list[Pair] = [(step, interest) for step in steps]
        self.done = replay.done
        if ended:
            pairs += [(snapshot_of(record), interest) for record in records]
            if interest.query is not None and replay.left_out:
                interest.query.lack(replay.left_out)
            self.done = replay.complete
            if self.done:
                pairs.append((Event("", CURRENT, b"", seq=replay.position), interest))
        return pairs

    async def _begin(self, since: int | None) -> WindowReplay:
        query = self.interest.query
        if query is None or query.window is None:
            raise Unknown("the filter is no window any longer")
        replay = self._replay = await query.window.replay(since)
        interest = self.interest
        interest.since = since
        interest.floor = max(interest.floor, replay.position)
        return replay
