"""Reading rows of topic tables: by id, in pages, by query, and how many there are (F3)."""

import random

import pytest

from build import ANN, Server, code_of, refusal
from rowcast.core.callers import SERVER
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import answer
from rowcast.core.events import PUT, Event
from rowcast.core.query_text import parse_query
from rowcast.core.topic_tables import METRICS, TopicRoot
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.reads.row_limits import RowLimits
from rowcast.rows.row_ranges import direction_of

KEPT = TopicSettings()


def limited(hooks=None, **limits):
    """Return a server that reads three events at a time."""
    return Server(topics=KEPT, hooks=hooks, reading={"row_limits": RowLimits(3, **limits)})


@pytest.fixture
async def room():
    return limited()


def table(room, name="mqtt_home"):
    return room.registry.shapes[name].table


async def search(room, text="", name="mqtt_home", caller=ANN):
    """Return the rows of one page, and its token."""
    found = table(room, name)
    page = await room.kernel.search(found, parse_query(text, found), caller)
    return [row.decoded for row in page.records], page.after


async def listed(room, text="", name="mqtt_home", caller=ANN):
    """Return the rows of all pages."""
    rows, after = await search(room, text, name, caller)
    while after:
        separator = "&" if text else ""
        more, after = await search(room, f"{text}{separator}after({after})", name, caller)
        assert more, "a token leads to something"
        rows += more
    return rows


async def count(room, text="", name="mqtt_home", caller=ANN):
    found = table(room, name)
    return await room.kernel.count(found, parse_query(text, found), caller)


async def fill(room, number=10, topic="home/t"):
    """Say numbers at a topic, and other things elsewhere."""
    for n in range(number):
        await room.say(topic, b'{"n":%d}' % n)
        await room.say("garden/t", b"x")
        room.time += 1


async def test_a_row_is_read_by_its_id(room):
    """F3: and nothing else is."""
    receipt = await room.say("home/t", b"22.5")
    (row,), _ = await search(room)
    record = await room.kernel.read(f"mqtt_home/{row['id']}", ANN)
    assert record.decoded == row
    assert record.seq == receipt.event.seq
    await room.say("garden/t", b"1")
    (other,), _ = await search(room, name="mqtt_garden")
    for wrong in (other["id"], "x", row["id"] + "0", "0" + row["id"], row["id"][:-1] + "z"):
        assert await refusal(room.kernel.read(f"mqtt_home/{wrong}", ANN)) is Code.NOT_FOUND


async def test_rows_come_in_the_order_of_the_log(room):
    """F3: and newest first when they are sorted so; by pages of any size."""
    await fill(room)
    for size in (1, 2, 3, 7, 100):
        rows = await listed(room, f"limit({size})")
        assert [row["payload"]["n"] for row in rows] == list(range(10))
        for order in ("-id", "-timestamp"):
            rows = await listed(room, f"sort({order})&limit({size})")
            assert [row["payload"]["n"] for row in rows] == list(range(9, -1, -1))


async def test_a_listing_ends_where_the_log_was(room):
    """M1: what comes meanwhile is for who goes on from its position, once."""
    await fill(room, 4)
    found = table(room)
    page = await room.kernel.search(found, parse_query("limit(2)", found), ANN)
    await room.say("home/t", b'{"n":4}')
    rest, after = await search(room, f"limit(9)&after({page.after})")
    assert ([row["payload"]["n"] for row in rest], after) == ([2, 3], "")
    assert page.position == room.committer.announced - 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("topic==home/t&payload.n=gt=7", [8, 9]),
        ("payload.n==3", [3]),
        ("retain==true", []),
        ("qos==0&limit(2,5)", [2, 3, 4]),
        ("client_id==null&limit(1)", [0]),
        ("timestamp=ge=1700000007000", [7, 8, 9]),
        ("timestamp=lt=1700000002000", [0, 1]),
        ("sort(-id)&timestamp=lt=1700000002000", [1, 0]),
        ("sort(-payload.n)&limit(3)", [9, 8, 7]),
        ("sort(topic,-payload.n)&limit(2)", [9, 8]),
        ("topic==nowhere", []),
        ("limit(0)", []),
    ],
)
async def test_a_query_selects_rows(room, text, wanted):
    """F3: conditions on every column, and within what a payload holds."""
    await fill(room)
    rows, _ = await search(room, text)
    assert [row["payload"]["n"] for row in rows] == wanted
    if "limit" not in text:
        assert await count(room, text) == len(wanted)


async def test_an_unknown_column_is_refused_with_the_nearest(room):
    await fill(room, 1)
    with pytest.raises(Error, match='did you mean "payload"'):
        parse_query("payloads==1", table(room))


async def test_an_id_costs_no_more_than_its_row(room):
    """F3: conditions on id read a slice, not the table."""
    await fill(room)
    rows = await listed(room)
    asked = room.store.read
    reads = []
    room.store.read = lambda *what: reads.append(what) or asked(*what)
    found, _ = await search(room, f"id=={rows[7]['id']}")
    assert (found, len(reads)) == ([rows[7]], 1)


async def test_any_other_sort_is_bounded():
    """F3: with a sentence that says what to do."""
    room = limited(sorted_rows=5)
    await fill(room)
    with pytest.raises(Error, match=r"more than 5 rows of mqtt_home.*timestamp=gt=") as refused:
        await search(room, "sort(-payload.n)&limit(1)")
    assert refused.value.code is Code.INVALID
    rows, _ = await search(room, "sort(-payload.n)&payload.n=lt=5")
    assert [row["payload"]["n"] for row in rows] == [4, 3, 2, 1, 0]


async def test_all_rows_at_once_are_bounded():
    """B3: a resource class cannot have a whole log in memory unawares."""
    room = limited(page_rows=10)
    await fill(room)
    assert len(await room.kernel.read_value("mqtt_home/", ANN, None)) == 10
    await room.say("home/t", b"{}")
    assert await refusal(room.kernel.read_value("mqtt_home/", ANN, None)) is Code.TOO_LARGE


async def test_the_whole_count_is_known_at_once(room):
    """B19: without a look at the log."""
    await fill(room)
    room.store.read = None
    assert await count(room) == 10


async def test_what_was_said_before_there_was_a_table_is_in_it(room):
    """X6: a server that only routed before has kept some, and they count."""
    plain = Server(store=room.store)
    await plain.put("home/old", b"1")
    await plain.put("garden/old", b"2")
    later = Server(store=room.store, topics=KEPT)
    await later.say("home/t", b"3")
    rows = await listed(later)
    assert [row["payload"] for row in rows] == [1, 3]
    assert await count(later) == 2


async def test_rows_cannot_be_written(room):
    """F3: and the refusal says where to publish instead."""
    await fill(room, 1)
    for topic in ("mqtt_home/x", "mqtt_home", f"{METRICS}/$SYS/x"):
        for work in (room.put(topic), room.say(topic), room.delete(topic)):
            with pytest.raises(Error) as refused:
                await work
            assert refused.value.code is Code.NOT_ALLOWED
    with pytest.raises(Error, match=r"a topic such as 'home/\.\.\.'"):
        await room.put("mqtt_home/x")
    assert await refusal(room.kernel.create_value("mqtt_home/", {}, ANN)) is Code.NOT_ALLOWED


async def test_a_table_that_is_gone_is_a_topic_again(room):
    """F14: nothing of it is left on any door."""
    await room.say("home/t", b"1")
    assert room.registry.route("mqtt_home/x").view is not None
    room.kernel.views.drop("mqtt_home")
    assert room.registry.route("mqtt_home/x").entry is None
    assert code_of(room.kernel.views.drop, "mqtt_home") is None


# -- what may be read ------------------------------------------------------------------------------


class Secretive(Hook):
    """Keeps topics from readers."""

    id = "secretive"
    hidden = "home/secret"

    def can_read(self, caller, topic):
        return caller.user != "ann" or topic != self.hidden


@pytest.fixture
async def secretive():
    hooks = Hooks()
    hooks.add(Secretive())
    room = limited(hooks, sorted_rows=4)
    for n in range(4):
        await room.say("home/t", b'{"n":%d}' % n)
        await room.say("home/secret", b'{"n":%d}' % n)
    return room


async def test_a_hidden_topic_leaks_by_nothing(secretive):
    """L12: neither rows nor counts nor pages nor refusals tell of it."""
    room = secretive
    everything = await listed(room, caller=SERVER)
    assert len(everything) == 8
    rows = await listed(room, "limit(3)")
    assert {row["topic"] for row in rows} == {"home/t"}
    assert [row["payload"]["n"] for row in rows] == [0, 1, 2, 3]
    assert (await search(room, "limit(4)"))[1] == "", (
        "a page that is full is not followed by nothing"
    )
    assert await count(room) == 4
    assert await count(room, "topic==home/secret") == 0
    assert len(await listed(room, "sort(payload.n)")) == 4
    secret = next(row for row in everything if row["topic"] == "home/secret")
    told = []
    for row_id in (secret["id"], secret["id"][:-1] + "z"):
        with pytest.raises(Error) as refused:
            await room.kernel.read(f"mqtt_home/{row_id}", ANN)
        told.append((refused.value.code, refused.value.message.replace(row_id, "")))
    assert told[0] == told[1]
    assert told[0][0] is Code.NOT_FOUND


async def test_a_hidden_row_is_hidden_by_its_own_topic_too(secretive):
    """L12: both topics must be readable."""
    rows = await listed(secretive)
    Secretive.hidden = f"mqtt_home/{rows[0]['id']}"
    try:
        assert len(await listed(secretive)) == 7
    finally:
        Secretive.hidden = "home/secret"


# -- what the server tells of itself ---------------------------------------------------------------


async def measure(room, name, text):
    event = Event(f"$SYS/broker/{name}", PUT, text, "text/plain", 0, retain=True)
    await room.kernel.write(event, SERVER)


@pytest.fixture
async def measured(room):
    for name, text in {"uptime": b"77", "clients/total": b"3", "version": b"rowcast 1"}.items():
        await measure(room, name, text)
    return room


async def test_metrics_are_rows(measured):
    """F1: one for each topic, with numbers as numbers; queries, one row, counts."""
    rows, _ = await search(measured, name=METRICS)
    assert [(row["id"], row["value"]) for row in rows] == [
        ("$SYS/broker/clients/total", 3),
        ("$SYS/broker/uptime", 77),
        ("$SYS/broker/version", "rowcast 1"),
    ]
    rows, _ = await search(measured, "value=gt=5", METRICS)
    assert [row["id"] for row in rows] == ["$SYS/broker/uptime"]
    assert len(await listed(measured, "sort(-timestamp)&limit(2)", METRICS)) == 3
    assert await count(measured, name=METRICS) == 3
    record = await measured.kernel.read(f"{METRICS}/$SYS/broker/uptime", ANN)
    assert record.decoded["value"] == 77
    for wrong in ("uptime", "$SYS", "home/t", "$SYS/broker/nothing"):
        assert await refusal(measured.kernel.read(f"{METRICS}/{wrong}", ANN)) is Code.NOT_FOUND


# -- the property ----------------------------------------------------------------------------------

QUERIES = (
    "", "payload.n=gt=5", "topic==home/a", "topic=sw=home/&qos==1", "retain==true",
    "payload.n=in=1,2,3|payload==null", "client_id==ann", "timestamp=gt=1700000010000",
    "timestamp=le=1700000010000&payload.n!=4",
)  # fmt: skip
SORTS = ("", "sort(id)", "sort(-id)", "sort(-timestamp)", "sort(-payload.n)", "sort(topic,-qos)")


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(12))
async def test_rows_are_the_events_of_the_log(room, seed):
    """F3: paged in any order, rows are what a query means of the branch's events; twice counted."""
    dice = random.Random(seed)
    for n in range(dice.randrange(5, 40)):
        topic = dice.choice(("home/a", "home/b/c", "home", "garden/a", "Dog/1", "home/r"))
        payload = dice.choice((b'{"n":%d}' % n, b"text", b"%d" % n))
        if topic == "Dog/1":
            await room.put(topic, b'{"name":"x"}')
        elif dice.random() < 0.3:
            await (room.put(topic, payload, client="ann") if n % 3 else room.delete(topic))
        elif dice.random() < 0.2:  # brought late, with the time at which it was made (E27)
            made = int((room.time - dice.randrange(20)) * 1e6)
            await room.say(topic, payload, version=made, properties={"origin": "far"})
        else:
            await room.say(topic, payload, qos=dice.randrange(3))
        room.time += dice.random()
    if "mqtt_home" not in room.registry.shapes:
        return
    home = TopicRoot("home")
    log = [event for event in room.store.read(0, 999) if event.table is None]
    view = room.kernel.views.get("mqtt_home")
    values = [view.value(event) for event in log if home.has(event.topic)]
    assert await listed(room) == values
    for text in QUERIES:
        for sort in SORTS:
            whole = "&".join(part for part in (text, sort) if part and "|" not in text) or text
            query = parse_query(whole, table(room))
            wanted = [value for value in values if holds(query.where, value, value["id"])]
            if not direction_of(query.sort):
                wanted = [value for _, value in answer(query, [(v["id"], v) for v in wanted]).rows]
            elif direction_of(query.sort) < 0:
                wanted.reverse()
            size = dice.randrange(1, 9)
            paged = "&".join(part for part in (whole, f"limit({size})") if part)
            if "|" in whole:
                paged = f"[{whole}]&limit({size})"
            assert await listed(room, paged) == wanted, (whole, size)
            assert await count(room, text) == len(wanted)
