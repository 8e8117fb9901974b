"""Admission: is it of the table's types, is it logged, when does it end (A5, A6, D42)."""

import re
from dataclasses import replace

import pytest

from build import ANN, DOG, LEASE, NOTE, NOW, TABLES, code_of
from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.tables import Logs
from rowcast.core.topics import TopicFilter
from rowcast.kernel.admission import Admission, logs
from rowcast.kernel.steps import Steps
from rowcast.routes.registry import Registry
from rowcast.routes.resource import Resource
from rowcast.writes.write import Write


def admit(event, tables=TABLES, resources=(), caller=ANN):
    registry = Registry(tables)
    for path, resource in resources:
        registry.add(path, resource)
    admission = Admission(lambda: NOW, 100, DurableFilters(), Steps(registry))
    write = Write(event, caller)
    admission.step(registry.route(event.topic))(write)
    return write


def event(topic, kind=PUT, payload=b"{}", qos=0, **properties):
    return Event(topic, kind, payload, None, qos, kind != MESSAGE, properties=properties or None)


def test_an_event_learns_its_table_and_value():
    item = event("Dog/1")
    write = admit(item)
    assert (DOG, {"id": "1"}) == (item.table, item.decoded)
    assert (True, True, None) == (write.logged, write.depends, write.patch)


def test_an_undeclared_topic_takes_any_bytes():
    write = admit(event("u/1", payload=b"\xff"))
    assert (None, None, False) == (write.event.table, write.shape, write.depends)


def test_the_server_s_own_topics_take_what_the_server_tells_and_nothing_else():
    """Where a feature is not installed, a write to it is not kept as if somebody took it."""
    item = event("$SYS/absent/1")
    assert Code.NOT_FOUND == code_of(admit, item)
    assert admit(item, caller=Caller("rowcast", ALL, "server")).logged


@pytest.mark.parametrize("topic", ["Dog/1", "u/1"])
def test_a_patch_is_read_but_not_yet_carried_out(topic):
    item = event(topic, PATCH, b'{"name":null}')
    write = admit(item)
    assert ({"name": None}, b'{"name":null}') == (write.patch, item.payload)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (event("Dog/1", payload=b"x" * 101), Code.TOO_LARGE),
        (event("u/1", payload=b"x" * 101), Code.TOO_LARGE),
        (event("Dog"), Code.NOT_ALLOWED),
        (event("Dog", DELETE), Code.NOT_ALLOWED),
        (event("Dog", PATCH), Code.NOT_ALLOWED),
        (event("Dog/1", payload=b"{"), Code.INVALID),
        (event("Dog/1", PATCH, b"{"), Code.INVALID),
        (event("u/1", PATCH, b"{"), Code.INVALID),
        (event("Dog/1", payload=b'{"age":"old"}'), Code.UNPROCESSABLE),
        (event("Counter/x", DELETE, b""), Code.INVALID),
        (event("Counter/x", MESSAGE), Code.INVALID),
    ],
)
def test_what_is_not_admitted(item, expected):
    assert expected == code_of(admit, item)


class Receiver(Resource):
    async def publish(self, value):
        """Take it."""


@pytest.mark.parametrize(
    ("resource", "item", "words"),
    [
        (
            Resource,
            event("echo/1"),
            "does not accept PUT (in MQTT a retained message); it can only",
        ),
        (Receiver, event("echo/1"), "(in MQTT a retained message); it accepts messages (PUBLISH w"),
        (Receiver, event("echo/1", DELETE, b""), "does not accept DELETE (in MQTT an empty retai"),
    ],
)
def test_a_resource_without_a_table_takes_only_what_it_overrides(resource, item, words):
    with pytest.raises(Error, match=re.escape(words)) as refused:
        admit(item, resources=[("echo", resource)])
    assert Code.NOT_ALLOWED == refused.value.code


def test_a_hidden_table_is_not_there_for_that_door():
    tables = [replace(DOG, hidden_from=frozenset({"http"}))]
    assert Code.NOT_FOUND == code_of(admit, event("Dog/1"), tables)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (event("u/1"), 0.0),
        (event("u/1", message_expiry_interval=5), NOW + 5),
        (event("u/1", MESSAGE, message_expiry_interval=5), NOW + 5),
        (event("u/1", message_expiry_interval=0), NOW),
        (event("u/1", message_expiry_interval="5"), 0.0),
        (event("Dog/1", message_expiry_interval=5), NOW + 5),
        (event("Dog/1", MESSAGE, message_expiry_interval=5), NOW + 5),
        (event("Lease/1"), NOW + LEASE.expiration_seconds),
        (event("Lease/1", message_expiry_interval=5), NOW + LEASE.expiration_seconds),
        (event("Lease/1", MESSAGE), 0.0),
        (event("Dog/1", DELETE, b"", message_expiry_interval=5), 0.0),
    ],
)
def test_when_an_event_ends(item, expected):
    """MQTT-3.3.2-5, MQTT-3.3.2-6; a delete is never left out."""
    admit(item)
    assert expected == item.expires_at


@pytest.mark.parametrize(
    ("policy", "kind", "qos", "expected"),
    [
        (Logs.ALL, MESSAGE, 0, True),
        (Logs.QOS1, MESSAGE, 0, False),
        (Logs.QOS1, MESSAGE, 1, True),
        (Logs.RETAINED, MESSAGE, 1, False),
        (Logs.RETAINED, PUT, 0, True),
        (Logs.RETAINED, DELETE, 0, True),
        (None, MESSAGE, 1, False),
        (None, PATCH, 0, True),
    ],
)
def test_what_goes_into_the_log(policy, kind, qos, expected):
    table = replace(NOTE, logs=policy) if policy else None
    assert expected == logs(event("Note/1", kind, qos=qos), table, DurableFilters())


@pytest.mark.parametrize("table", [None, replace(NOTE, logs=Logs.RETAINED), NOTE])
def test_what_a_durable_session_wants_goes_into_the_log(table):
    """D27: all of QoS above 0 that its filters select, and nothing else."""
    durable = DurableFilters()
    durable.add(TopicFilter("Note/+"))
    assert logs(event("Note/1", MESSAGE, qos=1), table, durable)
    assert logs(event("Note/1", MESSAGE, qos=2), table, durable)
    assert not logs(event("Note/1", MESSAGE, qos=0), table, durable)
    if table is not NOTE:  # which logs it of itself
        assert not logs(event("Other/1", MESSAGE, qos=1), table, durable)
