"""The whole program behind TLS: MQTT, HTTPS, SSE and both kinds of WebSocket (D2-D5, L3).

It runs in the test's own loop, so its connections and tasks can be counted; clients that block run
in threads.
"""

import asyncio
import json
import logging
import ssl
import subprocess
from contextlib import suppress

import httpx
import paho.mqtt.client as paho
import pytest
from secured import SECURE, Talker, secured
from websockets.asyncio.client import connect

from house import ROOT
from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Connect, Publish, Subscribe, Subscription
from securing import Authority, RawTls, shake
from serving import application

LISTS = "tls.certificateRevocationList"


# -- every door ------------------------------------------------------------------------------------


async def test_one_record_on_every_secure_door(tmp_path):
    """D2, D3: written over MQTT, heard over SSE and WebSocket, read over HTTPS."""
    async with secured(tmp_path) as server:
        trust = server.authority.client()
        url = f"https://localhost:{server.https}"
        async with (
            httpx.AsyncClient(base_url=url, verify=trust, trust_env=False) as http,
            http.stream("GET", "/Dog/", headers={"Accept": "text/event-stream"}) as events,
            connect(f"wss://localhost:{server.https}/Dog/", ssl=trust, proxy=None) as websocket,
        ):
            client = await server.mqtt()
            client.send(Publish("Dog/1", b'{"name": "Rex"}', 1, True, False, 7))
            assert 7 == (await client.hear()).packet_id
            assert "Rex" == (await http.get("/Dog/1")).json()["name"]
            async for line in events.aiter_lines():
                if "Rex" in line:
                    break
            while "Rex" not in str(await websocket.recv()):
                pass
            await client.close()


async def test_a_session_says_that_it_came_by_tls(tmp_path):
    """D10: its transport, in $SYS/sessions."""
    async with secured(tmp_path) as server:
        client = await server.mqtt(client_id="seen")
        row = await server.program.kernel.resource("$SYS/sessions/seen", SERVER).get()
        assert "tls" == row["transport"]
        await client.close()


async def test_mqtt_over_secure_websocket(tmp_path):
    """D3."""
    async with secured(tmp_path) as server:
        url = f"wss://localhost:{server.https}/mqtt"
        trust = server.authority.client()
        async with connect(url, ssl=trust, subprotocols=["mqtt"], proxy=None) as websocket:
            decoder = Connection("client", version=MQTT_5)
            await websocket.send(encode(Connect(MQTT_5, "c"), MQTT_5))
            (connack,) = decoder.receive(await websocket.recv())
            assert 0 == connack.reason


def with_paho(server, transport):
    """Publish to a subscription of one's own; return what came."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, transport=transport)
    client.tls_set_context(server.authority.client())
    came = []

    def on_connect(client, *_):
        client.subscribe("a/#", 1)

    def on_subscribe(client, *_):
        client.publish("a/b", b"hello", 1)

    def on_message(client, _, message):
        came.append((message.topic, message.payload))
        client.disconnect()

    client.on_connect, client.on_subscribe, client.on_message = (
        on_connect,
        on_subscribe,
        on_message,
    )
    client.connect("localhost", server.mqtts if transport == "tcp" else server.https)
    client.loop_forever()
    return came


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
async def test_paho(tmp_path, transport):
    """D2, D3, D48."""
    async with secured(tmp_path) as server:
        came = await asyncio.to_thread(with_paho, server, transport)
    assert [("a/b", b"hello")] == came


async def test_mqtt_byte_by_byte(tmp_path):
    """D4: each byte of TLS in a packet of its own, packets of MQTT cut anywhere."""
    async with secured(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.mqtts)
        raw = RawTls(server.authority.client())
        await shake(reader, writer, raw)
        said = (
            Connect(MQTT_5, "c"),
            Subscribe(1, (Subscription("a", 1),)),
            Publish("a", b"hello", 1, False, False, 2),
        )
        for byte in b"".join(encode(packet, MQTT_5) for packet in said):
            for part in raw.seal(bytes((byte,))):
                writer.write(bytes((part,)))
            await asyncio.sleep(0)
        decoder, heard = Connection("client", version=MQTT_5), []
        while len(heard) < 4:
            heard += decoder.receive(raw.open(await reader.read(65_536)))
        assert b"hello" in [getattr(packet, "payload", None) for packet in heard]
        writer.close()
        await writer.wait_closed()


async def test_a_slow_reader_over_tls_loses_nothing(tmp_path):
    """D22: the buffers of TLS are part of what is bounded."""
    async with secured(tmp_path) as server:
        slow = await server.mqtt(client_id="slow")
        slow.send(Subscribe(1, (Subscription("my-resource/#", 0),)))
        await slow.hear()
        slow.reader._transport.pause_reading()
        writer = await server.mqtt(client_id="writer")
        count, body = 100, json.dumps({"x": "y" * 100_000}).encode()
        for number in range(1, count + 1):
            writer.send(Publish(f"my-resource/{number}", body, 1, True, False, number))
        for _ in range(count):
            await writer.hear()
        slow.reader._transport.resume_reading()
        heard = [(await slow.hear()).topic for _ in range(count)]
        assert [f"my-resource/{number}" for number in range(1, count + 1)] == heard
        await slow.close()
        await writer.close()


# -- certificates of clients -----------------------------------------------------------------------


async def test_the_user_is_the_one_of_the_certificate(tmp_path):
    """L3."""
    async with secured(tmp_path, **{"mqtt.mTLS": "true"}) as server:
        shown = server.authority.issue("x", common_name="ann")
        client = await server.mqtt(server.authority.client(shown))
        (connected,) = server.program.broker.clients
        assert "ann" == connected.caller.user
        await client.close()


async def test_without_one_a_client_is_who_it_was(tmp_path):
    """L3: a certificate is not required unless it is said so."""
    async with secured(tmp_path, **{"mqtt.mTLS": "true"}) as server:
        client = await server.mqtt()
        (connected,) = server.program.broker.clients
        assert "anonymous" == connected.caller.user
        await client.close()


REFUSED = {
    "none": lambda server, other: None,
    "of another authority": lambda server, other: other.issue("x", common_name="ann"),
    "expired": lambda server, other: server.authority.expired("x", common_name="ann"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_certificate_that_is_required_and_not_good(tmp_path, kind):
    """L3, Bad input: refused before MQTT begins; the server goes on."""
    async with secured(tmp_path, **{"mqtt.mTLS.required": "true"}) as server:
        shown = REFUSED[kind](server, Authority(tmp_path, "other"))
        with pytest.raises((OSError, AssertionError)):
            await server.mqtt(server.authority.client(shown))
        good = server.authority.issue("x", common_name="ann")
        client = await server.mqtt(server.authority.client(good))
        await client.close()


async def test_https_asks_nobody_for_a_certificate(tmp_path):
    """L3: browsers would ask their user for one."""
    async with secured(tmp_path, **{"mqtt.mTLS.required": "true"}) as server:
        trust = server.authority.client()
        async with httpx.AsyncClient(verify=trust, trust_env=False) as http:
            answer = await http.get(f"https://localhost:{server.https}/health")
        assert 200 == answer.status_code


async def test_l4_who_is_here_with_a_certificate_that_is_taken_back_is_ended(tmp_path):
    """Without a restart; others go on, and whoever has the key now does not come back."""
    lists = tmp_path / "lists.pem"
    given = {"mqtt.mTLS.required": "true", LISTS: lists}
    lists.write_bytes(Authority(tmp_path, "before").revoked())
    async with secured(tmp_path, **given) as server:
        authority = server.authority
        ann, ben = (authority.issue(name, common_name=name) for name in ("ann", "ben"))
        lists.write_bytes(authority.revoked())
        certificates = server.program.doors.certificates
        certificates.renew()
        first = await server.mqtt(authority.client(ann), "ann")
        other = await server.mqtt(authority.client(ben), "ben")
        lists.write_bytes(authority.revoked(ann))
        certificates.look_now()
        ended = await first.hear()
        assert (0x87, True) == (ended.reason, "taken back" in ended.properties["reason_string"])
        with pytest.raises((OSError, AssertionError)):
            await server.mqtt(authority.client(ann), "ann")
        other.send(Publish("Dog/1", b'{"name": "Rex"}', 1, True, False, 7))
        assert 7 == (await other.hear()).packet_id
        for client in (first, other):
            await client.close()


# -- renewal ---------------------------------------------------------------------------------------


def presented(client):
    """Return the common name of the certificate that a client saw."""
    subject = client.writer.get_extra_info("peercert")["subject"]
    return dict(pair for part in subject for pair in part)["commonName"]


async def test_renewal_under_traffic(tmp_path):
    """New connections see the new certificate; who is connected hears everything."""
    async with secured(tmp_path) as server:
        old = await server.mqtt(client_id="old")
        old.send(Subscribe(1, (Subscription("Counter/#", 0),)))
        await old.hear()
        assert "first" == presented(old)
        fresh = server.authority.issue("localhost", common_name="second")
        for number in range(1, 51):
            old.send(Publish("Counter/1", b'{"n": %d}' % number, 0, True))
            if number == 25:
                server.files.write(fresh)
                server.program.doors.certificates.renew()
                new = await server.mqtt(client_id="new")
        heard = [json.loads((await old.hear()).payload)["n"] for _ in range(50)]
        assert ("second", list(range(1, 51))) == (presented(new), heard)
        await old.close()
        await new.close()


async def test_a_broken_renewal_changes_nothing(tmp_path, caplog):
    async with secured(tmp_path) as server:
        server.files.certificate.write_text("nothing")
        server.program.doors.certificates.renew()
        client = await server.mqtt()
        assert "first" == presented(client)
        await client.close()
    assert "certificates stay as they were: tls.certificate: " in caplog.text


async def test_an_authority_that_is_replaced(tmp_path):
    """L3: clients of the new one come in, those of the old one no more."""
    async with secured(tmp_path, **{"mqtt.mTLS.required": "true"}) as server:
        before = server.authority.client(server.authority.issue("x", common_name="ann"))
        client = await server.mqtt(before)
        other = Authority(tmp_path, "other")
        shown = server.authority.client(other.issue("x", common_name="bob"))
        server.authority.file.write_bytes(other.file.read_bytes())
        server.program.doors.certificates.renew()
        with pytest.raises((OSError, AssertionError)):
            await server.mqtt(before, "again")
        newcomer = await server.mqtt(shown, "newcomer")
        client.send(Subscribe(1, (Subscription("a"),)))
        assert 1 == (await client.hear()).packet_id  # who is connected stays
        await client.close()
        await newcomer.close()


# -- what is left ----------------------------------------------------------------------------------


async def test_a_hundred_aborted_handshakes_leave_nothing(tmp_path):
    """C26, D5: on both secure ports, in the middle of a handshake or right after it."""
    async with secured(tmp_path) as server:
        tasks = len(asyncio.all_tasks())
        for number in range(100):
            port = server.mqtts if number % 2 else server.https
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            raw = RawTls(server.authority.client())
            if number % 4 < 2:
                writer.write(raw.begin()[: number * 5])
                await asyncio.sleep(0)
            else:
                await shake(reader, writer, raw)
                writer.write(raw.seal(encode(Connect(MQTT_5, ""), MQTT_5)[:number]))
            writer.transport.abort()
        await server.settled(tasks)


async def test_stopping_leaves_no_task(tmp_path):
    """D5: clients at every point of their connections; the program ends, and nothing is left."""
    before = asyncio.all_tasks()
    async with secured(tmp_path) as server:
        ends = [await asyncio.open_connection("127.0.0.1", server.mqtts) for _ in range(2)]
        ends += [await asyncio.open_connection("127.0.0.1", server.https)]
        ends[0][1].write(RawTls(server.authority.client()).begin()[:100])
        client = await server.mqtt()
    assert 0x8B == (await client.hear()).reason
    for _, writer in [*ends, (client.reader, client.writer)]:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    assert before == asyncio.all_tasks()


async def test_plain_mqtt_on_the_secure_port(tmp_path, caplog):
    """A line in the log, no stack trace; the server goes on."""
    caplog.set_level(logging.INFO)
    async with secured(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.mqtts)
        writer.write(encode(Connect(MQTT_5, "c"), MQTT_5))
        with suppress(ConnectionError):
            assert b"" == await reader.read()
        writer.close()
        client = await server.mqtt()
        await client.close()
    assert "MQTT over TLS: the TLS handshake with 127.0.0.1 failed: it does not speak TLS" in (
        caplog.text
    )
    assert "Traceback" not in caplog.text


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls.privateKey": "x"}, "tls.privateKey is for secure ports: set tls.certificate too"),
        ({LISTS: "x"}, f"{LISTS} is for secure ports: set tls.certificate too"),
        ({"tls.certificate": "x", LISTS: "x"}, f"{LISTS} is about certificates of clients: set"),
        ({"mqtt.mTLS": "yes"}, "mqtt.mTLS is for secure ports: set tls.certificate too"),
        ({"tls.certificate": "x", "mqtt.mTLS": "yes"}, "mqtt.mTLS needs tls.certificateAuthority"),
        ({"tls.certificate": "absent.pem"}, "tls.certificate: absent.pem: cannot be read"),
    ],
)
async def test_settings_that_do_not_belong_together(tmp_path, settings, said):
    with pytest.raises(Error) as caught:
        async with application(tmp_path, settings=SECURE | settings):
            pass
    assert caught.value.message.startswith(said)


async def test_ports_without_tls_may_be_closed(tmp_path):
    closed = {"http.port": "off", "mqtt.network.port": "off"}
    async with secured(tmp_path, **closed) as server:
        assert (None, None) == (server.program.http_port, server.program.mqtt_port)
        client = await server.mqtt()
        await client.close()


async def test_a_secure_port_asked_for_without_a_certificate_is_told(tmp_path, caplog):
    async with application(tmp_path, settings=SECURE | {"mqtt.network.securePort": 8883}):
        pass
    assert "mqtt.network.securePort stays closed: set tls.certificate" in caplog.text


def manual_block(language):
    """Return the block of docs/access.md's section about TLS."""
    section = (ROOT / "docs/access.md").read_text().partition("\n## TLS\n")[2]
    return section.partition(f"```{language}\n")[2].partition("```")[0]


async def test_the_commands_of_the_manual_work(tmp_path, monkeypatch):
    """O18: as typed, then the settings as they stand there."""
    monkeypatch.chdir(tmp_path)
    typed = manual_block("sh")
    assert typed.startswith("mkdir -p tls\nopenssl ")
    await asyncio.to_thread(subprocess.run, ["sh", "-ec", typed], check=True, capture_output=True)
    settings = {
        "tls.certificate": "tls/server.pem",
        "tls.privateKey": "tls/server.key",
        "tls.certificateAuthority": "tls/ca.pem",
        "mqtt.mTLS": "true",
    }
    assert set(settings) == {
        f"{section}.{line.split(':')[0].strip()}"
        for section in ("tls", "mqtt")
        for line in manual_block("yaml")
        .partition(f"{section}:\n")[2]
        .split("\nmqtt:")[0]
        .split("\n")
        if line.startswith(" ") and (section == "mqtt") == ("mTLS" in line)
    }
    async with application(tmp_path, settings=SECURE | settings) as program:
        context = ssl.create_default_context(cafile="tls/ca.pem")
        context.load_cert_chain("tls/ann.pem", "tls/ann.key")
        reader, writer = await asyncio.open_connection(
            "localhost", program.doors.mqtts_port, ssl=context
        )
        client = Talker(reader, writer)
        client.send(Connect(MQTT_5, "c"))
        await client.hear()
        await client.close()
