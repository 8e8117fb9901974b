"""Owners and their dogs, and readers of queries on both, for live queries."""

import asyncio
import json
from unittest import mock

from query_readers import query_server

from build import turns
from rowcast.core.events import PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.schema import parse_schema
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

BONN = "owner.city==Bonn"
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  age: Int
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
}
type Owner @table @export {
  id: ID @primaryKey
  name: String
  city: String
  dogs: [Dog] @relationship(to: "owner_id")
}
query Bonn @query(table: "Dog", where: "owner.city==Bonn")
"""


def put(topic, qos=1, **value):
    return Event(topic, PUT, json.dumps(value).encode(), "application/json", qos, True)


def related(text=SCHEMA, **options):
    """Return a server with owners and their dogs, and readers of dogs."""
    schema = parse_schema(text)
    dog, *others = schema.tables
    live = LiveQueriesOfTables(named=schema.queries, **options)
    return query_server(dog, others=others, features=[live])


async def some_dogs(opened):
    """Write two owners and four dogs."""
    await opened.write(put("Owner/ann", city="Bonn"))
    await opened.write(put("Owner/ben", city="Ulm"))
    for number, owner in enumerate(("ann", "ann", "ben", "cy"), 1):
        await opened.write(put(f"Dog/{number}", age=number, owner_id=owner))


async def watch(kernel, text, caller, since=None, **options):
    """Return a reader of a filter, and a function that returns what it was handed."""
    reader = Subscription(kernel.reader, **options)
    kernel.watch(reader, SubscribedFilter(TopicFilter(text)), caller, since)

    async def heard():
        found = []
        for _ in range(8):
            found += reader.take(1000)
            await turns(6)
        return [(step_of(event) or event.kind, event.topic) for event, _ in found]

    return reader, heard


async def turns_of(work):
    """Return how often others had their turn until work was done, and its result."""
    task, count = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    return count, task.result()


async def most_in_a_turn(of, name, work):
    """Return how often a method was called in one turn of the loop at most, until work is done."""
    with mock.patch.object(of, name, autospec=True, side_effect=getattr(of, name)) as called:
        task, most, before = asyncio.ensure_future(work), 0, 0
        while not task.done():
            await asyncio.sleep(0)
            before, most = called.call_count, max(most, called.call_count - before)
    await task
    return most
