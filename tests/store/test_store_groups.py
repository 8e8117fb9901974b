"""Groups in SQL: what the conformance suite cannot provoke."""

from sqlite3 import OperationalError

import pytest

from rowcast.core.grouping import Grouping
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
