"""A shared bound of pages: records and bytes that several pages may have, filled in sequence."""

from collections.abc import Iterable, Iterator

from rowcast.core.events import Record
from rowcast.store.store import Page


class PageRoom:
    """The remaining records and payload bytes for all pages together."""

    def __init__(self, records: int, size: int) -> None:
        self._records = records
        self._size = size

    @property
    def over(self) -> bool:
        """Whether the bound is used up."""
        return self._records <= 0 or self._size <= 0

    def page(self, position: int, found: Iterator[Record]) -> Page:
        """Return a page of records within the bound; fetches one more to set ``more``."""
        records: list[Record] = []
        for record in found:
            if self.over:
                return Page(position, records, more=True)
            records.append(record)
            self._records -= 1
            self._size -= len(record.payload)
        return Page(position, records)

    def pages(self, pages: Iterable[Page]) -> list[Page]:
        """Return pages, each filled on demand, within the bound."""
        filled: list[Page] = []
        for page in pages:
            filled.append(page)
            if page.more or self.over:
                break
        return filled
