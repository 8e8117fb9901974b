"""Groups in SQL: what the conformance suite cannot provoke."""

from dataclasses import replace
from sqlite3 import OperationalError

import pytest
from store_cases import DOG

from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Error
from rowcast.core.grouping import Grouping
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.store.scan_pace import ScanPace
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_groups import grouped_in_sql
from rowcast.store.sql_query import Filter
from rowcast.store.sql_rows import TopicRows


class Failing:
    """A cursor whose statements fail."""

    def execute(self, _text, _values):
        raise OperationalError("interrupted")


def test_a_failure_is_no_reason_to_add_up_one_by_one():
    """P1: an interrupted query ends."""
    with pytest.raises(OperationalError):
        grouped_in_sql(Failing(), LogPartition(TopicRows(), 0), Grouping(()), Filter(), 1)


def test_too_many_groups_give_the_turn_of_their_scan_up(store, writer):
    """While the Error is sent to a slow client, no other scan waits for it."""
    store.commit([writer.value(DOG, n, {"x": n}) for n in range(5)])
    checked_in_python = Query(Condition(("x",), Operator.GE, 0))
    with pytest.raises(Error, match="more than 2 groups") as kept:
        store.grouped(DOG, checked_in_python, Grouping((("x",),)), 2)
    assert kept.value.__traceback__ is not None  # which keeps the frames of the scan
    assert not store._pace._turn.locked()


class Seen(ScanPace):
    """A pace that counts the rows that Python looked at."""

    count = 0

    def rows(self, rows):
        for row in super().rows(rows):
            self.count += 1
            yield row


@pytest.mark.parametrize("text", ["group(x)", "sort(+x)", "sort(+x)&limit(1)", "x=ge=0"])
def test_what_python_does_with_each_row_is_done_at_the_pace_of_scans(store, writer, text):
    store.commit([writer.value(DOG, n, {"x": n}) for n in range(5)])
    store._pace = seen = Seen()
    query = parse_query(text, DOG, groups=True)
    if query.group is not None:
        found = store.grouped(DOG, replace(query, group=None), query.group, 10)
    else:
        found = store.search(DOG, query).records
    assert (1 if "limit" in text else 5, 5) == (len(found), seen.count)
