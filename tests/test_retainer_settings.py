"""The settings of retained messages: their names, and the former ones (E12, E13, X17)."""

import pytest

from rowcast.core.errors import Error
from rowcast.program.config import load_config


def settings(*lines, **environment):
    """Return the settings of a file with these lines below ``retainer``."""
    return load_config(None, environment, dict(lines)).retainer


def given(text, tmp_path):
    file = tmp_path / "rowcast.yaml"
    file.write_text(text)
    return load_config(file, {})


def test_the_defaults():
    """E17 to E20"""
    found = settings()
    assert (0, 0, True, 0) == (
        found.msg_expiry_interval, found.msg_expiry_interval_override,
        found.allow_never_expire, found.msg_clear_interval,
    )  # fmt: skip
    assert (1024 * 1024, 0, 100, 10_000, 0, False) == (
        found.max_payload_size, found.max_retained_messages, found.batch_read_number,
        found.delivery_rate,
        found.max_publish_rate, found.stop_publish_clear_msg,
    )  # fmt: skip
    assert (True, True) == (found.keeps, found.rules.enabled)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("msg_expiry_interval", "15m", 900),
        ("msg_expiry_interval", "0s", 0),
        ("msg_expiry_interval", 5, 5),
        ("msg_expiry_interval_override", "disabled", 0),
        ("msg_expiry_interval_override", "1h30m", 5400),
        ("msg_clear_interval", "10s", 10),
        ("max_payload_size", "1MiB", 1024 * 1024),
        ("max_payload_size", "2048", 2048),
        ("max_payload_size", 77, 77),
        ("delivery_rate", "1000/s", 1000),
        ("delivery_rate", "600/m", 10),
        ("delivery_rate", "30/10s", 3),
        ("delivery_rate", "infinity", 0),
        ("delivery_rate", "off", 0),
        ("max_publish_rate", "2.5", 2.5),
        ("max_publish_rate", False, 0),
        ("max_retained_messages", "5", 5),
    ],
)
def test_values_are_read_as_people_write_them(name, text, expected):
    assert expected == getattr(settings((f"retainer.{name}", text)), name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("msg_expiry_interval", "soon"),
        ("msg_expiry_interval", -1),
        ("msg_expiry_interval", True),
        ("max_payload_size", "many"),
        ("max_payload_size", True),
        ("delivery_rate", "fast"),
        ("delivery_rate", "5/0s"),
        ("delivery_rate", True),
        ("max_publish_rate", "1/x"),
        ("batch_read_number", 0),
        ("max_retained_messages", -1),
        ("backend.type", "mnesia"),
        ("backends.fdb.enabled", True),
    ],
)
def test_what_cannot_be_read_is_told_with_its_name(name, text):
    with pytest.raises(Error) as caught:
        settings((f"retainer.{name}", text))
    assert f"retainer.{name}" in caught.value.message


@pytest.mark.parametrize(
    ("text", "kept", "warnings"),
    [
        ("retainer: {enable: false}", False, 1),
        ("retainer: {enable: true}", True, 1),
        ("retainer: {enabled: false}", False, 0),
        ("retainer: false", False, 0),
        ("retainer: {enable: true, enabled: false}", False, 1),
        ("retainer: {enabled: false, enable: true}", False, 1),
        ("retainer: {backend: {type: built_in_database}}", True, 0),
        ("retainer: {backends: {built_in_database: {enabled: false}}}", False, 0),
        ("retainer: {backends: {built_in_database: {enabled: true}}}", True, 0),
        (
            "retainer: {backend: {type: built_in_database}, backends: {built_in_database: false}}",
            False,
            1,
        ),
    ],
)
def test_former_names_count_and_are_told_once(text, kept, warnings, tmp_path, caplog):
    """E12, X17: both are read; the new one goes before the former one."""
    config = given(text, tmp_path)
    assert kept == config.retainer.rules.enabled
    assert warnings == len(caplog.records) + len(config.warnings)


def test_options_of_a_backend_are_passed_through(tmp_path):
    """E13"""
    text = "retainer: {backends: {built_in_database: {ds: {url: /srv/x.db}}}}"
    assert "/srv/x.db" == given(text, tmp_path).retainer.backends.built_in_database.ds.url


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("backends: {fdb: {enabled: true}}", "retained messages have one backend"),
        ("backends: {fdb: true}", "cluster.engine names what keeps their log"),
        ("backends: {fdb: {ds: {n_shards: 16}}}", "retained messages have one backend"),
        ("backends: {built_in_database: {ds: {n_shards: 16}}}", "not divided into shards"),
        ("backends: {built_in_database: {ds: {replication_factor: 3}}}", "cluster.peers are"),
        ("backends: {built_in_database: {ds: {n_sites: 3}}}", "cluster.peers are"),
        ("backends: {built_in_database: {storage_type: disc}}", "are on disk"),
        ("backend: {type: built_in_database, storage_type: ram}", "are on disk"),
        ("backend: {index_specs: [[1, 2, 3]]}", "need no index"),
        ("backend: {max_retained_messages: 5}", 'did you mean "retainer.max_retained_messages"?'),
        ("n_shards: 5", "is not a setting"),
    ],
)
def test_what_another_store_has_is_told_with_what_is_here_instead(text, instead, tmp_path):
    """E7, E12: its shards and its copies, its second backend, and where that is configured here."""
    with pytest.raises(Error) as caught:
        given(f"retainer: {{{text}}}", tmp_path)
    assert instead in caught.value.message
    assert ("leave it out" in caught.value.message) == ("setting: " in caught.value.message)
    assert "built_in_database.enabled" not in caught.value.message
