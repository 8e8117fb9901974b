"""The command line: what it asks of a server, what it prints, how it fails (O9)."""

import gc
import io
import json
import sys
from types import SimpleNamespace

import httpx
import msgpack
import pytest
from typer.testing import CliRunner

import rowcast.program.cli
import rowcast.program.commands.output
from rowcast.doors.http.messages.parameters import write_parameters
from rowcast.program.cli import command, main
from rowcast_client import SyncRowcast
from securing import Authority, ServerFiles

CURSOR = "3f9a1c2e:7"


def event(seq, kind="put", topic="Dog/1", value=None):
    cursor = f"3f9a1c2e:{seq}"
    data = {"cursor": cursor, "topic": topic, "kind": kind, "version": seq, "value": value}
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def problem(status, title, detail):
    body = {"title": title, "detail": detail, "status": status}
    return httpx.Response(status, json=body, headers={"Content-Type": "application/problem+json"})


class Server:
    """Answers with what was laid out, in order, and keeps what it was asked."""

    def __init__(self):
        self.answers = []
        self.asked = []
        self.pauses = []

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, content=answer)

    def client(self, url="http://127.0.0.1:1", **_):
        def wait(seconds):
            self.pauses.append(seconds)
            if not self.answers:
                raise KeyboardInterrupt

        return SyncRowcast(url, transport=httpx.MockTransport(self), wait=wait, chance=lambda: 0.5)


@pytest.fixture
def server(monkeypatch, tmp_path):
    server = Server()
    monkeypatch.setattr("rowcast.program.commands.server.SyncRowcast", server.client)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWCAST_URL", raising=False)
    return server


def run(*arguments, stdin=None):
    return CliRunner().invoke(command, arguments, input=stdin, catch_exceptions=True)


# -- help and failure ------------------------------------------------------------------------------


def test_who_has_to_sign_in_is_told_how(server, monkeypatch, capsys):
    body = {"title": "Not signed in", "status": 401, "code": "unauthenticated"}
    kind = {"Content-Type": "application/problem+json"}
    server.answers = [httpx.Response(401, json=body, headers=kind)]
    monkeypatch.setattr("sys.argv", ["rowcast", "get", "Dog/9"])
    with pytest.raises(SystemExit):
        main()
    assert "set ROWCAST_USER and ROWCAST_PASSWORD" in capsys.readouterr().err


def test_a_list_of_nothing_says_so_to_people(server):
    server.answers = [b"[]", b"[]"]
    for words, told in (
        (("sessions",), "no MQTT client has a session\n"),
        (("dead-letters", "list", "x"), "no dead letters of a bridge x\n"),
    ):
        done = run(*words)
        assert ("", told) == (done.stdout, done.stderr)


def test_a_refusal_is_one_sentence_on_standard_error(server, monkeypatch, capsys):
    server.answers = [problem(404, "Not found", "nothing is at Dog/9")]
    monkeypatch.setattr("sys.argv", ["rowcast", "get", "Dog/9"])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert 1 == exit_.value.code
    assert ("", "rowcast: Not found: nothing is at Dog/9\n") == capsys.readouterr()


def test_an_answer_that_is_no_problem_document_is_told_by_its_status(server):
    server.answers = [httpx.Response(502, text="<html>")]
    assert "502 Bad Gateway" == str(run("get", "Dog/1").exception)


def test_nobody_there_is_told_with_what_to_do(server):
    server.answers = [httpx.ConnectError("refused")]
    message = str(run("get", "Dog/1").exception)
    assert message.startswith("no server answers at http://127.0.0.1:9926 (refused)")
    assert "rowcast serve" in message


def test_a_name_and_password_in_the_address_sign_in_and_are_not_told(server, monkeypatch):
    monkeypatch.setattr("rowcast.program.commands.server.SyncRowcast", server.client)
    server.answers = [httpx.Response(200, text="{}"), httpx.ConnectError("refused")]
    who = "ann:pencil"
    url = f"http://{who}@127.0.0.1:9926"
    run("get", "Dog/1", "--url", url)
    assert "Basic YW5uOnBlbmNpbA==" == server.asked[0].headers["authorization"]
    message = str(run("get", "Dog/1", "--url", url).exception)
    assert message.startswith("no server answers at http://127.0.0.1:9926 ")


def test_the_server_is_that_of_the_settings(server, monkeypatch, tmp_path):
    urls = []
    monkeypatch.setattr(
        "rowcast.program.commands.server.SyncRowcast",
        lambda url, **_: urls.append(url) or server.client(url),
    )
    server.answers = [b"1", b"1", b"1"]
    (tmp_path / "rowcast.yaml").write_text("http: {port: 81}")
    run("get", "x")
    run("get", "x", "--url", "https://b.example/")
    monkeypatch.setenv("ROWCAST_URL", "https://a.example")
    run("get", "x")
    assert ["http://127.0.0.1:81", "https://b.example", "https://a.example"] == urls


# -- records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["Dog/1", "/Dog/1"])
def test_get_prints_the_bytes_that_came(server, path):
    server.answers = [httpx.Response(200, content=b"\x89PNG\n", headers={"ETag": f'"{CURSOR}"'})]
    assert b"\x89PNG\n" == run("get", path).stdout_bytes
    assert "/Dog/1" == server.asked[0].url.raw_path.decode()


def test_get_passes_a_query_on(server):
    server.answers = [b"[]"]
    run("get", "Dog/?age=gt=3&select(name)")
    assert b"/Dog/?age=gt=3&select(name)" == server.asked[0].url.raw_path


def test_get_asks_for_a_format(server):
    server.answers = [b"\x81"]
    run("get", "Dog/1", "--format", "msgpack")
    assert "application/x-msgpack" == server.asked[0].headers["Accept"]


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        ('{"name": "Rex"}', "application/json"),
        ("3.5", "application/json"),
        ('{"name": Rex}', "application/json"),
        ("hello", "text/plain; charset=utf-8"),
    ],
    ids=["object", "number", "meant to be JSON", "text"],
)
def test_put_sends_what_the_value_seems_to_be(server, value, content_type):
    server.answers = [httpx.Response(204, headers={"ETag": f'"{CURSOR}"'})]
    assert f"{CURSOR}\n" == run("put", "Dog/1", value).output
    (asked,) = server.asked
    assert ("PUT", "/Dog/1", value.encode(), content_type) == (
        asked.method, asked.url.path, asked.content, asked.headers["Content-Type"],
    )  # fmt: skip


def test_text_for_a_table_is_told_to_be_no_json(server):
    """O9: its sender chose no media type, so a list of them says nothing."""
    server.answers = [httpx.Response(415, json={"title": "T", "code": "unsupported"})] * 2
    assert "the value is text, and" in str(run("put", "Dog/1", "name=Rex").exception)
    assert "T" == str(run("put", "Dog/1", "name=Rex", "--content-type", "text/x").exception)


def test_a_wildcard_reaches_the_server_which_refuses_it(server):
    """Of 'Dog/#' a URL would keep 'Dog/', and the command do something else (O9)."""
    server.answers = [problem(400, "Malformed", "the topic 'Dog/#' holds a wildcard")]
    assert "holds a wildcard" in str(run("put", "Dog/#", "{}").exception)
    assert server.asked[0].url.raw_path == b"/Dog/%23"


def test_what_a_batch_refuses_is_told(server):
    """O9."""
    rows = [
        {"id": "1", "status": 204, "position": CURSOR},
        {"id": "2", "status": 422, "error": {"detail": "name: is required"}},
    ]
    server.answers = [httpx.Response(207, json=rows)]
    assert str(run("put", "Dog/", "[]").exception) == "2: name: is required"


def test_put_reads_standard_input(server):
    server.answers = [httpx.Response(204), httpx.Response(204)]
    run("put", "a/b", stdin=b"\xff\x00")
    run("put", "a/b", "-", stdin=b"7")
    types = [(asked.content, asked.headers["Content-Type"]) for asked in server.asked]
    assert [(b"\xff\x00", "application/octet-stream"), (b"7", "application/json")] == types


def test_put_reads_a_file_and_goes_by_its_name(server, tmp_path):
    server.answers = [httpx.Response(204)]
    (tmp_path / "dog.cbor").write_bytes(b"\xa0")
    run("put", "Dog/1", "@dog.cbor")
    assert (b"\xa0", "application/cbor") == (
        server.asked[0].content, server.asked[0].headers["Content-Type"],
    )  # fmt: skip


def test_put_tells_a_missing_file(server):
    assert "absent cannot be read: No such file" in str(run("put", "a", "@absent").exception)


def test_the_content_type_may_be_said(server):
    server.answers = [httpx.Response(204)]
    run("put", "a", "7", "--content-type", "text/csv")
    assert "text/csv" == server.asked[0].headers["Content-Type"]


def test_delete_asks_for_it(server):
    server.answers = [httpx.Response(204)]
    run("delete", "Dog/1")
    assert ("DELETE", "/Dog/1") == (server.asked[0].method, server.asked[0].url.path)


def test_delete_tells_how_many_a_query_selected(server):
    """B12: nothing else says whether it was one, all or none."""
    told = {"count": 3, "position": "0badcafe:17"}
    server.answers = [httpx.Response(200, json=told), httpx.Response(200, json=[])]
    assert told == json.loads(run("delete", "Dog/?age=gt=9").stdout)
    assert "" == run("put", "Dog/", "[]").stdout


@pytest.mark.parametrize(
    ("options", "method", "path"),
    [
        ([], "POST", b"/chat/a%20b?retain=false"),
        (["--content-type", "text/csv"], "POST", b"/chat/a%20b?retain=false"),
        (["--retain"], "PUT", b"/chat/a%20b"),
    ],
)
def test_pub_sends_a_message_or_a_record(server, options, method, path):
    server.answers = [httpx.Response(202)]
    run("pub", "chat/a b", "hi", *options)
    assert (method, path) == (server.asked[0].method, server.asked[0].url.raw_path)
    assert (method == "PUT") is write_parameters(server.asked[0].url.query).retain


def test_pub_has_no_option_that_the_server_refuses(server):
    """A write over HTTP is at least once, and takes no QoS."""
    server.answers = [httpx.Response(202)]
    told = run("pub", "chat/a", "hi", "--qos", "1")
    assert (2, []) == (told.exit_code, server.asked)


# -- events ----------------------------------------------------------------------------------------


def test_sub_asks_for_every_filter_as_a_stream(server):
    server.answers = [event(1)]
    run("sub", "Dog/+", "#", "--count", "1", "--new")
    (asked,) = server.asked
    assert [("topic", "Dog/+"), ("topic", "#"), ("start", "new")] == asked.url.params.multi_items()
    assert "text/event-stream" == asked.headers["Accept"]


def test_sub_writes_one_event_on_a_line(server):
    server.answers = [event(1, value={"name": "Rex"}) + event(2, "delete")]
    lines = run("sub", "#", "-n", "2").output.splitlines()
    assert [{"name": "Rex"}, None] == [json.loads(line)["value"] for line in lines]


def test_sub_raw_writes_values_only(server):
    server.answers = [event(1, value="hi") + event(2, "delete") + event(3, value=[1])]
    assert "hi\n[1]\n" == run("sub", "#", "-n", "2", "--raw").output


def test_sub_writes_other_formats_one_after_another(server):
    server.answers = [event(1, value="hi") + event(2, value=3)]
    written = run("sub", "#", "-n", "2", "--raw", "--format", "msgpack").stdout_bytes
    assert msgpack.packb("hi") + msgpack.packb(3) == written


def test_tail_prints_cursor_kind_topic_and_value(server):
    server.answers = [event(7, value={"name": "Rex"})]
    assert [CURSOR, "put", "Dog/1", '{"name":"Rex"}'] == run("tail", "-n", "1").stdout.split()


def test_p5_tail_refused_says_who_wrote_what_where_and_why(server):
    told = {"at": "now", "client_id": "s7", "door": "mqtt", "action": "write", "topic": "Dog/1"}
    server.answers = [event(6, "current") + event(7, value=told | {"reason": "no", "more": 3})]
    printed = run("tail", "-n", "1", "--refused").stdout
    assert "now  s7 (mqtt)  write Dog/1: no (and 3 more)\n" == printed
    assert "$AUDIT/refused/#" == server.asked[0].url.params["topic"]


def test_tail_begins_with_what_is_new(server):
    server.answers = [event(7)]
    run("tail", "-n", "1")
    assert [("topic", "#"), ("start", "new")] == server.asked[0].url.params.multi_items()


def test_tail_neither_prints_nor_counts_the_mark_of_its_beginning(server):
    """``current`` is for programs: nothing has happened yet."""
    server.answers = [event(6, "current") + event(7)]
    assert ["put"] == [line.split()[1] for line in run("tail", "-n", "1").stdout.splitlines()]


def test_tail_goes_on_after_a_cursor(server):
    server.answers = [event(8)]
    run("tail", "-n", "1", "--since", CURSOR)
    assert CURSOR == server.asked[0].headers["Last-Event-ID"]
    assert [("topic", "#")] == server.asked[0].url.params.multi_items()


def test_tail_lets_no_topic_drive_the_terminal(server):
    server.answers = [event(7, topic="a/\x1b[2J\x9b", value="\x9b")]
    assert run("tail", "-n", "1").stdout.strip().isprintable()


@pytest.mark.parametrize(
    "end",
    [httpx.ReadTimeout("silence"), httpx.RemoteProtocolError("cut"), httpx.Response(503), b""],
    ids=["silence", "cut", "busy", "closed"],
)
def test_tail_goes_on_where_it_was_when_the_connection_is_lost(server, end):
    """C9."""
    server.answers = [event(7), end, event(8)]
    result = run("tail", "Dog/#", "-n", "2")
    assert ["3f9a1c2e:7", "3f9a1c2e:8"] == [line.split()[0] for line in result.stdout.splitlines()]
    assert [None, CURSOR, CURSOR] == [x.headers.get("Last-Event-ID") for x in server.asked]


def test_ctrl_c_prints_the_cursor_to_continue_from(server):
    server.answers = [event(7)]
    result = run("tail", "Dog/#")
    last = result.stderr.splitlines()[-1]
    assert (0, f"continue with: rowcast tail 'Dog/#' --since {CURSOR}") == (result.exit_code, last)


def test_tail_says_that_it_is_connected_and_resumes_from_its_cursor(server):
    server.answers = [event(7), httpx.ReadTimeout("silence"), event(8)]
    assert [
        "connected to http://127.0.0.1:9926, watching Dog/#; Ctrl-C ends",
        "connection to http://127.0.0.1:9926 lost; trying again",
        f"connected again, resuming after {CURSOR}",
    ] == run("tail", "Dog/#", "-n", "2").stderr.splitlines()


def test_tail_resumes_from_the_position_at_which_it_connected(server):
    """An event between the loss of the first connection and the second is not lost."""
    first = httpx.Response(200, content=b"", headers={"Rowcast-Position": CURSOR})
    server.answers = [first, event(8)]
    run("tail", "-n", "1")
    assert [None, CURSOR] == [asked.headers.get("Last-Event-ID") for asked in server.asked]


def test_a_refused_stream_ends_the_command(server):
    server.answers = [problem(403, "Denied", "you may not read #")]
    assert "Denied: you may not read #" == str(run("tail").exception)


def test_a_refusal_after_events_ends_it_too(server):
    server.answers = [event(7), problem(401, "Unauthenticated", "who are you?")]
    assert "Unauthenticated: who are you?" == str(run("tail").exception)


# -- the server's own commands ---------------------------------------------------------------------


def test_a_setting_needs_a_value(server):
    assert "--set http.port: write --set name=value" == str(
        run("check", "--set", "http.port").exception
    )


@pytest.fixture
def served(server, monkeypatch):
    """What ``rowcast.program.main.serve`` was called with, without starting anything."""
    served = []
    monkeypatch.setitem(sys.modules, "rowcast.program.main", SimpleNamespace(serve=served.append))
    usual = sys.getswitchinterval()
    yield served
    sys.setswitchinterval(usual)  # other tests of this process see what ``serve`` has set
    gc.enable()  # what the server does when it is ready


def test_serve_passes_flags_on(served):
    run("serve", "--http-port", "0", "--mqtt-port", "0", "--data", "d", "--set", "http.host=::1")
    (config,) = served
    assert (0, 0, "d", "::1") == (
        config.http.port, config.mqtt.network.port, str(config.data), config.http.host,
    )  # fmt: skip


def test_a_flag_wins_over_set(served):
    run("serve", "--http-port", "0", "--set", "http.port=99999")
    assert 0 == served[0].http.port


def test_check_tells_what_it_found(server, tmp_path):
    (tmp_path / "schema.graphql").write_text("type Dog @table @export { id: ID @primaryKey }")
    result = run("check")
    assert (0, "schema.graphql: Dog") == (result.exit_code, result.output.splitlines()[0])


def test_check_tells_every_problem_with_its_place(server, tmp_path):
    (tmp_path / "schema.graphql").write_text("type Dog @table {\n  id: ID @primaryKee\n}")
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/broken.py").write_text("def\n")
    message = str(run("check").exception)
    assert "schema.graphql:2:10" in message
    assert "broken.py" in message


def test_check_reads_certificates_too(server, tmp_path):
    """D2: what would be told at the start is told here."""
    files = ServerFiles(tmp_path, Authority(tmp_path).issue("localhost", common_name="first"))
    (tmp_path / "rowcast.yaml").write_text(
        f"tls: {{certificate: {files.certificate}, privateKey: {files.key}}}"
    )
    assert f"{files.certificate}: localhost, first, until " in run("check").output
    files.key.unlink()
    assert f"tls.privateKey: {files.key}: cannot be read" in str(run("check").exception)


@pytest.mark.parametrize(("terminal", "written"), [(True, b"21.5\n"), (False, b"21.5")])
def test_get_ends_the_line_on_a_terminal_only(monkeypatch, terminal, written):
    out = io.TextIOWrapper(io.BytesIO())
    out.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdout", out)
    rowcast.program.commands.output.write_body(b"21.5")
    assert written == out.buffer.getvalue()


def test_nothing_in_the_past_is_told(server):
    """O9: an empty answer looks like a command that did not work."""
    server.answers = [b""]
    result = run("history", "Nope/1")
    assert (0, "", "the log has no events of Nope/1\n") == (
        result.exit_code, result.stdout, result.stderr,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["history", "Dog/1", "--from=-1h"], "GET", "/Dog/1?_from=-1h", ""),
        (["history", "a b/", "--last", "3", "--to", "now"], "GET", "/a%20b/?_to=now&_last=3", ""),
        (["history", "Dog/1"], "GET", "/Dog/1?_last=10", ""),
        (["sessions"], "GET", "/$SYS/sessions/", ""),
        (["cluster", "status"], "GET", "/$SYS/cluster/nodes/", ""),
        (["sessions", "a/b"], "GET", "/$SYS/sessions/a%2Fb", ""),
        (["sessions", "a/b", "--end"], "DELETE", "/$SYS/sessions/a%2Fb", ""),
        (["dead-letters", "list"], "GET", "/$SYS/dead_letters/", ""),
        (["dead-letters", "list", "x"], "GET", "/$SYS/dead_letters/?broker==x", ""),
        (["dead-letters", "replay", "cloud/17"], "PUT", "/$SYS/dead_letters/cloud/17", "{}"),
        (["dead-letters", "remove", "cloud/17"], "DELETE", "/$SYS/dead_letters/cloud/17", ""),
        (
            ["dead-letters", "replay", 'clo"ud', "--limit", "5"],
            "POST",
            "/$SYS/dead_letters/",
            '{"broker": "clo\\"ud", "limit": 5}',
        ),
    ],
)
def test_what_is_looked_at_and_repaired(server, arguments, method, path, body):
    """O9: sessions, history and dead letters by the server's public REST."""
    server.answers = [b'{"replayed": 5}']
    done = CliRunner().invoke(command, arguments)
    assert 0 == done.exit_code, done.output
    (asked,) = server.asked
    assert (method, path, body) == (
        asked.method,
        asked.url.raw_path.decode(),
        asked.content.decode(),
    )


@pytest.mark.parametrize(("status", "told"), [(404, "of no cluster"), (403, "not for you")])
def test_a_server_of_no_cluster_is_told(server, status, told):
    """O9: not as a path that is missing, which nobody asked for."""
    for words in (["status"], ["join", "d=10.0.0.4:6222"], ["leave", "c"]):
        server.answers = [problem(status, "No", "not for you")]
        assert told in str(run("cluster", *words).exception)
