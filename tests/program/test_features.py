"""Features: each can be left out, they begin and end in order, and some orders are promised."""

import asyncio

import pytest

from http_clients import http_client
from rowcast.core.errors import Error
from rowcast.kernel.feature import Feature
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Subscribe, Subscription
from rowcast.program.features import FEATURES, Plug, plugs_of
from serving import PATIENCE_SECONDS, application, features_without

NAMES = [plug.name for plug in FEATURES]
RIGHTS = plugs_of({"rights"})

PROMISES = [
    (
        "undeclared_topics",
        "topic_statistics",
        "messages are sampled where no topic table logs them",
    ),
    ("metrics", "client_events", "the last metrics of a server are written after its last event"),
    ("client_events", "overload", "memory that is short at the start is told in the events"),
]
"""Pairs whose order is a promise: the first is installed and started before the second, and
stopped after it."""


async def subscribed(port, text, wanted):
    """Subscribe by MQTT, and return what comes until it has what is wanted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode(Connect(4, "watcher"), 4))
    writer.write(encode(Subscribe(1, (Subscription(text, 1),)), 4))
    heard = b""
    while wanted not in heard:
        heard += await reader.read(1_000)
    writer.close()
    await writer.wait_closed()
    return heard


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rights"])
async def test_a_server_without_a_feature_reads_writes_and_watches(name, tmp_path):
    others = features_without(name)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(tmp_path, features=others) as running,
        http_client() as client,
    ):
        assert name not in running.features
        url = f"http://127.0.0.1:{running.http_port}/Dog/1"
        assert 201 == (await client.put(url, json={"name": "Rex"})).status_code
        assert "Rex" == (await client.get(url)).json()["name"]
        assert b"Rex" in await subscribed(running.mqtt_port, "Dog/#", b"Rex")


async def test_a_server_with_rights_alone_reads_writes_and_watches(tmp_path):
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(tmp_path, features=RIGHTS) as running,
        http_client() as client,
    ):
        url = f"http://127.0.0.1:{running.http_port}/Dog/1"
        assert 201 == (await client.put(url, json={"name": "Rex"})).status_code
        assert "Rex" == (await client.get(url)).json()["name"]
        assert b"Rex" in await subscribed(running.mqtt_port, "Dog/#", b"Rex")


class Noted(Feature):
    """Notes what is asked of it."""

    def __init__(self, name, calls):
        self.name = name
        self.calls = calls

    def install(self, kernel):
        kernel.facts(f"{self.name}/", lambda facts: self._note("restore"))
        self._note("install")

    def _note(self, what):
        self.calls.append((self.name, what))

    async def load(self):
        self._note("load")

    async def start(self):
        self._note("start")

    async def opened(self):
        self._note("opened")

    async def stop(self):
        self._note("stop")


def plug(name, calls):
    return Plug(name, lambda _: Noted(name, calls))


async def test_features_begin_in_their_order_and_end_in_the_other(tmp_path):
    calls = []
    async with application(tmp_path, features=[plug("a", calls), plug("b", calls)]):
        pass
    steps = ("install", "load", "restore", "start", "opened")
    begun = [(name, step) for step in steps for name in ("a", "b")]
    assert [*begun, ("b", "stop"), ("a", "stop")] == calls


async def test_a_feature_that_is_switched_off_is_asked_nothing(tmp_path):
    calls = []
    plugs = [Plug("off", lambda _: None), plug("on", calls)]
    async with application(tmp_path, features=plugs) as running:
        assert ["on"] == list(running.features)


async def test_what_has_begun_ends_when_a_later_feature_fails(tmp_path):
    calls = []

    class Failing(Feature):
        def install(self, kernel):
            """Install nothing."""

        async def start(self):
            raise RuntimeError("it cannot begin")

    plugs = [plug("a", calls), Plug("failing", lambda _: Failing())]
    with pytest.raises(RuntimeError, match="it cannot begin"):
        async with application(tmp_path, features=plugs):
            pass
    assert ("a", "stop") == calls[-1]


@pytest.mark.parametrize(("first", "second", "why"), PROMISES)
def test_an_order_that_is_promised(first, second, why):
    assert NAMES.index(first) < NAMES.index(second), why


def test_rights_come_first():
    """What others write or restore at the start is judged by the rules of before."""
    assert "rights" == NAMES[0]


def test_no_feature_is_listed_twice():
    assert len(NAMES) == len(set(NAMES))


HOOKED = """
from rowcast import Error, Hook, hooks


@hooks.add
class Nobody(Hook):
    def on_publish(self, caller, event):
        raise Error("denied", "nobody writes")
"""


async def test_a_server_without_hooks_does_not_start_where_there_are_some(tmp_path):
    """What they refuse would be allowed."""
    (tmp_path / "nobody.py").write_text(HOOKED)
    others = features_without("hooks")
    with pytest.raises(Error, match="not installed"):
        async with application(tmp_path, settings={"resources": tmp_path}, features=others):
            pass


async def test_a_job_that_cannot_be_run_is_told_at_the_start(tmp_path, caplog):
    """W4: as rowcast check tells it, and not at the first run; the server serves the rest."""
    schema = """
        type Dog @table @export { id: ID @primaryKey }
        type Mean @table @export @derived(job: "jobs/mean.py", from: ["Dog"], every: "31d") {
            id: ID @primaryKey
        }
    """
    async with application(tmp_path, schema) as running, http_client() as client:
        url = f"http://127.0.0.1:{running.http_port}/Dog/1"
        assert (await client.put(url, json={})).status_code == 201
    told = [one for one in caplog.records if "Mean: @derived(job:)" in one.getMessage()]
    assert ["WARNING"] == [one.levelname for one in told]
    assert "there is no file jobs/mean.py in the directory of jobs" in told[0].getMessage()
