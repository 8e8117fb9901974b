"""One record, every door: all clients see the same events, byte for byte, under the same cursors.

A table is declared; mosquitto_pub writes, curl reads; Server-Sent Events, WebSocket and MQTT 5 in
three formats watch; HTTP writes and mosquitto_sub hears it (M1, D47, D48).
"""

import json

import cbor2
import msgpack
import pytest
from clients import needs, run, running

from serving import wait_until
from talking import Events, Mqtt, open_websocket, told, user_properties

pytestmark = [pytest.mark.interop, needs("mosquitto_pub"), needs("mosquitto_sub"), needs("curl")]

TOPIC = "Dog/1"
VALUES = [{"name": "Rex", "age": number} for number in range(5)]
CBOR, MSGPACK = "application/cbor", "application/x-msgpack"
DECODE = {CBOR: cbor2.loads, MSGPACK: msgpack.unpackb}


def test_the_whole_story(server):
    wide = Events(server, f"/{TOPIC}?start=new"), open_websocket(server, f"/{TOPIC}?start=new")
    with wide[0] as events, wide[1] as socket, Mqtt(server.mqtt_port) as plain:
        plain.subscribe(TOPIC)
        binaries = {media_type: subscribed(server, media_type) for media_type in DECODE}
        heard = ("mosquitto_sub", "-h", "127.0.0.1", "-p", server.mqtt_port, "-t", TOPIC, "-q", 1)
        with running(*heard, "-d", "-F", "=%p") as listener:
            wait_until(
                lambda: listener.line().startswith(b"Subscribed"), "mosquitto_sub subscribes"
            )
            payloads = [write(server, number, value) for number, value in enumerate(VALUES)]
            heard_outside = [line_of(listener) for _ in VALUES]
        cursors = cursors_of(events, socket, plain, payloads)
        for media_type, client in binaries.items():
            with client:
                messages = [client.message() for _ in VALUES]
            assert cursors == [user_properties(message)["seq"] for message in messages]
            assert payloads == [as_json(DECODE[media_type](m.payload)) for m in messages]
    assert payloads == heard_outside
    answer = server.request("GET", f"/{TOPIC}")
    assert (payloads[-1], f'"{cursors[-1]}"') == (answer.content, answer.headers["ETag"])


def subscribed(server, media_type):
    """Return an MQTT 5 client that wants a format."""
    client = Mqtt(server.mqtt_port)
    client.subscribe(TOPIC, properties={"user_property": (("accept", media_type),)})
    return client


def write(server, number, value):
    """Write a value through one of the doors; return what curl then reads."""
    if number % 2:
        server.request("PUT", f"/{TOPIC}", json=value)
    else:
        to = ("-h", "127.0.0.1", "-p", server.mqtt_port, "-V", "mqttv5")
        run("mosquitto_pub", *to, "-t", TOPIC, "-q", 1, "-r", "-m", json.dumps(value))
    return run("curl", "-sS", f"{server.url}/{TOPIC}")


def line_of(listener):
    """Return the next payload that mosquitto_sub heard."""
    return wait_until(lambda: (line := listener.line())[:1] == b"=" and line[1:], "a message")


def cursors_of(events, socket, plain, payloads):
    """Return the cursors that all three streams tell, of the same bytes."""
    streams = [puts(events.next, len(payloads)), puts(lambda: told(socket), len(payloads))]
    messages = [plain.message() for _ in payloads]
    cursors = [user_properties(message)["seq"] for message in messages]
    assert payloads == [message.payload for message in messages]
    for stream in streams:
        assert cursors == [event.fields["cursor"] for event in stream]
        for payload, event in zip(payloads, stream, strict=True):
            assert f'"value":{payload.decode()}' in event.text
    assert cursors == [event.id for event in streams[0]]
    return cursors


def puts(next_event, count):
    """Return the next changes of a stream, without the marks before them."""
    heard = []
    while len(heard) < count:
        if (event := next_event()).kind == "put":
            heard.append(event)
    return heard


def as_json(value):
    """Return a value in the server's own spelling."""
    return json.dumps(value, separators=(",", ":")).encode()
