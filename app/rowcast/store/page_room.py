"""Room in pages: what is left of a bound of records and bytes while pages are filled in turn."""

from collections.abc import Iterable, Iterator

from rowcast.core.events import Record
from rowcast.store.store import Page


class PageRoom:
    """So many records, and bytes of their payloads, for all pages together."""

    def __init__(self, records: int, size: int) -> None:
        self._records = records
        self._size = size

    @property
    def over(self) -> bool:
        """Whether no further record has room."""
        return self._records <= 0 or self._size <= 0

    def page(self, position: int, found: Iterator[Record]) -> Page:
        """Return a page of those that have room; one more is looked at, to know whether it is."""
        records: list[Record] = []
        for record in found:
            if self.over:
                return Page(position, records, more=True)
            records.append(record)
            self._records -= 1
            self._size -= len(record.payload)
        return Page(position, records)

    def pages(self, pages: Iterable[Page]) -> list[Page]:
        """Return pages, each of which is filled when it is asked for, as far as there is room."""
        filled: list[Page] = []
        for page in pages:
            filled.append(page)
            if page.more or self.over:
                break
        return filled
