"""What `@auth` keeps from whom, on all that a kernel tells (L7, L12, L13, M9)."""

import json

import pytest

from build import code_of, refusal, turns
from rightful import ANN, BEN, ROOT, VET, Rightful, person
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.moments import moment_of
from rowcast.core.queries import Query, Select
from rowcast.core.query_text import parse_query
from rowcast.core.topics import TopicFilter
from rowcast.writes.write import A_RECORD, Condition

REX = {"id": "1", "owner": "ann", "name": "Rex", "phone": "0123456789", "weight": 30}


@pytest.fixture
async def world():
    world = Rightful()
    await world.write("Dog/1", REX)
    return world


async def test_each_is_shown_its_part_of_a_record(world):
    """L7, M9: the row, the attribute, the mask."""
    whole = {name: item for name, item in REX.items() if name != "weight"}
    assert whole == await world.value("Dog/1", ANN)
    assert REX | {"phone": "***6789"} == await world.value("Dog/1", VET)
    assert REX == await world.value("Dog/1", ROOT)


async def test_a_hidden_record_is_refused_in_the_words_of_an_absent_one(world):
    """L13."""
    words = []
    for topic in ("Dog/1", "Dog/2"):
        with pytest.raises(Error) as refused:
            await world.kernel.read(topic, BEN)
        words.append((refused.value.code, refused.value.message.replace(topic, "x")))
        assert world.kernel.peek(topic, BEN) is None or topic == "Dog/2"
    assert words[0] == words[1] == (Code.NOT_FOUND, "there is no record at 'x'")


async def test_lists_counts_and_pages_are_as_if_the_hidden_were_not_there(world):
    """L12."""
    for number in range(2, 9):
        owner = "ann" if number % 2 else "ben"
        await world.write(f"Dog/{number}", {"owner": owner, "name": str(number)})
    table = world.registry.route("Dog").table
    page = await world.kernel.search(table, Query(limit=3), ANN)
    rest = await world.kernel.search(table, Query(limit=3, after=page.after), ANN)
    assert ["Dog/1", "Dog/3", "Dog/5"] == [item.topic for item in page.records]
    assert (["Dog/7"], "") == ([item.topic for item in rest.records], rest.after)
    assert 4 == await world.kernel.count(table, Query(), ANN)
    nobody = person("anonymous")  # no rule about $user is about who has no name
    assert Code.UNAUTHENTICATED == await refusal(world.kernel.search(table, Query(), nobody))


@pytest.mark.parametrize("text", ["weight=gt=3", "sort(-weight)", "owner==ann&weight==30"])
async def test_what_one_may_not_see_finds_nothing_out(world, text):
    """L13: not by a condition, not by an order; a select of it is empty."""
    table = world.registry.route("Dog").table
    query = parse_query(text, table)
    assert Code.INVALID == await refusal(world.kernel.search(table, query, ANN))
    assert Code.INVALID == await refusal(world.kernel.count(table, query, ANN))
    assert 1 == len((await world.kernel.search(table, query, VET)).records)
    chosen = Query(select=Select((("weight",),)))
    (record,) = (await world.kernel.search(table, chosen, ANN)).records
    assert "weight" not in world.kernel.transcoder.value(record)


async def test_what_is_masked_finds_nothing_out(world):
    table = world.registry.route("Dog").table
    query = parse_query("phone=sw=0123", table)
    assert Code.INVALID == await refusal(world.kernel.search(table, query, VET))
    assert 1 == await world.kernel.count(table, query, ANN)


async def test_who_watches_hears_what_a_change_means_to_it(world):
    """L13: into view is a put, out of view a delete, else nothing; live and from the log."""
    readers = {name: world.watch("Dog/#", who) for name, who in (("ann", ANN), ("ben", BEN))}
    await world.write("Dog/1", {"owner": "ben"}, kind=PATCH)
    await world.write("Dog/1", {"name": "Bo"}, kind=PATCH)
    await world.write("Dog/1", None, kind=DELETE)
    await world.write("Dog/1", None, kind=DELETE)
    kinds = {name: [kind for kind, *_ in await world.heard(it)] for name, it in readers.items()}
    assert {"ann": ["delete"], "ben": ["put", "patch", "delete"]} == kinds
    again = await world.heard(world.watch("Dog/#", ANN, since=0))
    assert [PUT, DELETE] == [kind for kind, *_ in again]
    assert b"weight" not in b"".join(payload for *_, payload in again)


async def test_history_and_what_was_are_seen_by_the_same_rule(world):
    world.time += 10
    await world.write("Dog/1", {"owner": "ben"}, kind=PATCH)
    past, topics = world.past, TopicFilter("Dog/1")
    table = world.registry.route("Dog").table
    window = await past.window(topics, table, ANN)
    found = await past.last(window, ANN, 10)
    assert [PUT, DELETE] == [event.kind for event in found]
    then = moment_of(int(world.time - 5) * 1000, "asof", world.time)
    assert "ann" == json.loads((await past.record("Dog/1", table, then, ANN)).payload)["owner"]
    assert Code.NOT_FOUND == await refusal(past.record("Dog/1", table, then, BEN))
    assert not await past.known(TopicFilter("Dog/1"), table, person("cem"))


async def test_messages_go_to_those_who_see_the_record(world):
    reader, other = world.watch("Dog/#", ANN), world.watch("Dog/#", BEN)
    await world.write("Dog/1", {"name": "woof", "weight": 31}, VET, MESSAGE)
    assert Code.DENIED == await refusal(world.write("Dog/1", {"name": "x"}, BEN, MESSAGE))
    assert [(MESSAGE, "Dog/1", b'{"name":"woof"}')] == await world.heard(reader)
    assert [] == await world.heard(other)


@pytest.mark.parametrize(
    ("kind", "value", "who", "code"),
    [
        (PUT, {"owner": "ann"}, ANN, None),
        (PUT, {"owner": "ben"}, ANN, Code.DENIED),
        (PUT, {"owner": "ben"}, BEN, Code.DENIED),
        (PATCH, {"owner": "ben"}, ANN, Code.DENIED),
        (PATCH, {"name": "x"}, ANN, None),
        (PATCH, {"name": "x"}, BEN, Code.NOT_FOUND),
        (PATCH, {"weight": 3}, ANN, Code.DENIED),
        (PATCH, {"phone": "1"}, VET, Code.DENIED),
        (DELETE, None, BEN, Code.NOT_FOUND),
        (DELETE, None, ANN, None),
    ],
)
async def test_the_record_before_and_after_must_be_ones_own(world, kind, value, who, code):
    assert code == await refusal(world.write("Dog/1", value, who, kind))


async def test_what_one_may_not_see_stays_when_one_puts(world):
    await world.write("Dog/1", {"owner": "ann", "name": "Max", "weight": 31}, VET)
    stored = REX | {"name": "Max", "weight": 31}
    assert stored == await world.value("Dog/1", ROOT)
    await world.write("Dog/1", {"owner": "ann", "name": "Moritz"}, ANN)
    del stored["phone"]
    assert stored | {"name": "Moritz"} == await world.value("Dog/1", ROOT)


@pytest.mark.parametrize("kind", [PUT, PATCH, DELETE])
@pytest.mark.parametrize(
    "condition", [A_RECORD, Condition(exists=True), Condition(seqs=frozenset({1}))]
)
async def test_conditions_tell_nothing_of_a_hidden_record(world, condition, kind):
    """L13: what holds of it or not is as of one that is not there."""
    value = None if kind == DELETE else {"owner": "ben"}
    hidden = await refusal(world.write("Dog/1", value, BEN, kind, condition))
    absent = await refusal(world.write("Dog/2", value, BEN, kind, condition))
    assert hidden == absent is not None


OWN_IDS = """
type Dog @table @export @auth(read: "owner == $user", write: "$id sw $user") {
  id: ID @primaryKey
  owner: String
}
"""


@pytest.mark.parametrize("kind", [PUT, PATCH, DELETE, MESSAGE])
@pytest.mark.parametrize("condition", [None, Condition(exists=False)])
async def test_l13_where_ids_say_whose_they_are_a_write_does_not_tell_which_are_taken(
    kind, condition
):
    """Else a PUT does, as any key that several writers share: the refusal has the same words."""
    world, words = Rightful(OWN_IDS), []
    for topic, owner in (("Dog/ann-1", "ann"), ("Dog/ben-1", "ben")):
        await world.write(topic, {"owner": owner})
    value = None if kind == DELETE else {"owner": "ben"}
    for topic in ("Dog/ann-1", "Dog/ann-2"):
        with pytest.raises(Error) as refused:
            await world.write(topic, value, BEN, kind, condition if kind == PUT else None)
        words.append((refused.value.code, refused.value.message.replace(topic, "x")))
    assert words[0] == words[1]
    await world.write("Dog/ben-2", {"owner": "ben"}, BEN)


async def test_a_batch_is_judged_write_by_write_and_falls_together(world):

    def put(topic, owner):
        return Event(topic, PUT, json.dumps({"owner": owner}).encode(), None, 1, True)

    events = [put("Dog/5", "ben"), put("Dog/1", "ben")]
    outcomes = await world.kernel.write_all(events, BEN, atomic=True)
    assert [Code.DENIED] * 2 == [item.code for item in outcomes]
    assert Code.NOT_FOUND == await refusal(world.kernel.read("Dog/5", SERVER))


async def test_the_right_to_one_record_is_not_that_to_another():
    """The records of a table have the same steps, each of which looks at the record's own topic."""
    world = Rightful("type Dog @table @export { id: ID @primaryKey }")
    await world.rule("1", filter="Dog/2", effect="deny", actions=["write"])
    await world.write("Dog/1", {}, BEN)
    assert Code.DENIED == await refusal(world.write("Dog/2", {}, BEN))
    await world.write("Dog/3", {}, BEN)


async def test_silence_is_told_to_those_who_see_the_record():
    world = Rightful(
        'type Dog @table @export @deadline(after: "30s") @auth(read: "owner == $user") '
        "{ id: ID @primaryKey owner: String }"
    )
    await world.write("Dog/1", {"owner": "ann"})
    ann, ben = (world.watch("$stale/Dog/#", who) for who in (ANN, BEN))
    await world.write("$stale/Dog/1", {"since": 1})
    assert ["$stale/Dog/1"] == [topic for _, topic, _ in await world.heard(ann)]
    assert [] == await world.heard(ben)


async def test_a_table_of_roles_is_closed_to_all_others():
    world = Rightful(
        'type Case @table @export @auth(roles: ["vet"]) { id: ID @primaryKey }\n'
        'type News @table @export @auth(read: "true") @auth(roles: ["vet"], write: "true")'
        " { id: ID @primaryKey }"
    )
    await world.write("Case/1", {}, VET)
    await world.write("News/1", {}, VET)
    case, news = (world.registry.route(name).table for name in ("Case", "News"))
    for work in (world.kernel.read("Case/1", ANN), world.kernel.search(case, Query(), ANN)):
        assert Code.DENIED == await refusal(work)
    assert Code.DENIED == code_of(world.watch, "Case/1", ANN)
    assert Code.DENIED == await refusal(world.write("News/1", {}, ANN))
    assert 1 == await world.kernel.count(news, Query(), ANN)


async def test_a_delayed_write_is_judged_when_it_is_due(world):
    """M9: what comes later comes as whoever sent it."""
    await world.write("$delayed/5/Dog/1", {"owner": "ann", "name": "later"}, BEN)
    await world.write("$delayed/5/Dog/1", {"owner": "ann", "name": "soon"}, ANN)
    world.time += 6
    world.delayed._publish_due()
    await turns()
    assert "soon" == (await world.value("Dog/1", ROOT))["name"]


async def test_two_worlds_that_differ_in_hidden_rows_give_equal_answers():
    """M9: non-interference, byte by byte; the log has as many events in both."""
    told = []
    for hidden in ({"name": "a", "phone": "1"}, {"name": "bbb", "weight": 7, "phone": "22"}):
        world = Rightful()
        reader = world.watch("#", ANN)
        for number, topic in enumerate(("Dog/1", f"Dog/x{len(hidden)}", "Dog/3")):
            mine = number != 1
            await world.write(topic, {"owner": "ann"} if mine else hidden | {"owner": "ben"})
        await world.write(f"Dog/x{len(hidden)}", None, kind=DELETE)
        table = world.registry.route("Dog").table
        page = await world.kernel.search(table, Query(limit=1), ANN)
        window = await world.past.window(TopicFilter("Dog/#"), table, ANN)
        past = await world.past.last(window, ANN, 10)
        told.append(
            (
                [item.fields for item in page.records],
                page.after,
                page.position,
                await world.kernel.count(table, Query(), ANN),
                [item.fields for item in past],
                await world.heard(reader),
                await refusal(world.write("Dog/9", {"weight": 3}, ANN)),
            )
        )
    assert told[0] == told[1]
