"""What is at a topic: the longest path wins (A7)."""

import pytest

from build import DOG, KEY, NOTE, code_of
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.routes import registry as module
from rowcast.routes.registry import Registry
from rowcast.routes.resource import Resource

NESTED = Table("Tail", "Dog/tail", (KEY,))
ROOT = Table("Root", "", (KEY,))
HIDDEN = Table("Hidden", None, (KEY,))


class Echo(Resource):
    """A resource with one verb of its own."""

    async def put(self, value):
        return value


@pytest.mark.parametrize(
    ("topic", "table", "record_id"),
    [
        ("Dog", "Dog", ""),
        ("Dog/1", "Dog", "1"),
        ("Dog/1/2", "Dog", "1/2"),
        ("Dog/", "Dog", ""),
        ("Dog/tail", "Tail", ""),
        ("Dog/tail/1", "Tail", "1"),
        ("Dog/tails", "Dog", "tails"),
        ("Dogs/1", None, "Dogs/1"),
        ("$SYS/x", None, "$SYS/x"),
        ("/Dog/1", None, "/Dog/1"),
    ],
)
def test_a7_the_longest_path_wins(topic, table, record_id):
    route = Registry([DOG, NESTED, NOTE, HIDDEN]).route(topic)
    assert (table, record_id) == (route.table and route.table.name, route.record_id)


def test_a_table_at_the_root_has_what_nobody_else_has():
    registry = Registry([DOG, ROOT])
    assert ["Dog", "Root", None] == [
        table and table.name
        for table in (registry.route(text).table for text in ("Dog/1", "x/y", "$SYS/x"))
    ]
    assert "x/y" == registry.route("x/y").record_id


def test_undeclared_topics_are_plain_but_for_the_servers_own():
    registry = Registry([DOG])
    assert [False, True, False] == [registry.route(t).plain for t in ("Dog/1", "x", "$SYS/x")]
    assert None is registry.route("x").shape


def test_undeclared_topics_may_be_rejected():
    registry = Registry([DOG], undeclared=False)
    assert Code.NOT_FOUND == code_of(registry.route, "x")
    assert "Dog" == registry.route("Dog/1").table.name


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b"])
def test_what_is_no_topic_leads_nowhere(topic):
    assert Code.INVALID == code_of(Registry([DOG]).route, topic)


def test_a_resource_takes_a_tables_place_and_keeps_its_shape():
    registry = Registry([DOG])
    assert None is registry.route("Dog/1").entry.resource
    registry.add("Dog", Echo)
    route = registry.route("Dog/1")
    assert (Echo, "Dog") == (route.entry.resource, route.table.name)
    assert (True, False) == (route.overrides("put"), route.overrides("delete"))


def test_a_resource_needs_no_table():
    registry = Registry([DOG])
    registry.add("echo", Echo)
    route = registry.route("echo/1")
    assert (None, None, "1") == (route.shape, route.table, route.record_id)
    assert not registry.route("x").overrides("put")
    assert ["Dog", "echo"] == [entry.path for entry in registry.entries]


def test_two_resources_cannot_share_a_path():
    registry = Registry([])
    registry.add("echo", Echo)
    with pytest.raises(Error, match="Echo and Echo") as raised:
        registry.add("echo", Echo)
    assert Code.CONFLICT == raised.value.code


def test_a_route_is_remembered_but_a_stranger_cannot_fill_memory():
    registry = Registry([DOG], routes_max=8)
    assert registry.route("Dog/1") is registry.route("Dog/1")
    for number in range(50):
        registry.route(f"x/{number}")
    assert len(registry._routes) <= 8
    registry.route("y" * 60_000)
    assert max(map(len, registry._routes)) <= module.TOPIC_CACHED_BYTES_MAX
