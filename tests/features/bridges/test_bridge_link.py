"""One connection to a real Mosquitto: what is acknowledged, refused and lost (H1, H12, H26)."""

import asyncio
import signal
import ssl
from dataclasses import replace

import pytest

from free_ports import free_port
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.errors import Code, Error
from rowcast.core.gateway_limits import GATEWAY_HEARD_MAX
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.remote import MQTT_3_1_1, MQTT_5, Remote
from securing import Authority, ServerFiles
from serving import PATIENCE_SECONDS, PROMPT_SECONDS, until

pytestmark = NEEDS_MOSQUITTO
RULES = "acl_file {folder}/rules\nmax_packet_size 2000\nmax_inflight_messages 0\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker")
    (folder / "rules").write_text("topic readwrite free/#\n")
    with RemoteBroker(folder, RULES.format(folder=folder)) as running:
        yield running


@pytest.fixture
async def link(broker):
    opened = Opened(Remote("127.0.0.1", broker.port))
    await opened.link.open()
    yield opened
    await opened.link.close()


class Opened:
    """A link whose answers are kept."""

    def __init__(self, remote):
        self.ends = asyncio.Queue()
        self.heard = asyncio.Queue()
        self.link = Link(remote, self.ends.put_nowait)

    async def hear(self, topic, payload, qos, properties):
        self.heard.put_nowait((topic, payload, qos))
        return True

    async def publish(self, topic, payload=b"x", qos=1, retain=False, **properties):
        answer = asyncio.get_running_loop().create_future()
        self.link.publish(topic, payload, qos, retain, properties, answer.set_result)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await answer


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_each_message_is_told_of_when_the_broker_has_it(broker, version, qos):
    """H1, H26."""
    reader = Opened(Remote("127.0.0.1", broker.port, version))
    writer = Opened(Remote("127.0.0.1", broker.port, version))
    await reader.link.open(reader.hear, [("free/#", 2)])
    await asyncio.sleep(0)
    await writer.link.open()
    answers = [await writer.publish("free/1", b"%d" % number, qos) for number in range(20)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        heard = [await reader.heard.get() for _ in range(20)]
    assert [None] * 20 == answers
    assert [("free/1", b"%d" % number, qos) for number in range(20)] == heard
    await writer.link.close()
    await reader.link.close()
    assert writer.ends.empty()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_refusal_is_told_with_its_reason(link, qos):
    """H12: the access list of the remote broker; the connection stays."""
    assert "not authorized (0x87)" == await link.publish("forbidden/1", qos=qos)
    assert await link.publish("free/1", qos=qos) is None


async def test_a_packet_that_is_larger_than_the_broker_takes_is_not_sent(link):
    """H12, MQTT-3.2.2-15: it is said at once, and the connection stays."""
    done = []
    for qos in (0, 1, 2):
        with pytest.raises(Error) as refused:
            link.link.publish("free/1", b"x" * 5000, qos, False, {}, done.append)
        assert Code.TOO_LARGE is refused.value.code
    assert [] == done
    assert await link.publish("free/1") is None


async def test_before_mqtt_5_it_ends_the_connection(broker):
    """H12: the broker closes it, and the bridge is told."""
    opened, done = Opened(Remote("127.0.0.1", broker.port, MQTT_3_1_1)), []
    await opened.link.open()
    opened.link.publish("free/1", b"x" * 5000, 1, False, {}, done.append)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert "closed the connection" in await opened.ends.get()
    assert [] == done
    with pytest.raises(Error) as refused:
        opened.link.publish("free/1", b"x", 1, False, {}, done.append)
    assert Code.BUSY is refused.value.code
    await opened.link.close()


async def test_more_messages_than_identifiers(link):
    """Identifiers are free again after each acknowledgement."""
    for _ in range(5):
        answers = [link.publish("free/1", b"x") for _ in range(link.link.flying_max)]
        assert {None} == set(await asyncio.gather(*answers))


async def test_nobody_there():
    """H38: an error with the address, at once."""
    remote = Remote("127.0.0.1", free_port())
    with pytest.raises(Error) as refused:
        await Link(remote, print).open()
    assert Code.BUSY is refused.value.code
    assert f"127.0.0.1:{remote.port}" in refused.value.message


async def test_a_wrong_password_is_told(tmp_path):
    """H31: the reason, and no secret."""
    (tmp_path / "passwords").write_text("")
    with RemoteBroker(tmp_path, f"password_file {tmp_path}/passwords") as broker:
        text = tmp_path / "mosquitto.conf"
        text.write_text(text.read_text().replace("allow_anonymous true", "allow_anonymous false"))
        broker.kill()
        broker.start()
        remote = Remote("127.0.0.1", broker.port, username="ann", password="secret")
        with pytest.raises(Error) as refused:
            await Link(remote, print).open()
    assert "authori" in refused.value.message.lower()
    assert "secret" not in refused.value.message + repr(remote)


async def test_a_killed_broker_is_noticed(tmp_path):
    """H6."""
    with RemoteBroker(tmp_path) as broker:
        opened = Opened(Remote("127.0.0.1", broker.port))
        await opened.link.open()
        broker.kill()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert "closed the connection" in await opened.ends.get()
        await opened.link.close()


@pytest.fixture
def stopped(tmp_path, request):
    """A broker, with TLS or without, and what connects to it."""
    more, tls = "", None
    if request.param == "tls":
        authority = Authority(tmp_path)
        files = ServerFiles(tmp_path, authority.issue("127.0.0.1"))
        more = f"cafile {authority.file}\ncertfile {files.certificate}\nkeyfile {files.key}\n"
        tls = ssl.create_default_context(cafile=authority.file)
    with RemoteBroker(tmp_path, more) as broker:
        yield broker, Remote("127.0.0.1", broker.port, tls=tls, keep_alive_seconds=1)
        broker.signal(signal.SIGCONT)


@pytest.mark.parametrize("stopped", ["plain", "tls"], indirect=True)
async def test_a_broker_that_stands_still_is_noticed(stopped):
    """H6: also when more was sent than the system takes, which a closing connection waits for."""
    broker, remote = stopped
    opened, failures = Opened(remote), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    await opened.link.open()
    broker.signal(signal.SIGSTOP)
    for _ in range(opened.link.flying_max):
        opened.link.publish("free/1", b"x" * 500_000, 1, False, {}, print)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert "has not answered for 2 s" in await opened.ends.get()
    connection = opened.link._client._connection
    await opened.link.close()
    await asyncio.wait({connection._protocol.closed})
    assert ([], True) == (failures, connection.is_closing())


@pytest.mark.parametrize("stopped", ["tls"], indirect=True)
async def test_a_certificate_of_another_name(stopped):
    """H20, H31: what to change is said."""
    _, remote = stopped
    with pytest.raises(Error, match="localhost'; set host to a name of its certificate"):
        await Link(replace(remote, host="localhost"), print).open()


@pytest.mark.parametrize("stopped", ["tls"], indirect=True)
async def test_a_link_to_a_broker_that_stands_still_is_closed_in_time(stopped):
    """H6: a server that stops does not leave its connection to wait for a goodbye."""
    broker, remote = stopped
    opened = Opened(replace(remote, connect_seconds=0.5))
    await opened.link.open()
    connection = opened.link._client._connection
    broker.signal(signal.SIGSTOP)
    await opened.link.close()
    async with asyncio.timeout(PROMPT_SECONDS):
        await until(connection._protocol.closed.done)


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
@pytest.mark.parametrize("qos", [0, 1])
async def test_what_is_not_stored_yet_is_bounded(broker, version, qos):
    """H33: however much the broker has, no more is read than can be in hand; then all comes."""
    count, payload, room = 600, b"x" * 1500, asyncio.Event()
    in_hand, heard, full, all_came = [0], [], asyncio.Event(), asyncio.Event()

    async def hear(topic, payload, qos, properties):
        in_hand.append(in_hand[-1] + 1)
        if in_hand[-1] >= GATEWAY_HEARD_MAX:
            full.set()
        await room.wait()
        in_hand.append(in_hand[-1] - 1)
        heard.append(payload)
        if len(heard) == count:
            all_came.set()
        return True

    reader = Link(Remote("127.0.0.1", broker.port, version), print)
    await reader.open(hear, [("free/slow", qos)])
    writer = Opened(Remote("127.0.0.1", broker.port))
    await writer.link.open()
    for _ in range(count):
        await writer.publish("free/slow", payload, 1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await full.wait()
        for _ in range(10):
            await writer.publish("free/other")
        room.set()
        await all_came.wait()
    told = version == MQTT_5 and qos  # by Receive Maximum; else one read may be too much
    most = GATEWAY_HEARD_MAX + (0 if told else 2**16 // len(payload))
    assert max(in_hand) <= most < count
    await reader.close()
    await writer.link.close()


async def test_what_is_published_in_one_turn_is_one_write(link):
    """H3: a call of the system costs more than all the rest of it."""
    written = []
    protocol = link.link._client._connection._protocol
    write, protocol.write_data = protocol.write_data, written.append
    answers = [link.publish("free/1", b"%d" % n) for n in range(10)]
    tasks = [asyncio.create_task(answer) for answer in answers]
    for _ in range(3):
        await asyncio.sleep(0)
    assert 1 == len(written)
    protocol.write_data = write
    write(written[0])
    assert [None] * 10 == await asyncio.gather(*tasks)
