"""The feature undeclared_topics as a server has it, as one lacks it, and after a restart."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from http_clients import http_client
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Subscribe, Subscription
from rowcast.program.features import FEATURES
from serving import PATIENCE_SECONDS, application, features_without

OTHERS = features_without("undeclared_topics")


@asynccontextmanager
async def asking(running):
    url = f"http://127.0.0.1:{running.http_port}"
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        http_client(base_url=url) as ask,
    ):
        yield ask


async def answers(folder, features=FEATURES, **settings):
    """Return what a server says of a retained message and of two that are not."""
    folder.mkdir()
    async with (
        application(folder, features=features, settings=settings) as running,
        asking(running) as ask,
    ):
        said = [await ask.put("/home/1", content=b"kept")]
        said += [await ask.post("/home/1?retain=false", content=b"said") for _ in range(2)]
        said += [await ask.get(path) for path in ("/home/1", "/home/1?last=9", "/mqtt_home/")]
        rows = await ask.get("/$SYS/topic_tables/"), await ask.get("/$SYS/topics/")
    return [(it.status_code, it.headers.get("content-type")) for it in said], rows


@pytest.mark.slow
async def test_without_it_topics_are_routed(tmp_path):
    routed, _ = await answers(tmp_path / "a", **{"topics.undeclared": "route"})
    without, rows = await answers(tmp_path / "b", OTHERS)
    logged, shown = await answers(tmp_path / "c")
    assert routed == without != logged
    assert ([404, 404], [200, 200]) == (
        [row.status_code for row in rows],
        [row.status_code for row in shown],
    )


async def test_without_it_topics_are_refused_where_that_is_asked_for(tmp_path):
    without, _ = await answers(tmp_path / "a", OTHERS, **{"topics.undeclared": "reject"})
    assert [404] * 3 == [status for status, _ in without[:3]]


async def subscribe(port, text):
    """Leave a session behind that has a filter."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode(Connect(4, "keeper", clean_start=False), 4))
    writer.write(encode(Subscribe(1, (Subscription(text, 1),)), 4))
    heard = b""
    while len(heard) < 9:  # CONNACK and SUBACK
        heard += await reader.read(100)
    writer.close()
    await writer.wait_closed()


async def test_tables_are_known_again_before_sessions_are_counted(tmp_path):
    """A session's filter would be given the name of a table that is restored later (X3)."""
    seen = []
    for _ in range(2):
        async with application(tmp_path) as running, asking(running) as ask:
            if not seen:
                await ask.put("/home/1", content=b"small")
                await subscribe(running.mqtt_port, "Home/1")
                await ask.put("/Home/1", content=b"large")
            listed = (await ask.get("/$SYS/topic_tables/")).json()
            names = sorted(row["name"] for row in listed if row["level"] in {"home", "Home"})
            rows = [(await ask.get(f"/{name}/?select(topic)")).json() for name in names]
            counts = {row["name"]: row["subscription_count"] for row in listed}
            seen.append((names, rows, counts))
    assert seen[0] == seen[1]
    assert [["home/1"], ["Home/1"]] == seen[0][1]
