"""Publishing from code in ``resources/``: to one broker, as JSON, many at once (H27, H30)."""

import pytest
from bridged import reading, server, to

from free_ports import free_port
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.errors import Code, Error
from rowcast.features.local_client.local_client import LocalClient

pytestmark = NEEDS_MOSQUITTO


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as running:
        yield running


def client(world):
    local = LocalClient("job")
    local.bind(world.kernel)
    return local


async def test_it_goes_to_the_broker_that_is_named_and_to_no_other(broker, folder, tmp_path):
    """H27: topic, payload, QoS, retain, broker; what bridges carry anyway goes on as ever."""
    (tmp_path / "other").mkdir()
    with RemoteBroker(tmp_path / "other") as second:
        settings = to(broker, "#"), to(second, name="c")
        async with (
            server(folder, *settings) as world, reading(broker) as one, reading(second) as two,
        ):  # fmt: skip
            await world.until(lambda: all(x.connected for x in world.gateway.bridges.values()))
            local = client(world)
            assert await local.publish("a/1", b"raw", qos=2, retain=True, broker="c")
            assert await local.publish("a/2", {"n": 1}, broker="c")
            assert await local.publish("a/3", b"by the filter")
            heard = await two.wait(2)  # in any order: MQTT keeps that of one QoS only
            both = zip(heard, two.properties, strict=True)
            retained = {topic: bool(each["retain"]) for (topic, _), each in both}
            assert [("a/1", b"raw"), ("a/2", b'{"n":1}')] == sorted(heard)
            assert [("a/3", b"by the filter")] == await one.wait(1)
            await local.publish("a/1", None, retain=True, broker="c")
            await two.wait(3)
            assert {"a/1": True, "a/2": False} == retained
            assert two.properties[2]["retain"]
            assert world.application.store.get(None, "a/1") is None
            await world.idle()
        async with reading(second) as late:
            assert [] == late.heard


async def test_values_as_json_and_batches(broker, folder):
    """H27: publish_json, publish_batch(prefix, payloads)."""
    async with server(folder, to(broker, "out/#")) as world, reading(broker) as reader:
        await world.idle()
        local = client(world)
        await local.publish_json("x", None, broker="b")
        cursors = await local.publish_batch("out", {"a": {"n": 1}, "b/c": b"raw"})
        await local.publish_batch("y", [1, "two"], broker="b")
        assert 2 == len(set(cursors))
        assert [
            ("x", b"null"), ("out/a", b'{"n":1}'), ("out/b/c", b"raw"), ("y", b"1"),
            ("y", b'"two"'),
        ] == await reader.wait(5)  # fmt: skip


async def test_what_waits_for_one_broker_survives_a_restart(folder, tmp_path):
    """H27, H21: the log is the outbox of this too."""
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as broker:
        broker.kill()
        async with server(folder, to(broker)) as world:
            await client(world).publish_batch("a", list(range(20)), broker="b")
            assert 20 == world.gateway.status("b")["outbox_pending"]
        broker.start()
        async with reading(broker) as reader, server(folder, to(broker)) as world:
            heard = await reader.wait(20)
            await world.idle()
    assert [("a", b"%d" % number) for number in range(20)] == heard


@pytest.mark.parametrize(
    ("topic", "broker", "code", "said"),
    [
        ("a", "nobody", Code.NOT_FOUND, "no broker 'nobody'"),
        ("a", "b/c", Code.NOT_FOUND, "no broker 'b/c'"),
        ("a/+", "b", Code.INVALID, "wildcard"),
        ("", "b", Code.INVALID, "at least one"),
        ("a/#", "", Code.INVALID, "wildcard"),
    ],
)
async def test_mistakes_are_told_at_once(folder, topic, broker, code, said):
    """H30: nothing is written, and a batch with one of them is no batch."""
    nobody = type("Nobody", (), {"port": free_port()})
    async with server(folder, to(nobody)) as world:
        local = client(world)
        for work in (
            local.publish(topic, b"x", broker=broker),
            local.publish_json(topic, 1, broker=broker),
            local.publish_batch(topic, [1], broker=broker),
        ):
            with pytest.raises(Error) as refused:
                await work
            assert code is refused.value.code
            assert said in refused.value.message
        assert 0 == world.gateway.status("b")["outbox_pending"]
