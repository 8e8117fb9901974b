"""Since when a named query has its conditions, and a table what it computes."""

import pytest
from related_dogs import put, watch

from build import Server, turns
from rowcast.core.callers import ALL, Caller
from rowcast.core.named_queries import NamedQuery
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.definitions import OWNER, Definitions
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.live_query import REDEFINED
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

SENSOR = Table("Sensor", "Sensor")
HOT = NamedQuery("Hot", SENSOR, "temp=gt=80")


def begun(query, facts, position):
    """Return the definitions of a start, and what it stored in addition."""
    found = Definitions([query])
    found.restore(facts, position)
    return found, [*facts, *((change.owner, change.name, change.value) for change in found.changes)]


def test_a_name_keeps_its_beginning_until_its_conditions_change():
    found, facts = begun(HOT, [], 7)
    assert (0, 1) == (found.since("Hot"), len(found.changes)), "nobody has older records of it"
    found, facts = begun(HOT, facts, 9)
    assert (0, []) == (found.since("Hot"), found.changes)
    found, facts = begun(NamedQuery("Hot", SENSOR, "temp=gt=90"), facts[-1:], 11)
    assert (12, OWNER) == (found.since("Hot"), found.changes[0].owner)
    found, _ = begun(NamedQuery("Hot", SENSOR, "temp=gt=90"), facts[-1:], 15)
    assert (12, []) == (found.since("Hot"), found.changes)


def test_the_same_conditions_of_another_table_are_others():
    _, facts = begun(HOT, [], 1)
    found, _ = begun(NamedQuery("Hot", Table("Other", "Other"), "temp=gt=80"), facts, 5)
    assert found.since("Hot") == 6


SCHEMA = """
type Order @table @export {
  id: ID @primaryKey
  price: Int
  count: Int
  a: ID
  b: ID
  total: Int @computed(from: "price * count")
  other: Order @relationship(from: "a")
}
query Large @query(table: "Order", where: "price=gt=2")
"""
ANY = Caller("a", ALL, "mqtt")


async def started(store, text):
    """Return a server that starts with a schema."""
    schema = parse_schema(text)
    live = LiveQueriesOfTables(named=schema.queries)
    server = Server(schema.tables, store=store, features=[live])

    async def facts(owner):
        return store.states(owner)

    await server.kernel.restore(facts)
    await live.start()
    return server


@pytest.mark.parametrize(
    ("before", "after", "query", "goes_on"),
    [
        ("price=gt=2", "price=gt=4", "Large", False),
        ("price=gt=2", "price=gt=4", "Order/price=gt=2", True),
        ("price * count", "price + count", "Order/total=gt=2", False),
        ('from: "a"', 'from: "b"', "Order/other.price=gt=2", False),
        ("count: Int", "count: Int note: String", "Large", True),
    ],
)
async def test_m3_a_session_that_returns_to_another_schema_begins_anew(
    tmp_path, before, after, query, goes_on
):
    """M3: what it holds was selected by what the schema said then; also if nothing was written."""
    store = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    first = await started(store, SCHEMA)
    for name in "ab":
        await first.kernel.write(put(f"Order/{name}", price=3, count=2, a="a", b="c"), ANY)
    reader, heard = await watch(first.kernel, f"$query/{query}", ANY)
    assert ["snapshot", "snapshot", "current"] == [kind for kind, _ in await heard()]
    position, _ = first.kernel.suspend(reader)
    await first.committer.settle()
    second = await started(store, SCHEMA.replace(before, after))
    again = Subscription(second.kernel.reader)
    interest = SubscribedFilter(TopicFilter(f"$query/{query}"))
    second.kernel.resume(again, position, [interest], ANY)
    await turns(20)
    resets = [event.decoded["reason"] for event, _ in again.take(9) if event.kind == "reset"]
    assert resets == ([] if goes_on else [REDEFINED])
    second.kernel.close(again)
    await second.stop()
    store.close()
