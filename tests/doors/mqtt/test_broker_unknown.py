"""Filters of which nothing can come are refused, and a URL's leading slash is understood (P5)."""

import pytest

from mqtt_server import Puback, Suback, Subscribe, Subscription, Unsubscribe, topics
from rowcast.mqtt.reasons import Reason
from rowcast.routes.resource import Resource

UNKNOWN = [
    "$query/Dog/1",
    "$replay/a",
    "$nonsense/#",
    "$sys/broker/#",
    "$SYS/nonsense/#",
    "$",
    "$alarms/nope/#",
    "$SYS/alarms/nope/#",
]


@pytest.mark.parametrize("text", UNKNOWN)
@pytest.mark.parametrize(("version", "reason"), [(5, 0x8F), (4, 0x80), (3, 0x80)])
async def test_p5_a_dollar_topic_that_is_not_there_is_refused(world, text, version, reason):
    """P5: it costs only itself, in every version."""
    peer = await world.connected(version=version)
    assert (0, reason) == await peer.subscribe("a", text)


@pytest.mark.parametrize("form", ["$share/g/{}", "$queue/{}", "$exclusive/{}", "$stream/{}"])
async def test_p5_nor_behind_a_way_to_subscribe(world, form):
    peer = await world.connected()
    assert (0x8F,) == await peer.subscribe(form.format("$nonsense/#"))


@pytest.mark.parametrize(
    "text",
    [
        "$SYS/#",
        "$SYS/+/uptime",
        "$SYS/broker/#",
        "$SYS/events/#",
        "$SYS/sessions/#",
        "$AUDIT/#",
        "$CONTROL/#",
        "$gap/#",
        "$stale/Dog/#",
        "$snapshot/#",
        "$commit/#",
        "$gateway/cloud/#",
        "$share/g/a",
        "$queue/a",
        "$exclusive/a",
        "$stream/a",
    ],
)
async def test_p5_what_is_there_is_granted(world, text):
    peer = await world.connected()
    assert (0,) == await peer.subscribe(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$sys/broker/#", 'did you mean "$SYS"?'),
        ("$queuee/a", 'did you mean "$queue"?'),
        ("$query/#", "$query/TABLE/CONDITIONS, such as"),
        ("$asof/-1h", "$asof/TIME/FILTER, such as"),
        ("$SYS/brokr/#", 'did you mean "broker"?'),
        ("$nonsense/#", "$AUDIT"),
        ("$delayed/60/a", "$SYS/delayed/#"),
        ("$exclusive/$queue/a", "once and at the beginning"),
    ],
)
async def test_p5_the_refusal_says_what_there_is(world, text, words):
    peer = await world.connected()
    [suback] = [
        item
        for item in await peer.ask(Subscribe(7, (Subscription(text),)))
        if isinstance(item, Suback)
    ]
    assert words in suback.properties["reason_string"]


async def test_p5_a_write_at_one_is_refused_with_what_can_be_written(world):
    peer = await world.connected()
    peer.publish("$nonsense/1", b"x", 1, packet_id=3)
    [answer] = [item for item in await peer.hear() if isinstance(item, Puback)]
    assert Reason.NOT_AUTHORIZED == answer.reason
    assert "$delayed/SECONDS/TOPIC" in answer.properties["reason_string"]


# -- a leading slash -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["/Dog/#", "/Dog/+", "/Dog/1", "$queue//Dog/#", "$share/g//Dog/#"])
async def test_p5_a_filter_with_a_leading_slash_is_the_resource(world, form):
    """Somebody writes /my-resource/#; the record's topic has no slash."""
    peer = await world.connected()
    assert (0,) == await peer.subscribe(form)
    await world.put("Dog/1", b"{}")
    assert ["Dog/1"] == topics(await peer.hear())


async def test_p5_it_ends_as_it_began(world):
    peer = await world.connected()
    await peer.subscribe("/Dog/#")
    [answer] = await peer.ask(Unsubscribe(8, ("/Dog/#",)))
    assert (Reason.SUCCESS,) == answer.reasons
    await world.put("Dog/1", b"{}")
    assert [] == topics(await peer.hear())


async def test_p5_a_publish_with_a_leading_slash_is_the_record(world):
    peer = await world.connected()
    peer.publish("/Dog/1", b'{"name": "Rex"}', 1, retain=True, packet_id=3)
    await peer.hear()
    await peer.subscribe("Dog/#")
    assert ["Dog/1"] == topics(peer.later)


async def test_p5_an_undeclared_topic_keeps_its_slash(world):
    """MQTT-4.7.3-1: /home/x and home/x are two topics, also where a topic table shows the second.

    What begins with wildcards selects topics with a leading slash only.
    """
    await world.say("home/x", b"1")
    peer = await world.connected()
    assert (0, 0, 0) == await peer.subscribe("/home/#", "/mqtt_home/+", "/+/1")
    await world.say("home/x", b"2")
    await world.put("Dog/1", b"{}")
    await world.say("/home/x", b"3")
    assert ["/home/x"] == topics(await peer.hear())


async def test_p5_where_nothing_is_published_a_subscription_is_refused_with_the_reason(world):
    """A class says so of its path; what is below it and published remains."""

    class Bell(Resource):
        silent = "ring it over HTTP"

    class Porch(Resource):
        silent = "go in"

    world.kernel.registry.add("Bell", Bell)
    world.kernel.registry.add("Porch", Porch)
    world.kernel.registry.add("Porch/Cat", Resource)
    peer = await world.connected()
    for text in ("Bell", "Bell/#", "Bell/1", "/Bell/#", "$share/g/Bell", "$queue/Bell/+"):
        [suback] = await peer.ask(Subscribe(7, (Subscription(text),)))
        assert suback.reasons == (0x8F,), text
        assert "ring it over HTTP" in suback.properties["reason_string"]
    assert (0, 0, 0, 0) == await peer.subscribe("Porch/#", "#", "+/1", "Bells")
