"""The table of all groups, and their persistence.

A durable group's state is a fact beside the log, written behind like that of a session: within
``GroupLimits.save_seconds``, and with whatever must not be saved without it (``changes``). A kill
of the server repeats what was assigned since, and loses none of it. The group defines the format of
its state; it is created by its first member, and removed with its last one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.errors import Error
from rowcast.core.topics import QUEUE_PREFIX, SHARE_PREFIX, TopicFilter
from rowcast.features.shared_subscriptions.assignments import GroupLimits
from rowcast.features.shared_subscriptions.groups import Group
from rowcast.kernel.row_views import Views
from rowcast.store.store import Change
from rowcast.subscriptions.reader import Reader

log = logging.getLogger("rowcast.groups")

OWNER = "group/"
"""The prefix of owners of groups' facts: ``group/<name>/<filter>``."""
STATE = "state"

Keep = Callable[[Sequence[Change], Callable[[Error | None], None]], None]
"""Stores changes, and calls back when done."""


def filter_of(group: Group) -> str:
    """Return the filter that subscribes to a group."""
    begin = f"{SHARE_PREFIX}{group.name}/" if group.name else QUEUE_PREFIX
    return begin + group.topics.text


class Groups:
    """All groups, by name and filter: together they identify a group."""

    def __init__(
        self,
        reader: Reader,
        views: Views,
        keep: Keep,
        durable: DurableFilters,
        limits: GroupLimits | None = None,
    ) -> None:
        self._reader = reader
        self._views = views
        self._keep = keep
        self._durable = durable
        self._limits = limits or GroupLimits()
        self._logged: set[Group] = set()
        """Durable groups, whose filters are logged."""
        self._groups: dict[tuple[str, str], Group] = {}
        self._unsaved: dict[Group, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        """Whether nothing is tried again: a node of a cluster goes on in another role."""

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def find(self, name: str, text: str) -> Group | None:
        """Return the group of a name and a filter, if any."""
        return self._groups.get((name, text))

    def group(self, name: str, topics: TopicFilter) -> Group:
        """Return or create the group of a name and a filter."""
        key = name, topics.text
        if key not in self._groups:
            self._groups[key] = Group(
                name, topics, self._reader, self._views, self._changed, self._limits
            )
        return self._groups[key]

    def _changed(self, group: Group) -> None:
        """Update a group's logged filter, schedule its save, or remove it."""
        if group.durable and group not in self._logged:
            self._logged.add(group)
            self._durable.add(group.topics)
        elif group in self._logged and not group.durable:
            self._logged.discard(group)
            self._durable.remove(group.topics)
        key = group.name, group.topics.text
        if group.ended and self._groups.get(key) is group:
            del self._groups[key]
        if group.durable or group.saved is not None:
            self._unsaved[group] = None
            if self._timer is None and not self._stopped:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._limits.save_seconds, self.save)

    # -- facts -------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save changed groups now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        groups = list(self._unsaved)
        changes = self.changes(groups)
        if changes:
            self._keep(changes, lambda error: self._ended(groups, error))

    def changes(self, groups: Iterable[Group]) -> list[Change]:
        """Return the changes that store the states of these groups.

        The caller calls ``failed`` if they were not written.
        """
        changes: list[Change] = []
        for group in groups:
            self._unsaved.pop(group, None)
            group.changed = False
            owner = f"{OWNER}{group.name}/{group.topics.text}"
            state = group.state() if group.durable else None
            if state is not None and state != group.saved:
                changes.append(Change(owner, STATE, state))
            elif state is None and group.saved is not None and not self._replaced(group):
                changes.append(Change(owner, "", None))
            group.saved = state
        return changes

    def _replaced(self, group: Group) -> bool:
        """Whether a group was replaced by another with the same facts."""
        other = self._groups.get((group.name, group.topics.text))
        return other is not None and other is not group and other.durable

    def failed(self, groups: Iterable[Group]) -> None:
        """Note that changes were not written; they are retried."""
        for group in groups:
            group.changed = True  # a session saved before the retry must take it along
            group.saved = b""  # overwrites the state on disk
            self._changed(group)

    def _ended(self, groups: list[Group], error: Error | None) -> None:
        if error is not None:
            log.warning("the states of %d groups are not saved: %s", len(groups), error.message)
            self.failed(groups)

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore stored groups; then members join, then ``clean``."""
        for owner, fact, state in facts:
            try:
                self._restore(owner, fact, state)
            except Exception as problem:  # noqa: BLE001 - whatever it is, the server starts
                log.warning("the fact %r of %r is left out: %r", fact, owner, problem)

    def _restore(self, owner: str, fact: str, state: bytes) -> None:
        if fact != STATE:
            log.warning("the fact %r of %r is of no known kind", fact, owner)
            return
        name, _, text = owner.removeprefix(OWNER).partition("/")
        group = self.group(name, TopicFilter(text))
        group.saved = state
        group.restore(state)

    def clean(self) -> None:
        """Remove empty groups."""
        for group in self:
            if group.ended:
                self._changed(group)

    def stop(self) -> None:
        """Stop every group, and save changes, once."""
        self._stopped = True
        for group in self:
            group.stop()
        self.save()
