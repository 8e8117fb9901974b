"""The client in Node against the whole program: SSE, cursors, restarts (O10).

Node 20 has no WebSocket unless it is told to, so this is SSE; what goes over the socket is in
tests/browser/test_rowcast_js_writes.py, and what browsers do in tests/browser/test_live_page.py.
"""

import json
import re
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from node_process import MARKS, NODE, UI, WEBSOCKET, NodeProcess

from serving import Server

CLIENT = UI / "rowcast.js"
CODE_BYTES_MAX = 10_000
pytestmark = MARKS


class Client(NodeProcess):
    """A program with one client."""

    def __init__(self, url, **options):
        super().__init__("rowcast_client.mjs", CLIENT, url, json.dumps(options))

    def call(self, verb, *args):
        self.do("call", verb=verb, args=args)
        return self.next()

    def events(self, count):
        """Return so many events, the states between them left out."""
        found = []
        while len(found) < count:
            if (event := self.next().get("event")) is not None:
                found.append(event)
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.url) as one:
        yield one


def test_it_is_small(server):
    """O10: all its files are below 10 KB as a browser gets them; no tool makes them smaller."""
    text = (UI.parents[4] / "docs" / "clients.md").read_text()
    names = re.search(r"/ui/\{([\w,]+)\}\.js'", text)[1].split(",")
    got = [server.request("GET", f"/ui/{name}.js") for name in names]
    assert ["gzip"] * len(names) == [one.headers["content-encoding"] for one in got]
    assert CODE_BYTES_MAX > sum(int(one.headers["content-length"]) for one in got)


@pytest.mark.parametrize("flags", [[], [WEBSOCKET]], ids=["sse", "ws"])
def test_the_example_of_the_manual_prints_what_it_says(tmp_path, flags):
    """O10: docs/clients.md, typed as it stands there, with copies of the files that it names."""
    text = (UI.parents[4] / "docs" / "clients.md").read_text()
    names = re.search(r"/ui/\{([\w,]+)\}\.js'", text)[1].split(",")
    example = r"```js\n(import [^`]*? from './rowcast.js'\n.*?)```\n\nIt prints:\n\n```\n(.*?)```"
    code, printed = re.search(example, text, re.DOTALL).groups()
    (tmp_path / "dogs.mjs").write_text(code)
    schema = "type Dog @table @export { id: ID @primaryKey  name: String!  breed: String }"
    with Server(tmp_path, schema=schema) as server:
        for name in names:
            served = server.request("GET", f"/ui/{name}.js")
            (tmp_path / f"{name}.js").write_text(served.text)
        command = [NODE, *flags, "--no-warnings", "dogs.mjs", server.url]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ("", printed) == (done.stderr, done.stdout)


def test_c21_where_there_is_no_websocket_it_is_told():
    """C21, P5: instead of a TypeError that ends the program."""
    script = f"""
        delete globalThis.WebSocket
        const {{ Rowcast }} = await import('{UI / "rowcast.js"}')
        const {{ Presence }} = await import('{UI / "presence.js"}')
        const rows = new Rowcast('http://127.0.0.1:9', {{ transport: 'ws' }})
        const here = new Presence(rows, 'presence/ann', {{ present: 'here', gone: 'away' }})
        await here.ready.catch((problem) => console.log(problem.message.slice(0, 26)))
        const onState = (state, problem) => console.log(state, problem.code)
        rows.subscribe('Dog/#', () => {{}}, {{ onState }})"""
    command = [NODE, "--no-warnings", "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("", "there is no WebSocket here\nrefused unsupported\n") == (done.stderr, done.stdout)


def test_c17_it_comes_back_when_the_server_asks():
    """C17: else all pages come back at once to a server that has just started."""
    script = f"""
        const {{ Rowcast }} = await import('{UI / "rowcast.js"}')
        const [wait, asked] = [setTimeout, []]
        globalThis.setTimeout = (act, ms) => ms < 60000 && asked.push(ms) && wait(act, 0)
        class Wire {{
          constructor() {{ queueMicrotask(() => this.end(ends.shift() ?? {{}})) }}
          end(how) {{ this.onopen() || this.onclose(how) }}
        }}
        const ends = [{{ code: 1012, reason: 'the server stops; come back in 7000 ms' }}, {{}}]
        const stream = (text) => new Response(text, {{ headers: {{ 'rowcast-position': 'a:1' }} }})
        const texts = ['retry: 8000\\n\\n', 'retry: 900000\\n\\n', '']
        const told = () => {{
          console.log(asked.map((ms) => ms < 1000 ? 'soon' : ms))
          process.exit()
        }}
        for (const transport of ['ws', 'sse']) {{
          const fetch = async () => texts.length ? stream(texts.shift()) : told()
          const rows = new Rowcast('http://127.0.0.1:9', {{ transport, fetch, WebSocket: Wire }})
          rows.subscribe('#', () => {{}})
          while (ends.length) await new Promise((go) => wait(go, 1))
          if (transport === 'ws') rows.close()
        }}"""
    command = [NODE, "--no-warnings", "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("", "[ 7000, 'soon', 8000, 30000, 'soon' ]\n") == (done.stderr, done.stdout)


@pytest.mark.parametrize("transport", ["sse", "ws"])
def test_an_exception_of_the_program_s_own_is_no_lost_connection(server, transport):
    """C21: each event comes once, on one connection; the exceptions are the program's to see."""
    script = f"""
        const {{ Rowcast }} = await import('{CLIENT}')
        const rows = new Rowcast('{server.url}', {{ transport: '{transport}' }})
        const told = []
        process.on('uncaughtException', (error) => told.push(error.message))
        const onEvent = ({{ value }}) => {{
          if (!value) return // the mark after what is current
          told.push(value.n)
          if (value.n === 3) setTimeout(() => {{
            console.log(told.join(','))
            process.exit()
          }}, 500)
          throw new Error('own ' + value.n)
        }}
        const onState = (state) => {{
          told.push(state)
          if (state === 'live') for (const n of [1, 2, 3]) setTimeout(
            () => rows.put('own/{transport}', {{ n }}, {{ via: 'http' }}), 100 * n)
          throw new Error('own ' + state)
        }}
        rows.subscribe('own/{transport}', onEvent, {{ start: 'new', onState }})"""
    command = [NODE, WEBSOCKET, "--no-warnings", "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = ["connecting", "live", "1", "2", "3"]
    assert "" == done.stderr
    told = done.stdout.strip().split(",")
    assert said == [one for one in told if not one.startswith("own ")]
    assert [f"own {one}" for one in said] == [one for one in told if one.startswith("own ")]


def test_it_reads_and_writes_on_conditions(client):
    first = client.call("put", "Dog/a b", {"name": "Rex"})["result"]
    assert 201 == first["status"]
    got = client.call("get", "Dog/a b")["result"]
    assert ({"id": "a b", "name": "Rex"}, first["cursor"]) == (got["value"], got["cursor"])
    client.call("patch", "Dog/a b", {"age": 3}, {"ifMatch": first["cursor"]})
    late = client.call("patch", "Dog/a b", {"age": 4}, {"ifMatch": first["cursor"]})
    assert 412 == late["refused"]
    wrong = client.call("put", "Dog/x", {"age": "old"})
    assert {"name", "age"} == {one["path"] for one in wrong["problems"]}
    assert 2 == len(client.call("history", "Dog/a b")["result"]["events"])


@pytest.mark.parametrize("topic", ["Dog/../home/v", "Dog/x/../../home/v", "./home/v", "home/v/.."])
def test_o10_a_level_of_dots_is_a_name_like_others(client, server, topic):
    """O10: in a URL Dog/../home/v is home/v, also with %2e (URL Standard, 4.4)."""
    server.request("PUT", "/home/v", json={"name": "victim"})
    client.call("put", topic, {"name": "new"})
    assert "new" == client.call("get", topic)["result"]["value"]["name"]
    assert ["put"] == [one["_op"] for one in client.call("history", topic)["result"]["events"]]
    client.call("delete", topic)
    assert 404 == client.call("get", topic)["refused"]
    assert {"name": "victim"} == server.request("GET", "/home/v").json()


@pytest.mark.parametrize("topic", [".", ".."])
def test_o10_what_no_url_names_is_not_asked_for(client, topic):
    calls = ("get", topic), ("put", topic, {}), ("create", topic, {})
    said = [client.call(*call) for call in calls]
    assert [(400, f"no URL names {topic}")] * 3 == [
        (one["refused"], one["message"]) for one in said
    ]


def test_it_pages_and_takes_other_formats(client):
    for n in range(3):
        client.call("put", f"Counter/p{n}", {"n": n})
    page = client.call("query", "Counter", "limit(2)")["result"]
    rest = client.call("query", "Counter", page["next"])["result"]
    assert ["p0", "p1", "p2"] == [row["id"] for row in page["rows"] + rest["rows"]]
    assert rest["next"] is None
    client.call("put", "home/text", "plain words", {"type": "text/plain"})
    got = client.call("get", "home/text")["result"]
    assert ("plain words", "text/plain") == (got["value"], got["type"])


def test_it_goes_on_over_a_restart_without_loss_or_repeats(client, server):
    """O10: the cursor is kept, and what happened meanwhile comes from the log."""
    client.do("subscribe", filter="Counter/r", options={"start": "new"})
    client.events(1)  # it is current
    for n in range(5):
        server.request("PUT", "/Counter/r", json={"n": n})
    heard = client.events(5)
    server.stop()
    server.start()
    for n in range(5, 10):
        server.request("PUT", "/Counter/r", json={"n": n})
    while len(heard) < 10:
        heard += [event for event in client.events(1) if event["kind"] == "put"]
    assert list(range(10)) == [event["value"]["n"] for event in heard]


def test_c23_a_commit_follows_each_transaction(client, server):
    """C23: also after a reconnect, which asks for commits again."""
    client.do("subscribe", filter="Counter/t", options={"start": "new", "commits": True})
    assert ["current", "commit"] == [event["kind"] for event in client.events(2)]
    for _ in range(2):
        server.request("PUT", "/Counter/t", json={"n": 1})
        kinds = [event["kind"] for event in client.events(2)]
        while kinds[0] == "commit":  # that of the cursor comes again
            kinds = [*kinds[1:], client.events(1)[0]["kind"]]
        assert ["put", "commit"] == kinds
        server.stop()
        server.start()


def test_a_cursor_of_another_log_is_a_reset(client, server):
    """O10: exactly one reset, then the records as they are."""
    server.request("PUT", "/Counter/s", json={"n": 7})
    client.do("subscribe", filter="Counter/s", options={"since": "0badcafe:1"})
    kinds = [event["kind"] for event in client.events(3)]
    assert ["reset", "snapshot", "current"] == kinds


SEPARATORS = "a\u2028b\u2029c\x85d\u2028event: problem"


def test_o10_a_value_may_have_any_characters(client, server):
    """O10: U+2028 is no line end of a stream, but one of JavaScript's regular expressions."""
    server.request("PUT", "/Dog/u", json={"name": SEPARATORS})
    client.do("subscribe", filter="Dog/u", options={})
    snapshot, current = client.events(2)
    assert (SEPARATORS, "current") == (snapshot["value"]["name"], current["kind"])


class Cut(BaseHTTPRequestHandler):
    """Answers a stream with the next of some pieces, and ends it."""

    def do_GET(self):
        self.server.asked.append(self.path)
        piece = self.server.pieces.pop(0)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("rowcast-position", "a:3")
        self.end_headers()
        for kind, cursor in piece:
            mark = f"id: {cursor}\n" if kind == "current" else ""
            data = json.dumps({"kind": kind, "cursor": cursor, "topic": "Dog/1"})
            self.wfile.write(f"{mark}data: {data}\n\n".encode())

    def log_message(self, *_):
        """Say nothing."""


def test_a_cut_among_the_records_begins_anew_and_says_so():
    """O10: one that was shown may be gone; and a reset that was cut off is not taken for done."""
    with HTTPServer(("127.0.0.1", 0), Cut) as server:
        server.asked = []
        server.pieces = [
            [("snapshot", "a:1")],
            [("snapshot", "a:1"), ("current", "a:5")],
            [("reset", "b:1"), ("snapshot", "b:1")],
            [("reset", "b:1"), ("current", "b:2")],
            [],
        ]
        thread = Thread(target=lambda: [server.handle_request() for _ in range(5)])
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            client.do("subscribe", filter="Dog/#", options={})
            kinds = [event["kind"] for event in client.events(8)]
            thread.join()
    again = ["reset", "snapshot", "current", "reset", "snapshot", "reset", "current"]
    assert ["snapshot", *again] == kinds
    places = [parse_qs(urlsplit(path).query).get("since") for path in server.asked]
    assert [None, None, ["a:5"], ["a:5"], ["b:2"]] == places


PLACES = pytest.mark.parametrize(
    ("word", "value"),
    [
        ("start", "new"),
        ("startTime", "0"),
        ("last", "5"),
        ("previousCount", "5"),
        ("from", "-1h"),
    ],
)


@PLACES
def test_a_quiet_topic_has_a_place_in_the_log_too(word, value):
    """O10: what comes while the first connection is away is not counted from its return."""
    with HTTPServer(("127.0.0.1", 0), Cut) as server:
        server.asked = []
        server.pieces = [[], []]
        thread = Thread(target=lambda: [server.handle_request() for _ in range(2)])
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            client.do("subscribe", filter="Dog/#", options={word: value})
            thread.join()
    first, second = (parse_qs(urlsplit(path).query) for path in server.asked)
    assert {"topic": ["Dog/#"], word: [value]} == first
    assert {"topic": ["Dog/#"], "since": ["a:3"]} == second


@PLACES
def test_m4_an_interval_is_asked_for_at_each_connection(word, value):
    """M4: a reconnect does not make the values come more often; where to begin is the cursor."""
    with HTTPServer(("127.0.0.1", 0), Cut) as server:
        server.asked = []
        server.pieces = [[("current", "a:5")], []]
        thread = Thread(target=lambda: [server.handle_request() for _ in range(2)])
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            client.do("subscribe", filter="Dog/#", options={word: value, "conflate": "1s"})
            client.events(1)
            thread.join()
    first, second = (parse_qs(urlsplit(path).query) for path in server.asked)
    assert {"topic": ["Dog/#"], word: [value], "conflate": ["1s"]} == first
    assert {"topic": ["Dog/#"], "since": ["a:5"], "conflate": ["1s"]} == second


def test_m4_a_wrong_interval_is_refused(client):
    client.do("subscribe", filter="Dog/#", options={"conflate": "often"})
    said = [client.next(), client.next()]
    assert [("connecting", None), ("refused", 400)] == [
        (x["state"], x.get("problem")) for x in said
    ]


def test_what_is_refused_for_good_is_not_tried_again(client):
    client.do("subscribe", filter="a/#/b", options={})
    said = [client.next(), client.next()]
    assert [("connecting", None), ("refused", 400)] == [
        (x["state"], x.get("problem")) for x in said
    ]
