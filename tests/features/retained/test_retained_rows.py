"""$SYS/retained: retained messages listed, searched, read and cleared (E30, L12)."""

import pytest

from build import ANN, NOW, Code, Server, refusal
from rowcast.core.callers import Caller, Grants
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.retained.retained_rows import PATH, retained_rows

ANY = Table(PATH, None)
TOPICS = ("a/1/c", "a/2/c", "a/2/d", "b/1/c", "c")


class Veil(Hook):
    """Shows nobody what is below ``a/2``."""

    def can_read(self, caller, topic):
        return not topic.startswith("a/2")


async def room_with(*topics, bounds=(), **options):
    room = Server(resources=[(PATH, retained_rows(lambda: NOW, *bounds))], **options)
    for number, topic in enumerate(topics):
        await room.put(topic, b"v%d" % number, content_type="text/plain")
    return room


def rows(room, name="", caller=ANN):
    return room.kernel.resource(f"{PATH}/{name}", caller)


async def listed(room, query="", caller=ANN):
    found = await rows(room, caller=caller).get(parse_query(query, ANY) if query else None)
    return [row["topic"] if isinstance(row, dict) else row for row in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", list(TOPICS)),
        ("filter=a/+/c", ["a/1/c", "a/2/c"]),
        ("filter==a/%23", ["a/1/c", "a/2/c", "a/2/d"]),
        ("filter=a/%2B/c&payload=ct=1", ["a/2/c"]),
        ("topic=ct=1", ["a/1/c", "b/1/c"]),
        ("qos==1|qos==2", list(TOPICS)),
        ("qos==2", []),
        ("limit(2)", ["a/1/c", "a/2/c"]),
        ("limit(1,3)", ["a/2/c", "a/2/d"]),
        ("filter=a/%23&select(size)", [2, 2, 2]),
        ("filter=nothing/here", []),
    ],
)
async def test_e30_a_page_by_filter_and_search(query, expected):
    assert expected == await listed(await room_with(*TOPICS), query)


async def test_e30_the_next_page_is_after_the_last_rows_cursor():
    room = await room_with(*TOPICS)
    seen, after = [], ""
    while True:
        page = await rows(room).get(parse_query(f"limit(2){after}", ANY))
        seen.append([row["topic"] for row in page])
        if len(page) < 2:
            break
        after = f"&after({page[-1]['cursor']})"
    assert [["a/1/c", "a/2/c"], ["a/2/d", "b/1/c"], ["c"]] == seen


async def test_e30_one_row_has_all_that_is_known():
    room = await room_with()
    properties = {"response_topic": "r", "message_expiry_interval": 60}
    long = b"x" * 1000
    await room.put("a/b", long, content_type="text/x", client="dev", properties=properties)
    await room.put("raw", b"\xff\0")
    row = await rows(room, "a/b").get()
    assert (1000, "text/x", 1, "dev") == (
        row["size"], row["content_type"], row["qos"], row["client"],
    )  # fmt: skip
    assert long.decode() == row["payload"]
    assert (["message_expiry_interval", "response_topic"], "2023-11-14T22:14:20.000Z") == (
        row["properties"], row["expires_at"],
    )  # fmt: skip
    assert [256, 2] == [len(item["payload"]) for item in await rows(room).get()]
    assert b"\xff\0" == (await rows(room, "raw").get())["payload"]
    assert None is await rows(room, "nothing").get()


async def test_e30_a_table_has_no_row_here():
    room = await room_with("a/1")
    await room.put("Dog/1", b'{"name":"a"}')
    assert (None, ["a/1"]) == (await rows(room, "Dog/1").get(), await listed(room))
    assert Code.NOT_FOUND == await refusal(rows(room, "Dog/1").delete())
    assert "Dog/1" == (await room.kernel.read("Dog/1", ANN)).topic


async def test_e30_one_is_forgotten():
    room = await room_with(*TOPICS)
    await rows(room, "a/2/d").delete()
    assert Code.NOT_FOUND == await refusal(rows(room, "a/2/d").delete())
    assert ["a/1/c", "a/2/c", "b/1/c", "c"] == await listed(room)


async def test_e30_clearing_by_filter_and_its_dry_run():
    room = await room_with(*TOPICS)
    told = {"filter": "a/+/c", "count": 2, "topics": ["a/1/c", "a/2/c"]}
    dry = await rows(room).post({"clear": "a/+/c", "dry_run": True})
    assert (told | {"dry_run": True}, 5) == (dry, room.store.count(None))
    done = await rows(room).post({"clear": "a/+/c"})
    assert (told | {"dry_run": False}, ["a/2/d", "b/1/c", "c"]) == (done, await listed(room))


@pytest.mark.parametrize(
    "body", [None, "a/#", {}, {"clear": 1}, {"clear": "#", "dryrun": True},
             {"clear": "#", "dry_run": "yes"}, {"clear": "a/#/b"}],
)  # fmt: skip
async def test_e30_a_body_that_cannot_be_read_clears_nothing(body):
    room = await room_with(*TOPICS)
    assert Code.INVALID == await refusal(rows(room).post(body))
    assert 5 == room.store.count(None)


@pytest.mark.parametrize(
    "caller",
    [
        Caller("reader", Grants(read=True), "http"),
        Caller("anonymous", Grants(read=True, write=True), "http", peer="192.0.2.1"),
    ],
)
async def test_e30_only_who_may_administer_clears(caller):
    room = await room_with(*TOPICS)
    assert list(TOPICS) == await listed(room, caller=caller)
    assert None is not await refusal(rows(room, caller=caller).post({"clear": "#"}))
    assert None is not await refusal(rows(room, "c", caller).delete())
    assert 5 == room.store.count(None)


async def test_l12_a_reader_is_shown_and_clears_what_it_may_read():
    hooks = Hooks()
    hooks.add(Veil())
    room = await room_with(*TOPICS, hooks=hooks)
    assert ["a/1/c", "b/1/c", "c"] == await listed(room)
    assert ["b/1/c"] == await listed(room, "limit(1,2)")
    assert Code.DENIED == await refusal(rows(room, "a/2/c").get())
    assert Code.DENIED == await refusal(rows(room, "a/2/c").delete())
    done = await rows(room).post({"clear": "a/#"})
    assert (1, ["a/1/c"], 4) == (done["count"], done["topics"], room.store.count(None))


async def test_a_search_that_finds_little_is_ended():
    room = await room_with(*TOPICS, bounds=[3])
    assert ["a/1/c", "a/2/c"] == await listed(room, "limit(2)")
    assert Code.TOO_LARGE == await refusal(listed(room, "payload==none"))
    assert [] == await listed(room, "filter=b/%23&payload==none")
    for query in ("sort(topic)", "filter=a&filter=b"):
        assert Code.INVALID == await refusal(listed(room, query))
