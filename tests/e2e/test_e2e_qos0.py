"""QoS 0 messages that are not retained: announced at once, stored behind it (``log.qos0``).

The disk that takes nothing more shows which comes first; a kill shows what may be missing.
"""

import json
import resource
from itertools import count, pairwise

import pytest

from serving import Server, wait_until
from talking import Events, Mqtt

QUIET = {"mqtt.sys_interval": 0, "client_events.enabled": False}


def publish(client, number, topic="home/a"):
    client.publish(topic, b'{"n": %d}' % number, 0, retain=False)


def number_of(message):
    return json.loads(message.payload)["n"]


def fill(server):
    resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def free(server):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, unlimited)


def lost(server):
    """Return how many messages the server counts as delivered and not stored."""
    return int(
        server.request("GET", "/metrics").text.partition("\nbroker_store_messages_lost ")[2][0]
    )


def history(server):
    """Return the numbers of the messages that the log has."""
    return [event["value"]["n"] for event in server.request("GET", "/home/a?from=0").json()]


def position(event_id):
    """Return the number in the log."""
    return int(event_id.partition(":")[2])


def test_it_is_delivered_at_once_and_stored_behind(tmp_path):
    with (
        Server(tmp_path, settings=QUIET) as server,
        Mqtt(server.mqtt_port) as client,
        Events(server, "/home/a?start=new") as events,
    ):
        events.until_current()
        publish(client, 0)
        assert 0 == events.next().value["n"]
        wait_until(lambda: history(server) == [0], "the first is stored")
        fill(server)
        publish(client, 1)
        heard = events.next()
        assert 1 == heard.value["n"]
        wait_until(lambda: lost(server) == 1, "what the disk refused is counted")
        publish(client, 2)  # the disk has refused, so it has to take this one first
        client.publish("home/b", b"1")
        free(server)
        wait_until(lambda: server.request("GET", "/health/ready").status_code == 200, "it is well")
        publish(client, 3)
        after = events.next()
        assert 3 == after.value["n"]
        assert [0, 3] == history(server)
        assert position(heard.id) < position(after.id)
        with Events(server, "/home/a", heard.id) as resumed:
            assert ("message", 3) == ((told := resumed.next()).kind, told.value["n"])


def test_before_nothing_is_delivered_that_is_not_stored(tmp_path):
    settings = QUIET | {"log.qos0": "before"}
    with Server(tmp_path, settings=settings) as server, Mqtt(server.mqtt_port) as client:
        client.subscribe("home/#", qos=0)
        publish(client, 0)
        assert 0 == number_of(client.message())
        fill(server)
        publish(client, 1)
        client.publish("home/b", b"1")  # the answer comes after what was published before it
        assert not client.ready()
        free(server)
        wait_until(lambda: server.request("GET", "/health/ready").status_code == 200, "it is well")
        publish(client, 2)
        assert 2 == number_of(client.message())
        assert ([0, 2], 0) == (history(server), lost(server))


@pytest.mark.parametrize("round_", range(3))
def test_a_kill_takes_at_most_the_last_of_them(tmp_path, round_):
    """No number is used twice, and a cursor of what is missing goes on without a reset."""
    with Server(tmp_path, settings=QUIET) as server:
        with Mqtt(server.mqtt_port) as client, Events(server, "/home/a?start=new") as events:
            events.until_current()
            for number in range(3_000):
                publish(client, number)
            heard = [events.next() for _ in range(200 + 700 * round_)]
            server.kill(children=round_ == 1)
        server.start()
        stored = history(server)
        assert list(range(len(stored))) == stored  # without a gap
        with Events(server, "/home/a", heard[-1].id) as events, Mqtt(server.mqtt_port) as client:
            publish(client, 5_000)
            rest = []
            while not rest or rest[-1].value["n"] < 5_000:
                rest.append(events.next())
        assert {"message"} == {told.kind for told in rest}
        assert [*stored[len(heard) :], 5_000] == [told.value["n"] for told in rest]
        ids = [position(told.id) for told in (*heard, *rest)]
        assert all(one < other for one, other in pairwise(ids))


def test_messages_of_qos_0_and_1_of_one_client_keep_their_order(tmp_path):
    """C22: whichever waits for the disk."""
    with Server(tmp_path, settings=QUIET) as server, Mqtt(server.mqtt_port) as client:
        client.subscribe("home/#", qos=0)
        numbers = count()
        for _ in range(100):
            for qos in (0, 1, 0, 0):
                client.publish("home/a", b'{"n": %d}' % next(numbers), qos, retain=False)
        heard = [number_of(client.message()) for _ in range(400)]
        assert list(range(400)) == heard == history(server)
