"""Live queries of MQTT sessions that come back, to this server or after a kill (M3)."""

import pytest
from query_readers import QueryServer
from test_live_queries import HOT, SENSOR, put

import mqtt_server as mqtt
from build import turns
from mqtt_server import Connect, Peer, Puback, Publish, Subscribe, user
from rowcast.core.callers import ALL, Caller
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


@pytest.fixture
async def hot():
    opened = QueryServer(SENSOR)
    yield opened
    await opened.close()


async def test_m3_a_message_in_flight_when_the_server_was_killed_is_the_same_step_again():
    """M3: a record that left is not sent again as if it matched."""
    opened = QueryServer(SENSOR)
    await opened.write(put("1", temp=90, site="A"))
    await opened.write(put("2", temp=1, site="A"))
    keep = {"session_expiry_interval": 3600}
    peer = Peer(opened.server, 5)
    peer.send(Connect(5, "c", clean_start=True, properties=keep))
    peer.send(Subscribe(7, (mqtt.Subscription(f"Sensor/+?{HOT}", 2),)))
    await turns(30)
    for packet in peer.heard():
        if isinstance(packet, Publish):
            peer.send(Puback(packet.packet_id))
    await opened.write(put("1", 2, temp=2, site="A"))
    await opened.write(put("2", 2, temp=99, site="A"))
    await turns(30)
    before = [(packet.topic, packet.payload, user(packet, "op")) for packet in peer.heard()]
    assert ["leave", "enter"] == [op for _, _, op in before]
    opened.server.writer.hold()
    opened.server.readers.hold()
    again = QueryServer(SENSOR, store=opened.server.store)
    peer = Peer(again.server, 5)
    peer.send(Connect(5, "c", clean_start=False, properties=keep))
    await turns(40)
    _, *sent = peer.heard()
    assert before == [(packet.topic, packet.payload, user(packet, "op")) for packet in sent]
    assert all(packet.dup for packet in sent)
    peer.lose()
    await again.close()


async def test_subscriptions_that_a_session_loses_are_logged(hot, caplog):
    """O6: a changed schema or other rights may refuse them, and no packet tells its client."""
    kernel, caller = hot.server.kernel, Caller("ann", ALL, client_id="c7")
    kept = ["Sensor/#", "$query/Gone/a=1", "$query/Sensor/temp=gt=1&sort(temp)"]
    reader = Subscription(kernel.reader, "c7")
    with caplog.at_level("WARNING", logger="rowcast"):
        interests = [SubscribedFilter(TopicFilter(text)) for text in kept]
        refused = kernel.resume(reader, 0, interests, caller)
    assert kept[1:] == [interest.topics.text for interest in refused]
    (line,) = caplog.messages
    assert line.startswith("c7 returned, and 2 of its subscriptions are left out, such as '$query/")
    assert "'$query/Gone/a=1' names neither a declared table" in line
    kernel.close(reader)
