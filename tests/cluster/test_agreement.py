"""What nodes have in common, and the sentence for one that differs (K12)."""

import pytest

from rowcast.cluster.agreement import VERSION, agreement, difference
from rowcast.core.log_version import OPERATIONS
from rowcast.journal.operations import _CALLS
from rowcast.log.batch_content import GIVE_WAY, STAGE
from rowcast.program.cluster_checks import agreed
from rowcast.program.config import load_config

SCHEMA = "type Dog @table {\n  id: ID @primaryKey\n}\n"
NODE = {
    "cluster.name": "home",
    "cluster.node": "a",
    "cluster.secret": "0123456789abcdef",
    "cluster.peers": "a=127.0.0.1:1,b=127.0.0.1:4,c=127.0.0.1:7",
}


def text_of(schema=SCHEMA, **settings):
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return agreed(load_config(None, {}, NODE | given), schema)


@pytest.mark.parametrize("name", ["keep_seconds", "keep_events", "keep_bytes"])
def test_another_limit_of_the_history_is_named_with_both_values(name):
    own, other = text_of(**{f"history__{name}": "60"}), text_of()
    assert difference(own, other) == (
        f"its history.{name} is 60, and that of the sequencer is the default; give all nodes the "
        "same"
    )
    assert f"history.{name} is the default, and that of the sequencer is 60" in difference(
        other, own
    )


@pytest.mark.parametrize("name", ["keep_seconds", "keep_events", "keep_bytes"])
def test_another_limit_of_undeclared_topics_is_named(name):
    own, other = text_of(**{f"topics__{name}": "60"}), text_of()
    assert difference(own, other).startswith(f"its topics.{name} is 60, and that of the sequencer")


def test_another_history_of_one_topic_table_is_named():
    own = text_of(topics__tables='{"mqtt_home": {"keep_events": 5}, "mqtt_b": {}}')
    same = text_of(topics__tables='{"mqtt_b": {"keep_bytes": 0}, "mqtt_home": {"keep_events": 5}}')
    assert difference(own, same) == ""
    told = difference(own, text_of())
    assert told.startswith('its topics.tables is {"mqtt_b": {"keep_bytes": 0, "keep_events": 0, ')
    assert told.endswith("and that of the sequencer is the default; give all nodes the same")


def test_another_history_of_a_declared_table_is_another_schema():
    other = SCHEMA.replace("@table", '@table(history: "7d")')
    assert difference(text_of(), text_of(other)).startswith("its schema is another one")


def test_how_often_a_node_sweeps_is_its_own_affair():
    assert text_of(history__sweep_seconds="5") == text_of()


def test_the_archive_and_its_age_are_named():
    place = {"log__archive": "true", "log__archive_location": "s3://lake/x"}
    days = text_of(**place, log__archive_days="3")
    assert "its log.archive_location is s3://lake/x, and" in difference(days, text_of())
    assert "its log.archive_days is 3, and" in difference(days, text_of(**place))
    assert not difference(days, text_of(**place, log__archive_days="3"))


def test_another_schema_is_told_with_and_without_settings():
    for settings in ({}, {"history__keep_events": "9", "history__keep_bytes": "7"}):
        said = difference(text_of(**settings), text_of(SCHEMA + "# more\n", **settings))
        assert said == "its schema is another one; give all nodes the same schema.graphql"


def test_another_version_of_the_log_is_told_as_one():
    """Also that of a release which told none."""
    own = agreement(SCHEMA, {})
    assert f"{VERSION}: {OPERATIONS}" in own
    said = difference(SCHEMA, own)
    assert (
        f"version 1 of the log's operations, and that of the sequencer version {OPERATIONS};"
        in said
    )
    assert "with the newer one" in said


def test_operations_are_those_of_their_version():
    """Who adds one, or changes what one says, raises the version, and the number here."""
    names = {STAGE, GIVE_WAY, *_CALLS}
    known = "abandon define drop give_way reserve return_versions stage switch trim"
    assert (OPERATIONS, " ".join(sorted(names))) == (3, known)
