"""What a log says of large results that are staged while others write, read by a test."""

from sim_checks import require
from sim_store import number_of

from rowcast.core.events import RETAINED
from rowcast.log.batch_content import decode_content


class SeenResults:
    """The pages of the result that is being staged, and which events others see of all results."""

    def __init__(self, table_of):
        self._table_of = table_of
        self._pages, self._yielding, self._versions = (0, [], 0), set(), {}
        self.lost = set()
        """The numbers of rows that have given way to newer writes."""
        self.staged, self.silent = set(), set()
        """The numbers of events: all of results, and those that are not announced."""
        self.over_newer = []
        """Rows that were staged although they are older than their record."""

    def yields(self, events):
        """Note versions, and take away staged rows of records that are written meanwhile."""
        for event in events:
            if event.kind in RETAINED:
                self._versions[event.topic] = event.version
        after, pages, count = self._pages
        yields = (event for event in pages if event.table.name in self._yielding)
        lost = [event for event in yields if self._versions.get(event.topic, 0) > event.version]
        if lost:
            self.lost.update(number_of(event.payload) for event in lost)
            self._pages = after, [event for event in pages if event not in lost], count

    def switched(self, operations):
        """Return the events of a result that all see from a batch on."""
        for name, arguments in operations:
            if name == "stage":
                self._page(*arguments)
            elif name in {"abandon", "switch"}:
                (_, events, count), self._pages = self._pages, (0, [], 0)
                if name == "switch":
                    total = sum(arguments[2::3])
                    require(count == total, "pages are missing", arguments)
                    self.staged |= {event.seq for event in events}
                    first = {event.table.name: event.seq for event in reversed(events)}
                    self.silent |= {event.seq for event in events} - set(first.values())
                    return events
        return ()

    def _page(self, table, after, data):
        content = decode_content(data, after, self._table_of)
        if self._pages[0] != after:
            self._pages, self._yielding = (after, [], 0), set()
        _, known, count = self._pages
        self._pages = after, [*known, *content.events], count + len(content.events)
        if content.operations:
            self._yielding.add(table)
            newest = self._versions
            self.over_newer += [
                one for one in content.events if newest.get(one.topic, 0) > one.version
            ]
