"""Live queries of rows of ``$SYS``: steps on each door, resume, rights, bounds, refusals (M3)."""

import asyncio
from unittest import mock

import pytest
from query_readers import Sse, Ws, query_server
from related_dogs import watch
from row_readers import DOORS, NOTHING, PATH, RowMqtt, RowOldMqtt, Things, run_rows

from asgi import Asgi
from build import Server, turns
from mqtt_server import Connect, Peer
from rightful import ROOT, Rightful, person
from rowcast.codecs import JSON, decode
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries import system_queries
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.row_view import RowView
from rowcast.features.rights.rule_rows import PATH as RULES
from rowcast.kernel.reauthorization import stay
from rowcast.reads.loop_turns import JoinedTurns, LoopTurns
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

ANY = Caller("a", ALL, "sse")
MAJOR = f"$query/{PATH}/a==major"


@pytest.fixture
async def things():
    """A server with some rows."""
    made, server = Things(), Server()
    made.server = server
    made.install(server.kernel)
    made.put("1", a="major", b=1)
    made.put("2", a="minor", b=2)
    yield made
    await server.stop()


# -- what is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
async def test_m3_m11_each_door_holds_what_rest_answers(seed):
    """M3, M11: after each change of rows, and after cuts."""
    await run_rows(seed, writes=30, cuts=5)


@pytest.mark.parametrize("door", DOORS)
async def test_m3_m11_rows_enter_change_and_leave(door):
    """M3, M11: a row that is removed leaves, and one that does not match any longer."""
    made = Things()
    async with query_server(NOTHING, rows=PATH) as opened:
        made.install(opened.server.kernel)
        made.put("1", a="major", b=1)
        await opened.open("a==major", [door])
        (reader,) = opened.readers
        for name, members in (
            ("hot/Sensor/1", {"a": "major"}),
            ("1", {"a": "major", "b": 2}),
            ("2", {"a": "minor"}),
            ("1", {"a": "minor", "b": 2}),
            ("hot/Sensor/1", {}),
        ):
            made.put(name, **members)
            await opened.settle()
            await opened.check()
    steps = ["snapshot", "enter", "change", "leave", "leave"]
    if door is not RowOldMqtt:
        assert steps == [kind for kind in reader.heard if kind != "current"]


@pytest.mark.parametrize("door", [Sse, Ws, RowMqtt])
async def test_m3_m11_who_returns_is_sent_the_rows_again(door):
    """M3, M11: no log has what happened meanwhile, so there is a reset."""
    made = Things()
    async with query_server(NOTHING, rows=PATH) as opened:
        made.install(opened.server.kernel)
        made.put("1", a="major")
        await opened.open("a==major", [door])
        (reader,) = opened.readers
        await reader.cut()
        await turns(12)
        made.put("1", a="minor")
        made.put("2", a="major")
        await reader.ask("a==major")
        await opened.settle()
        await opened.check()
    assert ["snapshot", "current", "reset", "snapshot", "current"] == reader.heard


async def test_m3_m11_a_window_of_rows(things):
    """M3, M11: a row that leaves the window makes room for the next one."""
    _, heard = await watch(things.server.kernel, f"$query/{PATH}/sort(-b)&limit(1)", ANY)
    assert [("snapshot", f"{PATH}/2"), ("current", "")] == await heard()
    things.put("2")
    assert [("leave", f"{PATH}/2"), ("enter", f"{PATH}/1")] == await heard()


async def test_m3_m11_a_change_of_what_is_not_selected_is_no_step(things):
    """M3, M11."""
    _, heard = await watch(things.server.kernel, f"{MAJOR}&select(id,a)", ANY)
    await heard()
    things.put("1", a="major", b=7)
    assert [] == await heard()


async def test_m3_m11_with_the_next_change(things):
    """M3: without the rows of now; what leaves of them is told, too."""
    kernel = things.server.kernel
    reader = Subscription(kernel.reader)
    kernel.watch(reader, SubscribedFilter(TopicFilter(MAJOR)), ANY, current=False)
    await turns(8)
    things.put("2", a="major")
    things.put("1", a="minor")
    found = [step_of(event) or event.kind for event, _ in reader.take(100)]
    assert ["current", "enter", "leave"] == found


async def test_m3_m11_a_slow_reader_is_sent_the_rows_again(things):
    """M3, C21: a report that does not fit into the queue is a gap, and then nothing is lost."""
    kernel = things.server.kernel
    _, heard = await watch(kernel, MAJOR, ANY, queue_events_max=4)
    await heard()
    for number in range(20):
        things.put(f"n{number}", a="major")
    told = await heard()
    assert ("reset", "") in told
    after = told[told.index(("reset", "")) :]
    rows = {topic for kind, topic in after if kind in {"snapshot", "enter"}}
    assert {f"{PATH}/1", *(f"{PATH}/n{number}" for number in range(20))} == rows


async def test_m3_m11_a_plain_filter_beside_it_gets_each_event_once(things):
    """M3, M11: of a reader with both, the row's event and the step."""
    kernel = things.server.kernel
    reader, heard = await watch(kernel, f"{PATH}/#", ANY)
    kernel.watch(reader, SubscribedFilter(TopicFilter(MAJOR)), ANY)
    await heard()
    things.put("3", a="major")
    assert [("put", f"{PATH}/3"), ("enter", f"{PATH}/3")] == await heard()


@pytest.mark.parametrize(
    ("of", "name", "mistake"),
    [
        (system_queries.RowQueries, "_note", lambda _at, _view, _topic: None),
        (system_queries.RowQueries, "loaded", lambda at, view, _topics: at._unknown.clear()),
    ],
)
async def test_a_planted_mistake_is_noticed(of, name, mistake):
    """Rows that leave, and rows that were there before, are in the cases."""
    with mock.patch.object(of, name, mistake), pytest.raises(AssertionError):
        for seed in range(12):
            await run_rows(seed, writes=30, cuts=2, doors=[Sse, Ws])


async def test_m3_m11_a_row_whose_name_is_no_topic_is_left_out(things):
    """M3, M11: it could not be sent at its own topic."""
    things.put("a+b", a="major")
    _, heard = await watch(things.server.kernel, MAJOR, ANY)
    things.put("c#", a="major")
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()


# -- costs -----------------------------------------------------------------------------------------


async def test_m3_m11_a_report_is_compared_with_the_queries_that_it_may_concern(things):
    """M3: the conditions of other queries are not evaluated, nor is anything kept of ended ones."""
    kernel, live = things.server.kernel, things.server.kernel.views.queries
    readers = []
    for number in range(50):
        readers.append(await watch(kernel, f"$query/{PATH}/b=={number}", ANY))
        await readers[-1][1]()
    with mock.patch.object(RowView, "entry", autospec=True, side_effect=RowView.entry) as compared:
        things.put("1", a="x", b=7)
    assert 2 == compared.call_count, "the one that it leaves, and the one that it enters"
    for reader, _ in readers:
        kernel.close(reader)
    assert 0 == len(live) == len(live.systems.views)
    assert {} == live.systems.paths
    assert not kernel.live.watched(PATH)


@pytest.mark.parametrize("queries", [1, 40])
async def test_m3_m11_others_have_their_turn_while_rows_are_read(things, queries):
    """M3, P2: one slice in a turn of the loop, however many queries a client begins at once."""
    kernel, made = things.server.kernel, []
    kernel.reader.row_turns = JoinedTurns(LoopTurns(slice_seconds=0))
    for number in range(100):
        things.put(f"n{number}", a="major", b=number)
    reader = Subscription(kernel.reader)
    with mock.patch.object(RowView, "entry", autospec=True, side_effect=RowView.entry) as read:
        for number in range(queries):
            asked = f"$query/{PATH}/b==1{number}"
            kernel.watch(reader, SubscribedFilter(TopicFilter(asked)), ANY)
        while not all(view.is_known for view in kernel.views.queries.systems.views):
            before = read.call_count
            await asyncio.sleep(0)
            made.append(read.call_count - before)
    assert (1, 102 * queries) == (max(made), sum(made))


async def test_m3_m11_who_leaves_looks_at_its_own_rows_alone(things):
    """M3, P2: a thousand queries that end with a connection cost nothing of what others hold."""
    kernel = things.server.kernel
    _, heard = await watch(kernel, MAJOR, ANY)
    await heard()
    reader, heard = await watch(kernel, f"$query/{PATH}/b==2", ANY)
    await heard()
    things.put("2", a="minor", b=2)  # it is noted again
    (rows,) = kernel.views.queries.systems.paths.values()
    rows._holders = looked = Looked(rows._holders)
    kernel.close(reader)
    assert {f"{PATH}/2"} == looked.at
    assert {f"{PATH}/1"} == set(rows._holders)
    assert 1 == len(rows._noted)


class Looked(dict):
    """A map that notes which keys are asked for, or all."""

    def __init__(self, known):
        super().__init__(known)
        self.at = set()

    def __getitem__(self, key):
        self.at.add(key)
        return super().__getitem__(key)

    def items(self):
        self.at |= set(self)
        return super().items()


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grown", [False, True])
async def test_m3_m11_more_rows_than_a_query_holds(things, grown):
    """M3: it ends with a sentence, when it begins and when it grows."""
    kernel = things.server.kernel
    with mock.patch.object(system_queries, "RowView", _small):
        reader, heard = await watch(kernel, MAJOR, ANY)
    if grown:
        await heard()
    for number in range(4):
        things.put(f"n{number}", a="major")
    with pytest.raises(Error, match=r"holds 3 rows of .* narrow its conditions") as refused:
        await heard()
    assert Code.TOO_LARGE == refused.value.code
    kernel.close(reader)


def _small(*parts):
    return RowView(*parts, rows_max=3)


async def test_m3_m11_rows_of_all_queries_are_counted_together(things):
    """M3: beyond the bound of the server a query is refused, and room is given back."""
    kernel = things.server.kernel
    room = kernel.views.queries.systems._budget
    room.enter(room._records_max - 1)
    reader, heard = await watch(kernel, MAJOR, ANY)
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()
    _, other = await watch(kernel, f"$query/{PATH}/a==minor", ANY)
    with pytest.raises(Error, match="as many rows of live queries as it may") as refused:
        await other()
    assert Code.BUSY == refused.value.code
    kernel.close(reader)
    _, heard = await watch(kernel, f"$query/{PATH}/b==2", ANY)
    assert [("snapshot", f"{PATH}/2"), ("current", "")] == await heard()


async def test_m3_m11_they_count_as_live_queries_of_their_user():
    """M3."""
    from rowcast.features.live_queries.settings import LiveQuerySection

    made = Things()
    server = Server(features=[LiveQueriesOfTables(LiveQuerySection(max_per_user=1))])
    made.install(server.kernel)
    await watch(server.kernel, MAJOR, ANY)
    with pytest.raises(Error, match="has 1 live queries"):
        await watch(server.kernel, f"$query/{PATH}/b==2", ANY)
    assert 1 == len(server.kernel.views.queries.systems.views)


# -- rights ----------------------------------------------------------------------------------------


async def rightful():
    """Return a server with rules, and rows, of which ann may read some."""
    made, server = Things(), Rightful()
    made.install(server.kernel)
    for name in ("1", "hot/Sensor/4"):
        made.put(name, a="major")
    await server.rule("some", filter=f"{PATH}/#", effect="allow", actions=["read"], users=["ann"])
    await server.rule("hot", filter=f"{PATH}/hot/#", effect="deny", actions=["read"], users=["ann"])
    return server, made


async def test_m3_m9_rows_that_the_caller_may_not_read_are_absent():
    """M3, M9: as in a list of REST, whoever else reads the same."""
    server, made = await rightful()
    _, root = await watch(server.kernel, MAJOR, ROOT)
    assert 3 == len(await root())
    _, heard = await watch(server.kernel, MAJOR, person("ann", grants=Grants(read=True)))
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()
    made.put("hot/Sensor/4", a="major", b=2)
    made.put("hot/Sensor/5", a="major")
    assert [] == await heard()
    assert ["change", "enter"] == [kind for kind, _ in await root()]
    with pytest.raises(Error) as refused:
        await watch(server.kernel, MAJOR, person("ben", grants=Grants(read=True)))
    assert Code.DENIED == refused.value.code


async def test_m3_m9_changed_rights_begin_a_query_of_rows_anew():
    """M3, M9: no report says what a new rule hides."""
    server, _ = await rightful()
    reader, heard = await watch(server.kernel, MAJOR, person("ann", grants=Grants(read=True)))
    await heard()
    await server.rule("all", filter=f"{PATH}/1", effect="deny", actions=["read"], users=["ann"])
    stay(server.kernel, reader)
    assert [("reset", ""), ("current", "")] == await heard()


async def guests():
    """Return a server with rows, of which guests may not read some."""
    made, server = Things(), Rightful()
    made.install(server.kernel)
    for name in ("1", "hot/Sensor/4"):
        made.put(name, a="major")
    await server.rule("all", filter=f"{PATH}/#", effect="allow", actions=["read"], users=["ann"])
    await server.rule("hot", filter=f"{PATH}/hot/#", effect="deny", actions=["read"], roles=["g"])
    return server


async def test_m3_m9_one_user_with_other_roles_shares_no_rows():
    """M3, M9: such as by two tokens of an issuer, from one address."""
    server = await guests()
    _, heard = await watch(server.kernel, MAJOR, person("ann"))
    assert 3 == len(await heard())
    _, heard = await watch(server.kernel, MAJOR, person("ann", "g"))
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()


async def test_m3_m9_rows_follow_the_rights_of_a_user_who_reads_them_twice():
    """M3, M9: neither reader goes on with what the other could see before."""
    server = await guests()
    readers = [await watch(server.kernel, MAJOR, person("ann")) for _ in range(2)]
    for _, heard in readers:
        assert 3 == len(await heard())
    server.kernel.reauthorization.judges.append(lambda _: person("ann", "g"))
    for reader, _ in readers:
        stay(server.kernel, reader)
    for _, heard in readers:
        expected = [("reset", ""), ("snapshot", f"{PATH}/1"), ("current", "")]
        assert expected == await heard()


async def test_m3_m9_rows_follow_a_hook_that_looks_at_roles(things):
    """M3, M9, G6: no rule names the role, so only the hook tells what has changed."""

    class Guests:
        def may_read(self, caller, topic):
            return "g" not in caller.roles or not topic.startswith(f"{PATH}/1")

        def may_see(self, caller, event):
            return self.may_read(caller, event.topic)

    kernel = things.server.kernel
    kernel.read_filters.append(Guests())
    reader, heard = await watch(kernel, MAJOR, person("ann"))
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()
    kernel.reauthorization.judges.append(lambda _: person("ann", "g"))
    stay(kernel, reader)
    assert [("reset", ""), ("current", "")] == await heard()
    things.put("1", a="major", b=3)
    assert [] == await heard()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("followed", "text", "code", "words"),
    [
        (
            (),
            "a==1",
            Code.UNSUPPORTED,
            "are not reported.*GET /.SYS/things/ with",
        ),
        (("a", "id"), "b==1", Code.UNSUPPORTED, "changes of 'b'.*one compares a, id, and GET"),
        (("a", "id"), "a==1&sort(b)&limit(2)", Code.UNSUPPORTED, "changes of 'b'"),
        (None, "limit(2)", Code.INVALID, "have no order of their own.*such as .?sort"),
        (None, "hot/a==1", Code.INVALID, "'hot' is no part of .* that has conditions"),
        (None, "group(a,count())", Code.INVALID, "neither groups nor counts; GET"),
        (None, "count", Code.INVALID, "neither groups nor counts; GET"),
        (None, "a==1&after(x)", Code.INVALID, "after"),
    ],
)
@pytest.mark.parametrize("door", ["sse", "mqtt"])
async def test_m3_m11_what_rows_cannot_be_asked_is_one_sentence(followed, text, code, words, door):
    """M3, P5: the same one on each door."""
    made, server = Things(followed), Server()
    made.install(server.kernel)
    with pytest.raises(Error, match=words) as refused:
        await watch(server.kernel, f"$query/{PATH}/{text}", Caller("a", ALL, door))
    assert code == refused.value.code
    if door == "sse" and "/" not in text:
        rest = Asgi(server.make_edge(), server.store)
        answer = await rest.get(f"/{PATH}/?{text}", accept="text/event-stream")
        assert decode(answer.body, "application/json")["detail"] == refused.value.message


@pytest.mark.parametrize("text", ["efect==deny", "sort(efect)&limit(1)", "select(id,efect)"])
async def test_m3_p5_a_member_that_no_row_has_is_refused_with_the_nearest(text):
    """M3, P5: the same sentence as over REST, where there are no rows either."""
    server = Rightful()
    with pytest.raises(
        Error, match=r'no row .* has a field .efect.; did you mean "effect"'
    ) as live:
        await watch(server.kernel, f"$query/{RULES}/{text}", ROOT)
    rest = Asgi(server.make_edge(), server.store)
    answer = await rest.get(f"/{RULES}/?{text}")
    assert (400, live.value.message) == (answer.status, decode(answer.body, JSON)["detail"])


async def test_m3_m11_a_member_that_is_selected_need_not_be_followed():
    """M3: it is told as of the last report."""
    made, server = Things(("a",)), Server()
    made.install(server.kernel)
    made.put("1", a="major", b=1)
    _, heard = await watch(server.kernel, f"{MAJOR}&select(id,b)", ANY)
    assert [("snapshot", f"{PATH}/1"), ("current", "")] == await heard()


async def test_m3_m11_rows_that_there_are_not(things):
    """M3, P5."""
    with pytest.raises(Error, match=r"did you mean.*rows that one follows are those of") as refused:
        await watch(things.server.kernel, "$query/$SYS/thinks/a==1", ANY)
    assert Code.NOT_FOUND == refused.value.code


async def test_m3_d10_connected_sessions_are_followed():
    """M3, D10: one enters when its client connects, and leaves with it."""
    server = Server()
    server.make_edge()
    server.open_mqtt()
    _, heard = await watch(server.kernel, "$query/$SYS/sessions/connected==true", ANY)
    assert [("current", "")] == await heard()
    peer = Peer(server, 5)
    peer.send(Connect(5, "c", properties={"session_expiry_interval": 60}))
    await turns(20)
    assert ("enter", "$SYS/sessions/c") == (await heard())[0]
    peer.lose()
    await turns(20)
    assert [("leave", "$SYS/sessions/c")] == await heard()
    with pytest.raises(Error, match="changes of 'lag'"):
        await watch(server.kernel, "$query/$SYS/sessions/lag=gt=1000", ANY)
    await server.stop()
