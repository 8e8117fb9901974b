"""Names of topic tables (F3, F4, F5, F15, X3)."""

import re

import pytest

from rowcast.core.tables import Type
from rowcast.core.topic_tables import (
    TopicRoot,
    TopicTable,
    branch_of,
    branches_of,
    message_id,
    name_of_branch,
    row_table,
    seq_of_message,
    table_name_for_topic,
)
from rowcast.core.topics import TopicFilter


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("home/temperature", "mqtt_home"),
        ("Home/x", "mqtt_home"),
        ("a-b/c", "mqtt_a_b"),
        ("a_b/c", "mqtt_a_b"),
        ("/x", "mqtt_"),
        ("alone", "mqtt_messages"),
        ("caf\u00e9/x", "mqtt_caf_"),
        ("\U0001f600/x", "mqtt___"),
        ("$share/group/home/x", "mqtt_home"),
        ("$SYS/broker/uptime", "mqtt_sys_metrics"),
    ],
)
def test_a_free_name_is_the_plain_one(topic, name):
    """F5, F4: ``mqtt_`` and the first level, in lower case."""
    assert name == table_name_for_topic(topic)


@pytest.mark.parametrize("topic", ["sys_metrics/x", "messages/x"])
def test_reserved_names_are_never_given(topic):
    """X3: the tables of the server and of single levels stay their own."""
    name = table_name_for_topic(topic)
    assert name.startswith("mqtt_" + topic.split("/")[0] + "_")
    assert len(name) == len("mqtt_" + topic.split("/")[0]) + 5


def test_no_name_is_given_twice():
    """X3: branches whose names would be alike have one each."""
    levels = ["Home", "home", "HOME", "h ome", "h-ome", "h_ome", "h\u00f6me", "", "_", "-"]
    levels += [f"{a}{b}" for a in "aA" for b in "!?*-_"]
    taken: dict[str, str] = {}
    for level in levels:
        name = name_of_branch(TopicRoot(level), taken)
        assert name not in taken
        taken[name] = level
    assert len(levels) == len(taken)


def test_a_suffix_that_is_taken_grows():
    """X3: even four digits may be taken."""
    first = name_of_branch(TopicRoot("Home"), {"mqtt_home"})
    second = name_of_branch(TopicRoot("Home"), {"mqtt_home", first})
    assert second.startswith(first)
    assert second != first


@pytest.mark.parametrize(
    ("topics", "branches"),
    [
        ("#", None),
        ("+", (TopicRoot(None),)),
        ("+/x", None),
        ("+/#", None),
        ("a", (TopicRoot(None),)),
        ("a/b", (TopicRoot("a"),)),
        ("a/+/c", (TopicRoot("a"),)),
        ("a/#", (TopicRoot("a"), TopicRoot(None))),
        ("/#", (TopicRoot(""), TopicRoot(None))),
    ],
)
def test_a_filter_reaches_its_branches(topics, branches):
    assert branches == branches_of(TopicFilter(topics))


@pytest.mark.parametrize("topic", ["a", "a/b", "/", "a/b/c", "$x/y"])
def test_a_topic_is_of_one_branch(topic):
    branch = branch_of(topic)
    assert branch.has(topic)
    assert branch.topics.matches(topic)
    others = [TopicRoot(None), TopicRoot("a"), TopicRoot(""), TopicRoot("$x")]
    assert [branch] == [other for other in others if other.has(topic)]


def test_ids_of_messages_are_in_the_order_of_time():
    """F15: unique, strictly increasing, and naming their event."""
    versions = [(1_764_806_400_000_000 + step * 7, step * 3 + 1) for step in range(10_000)]
    ids = [message_id(version, seq) for version, seq in versions]
    assert sorted(set(ids)) == ids
    assert [seq for _, seq in versions] == [seq_of_message(text) for text in ids]


@pytest.mark.parametrize("text", ["", "7", "1764806400000", "1764806400000-", "x-1", "1-2-3"])
def test_other_texts_are_no_ids(text):
    assert seq_of_message(text) is None


def test_rows_have_seven_columns():
    """F3: the seven columns, exactly."""
    table = row_table(TopicTable("mqtt_home", TopicRoot("home")))
    names = [item.name for item in table.attributes]
    assert names == ["id", "topic", "payload", "qos", "retain", "timestamp", "client_id"]
    assert table.database == "mqtt_topics"
    assert table.primary_key is not None
    assert Type.ANY is table.attributes[2].type


def test_a_name_that_was_declared_is_not_the_messages_own():
    """X3: a declared table of that name has it."""
    assert "mqtt_messages" == name_of_branch(TopicRoot(None))
    name = name_of_branch(TopicRoot(None), {"mqtt_messages"})
    assert re.fullmatch("mqtt_messages_[0-9a-f]{4}", name)
    assert name != name_of_branch(TopicRoot("messages"), {"mqtt_messages"})


def test_a_long_level_has_a_short_name():
    """X3: and still one of its own."""
    first = name_of_branch(TopicRoot("x" * 60_000))
    second = name_of_branch(TopicRoot("x" * 60_001), {first})
    assert len(first) < len(second) < 120
    assert first != second


@pytest.mark.slow
def test_a_million_ids_do_not_clash():
    """F15."""
    ids = [message_id(1_764_806_400_000_000 + seq // 5, seq) for seq in range(1, 1_000_001)]
    assert 1_000_000 == len(set(ids))
    assert ids == sorted(ids)
