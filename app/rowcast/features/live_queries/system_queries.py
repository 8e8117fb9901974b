"""Live queries of rows of ``$SYS``: what filters name, and whom a report of a change concerns.

The conditions of all queries at a path are in one index. A report concerns the views whose
conditions the row may satisfy now, and those that have it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from rowcast.bus.subscriber import Subscriber
from rowcast.core.callers import SERVER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import RETAINED, Event
from rowcast.core.queries import Query
from rowcast.core.query_names import undeclared
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.query_windows import Extent
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.query_index import QueryIndex
from rowcast.features.live_queries.query_target import parsed_rows, viewed_key
from rowcast.features.live_queries.row_view import HeldView, RowQuery, RowView
from rowcast.features.live_queries.shared_view import RecordBudget, SharedViews, ViewHandle
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Entry
from rowcast.routes.system_rows import SystemRows, loosened, no_field
from rowcast.seams.query_points import QueryReader
from rowcast.subscriptions.live_query import LiveQuery

_SYSTEM: Final = f"{QUERY_PREFIX}$SYS/"


class RowQueries(Subscriber):
    """The views at one path; ``rows`` makes a row of it as the server sees it."""

    def __init__(self, rows: Callable[[str], SystemRows], path: str) -> None:
        self._rows = rows
        self._path = path
        self._index = QueryIndex()
        self._views: dict[str, RowView] = {}
        self._unknown: dict[str, RowView] = {}
        """Those that do not know their rows: every report may concern them."""
        self._holders: dict[str, dict[str, None]] = {}
        """The keys of views that have a row, by its topic; some have it no longer."""
        self._noted: dict[str, set[str]] = {}
        """The topics at which a view is noted so, by its key."""

    def __len__(self) -> int:
        return len(self._views)

    def enter(self, view: RowView) -> None:
        """Offer it reports from now on."""
        key = view.query.key
        self._views[key] = self._unknown[key] = view
        self._index.add(key, view.query.query.where)

    def leave(self, view: HeldView) -> None:
        """Offer it none any longer."""
        key = view.query.key
        del self._views[key]
        self._unknown.pop(key, None)
        self._index.remove(key)
        for topic in self._noted.pop(key, ()):
            keys = self._holders[topic]
            del keys[key]
            if not keys:
                del self._holders[topic]

    def offer(self, event: Event) -> None:
        """Offer a report to the readers that it concerns, each once."""
        if event.seq or event.kind not in RETAINED:
            return
        name = event.topic[len(self._path) + 1 :]
        row = self._rows(name).row(name, whole=False)
        keys = self._holders.pop(event.topic, {})
        for key in keys:
            self._noted[key].discard(event.topic)
        keys |= dict.fromkeys(self._unknown)
        if row is not None:
            keys |= dict.fromkeys(self._index.find(name, row))
        readers: dict[QueryReader, None] = {}
        report = event.changed()  # the event itself is for plain filters, of the same readers, too
        for view in [self._views[key] for key in keys if key in self._views]:
            readers.update(dict.fromkeys(view.take(report)))
            self._note(view, event.topic)
        for reader in readers:
            reader.offer(report)

    def _note(self, view: RowView, topic: str) -> None:
        """Note what a view has, and whether it knows that."""
        key = view.query.key
        if not view.is_known:
            self._unknown[key] = view
        elif view.has(topic):
            self._hold(key, topic)

    def loaded(self, view: RowView, topics: Iterable[str]) -> None:
        """Take note that a view knows its rows, and has those at some topics."""
        self._unknown.pop(view.query.key, None)
        for topic in topics:
            self._hold(view.query.key, topic)

    def _hold(self, key: str, topic: str) -> None:
        self._holders.setdefault(topic, {})[key] = None
        self._noted.setdefault(key, set()).add(topic)

    def fall_behind(self, event: Event) -> None:
        """Do nothing: rows are in no log."""


class SystemQueries:
    """All of them, of one kernel; ``budget`` bounds the rows that they hold."""

    def __init__(self, kernel: Kernel, budget: RecordBudget) -> None:
        self._kernel = kernel
        self._budget = budget
        self.paths: dict[str, RowQueries] = {}
        """Those at each path that somebody reads."""
        self.views = SharedViews[RowView](budget)

    def plan(self, text: str, caller: Caller) -> LiveQuery | None:
        """Return the query that a filter names; None for one that is not of rows.

        Raises INVALID, NOT_FOUND, DENIED, and UNSUPPORTED for rows that nobody can follow.
        """
        if not text.startswith(_SYSTEM):
            return None
        path, resource, rest = self._found(text)
        self._kernel.authorise_read(f"{path}/", caller)
        try:
            query, extent = _parsed(path, resource, rest)
        except Error as error:
            error.detail["filter"] = text
            raise
        who = caller if self._kernel.visibility.filtered else SERVER
        sight = self._kernel.rights.sight(caller)
        asked = RowQuery(text, viewed_key(text, who, sight), path, query, extent, who)
        make = partial(self._make, asked, resource)
        return LiveQuery(
            Table(path, None),
            TopicFilter.below(path),
            query,
            query,
            exact=who is SERVER,
            sight=sight,
            window=ViewHandle(asked.key, self.views, make, lambda view, since: view.replay(since)),
            logged=False,
        )

    def _found(self, text: str) -> tuple[str, type[SystemRows], str]:
        """Return the path that a filter names, its class of rows, and what follows."""
        asked = path = text.removeprefix(QUERY_PREFIX)
        second = "/".join(asked.split("/")[:2])
        while "/" in path:
            path = path.rpartition("/")[0]
            entry = self._kernel.registry.entry(path)
            resource = None if entry is None else entry.resource
            if resource is not None and issubclass(resource, SystemRows):
                return path, resource, asked[len(path) + 1 :]
            if entry is not None:
                break
        known = [entry.path for entry in self._kernel.registry.entries if _is_followed(entry)]
        raise Error(
            Code.NOT_FOUND,
            f"no live query follows {text[:200]!r}{did_you_mean(second, known)}; the rows that one "
            f"follows are those of {', '.join(known)}; read others when they are needed",
            filter=text,
        )

    def _make(self, asked: RowQuery, resource: type[SystemRows]) -> RowView:
        """Return a view that is offered the reports at its path."""
        kernel, path = self._kernel, asked.path

        def rows_of(caller: Caller, name: str) -> SystemRows:
            return resource(kernel, f"{path}/{name}", name, caller)

        at = self.paths.get(path)
        if at is None:
            at = self.paths[path] = RowQueries(partial(rows_of, SERVER), path)
            if resource.recorded:
                kernel.live.followers[path] = at
            else:
                kernel.bus.add(TopicFilter.below(path), at)
        view = RowView(
            asked,
            kernel.reader,
            partial(rows_of, asked.caller),
            self._budget,
            at.loaded,
            self._leave,
        )
        at.enter(view)
        view.begin()
        return view

    def _leave(self, view: HeldView) -> None:
        path = view.query.path
        at = self.paths[path]
        at.leave(view)
        if not len(at):
            del self.paths[path]
            if self._kernel.live.followers.pop(path, None) is None:
                self._kernel.bus.remove(TopicFilter.below(path), at)


def _is_followed(entry: Entry) -> bool:
    resource = entry.resource
    return resource is not None and issubclass(resource, SystemRows) and resource.followed != ()


def _parsed(path: str, resource: type[SystemRows], rest: str) -> tuple[Query, Extent | None]:
    """Return the query of what follows a path, and its window."""
    followed = resource.followed
    if followed == ():
        raise Error(
            Code.UNSUPPORTED,
            f"changes of rows of {path} are not reported, so no live query follows them; GET "
            f"/{path}/ with the same conditions whenever they are needed",
        )
    query, extent = parsed_rows(rest, Table(path, None), "id")
    if extent is not None and not query.sort:
        raise Error(
            Code.INVALID,
            f"rows of {path} have no order of their own in a live query; add one, such as "
            "sort(id), or leave limit(...) out",
        )
    _check_members(path, resource, query)
    return replace(query, where=loosened(query.where)), extent


def _check_members(path: str, resource: type[SystemRows], query: Query) -> None:
    """Raise for a member that no row has, and for one of which no change is reported."""
    followed, members = resource.followed, resource.members
    for name, use in undeclared(Table(path, None), query).items():
        if followed is not None and use != "select" and name[0] not in followed:
            raise Error(
                Code.UNSUPPORTED,
                f"changes of {name[0][:80]!r} in rows of {path} are not reported, so no live query "
                f"compares it{did_you_mean(name[0], followed)}; one compares "
                f"{', '.join(followed)}, and GET /{path}/ compares all",
            )
        if members and name[0] not in members:
            raise no_field(f"{path}/", name[0], members)
