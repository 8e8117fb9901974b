"""Rows of $SYS/conflicts: what is in them, how long they stay, and who may read them (K3)."""

import json
from types import SimpleNamespace

import pytest
from simulated_sites import Site

from build import ANN, Server, refusal
from mqtt_server import MqttServer
from rightful import Rightful
from rowcast.codecs import CBOR, JSON, encode
from rowcast.core.callers import NONE, SERVER, Caller, Grants
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.sites.conflict_rows import PATH
from rowcast.features.sites.conflicts import MEMBERS, OWNER, VALUE_BYTES_MAX
from rowcast.features.sites.feature import Sites
from rowcast.writes.known_versions import put_seen, seen_by
from rowcast.writes.last_write_wins import put_stamp

HERE = "0000000a"
THERE = "0000000b"


async def lose(site, topic, payload=b"{}", *, kind=PUT, content_type=None, before=1_000_000):
    """Let a write of another site come that was made before one here; return its version."""
    here = await Server.put(site.server, topic)
    event = Event(topic, kind, payload, content_type, 1, True)
    version = here.event.version - before
    put_stamp(event, str(version), THERE)
    put_seen(event, "{}")
    receipt = await site.kernel.write(event, ANN)
    assert receipt.late
    return version


async def read(site, name="", caller=ANN):
    return await site.kernel.resource(f"{PATH}/{name}", caller).get()


async def test_a_client_that_says_it_has_seen_what_is_to_come_hides_no_conflict():
    """K3: later writes take over what it names, so only what is older than its own write counts."""
    site = Site(HERE)
    first = await Server.put(site.server, "Dog/1")
    forged = Event("Dog/1", PUT, b"{}", None, 1, True)
    put_stamp(forged, str(first.event.version + 1), "anybody")
    put_seen(forged, json.dumps({THERE: (1 << 53) - 1, HERE: first.event.version}))
    await site.kernel.write(forged, ANN)
    site.server.time += 10
    version = await lose(site, "Dog/1")
    assert [f"{version}@{THERE}/Dog/1"] == site.conflicts.names
    assert {HERE: first.event.version} == seen_by(forged.properties)


async def test_a_row_says_who_lost_against_whom():
    """K3, K5."""
    site = Site(HERE)
    version = await lose(site, "Dog/1", b'{"name":"Rex"}')
    (row,) = await read(site)
    assert row == await read(site, f"{version}@{THERE}/Dog/1")
    assert ("Dog/1", version, THERE, HERE) == (
        row["topic"], row["version"], row["origin"], row["winner_origin"]
    )  # fmt: skip
    assert row["winner_version"] == version + 1_000_000
    assert ({"id": "1", "name": "Rex"}, "value") == (row["value"], row["value_encoding"])
    assert (False, False) == (row["deleted"], row["winner_deleted"])
    assert "2023-11-14T22:13:19.000Z" == row["written_at"]
    assert row.keys() == set(MEMBERS) - {"id"}


@pytest.mark.parametrize(
    ("topic", "payload", "content_type", "value", "encoding"),
    [
        ("u/1", b"text", "text/plain", "text", "text"),
        ("u/1", b"\xff\x00", None, "/wA=", "base64"),
        ("u/1", encode({"a": 1}, CBOR), CBOR, {"a": 1}, "value"),
        (
            "u/1",
            b'"%s"' % (b"x" * VALUE_BYTES_MAX),
            JSON,
            '"' + "x" * (VALUE_BYTES_MAX - 1),
            "text",
        ),
    ],
    ids=["text", "bytes", "CBOR", "large"],
)
async def test_a_value_is_told_as_what_it_is(topic, payload, content_type, value, encoding):
    """K3: at most 16 KiB of it."""
    site = Site(HERE)
    await lose(site, topic, payload, content_type=content_type)
    (row,) = await read(site)
    assert (value, encoding, len(payload)) == (row["value"], row["value_encoding"], row["bytes"])


async def test_a_deletion_can_lose():
    site = Site(HERE)
    await lose(site, "u/1", b"", kind=DELETE)
    (row,) = await read(site)
    assert (True, None, 0) == (row["deleted"], row["value"], row["bytes"])


async def test_the_newest_are_kept_and_survive_a_restart():
    """K3: so many, here and in the store."""
    site = Site(HERE, conflicts_max=3)
    versions = [await lose(site, f"u/{number}") for number in range(5)]
    names = [f"{version}@{THERE}/u/{number}" for number, version in enumerate(versions)]
    assert names[2:] == site.conflicts.names
    figures = site.kernel.figures
    assert (3, 5) == (figures["conflicts/count"](), figures["conflicts/seen"]())
    await site.server.committer.settle()
    facts = site.server.store.states(OWNER)
    assert set(names[2:]) == {name for _, name, _ in facts}
    other = Site(HERE, conflicts_max=2)
    other.conflicts.restore(facts)
    assert names[3:] == other.conflicts.names
    assert site.conflicts.row(names[4]) == other.conflicts.row(names[4])


async def test_the_same_loser_again_is_one_row():
    site = Site(HERE)
    version = await lose(site, "u/1")
    event = Event("u/1", PUT, b"{}", None, 1, True)
    put_stamp(event, str(version), THERE)
    put_seen(event, "{}")
    await site.kernel.write(event, ANN)
    assert 1 == len(await read(site))


async def test_a_write_that_is_not_stored_is_no_row():
    """K3: what the disk refuses has not happened."""

    def refuse(_what):
        raise OSError("the disk is full")

    site = Site(HERE)
    here = await site.server.put("u/1")
    site.server.store.fault = refuse
    event = Event("u/1", PUT, b"{}", None, 1, True)
    put_stamp(event, str(here.event.version - 1), THERE)
    put_seen(event, "{}")
    assert await refusal(site.kernel.write(event, ANN)) is not None
    site.server.store.fault = None
    assert [] == await read(site)


@pytest.mark.parametrize("topic", ["other/1", "Dog/1"])
async def test_topics_that_are_not_synced_have_no_rows(topic):
    site = Site(HERE, synced=["u/#"])
    await lose(site, topic)
    assert [] == await read(site)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":"1"}', '{"a":0}', '{"a":true}', '{"a":1e9}',
                                  '{"%s":1}' % ("x" * 65), "[" * 20_000])  # fmt: skip
async def test_what_is_no_vector_is_refused(text):
    """K3: it comes from elsewhere, and is stored with the record."""
    with pytest.raises(Exception, match="is no version vector; expected"):
        put_seen(Event("u/1", PUT, b""), text)


async def test_a_vector_has_at_most_sixteen_origins():
    """K3: the newest; what is left out counts as not seen."""
    event = Event("u/1", PUT, b"", version=50)
    put_seen(event, json.dumps({str(number): number for number in range(1, 41)}))
    kept = event.properties["seen"]
    assert ('"40":40' in kept, '"24":24' in kept, 16) == (True, False, kept.count(":"))


# -- rights ----------------------------------------------------------------------------------------


async def test_an_administrator_forgets_a_row():
    site = Site(HERE)
    version = await lose(site, "u/1")
    await lose(site, "u/2")
    writer = Caller("wil", Grants(read=True, write=True), "http")
    name = f"{PATH}/{version}@{THERE}/u/1"
    gone = Event(name, DELETE, b"", None, 1, True)
    assert Code.DENIED is await refusal(site.kernel.write(gone, writer))
    await site.server.delete(name)
    assert ["u/2"] == [row["topic"] for row in await read(site)]
    assert Code.NOT_FOUND is await refusal(site.server.delete(name))
    await site.server.delete(f"{PATH}/")
    assert [] == await read(site)


async def test_who_may_read_nothing_reads_no_row():
    site = Site(HERE)
    await lose(site, "u/1")
    assert await refusal(read(site, caller=Caller("nob", NONE, "http"))) is Code.DENIED


async def rightful(**options):
    """Return a server with rules, and a conflict at each of two tables."""
    site = Site(HERE)
    site.server = Rightful(**options)
    site.feature = Sites([TopicFilter("#")])
    site.feature.install(site.kernel)
    for topic in ("Dog/1", "Cat/1", "u/1"):
        await site.server.write(topic, {"name": "here"})
        event = Event(topic, PUT, b'{"name":"there","owner":"cy"}', JSON, 1, True)
        put_stamp(event, "1600000000000000", THERE)
        put_seen(event, "{}")
        await site.kernel.write(event, SERVER)
    return site


async def test_with_rules_the_rows_are_for_administrators():
    """K3: and for whom a rule lets; even then only of topics that it may read, and not limited."""
    site = await rightful()
    ben = Caller("ben", Grants(read=True, write=True), "http")
    assert Code.DENIED is await refusal(read(site, caller=ben))
    await site.server.rule(
        "see", filter=f"{PATH}/#", effect="allow", actions=["read"], users=["ben"]
    )
    await site.server.rule("hide", filter="u/#", effect="deny", actions=["read"], users=["ben"])
    assert ["Cat/1"] == [row["topic"] for row in await read(site, caller=ben)]
    names = site.conflicts.names
    assert [True, False, True] == [await read(site, name, ben) is None for name in names]
    admin = Caller("root", ANN.grants, "http", roles=frozenset({"admin"}))
    assert 3 == len(await read(site, caller=admin))


async def test_a_row_is_an_event_for_who_watches():
    """K3: over SSE, WebSocket and MQTT, as other system rows; first those that there are."""
    world = MqttServer()
    Sites([TopicFilter("u/#")]).install(world.kernel)
    site = SimpleNamespace(server=world, kernel=world.kernel)
    versions = [await lose(site, "u/1", b"before")]
    peer = await world.subscribed(f"{PATH}/#", client_id="watcher")
    heard = [*peer.later, *await peer.hear()]
    versions.append(await lose(site, "u/2", b"lost"))
    heard += await peer.hear()
    topics = [f"{PATH}/{version}@{THERE}/u/{at}" for at, version in enumerate(versions, 1)]
    assert topics == [packet.topic for packet in heard]
    assert ["before", "lost"] == [json.loads(packet.payload)["value"] for packet in heard]
