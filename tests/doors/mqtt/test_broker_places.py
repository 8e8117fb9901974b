"""Subscriptions that begin with the last events, or those since a time (C24, E25)."""

import json
import random

import pytest

from mqtt_server import EPOCH, Publish, topics, user, users
from rowcast.core.clock import version_of
from rowcast.core.topics import TopicFilter
from rowcast.mqtt.packets import Subscribe, Subscription
from rowcast.mqtt.reasons import Reason
from rowcast.store.store import Keep

TOPICS = ("Dog/1", "Dog/2", "Cat/1", "home/temp", "home/a/b", "alone")


async def history(world, chance, count=12):
    """Write records of declared tables and undeclared topics; return what was logged."""
    logged = []
    for number in range(count):
        event = await world.put(chance.choice(TOPICS), b'{"age":%d}' % number)
        logged.append(event)
        world.time += chance.choice([0.5, 10])
    return logged


async def came(world, text, client_id="s", **properties):
    """Subscribe with user properties; return the reason, and what comes before anything new."""
    peer = await world.connected(client_id)
    reasons = await peer.subscribe(text, qos=1, properties=users(*properties.items()))
    later = [*peer.later, *await peer.hear()]
    return peer, reasons[0], [item for item in later if isinstance(item, Publish)]


def cursors(packets):
    return [user(item, "seq") for item in packets if item.topic[0] != "$"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", ["Dog/1", "Dog/+", "#", "home/#", "home/temp", "+/1", "+"])
async def test_c24_the_last_events_or_those_since_a_time_are_the_model_s(world, seed, text):
    """C24, E25: of declared tables, undeclared topics and wildcards, then what happens next."""
    chance = random.Random(seed)
    logged = await history(world, chance)
    chosen = [event for event in logged if TopicFilter(text).matches(event.topic)]
    count, then = chance.choice([1, 3, 99]), chance.choice(logged)
    words = {
        "previousCount": (str(count), chosen[-count:]),
        "last": (str(count), chosen[-count:]),
        "from": (f"{EPOCH}:{then.seq}", [e for e in chosen if e.seq > then.seq]),
    }
    milliseconds = then.version // 1_000
    since = [event for event in chosen if event.version >= version_of(milliseconds)]
    words["startTime"] = (str(milliseconds), since)
    after = await world.put("Dog/1", b"{}") if text != "alone" else None
    for client_id, (word, (value, expected)) in enumerate(words.items()):
        world_now = [after] if after and TopicFilter(text).matches(after.topic) else []
        if word in {"previousCount", "last"}:
            expected = [*chosen, *world_now][-count:]  # noqa: PLW2901
        else:
            expected = [*expected, *world_now]  # noqa: PLW2901
        peer, reason, packets = await came(world, text, f"s{client_id}", **{word: value})
        assert reason == 1
        assert [world.cursor(event.seq) for event in expected] == cursors(packets)
        peer.lose()


async def test_c24_what_happens_next_follows_without_a_seam(world):
    await history(world, random.Random(1))
    peer, _, packets = await came(world, "#", last="2")
    live = await world.put("home/new", b"1")
    assert 2 == len(cursors(packets))
    assert [world.cursor(live.seq)] == cursors(await peer.hear())


async def test_c24_a_while_ago_is_a_time(world):
    await world.put("Dog/1", b"{}")
    world.time += 100
    event = await world.put("Dog/2", b"{}")
    _, _, packets = await came(world, "Dog/#", **{"from": "-1m"})
    assert [world.cursor(event.seq)] == cursors(packets)


@pytest.mark.parametrize(
    ("trimmed", "ago", "asks", "gaps"),
    [(1, 200, "true", 1), (1, 200, "false", 0), (1, 50, "true", 0), (0, 200, "true", 0)],
)
async def test_c24_events_of_that_time_that_were_trimmed_are_a_gap(world, trimmed, ago, asks, gaps):
    """C24, M4: for who asks for gaps."""
    for number in range(3):
        await world.put(f"Dog/{number}", b"{}")
        world.time += 40
    if trimmed:
        world.store.trim(world.kernel.registry.route("Dog/1").table, Keep(events=2), 0, 100)
    _, _, packets = await came(world, "Dog/#", **{"from": f"-{ago}s", "gaps": asks})
    kinds = [item.topic.partition("/")[0] for item in packets]
    assert ["$gap"] * gaps + ["Dog"] * (len(kinds) - gaps) == kinds
    if gaps:
        gap = json.loads(packets[0].payload)
        assert ("trimmed", None) == (gap["gap"]["reason"], gap["gap"]["count"])


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"last": "2", "from": "-1h"}, "last and from exclude each other"),
        ({"since": f"{EPOCH}:0", "last": "2"}, "since and last exclude each other"),
        ({"last": "none"}, "last is a number from 1"),
        ({"startTime": "then"}, "startTime is a time such as"),
    ],
)
async def test_c24_what_makes_no_sense_is_refused_with_a_sentence(world, properties, sentence):
    peer = await world.connected()
    wanted = (Subscription("Dog/#", 0),)
    [suback] = await peer.ask(Subscribe(7, wanted, users(*properties.items())))
    assert (Reason.IMPLEMENTATION_SPECIFIC_ERROR,) == suback.reasons
    assert sentence in suback.properties["reason_string"]


async def test_c24_a_new_group_begins_there_too(world):
    """D55: a shared subscription that did not exist before."""
    logged = await history(world, random.Random(2))
    dogs = [event for event in logged if event.topic.startswith("Dog")]
    _, _, packets = await came(world, "$share/g/Dog/#", last="2")
    assert [world.cursor(event.seq) for event in dogs[-2:]] == cursors(packets)


async def test_c24_a_cursor_of_another_log_gives_one_reset(world):
    await world.put("Dog/1", b"{}")
    _, _, packets = await came(world, "Dog/#", **{"from": "deadbeef:1"})
    assert ["$reset/0", "Dog/1", "$snapshot/end/0"] == topics(packets)
