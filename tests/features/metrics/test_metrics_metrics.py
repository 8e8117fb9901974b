"""F17: the nine methods of the metrics, each by what it changes."""

import pytest

from rowcast.features.metrics.loads import Loads
from rowcast.features.metrics.metrics import Metrics
from rowcast.features.metrics.tree import LIVE, SYSTEM, readings
from rowcast.net.process_memory import ProcessMemory


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    return Metrics(clock)


def told(metrics, *names):
    """Return what the tree says under these names."""
    texts = readings(metrics, LIVE) | readings(metrics, SYSTEM)
    return [texts[f"$SYS/broker/{name}"] for name in names]


CLIENTS = ("clients/connected", "clients/active", "clients/maximum", "clients/total")


def test_on_connect(metrics):
    """F17: connected, maximum and total, through a whole visit (F22)."""
    changes = []
    metrics.on_change = lambda: changes.append(1)
    metrics.on_connect("a")
    metrics.on_connect("b")
    assert ["2", "2", "2", "2"] == told(metrics, *CLIENTS)
    assert [1, 1] == changes


def test_on_disconnect(metrics):
    """F17: the maximum stays; sessions that wait are in the total; never below zero."""
    metrics.on_connect("a")
    metrics.on_connect("b")
    metrics.on_disconnect("a")
    metrics.holding.sessions = 2
    assert ["1", "1", "2", "2"] == told(metrics, *CLIENTS)
    assert ["1", "1"] == told(metrics, "clients/disconnected", "clients/inactive")
    metrics.on_disconnect("b")
    metrics.on_disconnect("b")
    assert ["0", "2"] == told(metrics, "clients/connected", "clients/disconnected")


def test_on_publish_received(metrics):
    """F17, F9: messages and the bytes of their payload."""
    metrics.on_publish_received(3, 120)
    metrics.on_publish_received(1, 0)
    assert ["4", "120"] == told(metrics, "publish/messages/received", "publish/bytes/received")


def test_on_publish_sent(metrics):
    """F17."""
    metrics.on_publish_sent(2, 10)
    metrics.on_publish_sent(1, 5)
    assert ["3", "15"] == told(metrics, "publish/messages/sent", "publish/bytes/sent")


@pytest.mark.parametrize("topics", ["$share/g/a/#", "$queue/a"])
def test_on_subscribe(metrics, topics):
    """F17: shared ones apart."""
    metrics.on_subscribe("c", "home/+")
    metrics.on_subscribe("c", "$SYS/#")
    metrics.on_subscribe("c", topics)
    assert ["2", "1"] == told(metrics, "subscriptions/count", "shared_subscriptions/count")


@pytest.mark.parametrize("topics", ["$share/g/a/#", "home/temperature"])
def test_on_unsubscribe(metrics, topics):
    """F17, F10: never below zero."""
    metrics.on_subscribe("c", topics)
    metrics.on_unsubscribe("c", topics)
    metrics.on_unsubscribe("c", topics)
    assert ["0", "0"] == told(metrics, "subscriptions/count", "shared_subscriptions/count")


def test_on_retained_message_added(metrics):
    """F17."""
    metrics.on_retained_message_added("a")
    metrics.on_retained_message_added("b")
    assert ["2"] == told(metrics, "retained messages/count")


def test_on_retained_message_removed(metrics):
    """F17."""
    metrics.on_retained_message_added("a")
    metrics.on_retained_message_removed("a")
    metrics.on_retained_message_removed("a")
    assert ["0"] == told(metrics, "retained messages/count")


def test_update_system_metrics(metrics, clock):
    """F17: heap, uptime and loads, which nothing else changes."""
    metrics.wire.bytes_received = 600
    clock.now += 60
    metrics.update_system_metrics()
    assert ["60 seconds"] == told(metrics, "uptime")
    current, most = map(int, told(metrics, "heap/current", "heap/maximum"))
    assert 1_000_000 < current <= most
    # 600 bytes in a minute: 1 - 1/e of that counts after a minute, less over longer times.
    names = [f"load/bytes/received/{minutes}min" for minutes in (1, 5, 15)]
    assert ["379.27", "108.76", "38.70"] == told(metrics, *names)


def test_a_clock_that_is_set_back_is_no_uptime_below_zero(metrics, clock):
    clock.now -= 3_600
    metrics.update_system_metrics()
    assert ["0 seconds", "0.00"] == told(metrics, "uptime", "load/messages/sent/1min")


def test_loads_fade():
    """F24: as Mosquitto's, exponentially, whatever the time between two looks."""
    often, seldom = Loads(), Loads()
    counts = dict.fromkeys(("bytes/sent",), 0)
    for second in range(1, 61):
        counts["bytes/sent"] += 10
        often.update(float(second), counts)
    seldom.update(60.0, counts)
    known = often.averages["bytes/sent", 1]
    assert pytest.approx(known, 0.01) == seldom.averages["bytes/sent", 1]
    often.update(660.0, counts)
    assert pytest.approx(0.0, abs=0.05) == often.averages["bytes/sent", 1]
    assert often.averages["bytes/sent", 15] > 10


def test_the_heap_without_proc(tmp_path):
    """Where the system does not tell the present size, it is the greatest."""
    heap = ProcessMemory(tmp_path / "absent")
    assert heap.current == heap.maximum > 1_000_000
