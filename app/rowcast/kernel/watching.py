"""The verb watch: interests of live cursors, authorised for each filter, and known to the bus.

It is the part of the kernel (``kernel.py``) that doors call for SUBSCRIBE, streams and sessions
that go on. Whoever has several interests has one subscription, whose caller and stage are set here.
"""

import logging
from collections.abc import AsyncIterable, Mapping, Sequence
from typing import NamedTuple

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.fairness_limits import SUBSCRIPTION_RESUME_TURN_FILTERS
from rowcast.core.topics import TopicFilter
from rowcast.kernel.reauthorization import Reauthorization
from rowcast.kernel.row_views import Views
from rowcast.reads.loop_turns import LoopTurns
from rowcast.routes.registry import Registry
from rowcast.routes.resource import Incoming, Resource
from rowcast.seams.seams import Seams
from rowcast.subscriptions.live_query import RIGHTS_CHANGE
from rowcast.subscriptions.offered import check_offered, check_published
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.stage import Stage, chained
from rowcast.subscriptions.start_position import resumed
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from rowcast.writes.commit import Committer

log = logging.getLogger("rowcast")


class AuthorisedAhead(NamedTuple):
    """Which interests of a session that goes on are authorised; of some of them."""

    caller: Caller
    revision: int
    """That of the rights they were judged by."""
    errors: dict[SubscribedFilter, Error | None]
    """Why one is not; None if it is."""


class Watching(Seams):
    """The part of the kernel that has watches."""

    registry: Registry
    committer: Committer
    reader: Reader
    views: Views
    reauthorization: Reauthorization
    turns: LoopTurns

    def cursor(self, seq: int) -> str:
        """Return the cursor of a position in this log."""
        raise NotImplementedError

    def authorise_read(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may read a topic."""
        raise NotImplementedError

    def watch(
        self,
        subscription: Subscription,
        interest: SubscribedFilter,
        caller: Caller,
        since: str | int | None = None,
        *,
        current: bool = True,
        asked: bool = False,
    ) -> bool:
        """Add or change an interest of a subscription; return whether it is new.

        ``since`` is a cursor or a position to continue after; it overrides ``current``, which
        requests the current records. A cursor of another log, or beyond its head, causes one RESET
        and then the current records (C11). ``asked``: authorisation and hooks were done before;
        what has changed since is looked at again.
        Raises INVALID, DENIED.
        """
        if asked:
            caller, since = self._reauthorised(subscription, interest, caller, since)
        else:
            self.authorise(interest, caller)
        topics = interest.topics
        self.attach_caller(subscription, caller)
        if interest.replay is not None:
            self.unwatch(subscription, topics)  # it begins anew
        if topics.text in subscription.interests:
            subscription.replace(interest, current=current)
            self._attach_queries(subscription, caller)
            self.hooks.subscribed(caller, interest)
            return False
        position = self._position(subscription, interest, since)
        self.views.enter(subscription, interest)
        # An unusable cursor starts over, whatever was requested (C11).
        current = current if since is None else position is None
        subscription.add(interest, position, current=current)
        self._attach_queries(subscription, caller)
        self.notify_subscribed(subscription.owner, topics)
        self.hooks.subscribed(caller, interest)
        return True

    def _reauthorised(
        self,
        subscription: Subscription,
        interest: SubscribedFilter,
        caller: Caller,
        since: str | int | None,
    ) -> tuple[Caller, str | int | None]:
        """Return the caller as it is now, and where it may begin; raises as ``reauthorise``."""
        before = interest.query
        caller = self.reauthorise(interest, caller)
        query = interest.query
        if query is before or query is None or query.continues(before) or since is None:
            return caller, since
        token = since if isinstance(since, str) else self.cursor(since)
        subscription.restart(RIGHTS_CHANGE, token, interest)
        return caller, None

    def reauthorise(self, interest: SubscribedFilter, caller: Caller) -> Caller:
        """Return the caller as it is now, for an interest that was authorised before.

        Rights may have changed since, while hooks or the log were waited for. Raises
        UNAUTHENTICATED, DENIED and INVALID.
        """
        caller = self.reauthorization.current(caller)
        if 0 <= interest.judged != self.reauthorization.revision:
            self.authorise_watch(interest.watched, caller)
            if interest.query is not None:
                self.views.plan(interest, caller)
        return caller

    def _position(
        self, subscription: Subscription, interest: SubscribedFilter, since: str | int | None
    ) -> int | None:
        """Return the position to continue after; None to begin with current records.

        An unusable cursor causes one RESET (C11). Raises INVALID for malformed text.
        """
        if since is None:
            return None
        after, lost = resumed(since, interest.query, self.reader.epoch, self.committer.reach)
        if lost:
            token = since if isinstance(since, str) else self.cursor(since)
            subscription.restart(lost, token, interest)
        return None if lost else after

    def authorise(self, interest: SubscribedFilter, caller: Caller) -> None:
        """Raise unless the caller may have an interest; hooks may change its options.

        It is judged as it is now: a door that takes many filters has let others run in between.
        """
        caller = self.reauthorization.current(caller)
        self._authorise(interest, caller)
        asked = interest.topics.text
        if self.hooks.subscribe(caller, interest):
            self._authorise(interest, caller)
            interest.asked = interest.asked or asked

    async def authorise_waiting(
        self, interest: SubscribedFilter, caller: Caller, *, connects: bool = False
    ) -> None:
        """The same for asynchronous hooks (``Hooks.subscribe_waits``).

        ``connects``: for the stream of a resource class, which may be at a silent path.
        """
        caller = self.reauthorization.current(caller)
        self._authorise(interest, caller, connects=connects)
        asked = interest.topics.text
        if await self.hooks.subscribe_waiting(caller, interest):
            caller = self.reauthorization.current(caller)
            self._authorise(interest, caller, connects=connects)
            interest.asked = interest.asked or asked
        if interest.replay is not None:
            await self.views.replays.find(interest)

    def _authorise(
        self, interest: SubscribedFilter, caller: Caller, *, connects: bool = False
    ) -> None:
        self.views.plan(interest, caller)
        self.authorise_watch(interest.watched, caller)
        interest.judged = self.reauthorization.revision
        if not connects:
            text = interest.watched.text
            check_published(text, self.registry.silent, self.registry.paths)

    def attach_caller(self, subscription: Subscription, caller: Caller) -> None:
        """Set the caller and the stage of a subscription."""
        subscription.caller = subscription.losses.caller = caller
        subscription.stage = self.views.stage(subscription, caller, self.stage(caller))

    def _attach_queries(self, subscription: Subscription, caller: Caller) -> None:
        """Renew the stage of a subscription that has live queries or replays."""
        if subscription.interests.queries or subscription.interests.replays:
            self.attach_caller(subscription, caller)

    def stage(self, caller: Caller) -> Stage | None:
        """Return the stage between events and a caller; None if there is none."""
        return chained((self.rights.stage(caller), *(view(caller) for view in self.view)))

    def authorise_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise unless the caller may subscribe to the filter."""
        self.rights.check_subscribe(topics, caller)
        check_offered(topics.text, self.registry.paths, self.registry.alarms)

    def unwatch(self, subscription: Subscription, topics: TopicFilter) -> bool:
        """Remove one interest of a subscription; return whether it existed."""
        self.views.leave(subscription, topics)
        ended = subscription.discard(topics)
        self.notify_unsubscribed(subscription.owner, topics.text)
        if ended:
            self.hooks.unsubscribed(subscription.caller, topics.text)
        return ended

    def close(self, subscription: Subscription) -> None:
        """Close a subscription and remove it from the bus."""
        for interest in self.views.leave_all(subscription):
            self.hooks.unsubscribed(subscription.caller, interest.topics.text)
        self.notify_gone(subscription.owner)
        subscription.close()

    def suspend(self, subscription: Subscription) -> tuple[int, list[SubscribedFilter]]:
        """Close a subscription; return position and interests for ``resume``."""
        self.views.leave_all(subscription)
        return subscription.suspend()

    async def authorise_ahead(
        self, interests: Sequence[SubscribedFilter], caller: Caller
    ) -> AuthorisedAhead | None:
        """Do in slices of the loop what ``resume`` would do for many interests in one turn.

        That is for filters of topics; the others are few. None: there is nothing to do ahead.
        """
        plain = [one for one in interests if self.views.is_plain(one.topics)]
        if len(plain) <= SUBSCRIPTION_RESUME_TURN_FILTERS:
            return None
        judged = AuthorisedAhead(caller, self.reauthorization.revision, {})
        async for interest in self.turns.each(plain):
            try:
                self._authorise(interest, caller)
            except Error as error:
                judged.errors[interest] = error
            else:
                judged.errors[interest] = None
                interest.sources = self.reader.sources(interest.topics)
        return judged

    def resume(
        self,
        subscription: Subscription,
        position: int,
        interests: Sequence[SubscribedFilter],
        caller: Caller,
        judged: AuthorisedAhead | None = None,
    ) -> list[SubscribedFilter]:
        """Resume a suspended subscription with a new one; ``judged`` is of ``authorise_ahead``.

        Returns the interests that are no longer authorised; they are left out.
        """
        known = judged.errors if judged is not None and self._holds(judged, caller) else {}
        allowed: list[SubscribedFilter] = []
        refused: list[tuple[SubscribedFilter, Error]] = []
        anew: dict[str, list[SubscribedFilter]] = {}
        for interest in interests:
            before = interest.query
            try:
                self._judge(interest, caller, known)
                self.views.enter(subscription, interest)
            except Error as error:
                refused.append((interest, error))
            else:
                allowed.append(interest)
                place = position if interest.since is None else interest.since
                if interest.query is not None and (why := interest.query.ended(before, place)):
                    anew.setdefault(why, []).append(interest)
        self.attach_caller(subscription, caller)
        subscription.resume(position, allowed)
        self._attach_queries(subscription, caller)
        for reason, some in anew.items():
            subscription.begin_anew(some, reason)
        return _left_out(refused, caller)

    def _judge(
        self,
        interest: SubscribedFilter,
        caller: Caller,
        known: Mapping[SubscribedFilter, Error | None],
    ) -> None:
        """Raise unless a caller may go on with an interest; of ``known`` ones it was judged."""
        if interest not in known:
            self._authorise(interest, caller)
            interest.sources = []
        elif (error := known[interest]) is not None:
            raise error

    def _holds(self, judged: AuthorisedAhead, caller: Caller) -> bool:
        """Whether what was judged is still so: rights may have changed since."""
        return judged.caller == caller and judged.revision == self.reauthorization.revision

    def open_stream(
        self, topic: str, caller: Caller, interest: SubscribedFilter | None = None
    ) -> Subscription:
        """Return a new subscription to one topic, or to all of a collection.

        ``interest`` is that of ``connect``, for which hooks have run.
        """
        subscription = Subscription(self.reader, caller.client_id)
        asked = interest is not None
        self.watch(subscription, interest or self._interest(topic), caller, asked=asked)
        return subscription

    def _interest(self, topic: str) -> SubscribedFilter:
        route = self.registry.route(topic)
        whole = route.entry is not None and not route.record_id
        topics = TopicFilter.below(route.entry.path) if whole and route.entry else None
        return SubscribedFilter(topics or TopicFilter(topic))

    async def connect(
        self, resource: Resource, incoming: Incoming | None = None
    ) -> AsyncIterable[object]:
        """Return the stream of a resource class for a connected client."""
        self.authorise_read(resource.topic, resource.caller)
        interest = self._interest(resource.topic)
        await self.authorise_waiting(interest, resource.caller, connects=True)
        resource.interest = interest
        return resource.connect(incoming)


def _left_out(
    refused: Sequence[tuple[SubscribedFilter, Error]], caller: Caller
) -> list[SubscribedFilter]:
    """Return what is left out of a session; log the first of it, as no packet tells the client."""
    if refused:
        interest, error = refused[0]
        log.warning(
            "%s returned, and %d of its subscriptions are left out, such as %r: %s",
            caller.client_id or caller.user, len(refused), interest.topics.text[:100],
            error.message,
        )  # fmt: skip
    return [interest for interest, _ in refused]
