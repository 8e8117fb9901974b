"""Settings: where they come from, which wins, and what is said when one is wrong (O1)."""

import json
from pathlib import Path

import pytest

from house import sources
from rowcast.core.errors import Code, Error
from rowcast.mqtt.reasons import Reason
from rowcast.program.config import Config, config_keys, load_config
from rowcast.store.store import Keep


@pytest.fixture
def write(tmp_path):
    def _write(text):
        path = tmp_path / "rowcast.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return _write


def problems(file=None, env=None, overrides=None):
    with pytest.raises(Error) as caught:
        load_config(file, env or {}, overrides)
    assert Code.INVALID == caught.value.code
    return caught.value.message.splitlines()


def test_without_anything_the_defaults_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Config() == load_config(None, {})


def test_the_server_is_found_on_loopback_by_default():
    config = Config()
    assert (9926, "127.0.0.1") == (config.http.port, config.http.host)
    assert (1883, "127.0.0.1") == (config.mqtt.network.port, config.mqtt.network.host)
    assert "loopback" == config.security.anonymous


def test_a_file_sets(write):
    config = load_config(write("mqtt:\n  network: {port: 1884}\n  webSocket: false\n"), {})
    assert (1884, False) == (config.mqtt.network.port, config.mqtt.web_socket)


def test_the_default_file_is_read_from_the_working_directory(write, monkeypatch):
    monkeypatch.chdir(write("http: {port: 81}").parent)
    assert 81 == load_config(None, {}).http.port


def test_a_dotted_name_works_in_a_file_too(write):
    assert 81 == load_config(write("http.port: 81"), {}).http.port


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "mqtt:\n"], ids=["empty", "comment", "section"]
)
def test_a_file_without_settings_is_fine(write, text):
    assert Config() == load_config(write(text), {})


def test_the_environment_wins_over_the_file(write):
    env = {"ROWCAST_HTTP__PORT": "82", "ROWCAST_MQTT__WEBSOCKET": "no", "HOME": "/root"}
    config = load_config(write("http: {port: 81, host: '::1'}"), env)
    assert (82, "::1", False) == (config.http.port, config.http.host, config.mqtt.web_socket)


def test_the_command_line_wins_over_the_environment(write):
    config = load_config(write(""), {"ROWCAST_HTTP__PORT": "82"}, {"http.port": "83"})
    assert 83 == config.http.port


def test_a_list_is_written_with_commas_outside_of_the_file(write):
    both = ("http://a.example", "https://b.example:8443")
    listed = load_config(write(f"http: {{cors: [{', '.join(both)}]}}"), {})
    spelt = load_config(write(""), {"ROWCAST_HTTP__CORS": " , ".join(both)})
    assert both == listed.http.cors == spelt.http.cors


def test_a_path_may_begin_at_home(write, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert Path("/home/someone/rows") == load_config(write("data: ~/rows"), {}).data


@pytest.mark.parametrize(
    "name", ["tls.certificate", "security.jwt.key_file", "authority", "snapshots.directory"]
)
def test_an_empty_path_is_none_where_there_may_be_none(name):
    """A variable that is set to nothing, as in a file for containers; not the directory itself."""
    variable = "ROWCAST_" + name.replace(".", "__").upper()
    assert load_config(env={variable: ""}) == load_config(env={})


@pytest.mark.parametrize("name", ["data", "schema", "resources"])
def test_an_empty_path_is_refused_where_there_must_be_one(name):
    with pytest.raises(Error, match=f"{name} should be a path, not ''"):
        load_config(env={}, overrides={name: ""})


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Config().http.port = 1


@pytest.mark.parametrize(
    ("overrides", "url"),
    [
        ({}, "http://127.0.0.1:9926"),
        ({"http.host": "0.0.0.0", "http.port": "80"}, "http://127.0.0.1:80"),
        ({"http.host": "::"}, "http://[::1]:9926"),
        ({"http.host": "::1"}, "http://[::1]:9926"),
        ({"url": "https://rows.example/"}, "https://rows.example"),
    ],
)
def test_the_other_commands_find_the_server(write, overrides, url):
    assert url == load_config(write(""), {}, overrides).server_url


def test_an_unknown_name_is_told_with_its_line_and_the_nearest(write):
    path = write("http:\n  port: 81\nmqtt:\n  netwrk:\n    port: 1884\n")
    assert [
        f'{path}, line 5: mqtt.netwrk.port is not a setting; did you mean "mqtt.network.port"?'
    ] == problems(path)


def test_the_wrong_case_is_told_with_the_right_one(write):
    (line,) = problems(write("mqtt: {websocket: true}"))
    assert line.endswith('mqtt.websocket is not a setting; did you mean "mqtt.webSocket"?')


def test_all_problems_are_told_at_once(write):
    env = {"ROWCAST_HTTP__PROT": "1", "ROWCAST_TOPICS__UNDECLARED": "tables"}
    lines = problems(write("http: {port: 70000}\nnonsense: 1\n"), env, {"history.keep_bytes": "-1"})
    assert 5 == len(lines)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("http.port", "many", "valid integer"),
        ("http.port", "70000", "less than or equal to 65535"),
        ("http.cors", "localhost", "an origin such as"),
        ("http.cors", "http://a.example/page", "an origin such as"),
        ("topics.undeclared", "tables", "'table', 'route' or 'reject'"),
        ("security.anonymous", "anybody", "'loopback', 'everywhere' or 'nobody'"),
        ("sse.heartbeat_seconds", "0", "greater than 0"),
        ("sse.heartbeat_seconds", "inf", "less than or equal to"),
        ("sse.heartbeat_seconds", "nan", "greater than 0"),
        ("mqtt.webSocket", "maybe", "valid boolean"),
        ("url", "ftp://rows.example", "an address such as"),
        ("mqtt.network.securePort", "many", "valid integer"),
        ("mqtt.mTLS.enabled", "maybe", "valid boolean"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_right(key, value, said):
    (line,) = problems(overrides={key: value})
    assert line.startswith(f"command line: {key} should be ")
    assert said in line


def test_a_mistake_is_told_once(write):
    """O9: one sentence with what was given, and not what pydantic cannot do with it."""
    given = "http.port should be a valid integer, not 'many'"
    assert problems(overrides={"http.port": "many"}) == [f"command line: {given}"]
    (line,) = problems(write(f"{BROKER}, out: [{{filter: a/#/b}}]}}]}}"))
    assert line.endswith("in the topic filter 'a/#/b', '#' must be the whole last level")


def test_a_switch_is_not_a_number(write):
    path = write("http: {port: true}")
    assert [f"{path}, line 1: http.port should be a number, not True"] == problems(path)


def test_a_section_is_not_a_value(write):
    (line,) = problems(write("mqtt: 1883"))
    assert "mqtt is a section; it has " in line
    assert "mqtt.network.host, mqtt.network.port" in line


def test_a_value_is_not_a_section(write):
    (line,) = problems(write("http: {port: {number: 81}}"))
    assert line.endswith('http.port.number is not a setting; did you mean "http.port"?')


BROKER = "gateway: {brokers: [{name: b, host: h, password: secret"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway: {brokers: [{name: b, password: secret}]}", "gateway.brokers.0.host is missing"),
        (f"{BROKER}, hots: h}}]}}", 'gateway.brokers.0.hots is not a setting; did you mean "host"'),
        (
            f"{BROKER}, in: [{{filtr: a}}]}}]}}",
            "in.0.filtr is not a setting; did you",
        ),
        (f"{BROKER}, mode: slow}}]}}", "mode should be 'hybrid', 'outbox' or 'memory', not 'slow'"),
        (f"{BROKER}}}, {{name: b, host: i, password: secret}}]}}", "b twice"),
        (
            f"{BROKER.replace('host: h', 'host: u:secret@h')}}}]}}",
            "host should be a name or an add",
        ),
        (f"{BROKER.replace('host: h', 'host: h/secret')}}}]}}", "said with username and pass"),
        ("gateway: {brokers: secret}", "should be a section, names with a value each"),
        ("gateway: {brokers: {name: secret}}", "gateway.brokers.name is not a setting"),
        ("gateway: {brokers: [{name: b, host: h, password: [secret]}]}", "brokers.0.password "),
    ],
)
def test_a_mistake_in_a_list_of_sections(write, text, said):
    """H30, H31: what, where and how to mend it, and no password."""
    lines = problems(write(text))
    assert any(said in line for line in lines), lines
    assert "secret" not in "".join(lines)


def test_no_message_repeats_a_password():
    (line,) = problems(overrides={"store.url": ["postgresql://u:secret@db.example/rows"]})
    assert "secret" not in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http: [", "is not YAML: line 1, column 8: "),
        ("http:\n  port: 1\n port: 2", "is not YAML: line 3, column 2: "),
        (
            "http: {port: 1}\ndata: a\nhttp:\n  host: b",
            "http is there twice, on line 1 and on line 3",
        ),
        ("http: {port: 1, port: 2}", "port is there twice"),
        ("mqtt:\n  rewrite: [{action: all, action: publish}]", "action is there twice"),
        ("- http", "should hold settings"),
        ("a: 1\n---\nb: 2", "is not YAML"),
        ("http: {port: !!python/name:os.system }", "is not YAML"),
        ("http: {port: !!int many}", "is not YAML"),
        ("? [1, 2]\n: 3", "is not a setting"),
        ("http: &a {http: *a}", "nested more than 32 deep"),
        ("http: {port: " + "[" * 500 + "]" * 500 + "}", "nested more than 32 deep"),
        ("http: {port: !!bool foo}", "line 1 is no bool"),
        ("http:\n  port: !!timestamp soon", "line 2 is no timestamp"),
        ('http: {port: !!int ""}', "line 1 is no int"),
        ("topics: {tables: {? [a] : 1}}", "line 1 is no map"),
        ("http: {port: " + "9" * 5_000 + "}", "line 1 is no int"),
        ('data: "a\\0b"', "holds NUL"),
        ('http: {host: "\\ud800"}', "half of a character"),
        ("sse: {heartbeat_seconds: 1e300}", "less than or equal to 315360000"),
        ("overload: {memory_bytes: " + "9" * 40 + "}", "less than or equal to 1000000000000000"),
    ],
)
def test_a_broken_file_is_told(write, text, said):
    path = write(text)
    lines = problems(path)
    assert all(line.startswith(str(path)) for line in lines)
    assert said in lines[0]


def test_json_may_escape_a_character_as_a_pair(write):
    """Programs that write JSON do so; YAML would take the pair for two halves."""
    rules = json.dumps([{"effect": "allow", "actions": ["all"], "topics": ["\N{DOG FACE}/#"]}])
    path = write(f"hooks: {{acl: {rules}}}")
    for config in (load_config(path, {}), load_config(None, {"ROWCAST_HOOKS__ACL": rules})):
        assert ("\N{DOG FACE}/#",) == config.hooks.acl[0].topics


def test_bytes_that_are_not_utf8_are_told(tmp_path):
    path = tmp_path / "rowcast.yaml"
    path.write_bytes(b"http: \xff")
    assert "is not YAML" in problems(path)[0]


def test_a_missing_file_is_told(tmp_path):
    path = tmp_path / "absent.yaml"
    assert [f"{path}: cannot be read: No such file or directory"] == problems(path)


def test_an_unknown_variable_of_ours_is_told():
    (line,) = problems(env={"ROWCAST_MQTT__NETWORK__PROT": "1"})
    assert line.startswith("environment variable ROWCAST_MQTT__NETWORK__PROT: mqtt.network.prot")
    assert line.endswith('did you mean "ROWCAST_MQTT__NETWORK__PORT"?')
    (line,) = problems(env={"ROWCAST_HTTP_PORT": "1"})
    assert line.endswith('http_port is not a setting; did you mean "ROWCAST_HTTP__PORT"?')


def test_every_key_says_what_it_is_for():
    keys = config_keys()
    assert "ROWCAST_MQTT__NETWORK__PORT" == keys["mqtt.network.port"].environment
    assert {} == {name: key for name, key in keys.items() if not key.description.endswith(".")}


def test_every_default_is_a_legal_value(write):
    given = {name: key.default for name, key in config_keys().items()}
    assert Config() == load_config(write(""), {}, given)


def test_no_setting_does_nothing():
    """Each is read by the server or by a command, not only accepted."""
    text = "\n".join(
        source.text
        for source in sources("app/rowcast")
        if source.path != "app/rowcast/program/config.py"
    )
    names = {
        "schema": "schema_file",
        "mqtt.webSocket": "web_socket",
        "mqtt.requireAuthentication": "require_authentication",
        "security.users": "users_file",
        "url": "server_url",
    }
    read = {key: names.get(key, key.split(".")[-1]) for key in config_keys()}
    assert [] == [key for key, name in read.items() if f".{name}" not in text]


RULE = '{action: all, source: "a/#", expression: "^a/(.+)$", destination: "b/$1"}'


def test_rules_and_subscriptions_are_lists_of_sections(write):
    """D54: in a file, or as YAML in the environment and in a flag."""
    text = f"[{RULE}]"
    listed = load_config(write(f"mqtt:\n  rewrite: {text}\n"), {})
    spelt = load_config(write(""), {"ROWCAST_MQTT__REWRITE": text})
    (rule,) = listed.mqtt.rewrite
    assert (listed.mqtt.rewrite, "b/$1") == (spelt.mqtt.rewrite, rule.destination)
    wanted = load_config(write(""), {}, {"mqtt.auto_subscribe": '[{"topic": "a", "qos": 1}]'})
    assert [("a", 1)] == [(item.topic, item.qos) for item in wanted.mqtt.auto_subscribe]


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("rewrite", f"[{RULE.replace('$1', '$2')}]", "mqtt.rewrite cannot be followed: 'b/$2'"),
        ("rewrite", f"[{RULE.replace('all', 'both')}]", "mqtt.rewrite.0.action should be"),
        ("rewrite", "[{action: all}]", "mqtt.rewrite.0.source"),
        ("rewrite", "[", "mqtt.rewrite should be"),
        ("rewrite", "all", "mqtt.rewrite should be"),
        ("auto_subscribe", '[{topic: "a/#/b"}]', "'#' must be the whole last level"),
        ("auto_subscribe", "[{topic: a, qos: 3}]", "mqtt.auto_subscribe.0.qos should be"),
    ],
)
def test_a_rule_that_is_wrong_is_told_at_the_start(write, key, text, words):
    """D54: with its place among the others, and without all of them again."""
    lines = problems(write(""), {}, {f"mqtt.{key}": text})
    assert any(words in line for line in lines), lines
    assert not any("not [{" in line for line in lines), lines


def test_limits_of_mqtt_become_those_of_the_broker(write):
    """D6, D46, D56, D57."""
    config = load_config(
        write(
            "mqtt:\n  max_connections: 7\n  max_connections_per_peer: 6\n  draining: temporarily\n"
            "  server_reference: other.example\n  ban: {failed_logins: 4, seconds: 3}\n"
            "  flapping: {max_disconnects: 5, window_seconds: 2}\n"
            "  rate: {messages: 9, action: disconnect, connections: 8,"
            " connections_per_peer: 1}\n"
        ),
        {},
    )
    guard = config.mqtt.guard
    assert (Reason.USE_ANOTHER_SERVER,) * 2 == (guard.sent_away, guard.full)
    assert (7, 6, 8, 1) == (
        guard.connections_max,
        guard.connections_per_peer_max,
        guard.connects_per_second,
        guard.connects_per_peer_per_second,
    )
    assert (5, 2, 3) == (guard.drops, guard.within_seconds, guard.ban_seconds)
    assert (4, 3) == (config.mqtt.ban.failed_logins, config.mqtt.ban.seconds)
    rates = config.mqtt.rate.settings
    assert (9, 0, True) == (rates.messages, rates.bytes, rates.disconnects)
    usual = Config().mqtt.guard
    assert (None, Reason.QUOTA_EXCEEDED) == (usual.sent_away, usual.full)


# -- other spellings, Harper's among them ----------------------------------------------------------


def test_a_usual_file_is_understood(write):
    """O1: a file that many have; without a certificate no TLS."""
    text = """
mqtt:
  network:
    port: 1883
    securePort: 8883 # for TLS
  webSocket: true
  mTLS: false
  requireAuthentication: true
"""
    mqtt = load_config(write(text), {}).mqtt
    assert (1883, 8883, False) == (mqtt.network.port, mqtt.network.secure_port, mqtt.mtls.enabled)


@pytest.mark.parametrize(
    ("text", "enabled", "required", "user"),
    [
        ("mqtt: {mTLS: true}", True, False, "Common Name"),
        ("mqtt: {mTLS: {required: true}}", True, True, "Common Name"),
        ("mqtt: {mTLS: {user: null}}", True, False, ""),
        ("mqtt: {mTLS: {user: devices}}", True, False, "devices"),
        ("mqtt: {mTLS: {enabled: false, required: true}}", False, True, "Common Name"),
        ("mqtt: {network: {mtls: {user: none}}}", True, False, ""),
        ("mqtt: {network: {mtls: true}}", True, False, "Common Name"),
        ("mqtt: {mTLS: }", False, False, "Common Name"),
    ],
)
def test_m_tls_is_a_switch_or_its_details(write, text, enabled, required, user):
    """L3."""
    mtls = load_config(write(text), {}).mqtt.mtls
    assert (enabled, required, user) == (mtls.enabled, mtls.required, mtls.user)


def test_m_tls_is_a_switch_in_the_environment_too():
    assert load_config(None, {"ROWCAST_MQTT__MTLS": "true"}).mqtt.mtls.enabled
    assert load_config(None, {}, {"mqtt.mTLS": "yes"}).mqtt.mtls.enabled


@pytest.mark.parametrize("word", ["off", "none", "null", "false"])
def test_a_port_may_be_none(write, word):
    written = load_config(write(f"mqtt: {{network: {{port: {word}}}}}"), {})
    said = load_config(None, {"ROWCAST_MQTT__NETWORK__PORT": word})
    assert (None, None) == (written.mqtt.network.port, said.mqtt.network.port)


def test_without_plain_http_the_other_commands_use_tls(write):
    given = {"http.port": "off", "http.securePort": "9443"}
    assert "https://127.0.0.1:9443" == load_config(write(""), {}, given).server_url


def test_the_password_of_a_key_is_not_repeated(write):
    (line,) = problems(write("tls: {privateKeyPassword: [secret]}"))
    assert "secret" not in line
    config = load_config(None, {}, {"tls.privateKeyPassword": "secret"})
    assert ("secret", False) == (config.tls.private_key_password, "secret" in repr(config))


def test_topic_tables_are_set_by_name_in_all_three_places(write):
    """F26: how much one of them keeps."""
    text = "{mqtt_home: {keep_events: 1000}, mqtt_messages: {keep_seconds: 60}}"
    configs = (
        load_config(write(f"topics:\n  tables: {text}\n"), {}),
        load_config(write(""), {"ROWCAST_TOPICS__TABLES": text}),
        load_config(write(""), {}, {"topics.tables": text}),
    )
    for config in configs:
        settings = config.topics.settings(Keep(bytes=5))
        assert Keep(bytes=5) == settings.keep
        keeps = {"mqtt_home": Keep(events=1000), "mqtt_messages": Keep(seconds=60)}
        assert keeps == settings.keeps


def test_topics_have_limits_of_their_own(write):
    """F25, F26, F32."""
    text = "topics: {keep_events: 3, max_tables: 7, cleanup_delay: 0, undeclared: route}"
    topics = load_config(write(text), {}).topics
    settings = topics.settings(Keep(seconds=9, events=9, bytes=9))
    assert ("route", Keep(events=3), 7, 0) == (
        topics.undeclared, settings.keep, settings.tables_max, settings.grace_seconds
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{home: {keep_events: 1}}", "should name topic tables, such as mqtt_home"),
        ("{mqtt_home: {keep_events: -1}}", "topics.tables.mqtt_home.keep_events should be greater"),
        ("{mqtt_home: {keep_event: 1}}", "topics.tables.mqtt_home.keep_event"),
        ("mqtt_home", "should be"),
    ],
)
def test_a_wrong_topic_table_is_told(write, text, said):
    (line,) = problems(write(f"topics:\n  tables: {text}\n"))
    assert "line 2: topics.tables" in line
    assert said in line


def test_proxies_are_addresses_or_networks():
    given = '[10.0.0.1, "2001:db8::/32"]'
    config = load_config(None, {}, {"http.trusted_proxies": given})
    assert ("10.0.0.1/32", "2001:db8::/32") == config.http.trusted_proxies
    for wrong in ("[proxy.example]", "[10.0.0.1/8]", '["*"]'):
        with pytest.raises(Error, match="an address or a network"):
            load_config(None, {}, {"http.trusted_proxies": wrong})


def test_a_home_of_nobody_is_told():
    with pytest.raises(Error, match="begins with ~nobody-at-all, and there is no"):
        load_config(None, {}, {"data": "~nobody-at-all/x"})


def test_the_bounds_of_the_lag_are_those_that_are_set():
    tail = load_config(None, {}, {"log.lag_seconds": "7", "log.lag_events": "9"}).log.tail
    assert (7, 9) == (tail._lag_seconds, tail._lag_events_max)
