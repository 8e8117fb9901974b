"""``$SYS/broker`` in the whole program: what a client of it sees, and what a full disk changes."""

import asyncio
import re

import pytest

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.metrics.feature import SystemMetrics
from rowcast.features.metrics.sys_tree import KEPT, TABLE
from rowcast.mqtt.packets import Publish
from serving import PATIENCE_SECONDS, Server, application, features_with, wait_until
from talking import Mqtt

ROOT = "$SYS/broker/"
ANN = Caller("ann", ALL, "http")
NUMBER = r"\d+"
LOAD = r"\d+\.\d\d"
FORMS = {
    "version": r"rowcast version \d.*",
    "timestamp": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}",
    "uptime": r"\d+ seconds",
}
EXPORTED = (
    "bytes/received", "bytes/sent", "clients/active", "clients/connected", "clients/disconnected",
    "clients/expired", "clients/inactive", "clients/maximum", "clients/total", "heap/current",
    "heap/maximum", "messages/inflight", "messages/received", "messages/sent", "messages/stored",
    "publish/bytes/received", "publish/bytes/sent", "publish/messages/dropped",
    "publish/messages/received", "publish/messages/sent", "retained messages/count",
    "shared_subscriptions/count", "store/messages/bytes", "store/messages/count",
    "subscriptions/count", "timestamp", "uptime", "version",
    *(
        f"load/{what}/{minutes}min"
        for what in (
            "bytes/received", "bytes/sent", "connections", "messages/received", "messages/sent",
            "publish/dropped", "publish/received", "publish/sent", "sockets",
        )
        for minutes in (1, 5, 15)
    ),
)  # fmt: skip
"""What the common exporters look for, of all versions of Mosquitto (F24)."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("metrics"), settings={"mqtt.sys_interval": 1}) as running:
        yield running


def told(server, name):
    """Return what a metric says over HTTP."""
    return server.request("GET", f"/{ROOT}{name}").text


def retained(client, topics):
    """Return the retained payloads that a subscription begins with, by topic."""
    client.subscribe(topics)
    found = {}
    while not set(EXPORTED) <= set(found):
        packet = client.receive()
        assert isinstance(packet, Publish)
        found.setdefault(packet.topic.removeprefix(ROOT), packet)
    return found


@pytest.mark.parametrize("version", [4, 5])
def test_an_exporter_finds_every_topic_in_its_form(server, version):
    """F24: a subscription to $SYS/# with QoS 0, as the exporters of Mosquitto make it."""
    with Mqtt(server.mqtt_port, version, client_id="exporter") as client:
        found = retained(client, "$SYS/#")
    for name in EXPORTED:
        form = FORMS.get(name, LOAD if name.startswith("load/") else NUMBER)
        assert re.fullmatch(form, found[name].payload.decode()), (name, found[name].payload)
    assert found["version"].retain


def test_a_subscriber_hears_of_a_client_that_connects(server):
    """F22, in six steps: counted, written, heard by whoever watches that topic."""
    with Mqtt(server.mqtt_port, client_id="watcher") as watcher:
        watcher.subscribe(f"{ROOT}clients/connected")
        heard = [watcher.receive().payload]
        with Mqtt(server.mqtt_port, client_id="other"):
            while heard[-1] != b"2":
                heard.append(watcher.receive().payload)
        while heard[-1] != b"1":
            heard.append(watcher.receive().payload)
    wait_until(lambda: told(server, "clients/connected") == "0", "nobody is connected")
    assert int(told(server, "clients/maximum")) >= 2


def test_messages_and_bytes_are_those_of_the_wire(server):
    """F17: what this client sent and was sent is what was added."""
    with Mqtt(server.mqtt_port, 4, client_id="counting") as client:
        client.subscribe("counted")
        before = int(told(server, "publish/bytes/received"))
        for _ in range(10):
            client.publish("counted", b"x" * 100)
            client.receive()
        wanted = str(before + 1_000)
        wait_until(
            lambda: told(server, "publish/bytes/received") == wanted, f"{wanted} bytes are told"
        )


def test_nobody_else_writes_there(server):
    """F24: by no door, whoever asks."""
    assert 403 == server.request("PUT", f"/{ROOT}uptime", content=b"1").status_code
    assert 403 == server.request("DELETE", f"/{ROOT}uptime").status_code
    assert "seconds" in told(server, "uptime")


def test_wildcards_at_the_root_do_not_reach_them(server):
    """D34, F24."""
    with Mqtt(server.mqtt_port, client_id="root") as client:
        client.subscribe("#")
        client.subscribe("+/broker/uptime")
        server.request("PUT", "/Dog/1", json={"name": "Rex"})
        heard = [client.receive().topic]
        while heard[-1] != "Dog/1":
            heard.append(client.receive().topic)
    assert [] == [topic for topic in heard if topic[0] == "$"]


def exposed(server):
    """Return what Prometheus reads, by name."""
    answer = server.request("GET", "/metrics")
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (
        answer.status_code, answer.headers["content-type"],
    )  # fmt: skip
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_prometheus_reads_the_same_numbers(server):
    """F35: under the names of Mosquitto's exporters; equal to $SYS at rest."""
    wait_until(lambda: told(server, "clients/connected") == "0", "nobody is connected")
    live = [name for name in EXPORTED if name.split("/")[0] in {"clients", "publish", "bytes"}]
    live = [name for name in live if name not in {"clients/active", "clients/inactive"}]

    def same():
        numbers = exposed(server)
        names = [f"broker_{name.replace('/', '_')}" for name in live]
        return [numbers[name] for name in names] == [told(server, name) for name in live]

    wait_until(same, "both tell the same")
    assert "broker_retained_messages_count" in exposed(server)
    text = server.request("GET", "/metrics").text
    assert "# TYPE broker_bytes_sent counter\nbroker_bytes_sent " in text
    assert "# TYPE broker_clients_connected gauge\n" in text
    assert "version" not in "".join(exposed(server))


def test_prometheus_reads_them_in_its_own_style_too(server):
    """Counters end with _total, and averages are left to Prometheus."""
    text = server.request("GET", "/metrics").text
    assert "# TYPE rowcast_bytes_sent_total counter\nrowcast_bytes_sent_total " in text
    assert "# TYPE rowcast_clients_connected gauge\nrowcast_clients_connected " in text
    assert "rowcast_load" not in text
    assert "broker_load_messages_sent_1min" in text


def count_of(server, series):
    """Return how many observations a histogram has, with its labels."""
    return float(exposed(server).get(series.replace("{", "_count{", 1), 0))


def test_requests_are_timed_by_method_route_and_status(server):
    """The number of series is that of the schema, whatever clients ask for."""
    asked = [
        ("PUT", "/Dog/timed", 201, "/Dog/{id}"),
        ("PUT", "/Dog/timed", 204, "/Dog/{id}"),
        ("GET", "/Dog/timed", 200, "/Dog/{id}"),
        ("GET", "/Dog/timed", 200, "/Dog/{id}"),
        ("GET", "/Dog/nobody", 404, "/Dog/{id}"),
        ("GET", "/Dog/?limit(1)", 200, "/Dog"),
        ("GET", "/any/thing/at/all", 404, "/{topic}"),
        ("GET", "/health", 200, "/health"),
        ("GET", "/ui/", 200, "/ui/{id}"),
        ("GET", "/$SYS/me", 200, "/$SYS/me"),
        ("DELETE", "/$SYS/me", 405, "/$SYS/me"),
        ("PURGE", "/Dog/1", 405, "/other"),
    ]
    series = [
        f'rowcast_http_request_seconds{{method="{method}",route="{route}",status="{status}"}}'
        if route != "/other"
        else 'rowcast_http_request_seconds{method="other",route="/other",status="0"}'
        for method, _, status, route in asked
    ]
    before = {name: count_of(server, name) for name in series}
    for method, path, status, _ in asked:
        answer = server.request(method, path, content=b'{"name":"Rex"}' if method == "PUT" else b"")
        assert status == answer.status_code, path
    after = {name: count_of(server, name) for name in series}
    assert {name: series.count(name) for name in series} == {
        name: after[name] - before[name] for name in series
    }


def test_commits_and_reads_are_timed(server):
    names = ("rowcast_commit_seconds_count", 'rowcast_read_seconds_count{kind="search"}')
    before = [float(exposed(server)[name]) for name in names]
    assert server.request("PUT", "/Dog/timed", content=b'{"name":"Rex"}').is_success
    assert server.request("GET", "/Dog/?name=Rex").is_success
    after = [float(exposed(server)[name]) for name in names]
    assert all(new > old for old, new in zip(before, after, strict=True))


def test_metrics_are_only_read(server):
    assert 405 == server.request("POST", "/metrics", content=b"1").status_code
    assert b"" == server.request("HEAD", "/metrics").content


async def text(app, name):
    """Return what a metric's record says; None while there is none."""
    try:
        return (await app.kernel.read(ROOT + name, ANN)).payload.decode()
    except Error as error:
        assert Code.NOT_FOUND == error.code
        return None


async def until(app, name, wanted):
    """Watch a record until it says so."""
    stream = app.kernel.open_stream(ROOT + name, ANN)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while wanted not in [event.payload.decode() for event, _ in await stream.batch(100)]:
            pass
    app.kernel.close(stream)


@pytest.mark.slow
async def test_retained_messages_are_counted_exactly(tmp_path):
    """F17, X4: new ones, ended ones, and after a restart what is there."""
    async with application(tmp_path) as app:
        own = counted(app)
        for number in range(5):
            await app.kernel.write(Event(f"r/{number % 3}", PUT, b"1", None, 1, True), ANN)
        await app.kernel.write(Event("r/0", "delete", b"", None, 1, True), ANN)
        await app.kernel.write(Event("r/9", "delete", b"", None, 1, True), ANN)
        await app.kernel.write(Event("Dog/1", PUT, b'{"name":"Rex"}', None, 1, True), ANN)
        await app.kernel.write(Event("Dog/1", MESSAGE, b'{"name":"Rex"}', None, 1), ANN)
        wanted = counted(app)
        assert own < wanted
        await until(app, "retained messages/count", str(wanted))
    async with application(tmp_path) as app:
        assert wanted == counted(app)


def counted(app):
    """Return the number of records, as they are when the metrics are made."""
    metrics = app.features["metrics"].metrics
    metrics.look()
    return metrics.retained


def impatient(parts):
    """Return metrics that are soon written again when they were refused."""
    interval = parts.config.mqtt.sys_interval
    return SystemMetrics(parts.store, parts.schema.tables, interval, KEPT, parts.now, 0.05)


async def test_a_disk_that_refuses_blocks_nobody_and_changes_no_number(tmp_path, monkeypatch):
    """F23, F16: memory is right at once; the record follows when the disk takes it again."""
    async with application(tmp_path, features=features_with("metrics", impatient)) as app:
        commit = app.store.commit

        def refuse(events, changes=()):
            raise Error(Code.BUSY, "the disk is full")

        await until(app, "clients/connected", "0")
        monkeypatch.setattr(app.store, "commit", refuse)
        app.features["metrics"].metrics.on_connect("a")
        app.features["metrics"].metrics.on_connect("b")
        assert 2 == app.features["metrics"].metrics.connected
        assert "0" == await text(app, "clients/connected")
        monkeypatch.setattr(app.store, "commit", commit)
        await until(app, "clients/connected", "2")


@pytest.mark.slow
async def test_what_is_true_at_the_end_is_told_after_a_restart(tmp_path):
    """F2: the last value is exact, also where the server stops within a pause."""
    async with application(tmp_path, settings={"mqtt.sys_interval": 3_600}) as app:
        for number in range(7):
            app.features["metrics"].metrics.on_connect(str(number))
    async with application(tmp_path, settings={"mqtt.sys_interval": 0}) as app:
        assert "7" == await text(app, "clients/maximum")


@pytest.mark.slow
async def test_where_undeclared_topics_are_refused_the_server_still_tells(tmp_path):
    """F18, X1."""
    async with application(tmp_path, settings={"topics.undeclared": "reject"}) as app:
        await until(app, "clients/connected", "0")
        with pytest.raises(Error):
            await app.kernel.write(Event("other", PUT, b"1", None, 1, True), ANN)


async def test_an_interval_of_nothing_writes_nothing(tmp_path):
    """F18: mqtt.sys_interval 0."""
    async with application(
        tmp_path, settings={"mqtt.sys_interval": 0, "client_events.enabled": False}
    ) as app:
        await app.kernel.committer.settle()
        written = app.kernel.committer.commits  # what the start itself stores
        app.features["metrics"].metrics.on_connect("a")
        assert None is await text(app, "clients/connected")
        assert b"\nbroker_clients_connected 1\n" in app.features["metrics"].sys_tree.exposition()
        await app.kernel.committer.settle()
        assert written == app.kernel.committer.commits


@pytest.mark.slow
async def test_the_table_of_metrics_is_there_from_the_start_and_stays(tmp_path):
    """F1, F2, F27: its past is a part of the log of its own; a sweep drops no table of it."""
    for _ in range(2):
        async with application(tmp_path) as app:
            assert TABLE in app.store.topic_tables()
            await until(app, "clients/connected", "0")
            await app.features["undeclared_topics"].tables.clean()
            assert TABLE in app.store.topic_tables()
            assert app.store.figures(TABLE.branch).events > 0


async def test_the_past_of_a_metric_is_read_like_any_other(tmp_path):
    """F27: every value that was told, newest last."""
    async with application(tmp_path) as app:
        for number in range(3):
            app.features["metrics"].metrics.on_connect(str(number))
            await until(app, "clients/maximum", str(number + 1))
        events = await app.kernel.reader.history(TABLE.branch, f"{ROOT}clients/maximum", limit=10)
    assert {b"1", b"2", b"3"} <= {event.payload for event in events}


@pytest.mark.slow
async def test_the_past_of_metrics_is_bounded_by_itself(tmp_path):
    """F27: it crowds out nothing else; the limits are those of a topic table's settings."""
    settings = {"topics.tables": {"mqtt_sys_metrics": {"keep_events": 10}}}
    async with application(tmp_path, settings=settings) as app:
        await app.kernel.write(Event("home/t", PUT, b"1", None, 1, True), ANN)
        await until(app, "clients/connected", "0")
        figures = app.store.figures
        while figures(TABLE.branch).events > 10:  # another one may come while it is swept
            await app.features["retention"].retention.sweep()
        assert 1 == app.store.figures(TopicRoot("home")).events
        assert "0" == await text(app, "clients/connected")


@pytest.mark.slow
async def test_what_is_stored_is_told_without_the_metrics_own_past(tmp_path):
    """F24: else an idle server would have news of itself for ever."""
    async with application(tmp_path, settings={"mqtt.sys_interval": 3_600}) as app:
        await app.kernel.write(Event("home/t", PUT, b"12345", None, 1, True), ANN)
        app.features["metrics"].metrics.update_system_metrics()
        holding = app.features["metrics"].metrics.holding
    assert (1, 5) == (holding.stored, holding.stored_bytes)
