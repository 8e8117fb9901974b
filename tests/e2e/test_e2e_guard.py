"""The whole program under abuse: crowds, flapping and floods (D6, D56, D57).

Healthy clients go on meanwhile, and afterwards nothing of the others is left.
"""

import threading
from contextlib import ExitStack, suppress

import pytest

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Connack, Connect, Publish
from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Closed, Mqtt, cut, open_socket

HEALTHY = 50
FLOOD = 2_000
WAVE = 500
"""Connections open at once from here: a process may have 1,024 files."""


def heard(connected, version):
    """Return what a connection was told until it was closed."""
    connection, packets = Connection("client", version=version), []
    try:
        while data := connected.recv(4_096):
            packets += connection.receive(data)
    except ConnectionError:  # closed at once, before it could speak
        pass
    return packets


def flood(port, answers):
    """Connect far more often than is allowed; half of them speak."""
    for wave in range(FLOOD // WAVE):
        sockets = [open_socket(port) for _ in range(WAVE)]
        for number, connected in enumerate(sockets):
            version = (MQTT_5, MQTT_3_1_1)[number // 2 % 2]
            if number % 2:
                with suppress(ConnectionError):
                    connected.sendall(encode(Connect(version, f"{wave}-{number}"), version))
        for number, connected in enumerate(sockets):
            version = (MQTT_5, MQTT_3_1_1)[number // 2 % 2]
            answers += [(version, packet) for packet in heard(connected, version)]
            connected.close()


@pytest.mark.slow
def test_many_connections_beyond_the_limit(tmp_path):
    """D6: 2,000 are refused while 50 clients exchange messages; then there is room again."""
    settings = {"mqtt.max_connections": HEALTHY}
    with Server(tmp_path, settings=settings) as server, ExitStack() as stack:
        idle = server.sockets
        clients = [
            stack.enter_context(Mqtt(server.mqtt_port, client_id=f"healthy-{number}"))
            for number in range(HEALTHY)
        ]
        for number, client in enumerate(clients):
            client.subscribe(f"to/{number}")
        answers = []
        crowd = threading.Thread(target=flood, args=(server.mqtt_port, answers))
        crowd.start()
        rounds = 0
        while crowd.is_alive() or rounds < 3:
            for number, client in enumerate(clients):
                client.publish(f"to/{(number + 1) % HEALTHY}", b"%d" % rounds, retain=False)
            assert {b"%d" % rounds} == {client.message().payload for client in clients}
            rounds += 1
        crowd.join()
        reasons = {(version, packet.reason) for version, packet in answers}
        assert {
            (MQTT_5, Reason.QUOTA_EXCEEDED),
            (MQTT_3_1_1, Reason.SERVER_UNAVAILABLE),
        } == reasons
        wait_until(lambda: server.sockets == idle + HEALTHY, "nothing is left of the others")
        clients[0].cut()
        wait_until(lambda: accepted(server.mqtt_port), "there is room for one again")


def accepted(port, client_id="again", version=MQTT_5):
    """Tell whether a new connection is taken; it is left at once, politely or not."""
    with Mqtt(port, version, client_id) as client:
        return client.connack.reason == Reason.SUCCESS


def test_a_flapping_client_is_banned_and_let_in_again(tmp_path):
    """D56: 0x8A for a while; others may come, and the operator is told."""
    settings = {"mqtt.flapping.max_disconnects": 5, "mqtt.ban.seconds": 2}
    with Server(tmp_path, settings=settings) as server:
        port = server.mqtt_port

        def flap():
            with Mqtt(port, client_id="flapper") as client:
                client.cut()
                return client.connack.reason

        reasons = wait_until(lambda: (reason := flap()) and [reason], "it is banned")
        assert [Reason.BANNED] == reasons
        assert accepted(port, "another")
        assert "client flapper is banned" in server.log
        wait_until(lambda: accepted(port, "flapper"), "the ban is over")


def test_a_flood_of_messages_is_slowed_down_and_loses_nothing(tmp_path):
    """D57: another client is served meanwhile."""
    settings = {"mqtt.rate.messages": 200}
    with (
        Server(tmp_path, settings=settings) as server,
        Mqtt(server.mqtt_port, client_id="reader") as reader,
        Mqtt(server.mqtt_port, client_id="flooder") as flooder,
        Mqtt(server.mqtt_port, client_id="calm") as calm,
    ):
        reader.subscribe("flood", qos=0)
        frames = [encode(Publish("flood", b"%d" % number), MQTT_5) for number in range(600)]
        flooder.socket.sendall(b"".join(frames))
        for number in range(10):
            assert not calm.publish("calm", b"%d" % number).reason
        came = [reader.message().payload for _ in range(600)]
        assert [b"%d" % number for number in range(600)] == came


def test_a_flood_of_messages_is_disconnected_where_that_is_wanted(tmp_path):
    """D57: 0x96."""
    settings = {"mqtt.rate.messages": 50, "mqtt.rate.action": "disconnect"}
    with (
        Server(tmp_path, settings=settings) as server,
        Mqtt(server.mqtt_port, client_id="flooder") as flooder,
    ):
        flooder.socket.sendall(encode(Publish("flood", b"x"), MQTT_5) * 1_000)
        assert Reason.MESSAGE_RATE_TOO_HIGH == flooder.receive().reason
        with pytest.raises(Closed):
            flooder.receive()


def test_too_many_connects_in_one_second(tmp_path):
    """D57: 0x9F, each peer for itself."""
    settings = {"mqtt.rate.connections_per_peer": 5}
    with Server(tmp_path, settings=settings) as server:
        sockets = [open_socket(server.mqtt_port) for _ in range(20)]
        for number, connected in enumerate(sockets):
            connected.sendall(encode(Connect(MQTT_5, str(number)), MQTT_5))
        reasons = []
        for connected in sockets:
            (packet,) = Connection("client", version=MQTT_5).receive(connected.recv(4_096))
            assert isinstance(packet, Connack)
            reasons.append(packet.reason)
            cut(connected)
        assert {Reason.SUCCESS, Reason.CONNECTION_RATE_EXCEEDED} == set(reasons)
