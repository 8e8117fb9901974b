"""Bad input at every door of the whole program: a clear answer or a clean close, and life goes on.

After each case the clients that were there before still hear what is written, and the process
holds as many sockets as before (C26, D8).
"""

import json
import select
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Connect, Disconnect, Publish
from serving import Server, wait_until
from talking import Closed, Events, Mqtt, cut, open_socket, open_websocket, told, upgrade

BODY_MAX = 100_000
PACKET_MAX = 65_536
DEPTH = 50_000
DEEP = b"[" * DEPTH + b"]" * DEPTH
FLOOD_BYTES = 64 * 1024 * 1024
DRIP_SECONDS = 0.1
STALL_SECONDS = 1.0
SETTINGS = {
    "http.max_body_bytes": BODY_MAX,
    "mqtt.max_packet_bytes": PACKET_MAX,
    "mqtt.connect_timeout_seconds": 1,
}


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server"), settings=SETTINGS) as running:
        # the process for large values has a socket, which is there before others are counted
        running.request("PUT", "/Counter/large", content=big(BODY_MAX - 1_000))
        running.request("DELETE", "/Counter/large")
        yield running


@pytest.fixture
def server(process):
    """The server, watched by two clients that must not notice anything."""
    path = "/Counter/alive?start=new"
    with Events(process, path) as events, Mqtt(process.mqtt_port) as client:
        client.subscribe("Counter/alive", retain_handling=2)
        sockets = process.sockets
        yield process
        wait_until(lambda: process.sockets <= sockets, "every other socket is closed")
        process.request("PUT", "/Counter/alive", json={"n": 1})
        assert {"n": 1, "id": "alive"} == json.loads(client.message().payload)
        wait_until(lambda: events.next().kind == "put", "the stream goes on")
    assert "Traceback" not in process.log


# -- REST ------------------------------------------------------------------------------------------


def big(size):
    """Return JSON of so many bytes."""
    return b'{"n": 1, "pad": "' + b"x" * size + b'"}'


BODIES = {
    "broken JSON": ("application/json", b'{"n": 1', 400),
    "JSON that is not UTF-8": ("application/json", b'{"n": "\xff"}', 400),
    "JSON with NaN": ("application/json", b'{"n": NaN}', 400),
    "deep JSON": ("application/json", DEEP, 413),
    "broken CBOR": ("application/cbor", b"\xa1\x61n", 400),
    "deep CBOR": ("application/cbor", b"\x81" * DEPTH + b"\x01", 413),
    "CBOR that promises too much": ("application/cbor", b"\x9b" + b"\xff" * 8, 400),
    "broken MessagePack": ("application/x-msgpack", b"\x81\xa1n", 400),
    "deep MessagePack": ("application/x-msgpack", b"\x91" * DEPTH + b"\x01", 413),
    "MessagePack that promises too much": ("application/x-msgpack", b"\xdd\xff\xff\xff\xff", 400),
    "a wrong type": ("application/json", b'{"n": "one"}', 422),
    "a number beyond 64 bits": ("application/json", b'{"n": 123456789012345678901234567890}', 400),
    "no object": ("application/json", b"[1, 2]", 422),
    "an unknown media type": ("application/x-nothing", b"\x00", 415),
    "no media type at all": ("nonsense", b'{"n": 1}', 415),
    "too many bytes": ("application/json", big(BODY_MAX), 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused_with_a_reason(server, name):
    content_type, content, status = BODIES[name]
    headers = {"Content-Type": content_type}
    answer = server.request("PUT", "/Counter/bad", content=content, headers=headers)
    assert "application/problem+json" == answer.headers["Content-Type"]
    assert (status, True) == (answer.status_code, bool(answer.json()["detail"])), answer.text
    assert 404 == server.request("GET", "/Counter/bad").status_code


def test_a_body_without_a_length_is_bounded_too(server):
    chunks = iter([big(BODY_MAX // 2)] * 3)
    assert 413 == server.request("PUT", "/Counter/bad", content=chunks).status_code


REQUESTS = {
    "a path that is not UTF-8": (b"GET /Counter/%FF HTTP/1.1", b"", 400),
    "a NUL in the path": (b"GET /Counter/%00 HTTP/1.1", b"", 400),
    "a broken query": (b"GET /Counter/?n=gt=gt=(( HTTP/1.1", b"", 400),
    "a limit that is no number": (b"GET /Dog/?limit(x) HTTP/1.1", b"", 400),
    "an Accept that nobody meets": (b"GET /Dog/ HTTP/1.1", b"Accept: image/gif", 406),
    "a cursor that is none": (
        b"GET /Dog/ HTTP/1.1",
        b"Accept: text/event-stream\r\nLast-Event-ID: nonsense",
        400,
    ),
    "a verb that is none": (b"BREW /Dog/1 HTTP/1.1", b"", 501),
    "a verb that is not offered": (b"PROPFIND /Dog/1 HTTP/1.1", b"", 405),
    "a wildcard as a record": (b"PUT /Dog/+ HTTP/1.1", b"Content-Length: 0", 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"", 400),
    "a header without a colon": (b"GET /Dog/ HTTP/1.1", b"nonsense", 400),
    "two lengths": (b"PUT /Dog/1 HTTP/1.1", b"Content-Length: 1\r\nContent-Length: 2", 400),
    "a length that is none": (b"PUT /Dog/1 HTTP/1.1", b"Content-Length: ten", 400),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_bad_request_is_refused(server, name):
    line, headers, status = REQUESTS[name]
    with open_socket(server.http_port) as connected:
        head = [line, b"Host: 127.0.0.1", b"Connection: close", *filter(None, [headers]), b"", b""]
        connected.sendall(b"\r\n".join(head))
        assert status == int(connected.makefile("rb").readline().split()[1])


# -- WebSocket -------------------------------------------------------------------------------------

FRAMES = {
    "text that is not UTF-8": (b"\x81\x82\0\0\0\0\xff\xff", 1007),
    "a frame without a mask": (b"\x81\x02{}", 1002),
    "an opcode that is none": (b"\x83\x80\0\0\0\0", 1002),
    "a reserved bit": (b"\xc1\x80\0\0\0\0", 1002),
    "a part of nothing": (b"\x80\x80\0\0\0\0", 1002),
    "a long ping": (b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126, 1002),
    "too many bytes": (b"\x81\xff" + (2**40).to_bytes(8, "big") + b"\0\0\0\0", 1009),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_bad_frame_closes_with_its_code(server, name):
    frame, code = FRAMES[name]
    with open_socket(server.http_port) as connected:
        connected.sendall(upgrade("/Counter/?start=new"))
        stream = connected.makefile("rb")
        while stream.readline().strip():  # the head of the answer
            pass
        connected.sendall(frame)
        while (first := stream.read(2))[0] != 0x88:  # other frames before the close
            stream.read(first[1] if first[1] < 126 else int.from_bytes(stream.read(2), "big"))
        assert code == int.from_bytes(stream.read(2), "big")


@pytest.mark.parametrize(
    "command",
    ["{", "[]", "1", '{"op": "nothing", "id": 1}', '{"op": "put", "id": 2}', DEEP.decode()],
    ids=["broken", "list", "number", "unknown", "incomplete", "deep"],
)
def test_a_bad_command_is_answered_and_the_connection_goes_on(server, command):
    with open_websocket(server, "/Counter/?start=new") as websocket:
        websocket.send(command)
        while "error" not in (answer := told(websocket).fields):
            pass
        assert answer["error"]["detail"]
        server.request("PUT", "/Counter/x", json={"n": 2})
        assert {"id": "x", "n": 2} == told(websocket).value


@pytest.mark.parametrize(
    "path", ["/Counter/?since=nonsense", "/Counter/?topic=a%2F%23%2Fb", "/Counter/%FF"]
)
def test_a_bad_address_of_a_websocket_is_refused(server, path):
    connecting = open_websocket(server, path)
    with pytest.raises(ConnectionClosed), connecting:
        told(connecting)
    assert (1007, True) == (connecting.close_code, bool(connecting.close_reason))


def test_mqtt_needs_its_subprotocol(server):
    """D3: `Sec-WebSocket-Protocol: mqtt` is required at /mqtt."""
    with pytest.raises(InvalidStatus, match="400"):
        open_websocket(server, "/mqtt")


# -- MQTT ------------------------------------------------------------------------------------------

PAYLOADS = {
    name: case[:2] for name, case in BODIES.items() if "bytes" not in name and case[2] < 500
}
ON_PUBLISH = {name: case for name, case in PAYLOADS.items() if len(case[1]) < PACKET_MAX}


@pytest.mark.parametrize("name", ON_PUBLISH)
def test_a_bad_payload_costs_no_session(server, name):
    """X5: the same words as over HTTP, in PUBACK."""
    content_type, content = ON_PUBLISH[name]
    with Mqtt(server.mqtt_port) as client:
        refused = client.publish("Counter/bad", content, properties={"content_type": content_type})
        accepted = client.publish("Counter/good", b'{"n": 1}')
    reason = 0x97 if "deep" in name else 0x99
    assert (reason, True) == (refused.reason, bool(refused.properties["reason_string"]))
    assert 0 == accepted.reason


PACKETS = {
    "a packet type that is none": (b"\x00\x00", 0x81),
    "a second CONNECT": (encode(Connect(MQTT_5, "again"), MQTT_5), 0x82),
    "a topic that is not UTF-8": (b"\x30\x05\x00\x02\xff\xff\x00", 0x81),
    "a topic with a wildcard": (b"\x30\x06\x00\x03a/#\x00", 0x90),
    "a length that never ends": (b"\x30\xff\xff\xff\xff\xff", 0x81),
    "too many bytes": (b"\x30\xff\xff\xff\x7f", 0x95),
    "QoS 3": (b"\x36\x05\x00\x01a\x00\x01", 0x81),
    "no filter": (b"\x82\x03\x00\x01\x00", 0x82),
    "a property that is none": (b"\x30\x05\x00\x01a\x01\x7f", 0x81),
    "properties longer than the packet": (b"\x30\x05\x00\x01a\x7f\x00", 0x81),
    "a packet identifier of zero": (b"\x32\x06\x00\x01a\x00\x00\x00", 0x81),
}
BEFORE_5 = [name for name in PACKETS if "propert" not in name]


@pytest.mark.parametrize("name", PACKETS)
def test_a_bad_packet_ends_with_its_reason(server, name):
    packet, reason = PACKETS[name]
    with Mqtt(server.mqtt_port) as client:
        client.socket.sendall(packet)
        answer = client.receive()
        assert (Disconnect, reason) == (type(answer), answer.reason)
        with pytest.raises(Closed):
            client.receive()


@pytest.mark.parametrize("name", BEFORE_5)
def test_a_bad_packet_before_mqtt_5_ends_without_a_word(server, name):
    packet, _ = PACKETS[name]
    with Mqtt(server.mqtt_port, MQTT_3_1_1, "c") as client:
        client.socket.sendall(packet)
        with pytest.raises(Closed):
            while True:
                client.receive()


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x10\x00", b"\xe0\x00"]
)
def test_what_does_not_begin_with_connect_is_closed(server, first):
    with open_socket(server.mqtt_port) as connected:
        connected.sendall(first)
        closed(connected)


def test_text_frames_are_no_mqtt(server):
    """MQTT-6.0.0-1."""
    with open_websocket(server, "/mqtt", subprotocols=["mqtt"]) as websocket:
        websocket.send("text")
        with pytest.raises(ConnectionClosed):
            websocket.recv()


def closed(connected):
    """Wait until the server has closed a socket."""
    while True:
        try:
            if not connected.recv(4096):
                return
        except ConnectionError:
            return


# -- slow, and not at all --------------------------------------------------------------------------


def test_a_client_that_never_says_connect_is_closed(server):
    with open_socket(server.mqtt_port) as connected:
        closed(connected)


def test_a_client_that_drips_is_closed(server):
    """The whole CONNECT has a time limit; `test_http_heads.py` shows it for HTTP."""
    data = iter(encode(Connect(MQTT_5, "x" * 10_000), MQTT_5))
    with open_socket(server.mqtt_port) as connected:

        def drip():
            try:
                connected.sendall(bytes((next(data),)))
            except ConnectionError:
                return True
            return select.select([connected], (), (), DRIP_SECONDS)[0]

        wait_until(drip, "the server closes what drips")
        closed(connected)


@pytest.mark.slow
@pytest.mark.parametrize("qos", [0, 1])
def test_a_subscriber_that_stops_reading_stops_nobody(server, qos):
    """C18, D22: the stopped one is read back to from the log when it goes on; nothing is lost."""
    count, pad = 400, "x" * 50_000
    with Mqtt(server.mqtt_port) as stopped, Events(server, "/Counter/s?start=new") as stream:
        stopped.subscribe("Counter/s", qos, retain_handling=2)
        with Mqtt(server.mqtt_port) as other, Mqtt(server.mqtt_port) as writer:
            other.subscribe("Counter/s", qos, retain_handling=2)
            for n in range(count):
                writer.publish("Counter/s", json.dumps({"n": n, "pad": pad}).encode())
                assert n == json.loads(other.message().payload)["n"]
        expected = list(range(count))
        assert expected == [json.loads(stopped.message().payload)["n"] for _ in expected]
        assert expected == [stream_value(stream) for _ in expected]


def stream_value(stream):
    """Return the value of the next change."""
    return wait_until(lambda: (e := stream.next()).kind == "put" and e, "a change").value["n"]


@pytest.mark.slow
def test_a_flood_without_reading_the_answers_is_slowed_not_kept(server):
    """A client that sends and never reads: the server stops reading it, and holds little of it."""
    publish = encode(Publish("open/flood", b"x" * 60_000, 1, False, False, 1), MQTT_5)
    with Mqtt(server.mqtt_port) as client:
        client.socket.settimeout(STALL_SECONDS)
        try:
            for _ in range(FLOOD_BYTES // len(publish)):
                client.socket.sendall(publish)
        except (TimeoutError, ConnectionError):
            pass
        cut(client.socket)


@pytest.mark.parametrize("door", ["http", "mqtt"])
def test_half_closed_connections_end(server, door):
    port = server.http_port if door == "http" else server.mqtt_port
    with open_socket(port) as connected:
        connected.sendall(b"\x10")
        connected.shutdown(socket.SHUT_WR)
        closed(connected)
