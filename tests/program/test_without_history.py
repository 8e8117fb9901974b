"""A server without the history feature says so, and reads, writes and streams all the same."""

import asyncio

import pytest

from http_clients import http_client
from serving import PATIENCE_SECONDS, application, features_without
from talking import Events

OTHERS = features_without("history")
QUERIES = ("Dog/1?last=5", "Dog/1?from=-1h", "Dog/1?asof=now", "Dog/?asof=now", "Dog/?to=now")


@pytest.fixture
async def running(tmp_path):
    async with asyncio.timeout(PATIENCE_SECONDS), application(tmp_path, features=OTHERS) as started:
        yield started


async def test_what_asks_for_the_past_is_refused_in_words(running):
    url = f"http://127.0.0.1:{running.http_port}"
    async with http_client(base_url=url) as client:
        await client.put("/Dog/1", json={"name": "Rex"})
        answers = [await client.get(f"/{query}") for query in QUERIES]
        assert 200 == (await client.get("/Dog/1")).status_code
    assert [400] * len(QUERIES) == [answer.status_code for answer in answers]
    assert all("the feature history" in answer.json()["detail"] for answer in answers)


async def test_a_stream_still_begins_in_the_past(running):
    """What a subscription is given of the log is the kernel's."""
    url = f"http://127.0.0.1:{running.http_port}"
    async with http_client(base_url=url) as client:
        for name in ("Rex", "Max"):
            await client.put("/Dog/1", json={"name": name})

    def heard():
        with Events(running, "/Dog/1?previousCount=2") as events:
            return [events.next().value["name"] for _ in range(2)]

    assert ["Rex", "Max"] == await asyncio.to_thread(heard)
