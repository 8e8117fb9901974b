"""Values so often as a client asks for, over MQTT (M4)."""

from mqtt_server import Suback, Subscribe, Subscription, payloads, users

ASKS = users(("conflate", "2s"))


def asked(world):
    """Return the interval of each filter of the only session."""
    (session,) = world.broker.sessions
    return {it.topics.text: it.conflate for it in session.subscription.interests}


async def test_m4_a_subscription_asks_for_an_interval_and_keeps_it(world):
    """M4: over a kill of the server, too."""
    lasting = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}
    peer = await world.connected("s", **lasting)
    await peer.subscribe("Dog/+", properties=ASKS)
    await peer.subscribe("loose/#")
    wanted = {"Dog/+": 2.0, "loose/#": 0.0}
    assert wanted == asked(world)
    await world.put("Dog/1", b'{"name":"a"}')
    assert [b'{"name":"a"}'] == payloads(await peer.hear())
    await world.put("Dog/1", b'{"name":"b"}')
    assert [] == payloads(await peer.hear())
    after = await world.killed()
    await after.peer().connect("s", **lasting)
    assert wanted == asked(after)


async def test_an_interval_that_is_none_is_refused(world):
    peer = await world.connected("s")
    wanted = (Subscription("Dog/+", 0),)
    (answer,) = await peer.ask(Subscribe(7, wanted, users(("conflate", "often"))))
    assert isinstance(answer, Suback)
    assert all(reason >= 0x80 for reason in answer.reasons)
