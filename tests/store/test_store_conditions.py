"""Conditions in SQL select the records for which they hold in Python (B6, L7).

The evaluator, ``core/conditions.py:holds``, is the reference. Trees have what queries and rules can
say, bound for a random caller and unbound; rows have values of every type, and none.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_values import CONDITIONS, DOG_VALUES, PATHS, SCALARS, WORDS
from store_cases import DOG, OPEN, TABLES, Writer

from amounts import amount
from rowcast.core.claims import bind, claims_of
from rowcast.core.conditions import (
    EVERYTHING,
    NOTHING,
    Claim,
    ClaimCondition,
    Condition,
    Group,
    Operator,
    holds,
)
from rowcast.core.queries import Query
from rowcast.core.tables import Type
from rowcast.core.topics import TopicFilter
from rowcast.store.sqlite import SqlStore

ALL = 10**6
CLAIMS = st.builds(
    Claim,
    st.sampled_from([("$user",), ("$clientid",), ("$user", "sites"), ("$user", "level")]),
    st.sampled_from(Type),
)
KNOWN = WORDS | st.integers(-2, 2) | st.booleans() | st.just("2020-01-01T00:00:00Z")
FACTS = st.dictionaries(
    CLAIMS.map(lambda claim: claim.path), KNOWN | st.lists(KNOWN, max_size=3), max_size=4
)
OPERATORS = st.sampled_from(Operator)
RULES = st.recursive(
    CONDITIONS
    | st.builds(Condition, PATHS, OPERATORS, CLAIMS)
    | st.builds(Condition, PATHS, st.just(Operator.HAS), SCALARS)
    | st.builds(ClaimCondition, CLAIMS, OPERATORS, CLAIMS | SCALARS)
    | st.sampled_from([EVERYTHING, NOTHING]),
    lambda inner: st.builds(Group, st.lists(inner, max_size=3).map(tuple), st.booleans()),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = SqlStore(tmp_path_factory.mktemp("conditions"))
    made.open(TABLES)
    yield made
    made.close()


def fill(store, table, values):
    """Replace a table's records; return their values as a query sees them, by id."""
    writer = Writer(store.head())
    old = [record.topic for record in store.scan(table, TopicFilter("#"), "", ALL).records]
    events = [writer.delete(topic, table) for topic in old]
    new = [writer.value(table, str(number), value) for number, value in enumerate(values)]
    store.commit([*events, *new])
    return {str(number): event.decoded for number, event in enumerate(new)}


@pytest.mark.slow
@settings(
    max_examples=amount(long=100, short=25), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    table=st.sampled_from([DOG, OPEN]),
    values=st.lists(DOG_VALUES, min_size=1, max_size=6),
    rules=st.lists(RULES, min_size=1, max_size=6),
    facts=FACTS,
)
def test_sql_selects_what_holds(store, table, values, rules, facts):
    records = fill(store, table, values)
    for rule in rules:
        bound = bind(rule, facts.get)
        assert [] == list(claims_of(bound))
        for where in (rule, bound):  # of an unbound rule claims are unknown
            expected = [name for name, value in records.items() if holds(where, value, name)]
            found = store.search(table, Query(where)).records
            assert expected == [record.topic.partition("/")[2] for record in found]
            assert len(expected) == store.matching(table, Query(where))
