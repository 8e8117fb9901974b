"""What single parts of the server count, as rows below ``$SYS`` (F33, G22, D56, D36)."""

import asyncio

import pytest

from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Pingreq, Puback, Publish
from rowcast.net.handshake import Handshakes
from rowcast.program.listener_rows import listener_facts
from rowcast.schema.read import parse_schema
from serving import PATIENCE_SECONDS, Server, application, wait_until
from talking import Mqtt

SLEEPY = "$SYS/slow_subscriptions/sleepy/nap/1"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {
        "mqtt.flapping.max_disconnects": 2,
        "hooks.log": "publishes",
        "slow_subscriptions.threshold_ms": 1,
    }
    with Server(tmp_path_factory.mktemp("figures"), settings=settings) as running:
        yield running


def rows(server, path):
    """Return the rows at a path."""
    return server.request("GET", f"/$SYS/{path}").json()


def test_what_passed_over_a_connection(server):
    """F33: messages and bytes both ways, what waits, when it was heard last."""
    with Mqtt(server.mqtt_port, 4, client_id="busy") as client:
        client.subscribe("own")
        client.publish("own", b"12345")
        client.receive()
        row = rows(server, "clients/busy")
        listed = rows(server, "clients/?messages_in=gt=0&select(client_id)")
    assert (1, 1, 5, 5) == tuple(
        row[name]
        for name in ("messages_in", "messages_out", "payload_bytes_in", "payload_bytes_out")
    )
    assert row["bytes_in"] > 5 < row["bytes_out"]
    assert (0, True) == (row["queued"], row["connected"])
    assert row["last_seen"].endswith("Z")
    assert "busy" in listed
    assert 404 == server.request("GET", "/$SYS/clients/nobody").status_code


def test_who_a_client_is_and_from_where(server):
    """F33: user, address, transport, version, since when: what a list of clients is asked for."""
    with Mqtt(server.mqtt_port, 5, client_id="who") as client:
        client.subscribe("own")
        client.subscribe("$share/some/others")
        row = rows(server, "clients/who")
        same = rows(server, "sessions/who")
        listed = rows(server, "clients/?transport==tcp&version==5&select(client_id)")
    names = ("user", "peer", "transport", "version", "connected_at", "created", "door")
    assert [same[name] for name in names] == [row[name] for name in names]
    assert ("anonymous", "127.0.0.1", "tcp", 5, "mqtt") == tuple(
        row[name] for name in ("user", "peer", "transport", "version", "door")
    )
    assert (2, None) == (row["subscription_count"], row["disconnected_at"])
    assert "who" in listed


def test_a_session_whose_client_is_away_is_a_row_too(server):
    """F33: what waits for it is told as its lag."""
    lasting = {"session_expiry_interval": 600}
    with Mqtt(server.mqtt_port, client_id="away", properties=lasting) as client:
        client.subscribe("kept/#")
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    row = wait_until(
        lambda: (found := rows(server, "clients/away"))["connected"] is False and found,
        "the client is gone",
    )
    assert row["lag"] > 0
    assert row["disconnected_at"] > row["created"]
    assert not {"bytes_in", "peer"} & row.keys()


def test_a_slow_client_is_listed_counted_and_forgotten(server):
    """O7: as a row, and in the metrics; an administrator clears the list."""
    with Mqtt(server.mqtt_port, client_id="sleepy") as client:
        client.subscribe("nap/#")
        client.publish("nap/1", b"")
        message = client.receive()
        assert 404 == server.request("GET", "/$SYS/slow_subscriptions/x/y").status_code  # it waits
        client.send(Puback(message.packet_id))
        row = wait_until(
            lambda: (found := server.request("GET", f"/{SLEEPY}")).is_success and found.json(),
            "it was slow",
        )
    assert ("nap/#", 1, True) == (row["filter"], row["qos"], row["latency_ms"] >= 1)
    assert row in rows(server, "slow_subscriptions/?client_id==sleepy")
    told = server.request("GET", "/metrics").text
    assert "broker_subscriptions_slow 0" not in told
    assert "broker_publish_messages_slow 0" not in told
    assert 204 == server.request("DELETE", f"/{SLEEPY}").status_code
    assert 404 == server.request("DELETE", f"/{SLEEPY}").status_code


def test_hooks_and_what_they_cost(server):
    """G22."""
    with Mqtt(server.mqtt_port, client_id="logged") as client:
        client.publish("a", b"")
    found = rows(server, "hooks/")
    assert [True] == [row["calls"] > 0 for row in found if "logger" in row["id"].lower()]
    assert {0} == {row["failures"] for row in found}


def test_who_is_refused(server):
    """D56: a client id that is banned, why, for how long, and how often."""
    for _ in range(2):
        Mqtt(server.mqtt_port, client_id="flapping").cut()
    (ban,) = wait_until(
        lambda: [row for row in rows(server, "guard/") if row["kind"] == "ban of a client"],
        "it is banned",
    )
    assert ("flapping", True) == (ban["name"], ban["seconds_left"] > 0)
    Mqtt(server.mqtt_port, client_id="flapping").cut()
    assert 1 == server.request("GET", "/$SYS/guard/refused/banned").json()["count"]
    assert 1 == server.request("GET", "/$SYS/guard/bans").json()["count"]
    named = {row["name"]: row["count"] for row in rows(server, "guard/") if "count" in row}
    assert (1, 1, 0) == (named["banned"], named["bans"], named["throttled"])


def test_shared_subscriptions(server):
    """D36: who is in a group, and what is in their hands."""
    with (
        Mqtt(server.mqtt_port, client_id="one") as one,
        Mqtt(server.mqtt_port, client_id="two") as two,
    ):
        one.subscribe("$share/workers/jobs/#")
        two.subscribe("$share/workers/jobs/#")
        (row,) = rows(server, "shared/")
        same = server.request("GET", "/$SYS/shared/$share/workers/jobs/%2523").json()
    assert ("workers", "jobs/#", 2, 2) == tuple(
        row[name] for name in ("name", "filter", "members", "connected")
    )
    assert row.keys() == same.keys()


def test_open_ports(server):
    found = {row["port"]: row["tls"] for row in rows(server, "listeners/")}
    assert {server.http_port: False, server.mqtt_port: False} == found


class Doors:
    """One port with TLS."""

    def __init__(self, shaking):
        self.open = {"MQTT over TLS": ("127.0.0.1", 0)}
        self.handshakes = {"MQTT over TLS": shaking}


async def test_handshakes_are_counted_by_how_they_ended():
    """L3: done, failed, refused, under way."""
    shaking = Handshakes("MQTT over TLS", lambda: None, asyncio.Protocol)
    shaking.done = 3
    shaking.fail("127.0.0.1", "it does not speak TLS")
    row = listener_facts(Doors(shaking))["MQTT over TLS"]
    names = ("tls", "handshakes_done", "handshakes_failed", "handshakes_refused")
    assert (True, 3, 1, 0) == tuple(row[name] for name in names)


def test_nobody_writes_them(server):
    assert server.request("PUT", "/$SYS/clients/x", json={}).status_code in {403, 405}
    assert server.request("DELETE", "/$SYS/hooks/1").status_code in {403, 405}


def test_their_operations_have_names_of_their_own(server):
    paths = server.request("GET", "/openapi.json").json()["paths"]
    names = [
        operation["operationId"]
        for path in paths.values()
        for method, operation in path.items()
        if "parameters" != method
    ]
    assert len(set(names)) == len(names)
    assert {"getClientsRows", "getGuardRows", "getHooksRows", "getListenersRows"} <= set(names)


def test_the_busiest_topics_first(server):
    """F28: whichever door the messages came by."""
    with Mqtt(server.mqtt_port, client_id="meter") as client:
        for _ in range(20):
            client.publish("busy/most", b"12345")
    server.request("PUT", "/busy/once", content=b"1")
    first, *_ = rows(server, "topics/?topic=sw=busy/&sort(-messages)")
    assert ("busy/most", 20, 100, "meter") == tuple(
        first[name] for name in ("topic", "messages", "bytes", "last_publisher")
    )
    assert first["rate"] > 0
    assert "busy/once" in [row["topic"] for row in rows(server, "topics/?sort(-rate)")]


@pytest.mark.slow
async def test_messages_that_no_table_keeps_are_sampled(tmp_path, monkeypatch):
    """F28: where undeclared topics are only routed, one of each read stands for all in it."""
    monkeypatch.setattr("rowcast.features.topic_statistics.topic_stats.random", lambda: 0.5)
    async with application(tmp_path, settings={"topics.undeclared": "route"}) as app:
        reader, writer = await asyncio.open_connection("127.0.0.1", app.mqtt_port)
        async with asyncio.timeout(PATIENCE_SECONDS):
            writer.write(encode(Connect(4, "sampled"), 4))
            await reader.readexactly(4)
            writer.write(encode(Publish("a/b", b"123"), 4) * 100 + encode(Pingreq(), 4))
            await reader.readexactly(2)
        row = app.kernel.topic_facts[0].row("a/b")
        writer.close()
        await writer.wait_closed()
    assert 100 <= row["messages"] <= 101
    assert "sampled" == row["last_publisher"]


def test_a_schema_is_proposed_for_topics_that_nobody_declared(server):
    """F34: from the log, as a text that the server itself would read."""
    for number in range(30):
        server.request("PUT", f"/learnt/{number}", json={"t": number / 2, "ok": True})
    found = rows(server, "proposal")
    (table,) = [item for item in found["tables"] if item["path"] == "learnt"]
    assert (30, 30, "Learnt") == (table["messages"], table["accepted"], table["name"])
    assert (
        'type Learnt @table @export(name: "learnt") {\n  t: Float!  # 0 to 14.5' in found["schema"]
    )
    assert parse_schema(found["schema"]).table("Learnt") is not None
