"""Live queries of topic tables: rows are messages, which retention removes (M3, F3, F26)."""

from unittest import mock

import pytest
from message_readers import DOORS, TABLE, run_messages, trim
from query_readers import WRITER, Sse, Ws, query_server, turns
from related_dogs import most_in_a_turn, watch
from row_readers import NOTHING, RowMqtt, RowOldMqtt

from asgi import Asgi
from build import Server
from rightful import ANN, ROOT, Rightful
from rowcast.codecs import decode
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.query_limits import LIVE_LOOK_TURN_VIEWS
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.live_queries import message_queries
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.message_view import MessageView
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.kernel.reauthorization import stay
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS
from rowcast.store.store import Keep
from topic_watch import AT_ONCE

ANY = Caller("a", ALL, "sse")
REPORT = message_queries.trim_report
HOT = f"$query/{TABLE}/payload.t=gt=3"


def message(topic, value):
    return Event(topic, MESSAGE, f'{{"t": {value}}}'.encode(), "application/json", 1)


async def say(server, *values, topic="home/a"):
    """Write messages."""
    for value in values:
        await server.kernel.write(message(topic, value), WRITER)


async def dropped_while_followed():
    """Return a server whose topic table was dropped, and what returns what its reader is told."""
    live = LiveQueriesOfTables(look_seconds=0)
    server = Server(topics=AT_ONCE, features=[live])
    await say(server, 7)
    _, heard = await watch(server.kernel, HOT, ANY)
    assert ["snapshot", "current"] == [kind for kind, _ in await heard()]
    late = server.now() + 10
    assert 1 == await server.committer.trim(TopicRoot("home"), Keep(seconds=1), late, 9)
    assert 1 == await server.topic_tables.clean()
    return server, heard


def opened_server(kind=Server, **options):
    """Return a server that looks at its topic tables in each turn of the loop."""
    live = LiveQueriesOfTables(look_seconds=0)
    return kind(topics=TopicSettings(), features=[live], **options)


# -- what is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
async def test_m3_f26_each_door_holds_the_messages_that_rest_answers(seed):
    """M3, F26: after each message, each removal by retention, and after cuts."""
    await run_messages(seed, writes=25, cuts=4)


@pytest.mark.parametrize("door", DOORS)
async def test_m3_f26_messages_enter_and_leave(door):
    """M3, F26: retention is no event, and yet a step."""
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live]) as opened:
        await say(opened.server, 1, 7)
        await opened.open("payload.t=gt=3", [door])
        (reader,) = opened.readers
        await opened.check()
        for value in (2, 8, 9):
            await say(opened.server, value)
            await opened.settle()
            await opened.check()
        await trim(opened.server, 2)
        await opened.settle()
        assert 2 == len(reader.records)
        await opened.check()
    if door is not RowOldMqtt:
        told = [kind for kind in reader.heard if kind != "current"]
        assert ["snapshot", "enter", "enter", "leave"] == told


@pytest.mark.parametrize("door", [Sse, Ws, RowMqtt])
async def test_m3_f26_who_returns_is_sent_the_messages_again(door):
    """M3, F26: nobody knows which of the removed ones matched."""
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live]) as opened:
        await say(opened.server, 7, 8)
        await opened.open("payload.t=gt=3", [door])
        (reader,) = opened.readers
        await reader.cut()
        await turns(12)
        await trim(opened.server, 1)
        await reader.ask("payload.t=gt=3")
        await opened.settle()
        await opened.check()
    assert ["reset", "snapshot", "current"] == reader.heard[3:]


async def test_m3_f26_a_window_leaves_before_it_is_read_again():
    """M3, F26: MQTT 3.1.1 knows no reset; more are removed than are known behind the window."""
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live]) as opened:
        await say(opened.server, *range(100))
        await opened.open("limit(3)", DOORS)
        await opened.check()
        await trim(opened.server, 2, most=100)
        await opened.settle()
        await opened.check()
        assert all(2 == len(reader.records) for reader in opened.readers)


async def test_m3_f26_more_queries_than_one_turn_tells():
    """M3, F26: of a removal; each turn of the loop tells some."""
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live]) as opened:
        await say(opened.server, *range(9))
        asked = [f"payload.t=ge={n % 7}&qos=le={n}" for n in range(3 * LIVE_LOOK_TURN_VIEWS)]
        heard = [await watch(opened.server.kernel, f"$query/{TABLE}/{it}", ANY) for it in asked]
        for _, told in heard:
            await told()
        assert len(asked) == len(live.queries.messages.tables[TABLE])
        await trim(opened.server, 1)
        await turns(20)
        left = [[kind for kind, _ in await told()].count("leave") for _, told in heard]
        whole = [8 - n % 7 for n in range(1, len(asked))]  # but the last message, and what is below
        assert whole == left[1:]


async def test_m3_f26_a_window_of_messages():
    """M3: the newest ones; a later one takes the place of another."""
    server = opened_server()
    await say(server, 1, 2, 3)
    _, heard = await watch(server.kernel, f"$query/{TABLE}/sort(-timestamp)&limit(2)", ANY)
    assert ["snapshot", "snapshot", "current"] == [kind for kind, _ in await heard()]
    await say(server, 4)
    assert ["leave", "enter"] == [kind for kind, _ in await heard()]
    await trim(server, 1)
    assert ["leave"] == [kind for kind, _ in await heard()]


async def test_m3_f26_more_leave_a_window_than_are_known_behind_it():
    """M3: it is read again, and told from the beginning."""
    server = opened_server()
    await say(server, *range(300))
    _, heard = await watch(server.kernel, f"$query/{TABLE}/limit(2)", ANY)
    first = [topic for _, topic in await heard()]
    await trim(server, 20)
    told = await heard()
    after = told[told.index(("reset", "")) :]
    assert ["reset", "snapshot", "snapshot", "current"] == [kind for kind, _ in after]
    assert not {topic for _, topic in after if topic} & set(first)


async def test_m3_f26_a_removal_that_fails_is_taken_back():
    """M3, F26: the store tells of it before it deletes; if it cannot, all is sent again."""
    server = opened_server()
    await say(server, 7, 8)
    _, heard = await watch(server.kernel, HOT, ANY)
    await heard()
    with mock.patch.object(server.reader, "trimmed", return_value=server.committer.announced):
        assert ["leave", "leave"] == [kind for kind, _ in await heard()]
    assert ["reset", "snapshot", "snapshot", "current"] == [kind for kind, _ in await heard()]


async def test_m3_f14_a_table_that_is_removed_and_begins_again_is_followed_on():
    """M3, F14: all its messages have left; the first one of the next enters."""
    server, heard = await dropped_while_followed()
    await say(server, 8)
    assert "enter" == (await heard())[-1][0]


async def test_m3_f14_a_name_that_another_branch_gets_is_followed_there():
    """M3, F14: two levels are spelled alike as names; who reads begins anew with the other."""
    server, heard = await dropped_while_followed()
    await say(server, 8, topic="Home/a")
    assert "Home" == server.kernel.views.get(TABLE).branch.level
    told = await heard()
    assert ["leave", "reset", "snapshot", "current"] == [kind for kind, _ in told]
    await say(server, 9, topic="Home/b")
    assert ["enter"] == [kind for kind, _ in await heard()]
    await say(server, 5, topic="home/a")  # its table has another name now
    assert [] == await heard()


async def test_m3_f3_a_plain_filter_beside_it_gets_each_row_once():
    """M3, F3: of a reader with both, the row, the message and the step."""
    live = LiveQueriesOfTables(look_seconds=0)
    async with query_server(NOTHING, rows=TABLE, features=[live]) as opened:
        await say(opened.server, 7)
        await opened.open("payload.t=gt=3", [Ws])
        (reader,) = opened.readers
        await reader.say(id=3, op="subscribe", topic="home/#", start="new")
        await opened.settle()
        sent = len(reader.sent)
        await say(opened.server, 8)
        await turns(12)
        assert 3 == len(reader.sent) - sent


@pytest.mark.parametrize(
    ("of", "name", "mistake"),
    [
        (message_queries.TableMessages, "_look", lambda _at: None),
        (message_queries, "trim_report", lambda view, upto: REPORT(view, upto - 1)),
        (MessageView, "_entry", lambda _view, _message: None),
    ],
)
async def test_a_planted_mistake_in_messages_is_noticed(of, name, mistake):
    """Removals, the last one removed, and what enters are in the cases."""
    with mock.patch.object(of, name, mistake), pytest.raises(AssertionError):
        for seed in range(12):
            await run_messages(seed, writes=20, cuts=0, doors=[Sse])


async def test_m3_p2_others_have_their_turn_while_messages_are_read():
    """M3, P2: a query holds ten thousand rows, and each is made on the loop."""
    server = opened_server()
    await say(server, *range(400))
    reader, _ = await watch(server.kernel, HOT, ANY)
    (view,) = server.kernel.views.queries.messages.views
    assert await most_in_a_turn(MessageView, "_placed", view.known()) <= LOOP_TURN_ITEMS
    server.kernel.close(reader)


# -- rights, and bounds ----------------------------------------------------------------------------


async def test_m3_m9_messages_of_topics_that_the_caller_may_not_read_are_absent():
    """M3, M9, L12: as over REST; a new rule begins the query anew."""
    server = opened_server(Rightful)
    await server.rule("all", filter="#", actions=["all"])
    await server.rule("no", filter="home/b", effect="deny", actions=["read"], users=["ann"])
    await say(server, 7)
    await say(server, 7, topic="home/b")
    reader, heard = await watch(server.kernel, HOT, ANN)
    assert ["snapshot", "current"] == [kind for kind, _ in await heard()]
    await say(server, 8, topic="home/b")
    assert [] == await heard()
    await server.rule("no", filter="home/a", effect="deny", actions=["read"], users=["ann"])
    stay(server.kernel, reader)
    assert ["reset", "snapshot", "snapshot", "current"] == [kind for kind, _ in await heard()]
    _, root = await watch(server.kernel, HOT, ROOT)
    assert 4 == len(await root())


@pytest.mark.parametrize("grown", [False, True])
async def test_m3_f3_more_messages_than_a_query_holds(grown):
    """M3: it ends with a sentence, when it begins and when it grows; a window does not."""
    server = opened_server()
    await say(server, 7)
    small = lambda *parts: MessageView(*parts, rows_max=3)  # noqa: E731 - in place of the class
    with mock.patch.object(message_queries, "MessageView", small):
        if not grown:
            await say(server, 7, 8, 9, 9)
        reader, heard = await watch(server.kernel, HOT, ANY)
        _, window = await watch(server.kernel, f"{HOT}&limit(1)", ANY)
    with pytest.raises(Error, match="holds 3 rows of mqtt_home at most") as refused:
        for value in (7, 8, 9, 9):
            await heard()
            await say(server, value)
    assert Code.TOO_LARGE == refused.value.code
    server.kernel.close(reader)
    assert ["snapshot", "current"] == [kind for kind, _ in await window()][:2]


async def test_m3_f3_nothing_is_kept_of_ended_queries():
    """M3: no view, no timer, no subscriber of the bus."""
    server = opened_server()
    await say(server, 7)
    live = server.kernel.views.queries
    reader, heard = await watch(server.kernel, HOT, ANY)
    await heard()
    (at,) = live.messages.tables.values()
    server.kernel.close(reader)
    assert (0, {}) == (len(live.messages.views), live.messages.tables)
    assert at._timer is None


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("mqtt_hall/payload.t=gt=3", Code.NOT_FOUND, "no topic table 'mqtt_hall' now"),
        ("mqtt_sys_metrics/value=gt=3", Code.UNSUPPORTED, "follows rows of mqtt_sys_metrics"),
        ("mqtt_home/x/qos==1", Code.INVALID, "'x' is no part of mqtt_home that has conditions"),
        ("mqtt_home/colour==1", Code.INVALID, "colour"),
        ("mqtt_home/count", Code.INVALID, "neither groups nor counts"),
        ("mqtt_home/sort(-qos)", Code.INVALID, "no order without a limit"),
    ],
)
@pytest.mark.parametrize("door", ["sse", "mqtt"])
async def test_m3_f3_what_messages_cannot_be_asked_is_one_sentence(text, code, words, door):
    """M3, P5: the same one on each door."""
    server = opened_server()
    await say(server, 7)
    with pytest.raises(Error, match=words) as refused:
        await watch(server.kernel, f"$query/{text}", Caller("a", ALL, door))
    assert code == refused.value.code
    table, _, conditions = text.partition("/")
    if door == "sse" and "/" not in conditions and table == TABLE:
        rest = Asgi(server.make_edge(), server.store)
        answer = await rest.get(f"/{table}/?{conditions}", accept="text/event-stream")
        assert decode(answer.body, "application/json")["detail"] == refused.value.message
