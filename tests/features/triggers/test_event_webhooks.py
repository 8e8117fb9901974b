"""Webhooks of events: the log is their outbox (G24)."""

import asyncio
import json

import pytest
from pydantic import ValidationError
from trigger_server import TriggerServer

from build import NOW
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.triggers.settings import TriggerSection
from rowcast.features.triggers.trigger import Retries
from rowcast.features.triggers.webhook_action import RETRIES
from rowcast.net.webhook_call import CallError
from rowcast.net.webhook_signature import signed_headers

SETTINGS = TriggerSection(
    webhooks=[{"name": "ops", "topics": ["Dog/+", "yard/#"], "url": "https://ops.example/in"}]
)


class Posts:
    """What was posted; the first ``refused`` of them are refused."""

    def __init__(self, refused=0):
        self.taken, self.refused = [], refused

    async def __call__(self, url, headers, body):
        if self.refused:
            self.refused -= 1
            raise CallError("it answered 503")
        self.taken.append((url, headers, body))

    @property
    def bodies(self):
        return [json.loads(body) for _, _, body in self.taken]


async def server_with(posts, retries=RETRIES, secret="", **bounds):
    life = TriggerServer(Hooks(), SETTINGS, **bounds)
    (runner,) = life.feature.runners.values()
    runner.trigger.action._send, runner.trigger.action._secret = posts, secret
    object.__setattr__(runner.trigger, "retries", retries)
    return await life.start()


async def test_each_event_is_posted_with_its_value():
    """G24: values as JSON, plain text and bytes as they are, deletions without one."""
    posts = Posts()
    life = await server_with(posts)
    await life.room.put("Dog/1", b'{"name":"Rex"}', client="ann-1")
    await life.room.say("yard/gate", b"open", qos=1)
    await life.room.say("yard/raw", b"\xff", qos=1, content_type="image/png")
    await life.room.delete("Dog/1")
    await life.turn()
    assert ["event.put", "event.message", "event.message", "event.delete"] == [
        body["type"] for body in posts.bodies
    ]
    put, text, raw, deleted = (body["data"] for body in posts.bodies)
    assert ("Dog/1", "ann-1", "Rex") == (put["topic"], put["client"], put["value"]["name"])
    assert ("open", None) == (text["payload"], text["content_type"])
    assert ("/w==", "image/png") == (raw["payload_base64"], raw["content_type"])
    assert {"topic", "client", "seq"} == set(deleted)
    assert [put["seq"], deleted["seq"]] == [posts.taken[0][1]["webhook-id"],
                                            posts.taken[-1][1]["webhook-id"]]  # fmt: skip
    assert "2023-11-14T22:13:20.000Z" == posts.bodies[0]["timestamp"]


async def test_calls_are_signed():
    """G24: as Standard Webhooks says."""
    posts = Posts()
    life = await server_with(posts, secret="whsec_c2VjcmV0")
    await life.room.put("Dog/1")
    await life.turn()
    ((_, headers, body),) = posts.taken
    assert signed_headers("secret", headers["webhook-id"], int(NOW), body) == headers


async def test_what_is_refused_is_posted_again_before_what_follows():
    """G24: in order, at least once."""
    posts = Posts(refused=3)
    life = await server_with(posts, Retries(9, 0.0, 1, 0.0))
    await life.room.put("Dog/1")
    await life.room.put("Dog/2")
    await life.turn()
    assert ["Dog/1", "Dog/2"] == [body["data"]["topic"] for body in posts.bodies]
    row = life.row("ops")
    assert ("webhook", 2, 3, 0) == tuple(row[key] for key in ("kind", "calls", "failures", "dead"))
    assert "example" not in json.dumps(row), "the URL is not for readers"


async def test_a_refusal_is_one_line_of_the_log(caplog):
    """G24: what a receiver answered, as alarms tell it, without the lines of the code."""
    posts = Posts(refused=2)
    life = await server_with(posts, Retries(2, 0.0, 1, 0.0))
    await life.room.put("Dog/1")
    await life.turn()
    assert [None] * 3 == [record.exc_info for record in caplog.records]
    assert [
        "the trigger ops failed for Dog/1: it answered 503",
        "the trigger ops failed for Dog/1: it answered 503",
        "the trigger ops gives up Dog/1: it answered 503",
    ] == caplog.messages


async def test_a_receiver_that_is_too_slow_is_one_line_of_the_log(caplog):
    """G24: likewise, without the lines of what was cut off."""

    async def hang(url, headers, body):
        await asyncio.Event().wait()

    life = await server_with(hang, Retries(1, 0.0, 1, 0.0), call_seconds=0.001)
    await life.room.put("Dog/1")
    while not life.feature.dead:
        await life.turn()
    assert [None, None] == [record.exc_info for record in caplog.records]
    assert [
        "the trigger ops failed for Dog/1: it took longer than 0.001 s",
        "the trigger ops gives up Dog/1: it took longer than 0.001 s",
    ] == caplog.messages


async def test_unlogged_events_have_ids_of_their_own():
    """G24: receivers leave out what has an id that they know; a header takes not every topic."""
    posts = Posts(refused=1)
    life = await server_with(posts, Retries(9, 0.0, 1, 0.0), secret="s")
    refused = []
    send, action = posts, life.feature.runners["ops"].trigger.action

    async def noted(url, headers, body):
        refused.append(headers["webhook-id"])
        await send(url, headers, body)

    action._send = noted
    for _ in range(2):
        await life.room.say("yard/π\r\n", b"open")
    await life.turn()
    first, again, second = refused
    assert first == again != second
    assert all(each.isascii() and each.isprintable() for each in refused)


async def test_what_is_signed_is_what_is_posted():
    """G24: of an unlogged event, whose time is that of the call, too."""
    posts, times = Posts(), iter(range(1_000))
    life = await server_with(posts, secret="s")
    life.feature.runners["ops"].trigger.action._now = lambda: float(next(times))
    await life.room.say("yard/gate", b"open")
    await life.turn()
    ((_, headers, body),) = posts.taken
    at = int(headers["webhook-timestamp"])
    assert signed_headers("s", headers["webhook-id"], at, body) == headers


def test_the_waits_of_webhooks_span_hours():
    """G24: as those of alarms."""
    waits = [RETRIES.seconds_after(number) for number in range(1, RETRIES.attempts_max)]
    assert [1, 4, 16, 64, 256, 1024, 3600] == waits


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"topics": []}, "at least 1"),
        ({"topics": ["a/#/b"]}, "should be a topic filter"),
        ({"url": "ops"}, "should be an address"),
        ({"url": ""}, "at least 1"),
        ({"name": "a:b"}, "pattern"),
        ({"secret": "whsec_!"}, "base64"),
        ({"adress": "x"}, "Extra inputs"),
    ],
)
def test_bad_settings_are_refused(change, what):
    good = {"name": "ops", "topics": ["a"], "url": "https://ops.example/in"}
    TriggerSection(webhooks=[good])
    with pytest.raises(ValidationError, match=what):
        TriggerSection(webhooks=[good | change])


def test_an_address_is_not_shown():
    assert "ops.example" not in repr(SETTINGS)
