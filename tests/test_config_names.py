"""Settings under other names: the former ones of this server, which its log warns of."""

import pytest

from rowcast.core.errors import Error
from rowcast.program.config import config_keys, load_config
from rowcast.program.settings.names import FORMER, current_name
from serving import SCHEMA, rowcast

VALUES = {
    "log.keep_seconds": ("history.keep_seconds", 5, 5),
    "log.keep_events": ("history.keep_events", 5, 5),
    "log.keep_bytes": ("history.keep_bytes", 5, 5),
    "log.sweep_seconds": ("history.sweep_seconds", 5, 5),
    "events": ("client_events.enabled", "false", False),
    "events.enabled": ("client_events.enabled", "false", False),
    "events.keep_seconds": ("client_events.keep_seconds", 5, 5),
    "events.keep_events": ("client_events.keep_events", 5, 5),
    "events.keep_bytes": ("client_events.keep_bytes", 5, 5),
    "mqtt.ban.drops": ("mqtt.flapping.max_disconnects", 5, 5),
    "mqtt.ban.within_seconds": ("mqtt.flapping.window_seconds", 5, 5),
    "mqtt.rate.over": ("mqtt.rate.action", "disconnect", "disconnect"),
    "retainer.enable": ("retainer.enabled", "false", False),
}


def found(config, name):
    for part in name.split("."):
        config = getattr(config, part)
    return config


@pytest.mark.parametrize("former", VALUES)
def test_a_former_name_works_with_a_warning(former):
    name, given, expected = VALUES[former]
    config = load_config(None, {}, {former: given})
    assert expected == found(config, name)
    assert (f"command line: {former} is now {name}",) == config.warnings


@pytest.mark.parametrize("former", VALUES)
def test_a_former_name_works_in_the_environment_and_in_a_file(former, tmp_path):
    name, given, expected = VALUES[former]
    variable = "ROWCAST_" + former.upper().replace(".", "__")
    assert expected == found(load_config(None, {variable: str(given)}), name)
    file = tmp_path / "rowcast.yaml"
    file.write_text("\n".join("  " * at + f"{part}:" for at, part in enumerate(former.split("."))))
    file.write_text(f"{file.read_text()} {given}\n")
    config = load_config(file, {})
    line = former.count(".") + 1
    assert expected == found(config, name)
    assert (f"{file}, line {line}: {former} is now {name}",) == config.warnings


def test_a_name_of_today_is_no_reason_to_warn():
    assert () == load_config(None, {}, {"history.keep_events": 1, "logging.level": "info"}).warnings


@pytest.mark.parametrize("names", [("log", "history"), ("history", "log")])
def test_within_a_source_the_name_of_today_wins(names, tmp_path):
    file = tmp_path / "rowcast.yaml"
    events = {"log": 1, "history": 2}
    file.write_text("".join(f"{name}: {{keep_events: {events[name]}}}\n" for name in names))
    config = load_config(file, {})
    assert 2 == config.history.keep_events
    line = names.index("history") + 1
    assert config.warnings[0].endswith(f", and is ignored: {file}, line {line} sets that")


def test_a_stronger_source_wins_whatever_the_name():
    environment = {"ROWCAST_HISTORY__KEEP_EVENTS": "1"}
    config = load_config(None, environment, {"log.keep_events": "2"})
    assert 2 == config.history.keep_events


def test_a_wrong_value_is_told_with_both_names():
    with pytest.raises(Error) as caught:
        load_config(None, {}, {"log.keep_events": "-1"})
    said = "command line (as log.keep_events): history.keep_events should be greater"
    assert caught.value.message.startswith(said)


@pytest.mark.parametrize("name", ["log.level", "mqtt.undeclared", "topics.max_topic_tables"])
def test_other_names_are_no_settings(name):
    with pytest.raises(Error) as caught:
        load_config(None, {}, {name: "1"})
    assert f"{name} is not a setting; did you mean" in caught.value.message


def test_no_former_name_is_a_setting_or_a_section_of_today():
    keys = config_keys()
    clashes = [name for name in FORMER if any(f"{key}.".startswith(f"{name}.") for key in keys)]
    assert [] == clashes
    assert set(FORMER.values()) == {current_name(name) for name in FORMER}


@pytest.mark.slow
def test_rowcast_check_prints_the_warnings(tmp_path):
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "rowcast.yaml").write_text("log: {keep_events: 7}\n")
    done = rowcast("check", folder=tmp_path)
    assert (0, "warning: rowcast.yaml, line 1: log.keep_events is now history.keep_events\n") == (
        done.returncode,
        done.stderr,
    )


@pytest.mark.slow
def test_the_server_s_log_has_the_warnings(tmp_path):
    from serving import Server

    with Server(tmp_path, settings={"log.keep_events": 7}) as server:
        assert "command line: log.keep_events is now history.keep_events" in server.log
