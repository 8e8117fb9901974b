"""Searches: one page of a query's result, in SQL as far as it is exact, completed in Python.

There are two ways. If SQL can sort, rows are read in that order and the page is the first matching
ones, so a page costs the rows skipped and returned. If it cannot, all rows that SQL could not
exclude are read, and the first of them in order are kept: memory of a page, time of a table scan.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from heapq import nsmallest
from itertools import chain, islice
from sqlite3 import Cursor

from rowcast.core.conditions import holds
from rowcast.core.evaluation import order_key, page_token, token_values
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.queries import Query, Sort
from rowcast.store.scan_pace import ScanPace
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_groups import grouped_in_sql, grouped_one_by_one
from rowcast.store.sql_query import Conditions, Filter, order_by, segments, sort_terms
from rowcast.store.sql_rows import Row
from rowcast.store.sql_tables import quoted


def search(
    cursor: Cursor, part: LogPartition, query: Query, pace: ScanPace
) -> tuple[list[Row], str]:
    """Return the rows of one page and the token of the next; an empty one when there is none."""
    found = _ordered(cursor, part, query, pace)
    if found is None:
        found = _sorted(cursor, part, query, pace)
    if query.limit is None:
        return list(islice(found, query.offset, None)), ""
    rows = list(islice(found, query.offset, query.offset + query.limit + 1))
    page = rows[: query.limit]
    if not page or len(rows) == len(page):
        return page, ""
    return page, page_token(query.sort, part.rows.value(page[-1]), page[-1][0])


def matching(cursor: Cursor, part: LogPartition, query: Query, pace: ScanPace) -> int:
    """Return the number of records that match the conditions."""
    selected = _selection(part, query)
    if not selected.exact:
        return sum(1 for _ in _selected(cursor, part, query, pace))
    where = f"WHERE {selected.text}" if selected.text else ""
    text = f"SELECT count(*) FROM {quoted(part.rows.name)} {where}"
    return int(cursor.execute(text, selected.values).fetchone()[0])


def grouped(
    cursor: Cursor,
    part: LogPartition,
    query: Query,
    grouping: Grouping,
    most: int,
    pace: ScanPace,
) -> list[GroupRow]:
    """Return the groups of the records that match the conditions."""
    rows = grouped_in_sql(cursor, part, grouping, _selection(part, query), most)
    if rows is not None:
        return rows
    with closing(_each(cursor, part, query, pace)) as each:
        return grouped_one_by_one(part, grouping, each, most)


def _selection(part: LogPartition, query: Query) -> Filter:
    """Return the conditions on values, and the exact condition on a record's time."""
    selected = Conditions(part).filter(query.where)
    if query.stale is None:
        return selected
    text = f"{quoted(part.rows.names.version)}{'<' if query.stale else '>='}?"
    joined = f"({selected.text}) AND {text}" if selected.text else text
    return Filter(joined, (*selected.values, query.stale_below), selected.exact)


def _selected(
    cursor: Cursor,
    part: LogPartition,
    query: Query,
    pace: ScanPace,
    order: str = "",
    beyond: Filter | None = None,
) -> Iterator[Row]:
    """Return the matching rows, in an order of SQL."""
    selected = _selection(part, query)
    both = [item for item in (selected, beyond) if item is not None and item.text]
    where = f"WHERE {' AND '.join(item.text for item in both)}" if both else ""
    values = [value for item in both for value in item.values]
    rows: Iterator[Row] = cursor.execute(f"{part.statements.select} {where} {order}", values)
    if selected.exact:
        return rows
    return _looked_at(rows, part, query, pace)


def _looked_at(
    rows: Iterator[Row], part: LogPartition, query: Query, pace: ScanPace
) -> Generator[Row, None, None]:
    """Yield the rows for which the conditions hold; however it ends, it gives its turn up."""
    value = part.rows.value
    with closing(pace.rows(rows)) as paced:
        for row in paced:
            if holds(query.where, value(row), row[0]):
                yield row


def _each(
    cursor: Cursor, part: LogPartition, query: Query, pace: ScanPace
) -> Generator[Row, None, None]:
    """Return the matching rows, for work in Python on each of them.

    Close it afterwards: an Error of that work has its frames, and those would keep the turn.
    """
    rows = _selected(cursor, part, query, pace)
    return rows if isinstance(rows, Generator) else pace.rows(rows)


def _ordered(
    cursor: Cursor, part: LogPartition, query: Query, pace: ScanPace
) -> Iterator[Row] | None:
    """Return the rows from the page on, in order; None when SQL cannot sort so."""
    keys = sort_terms(part, query.sort)
    if keys is None:
        return None
    order = order_by(part, keys)
    if query.after is None:
        return _selected(cursor, part, query, pace, order)
    values = token_values(query.sort, query.after)
    ranges = segments(part, keys, values)
    return chain.from_iterable(_selected(cursor, part, query, pace, order, item) for item in ranges)


def _sorted(cursor: Cursor, part: LogPartition, query: Query, pace: ScanPace) -> Iterator[Row]:
    """Return the rows from the page on, sorted in Python."""
    value, sort = part.rows.value, query.sort
    with closing(_each(cursor, part, query, pace)) as rows:
        keyed = ((order_key(sort, value(row), row[0]), row) for row in rows)
        if query.after is not None:
            *values, last = token_values(sort, query.after)
            bound = _bound(sort, values, last)
            keyed = (item for item in keyed if item[0] > bound)
        if query.limit is None:
            return (row for _, row in sorted(keyed, key=lambda item: item[0]))
        count = query.offset + query.limit + 1
        return iter([row for _, row in nsmallest(count, keyed, key=lambda item: item[0])])


def _bound(sort: Sequence[Sort], values: Sequence[object], last: object) -> tuple[object, ...]:
    """Return the sort key of a token: that of a record with its values."""
    flat = tuple(Sort((str(index),), item.descending) for index, item in enumerate(sort))
    return order_key(flat, {str(index): value for index, value in enumerate(values)}, last)
