"""Live queries whose reader may read something else when it returns with a cursor (M3, M9)."""

import pytest
from query_readers import Sse, Ws, query_server
from related_dogs import watch
from row_readers import RowMqtt

from build import Server, turns
from rightful import ROOT, Rightful, person
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.rights_changes import OWNER, RightsChanges
from rowcast.features.rights.rule_rows import PATH
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.live_query import RIGHTS_CHANGE
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

OPEN = Table(
    "Open",
    "Open",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("n", Type.INT),
        Attribute("phone", Type.STRING),
    ),
)
CLERK = person("cleo", "clerk")
RULE = {
    "filter": "Open/#",
    "effect": "allow",
    "roles": ["clerk"],
    "actions": ["read"],
    "where": "n > 2",
    "mask": {"phone": "last4"},
}
ASKED = ("n=gt=0", "n=gt=0&sort(-n)&limit(3)", "n=gt=0&select(id,phone)")


def row(n):
    payload = f'{{"n": {n}, "phone": "0123456{n}"}}'.encode()
    return Event(f"Open/{n}", PUT, payload, "application/json", 1, True)


async def started(store):
    """Return a server that has started on what is stored."""
    live = LiveQueriesOfTables()
    server = Server((OPEN,), store=store, features=[live])

    async def facts(owner):
        return store.states(owner)

    await server.kernel.restore(facts)
    await live.start()
    server.live = live.queries
    return server


async def rule(server, kind=PUT):
    await Rightful.write(server, f"{PATH}/1", RULE, ROOT, kind)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("door", [Sse, Ws, RowMqtt])
@pytest.mark.parametrize("first", [PUT, DELETE])
async def test_m3_m9_who_returns_with_other_rights_holds_what_rest_answers(door, asked, first):
    """M3, M9: whether it may read more meanwhile, or less."""
    live = LiveQueriesOfTables()
    async with query_server(OPEN, caller=CLERK, features=[live]) as opened:
        await live.start()
        if first == PUT:
            await rule(opened.server)
        for n in (1, 2, 3, 4):
            await opened.write(row(n))
        await opened.open(asked, [door])
        await opened.check()
        (reader,) = opened.readers
        await reader.cut()
        await rule(opened.server, DELETE if first == PUT else PUT)
        await opened.write(row(9))
        await reader.ask(asked)
        await opened.settle()
        await opened.check()


@pytest.mark.parametrize("door", [Sse, Ws])
@pytest.mark.parametrize(("user", "resets"), [("cleo", 1), ("other", 0), ("", 1)])
async def test_m3_m9_only_who_is_concerned_begins_anew(door, user, resets):
    """M3, M9: a change of one user, or of a role that anybody may have, and only once."""
    live = LiveQueriesOfTables()
    async with query_server(OPEN, caller=CLERK, features=[live]) as opened:
        await live.start()
        await opened.open("n=gt=0", [door])
        await opened.write(row(1))
        (reader,) = opened.readers
        await reader.cut()
        opened.server.kernel.reauthorization.altered(user)
        await opened.write(row(2))
        for _ in range(2):
            await reader.ask("n=gt=0")
            await opened.settle()
            await opened.write(row(3))
            await opened.check()
            await reader.cut()
        assert resets == reader.heard.count("reset")


@pytest.mark.parametrize(("user", "resets"), [("cleo", [RIGHTS_CHANGE]), ("other", [])])
async def test_m3_m9_changes_are_known_after_a_restart(tmp_path, user, resets):
    """M3, M9: to a session that the next process of the server resumes."""
    store = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    first = await started(store)
    await first.kernel.write(row(1), ROOT)
    reader, heard = await watch(first.kernel, "$query/Open/n=gt=0", CLERK)
    assert ["snapshot", "current"] == [kind for kind, _ in await heard()]
    position, _ = first.kernel.suspend(reader)
    first.kernel.reauthorization.altered(user)
    await first.committer.settle()
    second = await started(store)
    again = Subscription(second.kernel.reader)
    interest = SubscribedFilter(TopicFilter("$query/Open/n=gt=0"))
    second.kernel.resume(again, position, [interest], CLERK)
    await turns(20)
    told = [event.decoded["reason"] for event, _ in again.take(9) if event.kind == "reset"]
    assert resets == told
    second.kernel.close(again)
    await second.stop()
    store.close()


@pytest.mark.parametrize("changed", [True, False])
async def test_m3_m9_a_change_that_was_not_noted_counts_at_the_next_start(tmp_path, changed):
    """M3, M9: the server ended after the rule was written; and a start alone changes nothing."""
    store = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    first = await started(store)
    await rule(first)
    await first.committer.settle()
    noted = first.live.rights.since("cleo")
    assert first.kernel.committer.announced + 1 == noted
    first.kernel.reauthorization.alterations.clear()  # as if it ended before it notes the next one
    if changed:
        await rule(first, DELETE)
    await first.kernel.write(row(1), ROOT)
    position = first.kernel.committer.announced
    await first.stop()
    for _ in range(2):
        again = await started(store)
        assert (position + 1 if changed else noted) == again.live.rights.since("cleo")
        await again.committer.settle()
        await again.stop()
    store.close()


@pytest.mark.parametrize(
    ("auth", "of_n", "resets"),
    [
        ('@auth(roles: ["clerk"])', "", 0),
        ('@auth(read: "n > 2") @auth(roles: ["clerk"])', "", 0),
        ('@auth(write: "n > 2")', "", 0),
        ('@auth(roles: ["clerk"])', '@auth(roles: ["clerk"])', 0),
        ('@auth(roles: ["clerk"], mask: {phone: "last4"})', "", 1),
        ('@auth(read: "n > 2")', "", 1),
        ('@auth(roles: ["clerk"])', '@auth(roles: ["vet"])', 1),
    ],
)
@pytest.mark.parametrize("door", [Sse, Ws])
async def test_m3_m9_who_sees_all_of_a_table_goes_on(door, auth, of_n, resets):
    """M3, M9: a reader for whom no rule leaves anything out continues from its cursor."""
    schema = f"""
    type Open @table @export {auth} {{
      id: ID @primaryKey n: Int {of_n} phone: String
    }}
    """
    (table,) = parse_schema(schema).tables
    live = LiveQueriesOfTables()
    async with query_server(table, caller=CLERK, features=[live]) as opened:
        await live.start()
        await opened.open("id=ne=x", [door])
        await opened.write(row(3))
        (reader,) = opened.readers
        await opened.settle()
        await reader.cut()
        await opened.write(row(4))
        await reader.ask("id=ne=x")
        await opened.settle()
        await opened.check()
        assert resets == reader.heard.count("reset")


def test_users_beyond_the_bound_are_taken_for_all():
    changes, facts = RightsChanges(users_max=2), {}
    for position, user in enumerate(("ann", "ben", "ann", "cleo")):
        facts |= {change.name: change.value for change in changes.note(user, position)}
    assert [3, 2, 4, 0] == [changes.since(user) for user in ("ann", "ben", "cleo", "dora")]
    facts |= {change.name: change.value for change in changes.note("dora", 9)}
    kept = {name: value for name, value in facts.items() if value is not None}
    assert {"": b"10"} == kept
    again = RightsChanges()
    again.restore((OWNER, name, value) for name, value in kept.items())
    assert [10, 10] == [again.since(user) for user in ("ann", "eve")]
