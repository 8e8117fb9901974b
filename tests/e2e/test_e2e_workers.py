"""Worker processes beside the server: what is written anywhere is read everywhere, once, in order
(K1).

Real processes, killed and paused; the promises themselves are also checked on many seeds by
``tests/sim/test_sim_cluster.py``.
"""

import os
import re
import signal
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from websockets.sync.client import connect

from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect
from serving import Server, wait_until
from talking import Events, Mqtt

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String
  n: Long
  created: String @createdTime
}
type Ping @table @export {
  id: ID @primaryKey
}
type Beat @table(logs: "retained") @export {
  id: ID @primaryKey
  n: Long
}
type Meter @table(invalid: "deadLetter") @export {
  id: ID @primaryKey
  n: Long
}
"""


class Served(Server):
    """A server with two workers."""

    def __init__(self, folder, schema=SCHEMA, **settings):
        given = {"workers.count": 2, "workers.http_port": 0, "workers.mqtt_port": 0} | settings
        super().__init__(folder, schema, folder / "no-resources", given)

    @property
    def workers_port(self):
        """The port that the workers share."""
        return int(re.search(r"  2 workers +http://[\d.]+:(\d+)/", self.log)[1])

    @property
    def workers_mqtt_port(self):
        """The same of MQTT."""
        return int(re.search(r"MQTT at workers +[\d.]+:(\d+)", self.log)[1])

    def work(self, method, path, **options):
        """Ask a worker, whichever the system chooses."""
        with self.client() as client:
            url = f"http://127.0.0.1:{self.workers_port}{path}"
            return client.request(method, url, **options)

    @property
    def rows(self):
        """What the server tells of its workers."""
        return self.request("GET", "/$SYS/workers/").json()

    def stream(self, path, since=""):
        """Open a stream of SSE at a worker."""
        return Events(SimpleNamespace(http_port=self.workers_port), path, since)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("workers")) as running:
        yield running


def by_workers(server, ask, times=8):
    """Ask often enough that both workers are asked, nearly surely."""
    return [ask(server) for _ in range(times)]


def put(server, name, n=0):
    answer = server.work("PUT", f"/Dog/{name}", json={"n": n})
    assert answer.status_code in {201, 204}, answer.text
    return answer


def test_what_a_worker_wrote_is_read_at_once_where_it_was_written_and_soon_everywhere(server):
    with server.client() as client:
        url = f"http://127.0.0.1:{server.workers_port}/Dog/own"
        for n in range(50):  # on one connection, so at one worker
            told = client.put(url, json={"n": n})
            assert told.status_code == (201 if n == 0 else 204)
            read = client.get(url)
            assert (read.json()["n"], read.headers["etag"]) == (n, told.headers["etag"])
    etag = told.headers["etag"]
    assert server.request("GET", "/Dog/own").headers["etag"] == etag
    for _ in range(8):
        wait_until(lambda: server.work("GET", "/Dog/own").headers["etag"] == etag, "a worker")


def test_mqtt_and_workers_hear_each_other(server):
    with Mqtt(server.mqtt_port) as client, server.stream("/Dog/?start=new") as stream:
        client.subscribe("Dog/+", qos=1, retain_handling=2)
        stream.until_current()
        client.publish("Dog/mqtt", b'{"name":"Rex"}', qos=1, retain=True)
        assert stream.next().fields["topic"] == "Dog/mqtt"
        heard = [client.message().topic]
        put(server, "http")
        assert stream.next().fields["topic"] == "Dog/http"
        heard += [client.message().topic]
    assert heard == ["Dog/mqtt", "Dog/http"]


def test_unlogged_messages_pass_between_processes(server):
    with Mqtt(server.mqtt_port) as client, server.stream("/Ping/?start=new") as stream:
        client.subscribe("Ping/+", qos=0)
        stream.until_current()
        client.publish("Ping/1", b'{"id":"1"}', qos=0, retain=False)
        assert stream.next().fields["topic"] == "Ping/1"
        assert client.message().topic == "Ping/1"
        answers = by_workers(server, lambda it: it.work("POST", "/Ping/2?retain=false", json={}))
        assert {answer.status_code for answer in answers} <= {200, 202, 204}
        heard = [client.message().topic for _ in answers]
        seen = [stream.next().fields["topic"] for _ in answers]
    assert heard == seen == ["Ping/2"] * len(answers)


def test_what_a_session_waits_for_is_logged_whichever_process_takes_it(server):
    """Messages of this table are not; at a worker they were answered with 202, and lost (D27)."""
    session = {"client_id": "away", "properties": {"session_expiry_interval": 3600}}
    url = f"http://127.0.0.1:{server.workers_port}/Beat/1?retain=false"
    with server.client() as client:
        assert client.post(url, json={"n": 0}).status_code == 202
        with Mqtt(server.mqtt_port, **session) as subscriber:
            subscriber.subscribe("Beat/+", qos=1)
        wait_until(lambda: client.post(url, json={"n": 1}).status_code == 204, "it is logged")
        for n in (2, 3):
            assert client.post(url, json={"n": n}).status_code == 204
    with Mqtt(server.mqtt_port, **session, clean_start=False) as subscriber:
        found = [subscriber.message().payload for _ in range(3)]
        subscriber.unsubscribe("Beat/+")
    assert [b'"n":1' in found[0], b'"n":2' in found[1], b'"n":3' in found[2]] == [True] * 3
    path = "/Beat/1?retain=false"
    wait_until(lambda: server.work("POST", path, json={}).status_code == 202, "it is not any more")


@pytest.mark.parametrize("reads_at", ["worker", "server"])
def test_a_live_query_hears_what_other_processes_write(server, reads_at):
    """M3: what enters, changes and leaves, and nothing else."""
    path = f"/Dog/?n=gt=5&name=={reads_at}"

    def write(ask, method, name, **fields):
        told = ask(method, f"/Dog/{reads_at}-{name}", json={"name": reads_at} | fields)
        assert told.status_code in {201, 204}, told.text

    write(server.request, "PUT", "old", n=7)
    wait_until(lambda: len(server.work("GET", path).json()) == 1, "workers have followed")
    at = server if reads_at == "server" else SimpleNamespace(http_port=server.workers_port)
    with Events(at, path) as stream:
        assert [stream.next().kind, stream.next().kind] == ["snapshot", "current"]
        for ask in (server.request, server.work, server.work):
            write(ask, "PUT", "few", n=1)
            write(ask, "PUT", "new", n=6)
            write(ask, "PATCH", "new", n=8)
            write(ask, "PATCH", "few", n=2)
            write(ask, "PATCH", "new", n=3)
            write(ask, "DELETE", "few")
            write(ask, "PATCH", "old", n=9)
            write(ask, "DELETE", "new")
            steps = [stream.next() for _ in range(4)]
            heard = [(step.kind, step.fields["topic"].rpartition("-")[2]) for step in steps]
            wanted = [("enter", "new"), ("change", "new"), ("leave", "new"), ("change", "old")]
            assert heard == wanted


def test_a_transaction_at_a_worker_is_one(server):
    """B22: all at consecutive positions, or nothing; conditions hold against other processes."""
    put(server, "from", 10)
    since = put(server, "to", 0).headers["etag"].strip('"')
    # The worker of the stream may not have followed so far yet: "new" would begin before.
    with server.stream("/Dog/", since) as stream:
        etag = server.request("GET", "/Dog/from").headers["etag"].strip('"')
        move = [
            {"op": "patch", "topic": "Dog/from", "value": {"n": 7}, "ifMatch": etag},
            {"op": "patch", "topic": "Dog/to", "value": {"n": 3}},
            {"op": "put", "topic": "Meter/moved", "value": {"n": 3}},
        ]
        done = server.work("POST", "/$tx", json=move)
        assert done.status_code == 200, done.text
        numbers = [int(row["position"].rpartition(":")[2]) for row in done.json()]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        put(server, "from", 8)
        again = server.work("POST", "/$tx", json=move)
        assert again.status_code == 412, again.text
        put(server, "last", 1)
        heard = [stream.next() for _ in range(4)]
    assert [event.fields["topic"] for event in heard] == [
        "Dog/from", "Dog/to", "Dog/from", "Dog/last",
    ]  # fmt: skip
    assert server.request("GET", "/Dog/to").json()["n"] == 3


def test_values_that_do_not_fit_are_taken_at_workers_as_the_table_says(server):
    """A15: the same answer as at the server, and the dead letter is in the one log."""
    asks = (server.request, server.work, server.work)
    taken = [ask("PUT", f"/Meter/bad-{n}", json={"n": "much"}) for n, ask in enumerate(asks)]
    assert [answer.status_code for answer in taken] == [202] * 3
    for n in range(3):
        kept = server.request("GET", f"/$AUDIT/refused/value/Meter/bad-{n}?last=1").json()
        assert kept[0]["value"]["payload"] == '{"n":"much"}'
        assert server.request("GET", f"/Meter/bad-{n}").status_code == 404


def test_a_cursor_of_one_process_goes_on_at_another(server):
    """Stopped and resumed anywhere, a reader has every event once."""
    numbers, since = [], put(server, "hop", -1).headers["rowcast-position"]
    done = threading.Event()

    def write():
        for n in range(300):
            (server.work if n % 2 else server.request)("PUT", "/Dog/hop", json={"n": n})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    hops = 0
    while len(numbers) < 300:
        hops += 1
        at = server if hops % 3 == 0 else SimpleNamespace(http_port=server.workers_port)
        with Events(at, "/Dog/hop", since) as stream:
            for _ in range(min(7, 300 - len(numbers))):
                told = stream.next()
                assert told.kind == "put", told
                numbers.append(told.value["n"])
                since = told.id
    writer.join()
    assert numbers == list(range(300))


def test_conditions_hold_across_processes(server):
    """Read, add one, and put it back if nobody was faster: no addition is lost."""
    put(server, "sum", 0)
    failures = []

    def add(ask):
        added = 0
        while added < 25:
            read = ask("GET", "/Dog/sum")
            match = {"If-Match": read.headers["etag"]}
            told = ask("PUT", "/Dog/sum", json={"n": read.json()["n"] + 1}, headers=match)
            if told.status_code == 204:
                added += 1
            elif told.status_code != 412:
                failures.append(told.text)
                return

    asks = (server.work, server.work, server.work, server.request)
    threads = [threading.Thread(target=add, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, server.request("GET", "/Dog/sum").json()["n"]) == ([], 100)


def test_patches_are_merged_across_processes(server):
    first = put(server, "patched", 0)
    created = server.request("GET", "/Dog/patched").json()["created"]
    assert first.status_code == 201

    def patch(n):
        for ask in (server.work, server.request, server.work):
            assert ask("PATCH", "/Dog/patched", json={f"k{n}": n}).status_code == 204

    threads = [threading.Thread(target=patch, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = server.request("GET", "/Dog/patched").json()
    assert found == {"id": "patched", "n": 0, "created": created} | {f"k{n}": n for n in range(4)}


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/Dog/", {"json": {}, "headers": {"Idempotency-Key": '"k"'}}),
        ("PUT", "/undeclared/topic", {"content": b"x"}),
        ("GET", "/$SYS/snapshots/", {}),
        ("POST", "/$delayed/60/Dog/1?retain=false", {"json": {}}),
        ("POST", "/$SYS/tickets", {}),
    ],
    ids=["a key", "an undeclared topic", "snapshots", "a delay", "a ticket"],
)
def test_what_needs_one_place_is_passed_on_by_workers(server, method, path, options):
    """K4."""
    wanted = server.request(method, path, **options)
    for answer in by_workers(server, lambda it: it.work(method, path, **options)):
        assert answer.status_code in {wanted.status_code, 204}, answer.text
        if answer.status_code == 201:
            assert answer.headers.get("location") == wanted.headers.get("location")
    figures = server.work("GET", "/metrics")  # one page for all processes, which the server has
    assert figures.status_code == 200
    assert "rowcast_" in figures.text


def test_mqtt_at_workers_is_that_of_the_server(server):
    """K4."""
    with Mqtt(server.mqtt_port, client_id="at-the-server") as own:
        own.subscribe("w/#")
        for number in range(6):
            with Mqtt(server.workers_mqtt_port, client_id=f"at-a-worker-{number}") as client:
                client.publish("w/1", b"%d" % number)
            assert own.message().payload == b"%d" % number
    url = f"ws://127.0.0.1:{server.workers_port}/mqtt"
    with connect(url, subprotocols=["mqtt"]) as socket:
        socket.send(encode(Connect(5, "over-websocket"), 5))
        assert socket.recv()[0] == 0x20


def test_workers_are_ready_and_listed(server):
    assert [(row["ready"], row["restarts"]) for row in server.rows] == [(True, 0)] * 2
    for answer in by_workers(server, lambda it: it.work("GET", "/health/ready")):
        assert answer.status_code == 200, answer.text
        assert answer.json()["checks"]["log"] == "ok"


OWN_CODE = """
import rowcast

class Calls(rowcast.Resource):
    count = 0

    async def get(self, *_):
        Calls.count += 1
        return {"count": Calls.count}
"""
HOOK = """
@rowcast.hooks.add
class Refuses(rowcast.Hook):
    def on_publish(self, caller, event):
        if event.topic == "Dog/forbidden":
            raise rowcast.Error(rowcast.Code.DENIED, "not this one")
"""


@pytest.mark.parametrize("hook", ["", HOOK], ids=["a resource class", "and a hook"])
def test_code_of_the_project_runs_in_one_process_and_is_asked_at_all(tmp_path, hook):
    """K4."""
    folder = tmp_path / "no-resources"
    folder.mkdir()
    (folder / "own.py").write_text(OWN_CODE + hook)
    with Served(tmp_path) as server:
        counts = [
            it.json()["count"] for it in by_workers(server, lambda it: it.work("GET", "/Calls/one"))
        ]
        assert counts == list(range(1, 9))
        wanted = {403} if hook else {201, 204}
        told = by_workers(server, lambda it: it.work("PUT", "/Dog/forbidden", json={}))
        assert {answer.status_code for answer in told} <= wanted
        put(server, "allowed")
        assert server.work("GET", "/Dog/allowed").is_success


def test_rules_and_users_hold_at_workers(tmp_path):
    with Served(tmp_path) as server:
        root = {"password": "secret-root", "roles": ["admin"], "setup_code": server.setup_code}
        assert server.request("PUT", "/$SYS/users/root", json=root).status_code in {201, 204}
        admin = {"auth": ("root", "secret-root")}
        guest = {"password": "secret-guest", "roles": ["guest"]}
        role = {"read": True, "write": True}
        server.request("PUT", "/$SYS/roles/guest", json=role, **admin).raise_for_status()
        server.request("PUT", "/$SYS/users/ann", json=guest, **admin).raise_for_status()
        ann = {"auth": ("ann", "secret-guest")}

        def statuses():
            asked = by_workers(server, lambda it: it.work("PUT", "/Dog/1", json={}, **ann))
            return {answer.status_code for answer in asked}

        wait_until(lambda: statuses() <= {201, 204}, "workers know the user")
        ticket = server.work("POST", "/$SYS/tickets", **ann).json()["ticket"]
        with server.stream(f"/Dog/?ticket={ticket}") as events:
            assert events.status == 200
        with server.stream(f"/Dog/?ticket={ticket}") as again:
            assert again.status == 401
        rule = {"filter": "Dog/#", "effect": "deny", "actions": ["write"], "roles": ["guest"]}
        told = server.work("PUT", "/$SYS/rules/no-dogs", json=rule, **admin)
        assert told.status_code in {201, 204}, told.text
        assert server.request("PUT", "/Dog/1", json={}, **ann).status_code == 403
        wait_until(lambda: statuses() == {403}, "the other worker has followed")
        assert server.request("DELETE", "/$SYS/rules/no-dogs", **admin).status_code == 204
        wait_until(lambda: statuses() == {204}, "workers know that the rule is gone")


def test_a_killed_worker_loses_nothing_and_is_started_again(tmp_path):
    with Served(tmp_path) as server:
        acknowledged, stop = set(), threading.Event()

        def write(name):
            n = 0
            while not stop.wait(0.01):
                n += 1
                try:
                    if server.work("PUT", f"/Dog/{name}-{n}", json={"n": n}).status_code == 201:
                        acknowledged.add(f"{name}-{n}")
                except OSError:
                    pass
                except Exception as error:  # noqa: BLE001 - as httpx tells of a dead peer
                    assert "connect" in str(error).lower() or "server" in str(error).lower()

        threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for round_ in range(3):
            enough = set(acknowledged)
            wait_until(lambda known=enough: len(acknowledged - known) >= 20, "writes go on")
            row = server.rows[round_ % 2]
            os.kill(row["pid"], signal.SIGKILL)
            wait_until(partial(_restarted, server, round_), "it is started again")
            wait_until(lambda: all(row["ready"] for row in server.rows), "both listen again")
        stop.set()
        for thread in threads:
            thread.join()
        there = {row["id"] for row in server.request("GET", "/Dog/?limit(10000)").json()}
        assert acknowledged <= there


@pytest.mark.parametrize("edited", ["no schema {", SCHEMA.replace("Dog", "Cat")])
def test_a_worker_is_started_again_with_the_schema_that_the_server_runs(tmp_path, edited):
    """Whatever somebody has made of its file: that is for the next start of the server."""
    with Served(tmp_path) as server:
        assert put(server, "1", 1).status_code == 201
        server.schema_file.write_text(edited)
        for row in server.rows:
            os.kill(row["pid"], signal.SIGKILL)
        wait_until(
            lambda: all(row["ready"] and row["restarts"] for row in server.rows), "all listen again"
        )
        assert [row["restarts"] for row in server.rows] == [1, 1]
        assert server.work("GET", "/Dog/1").status_code == 200


def test_workers_end_with_their_server_and_nothing_is_lost(tmp_path):
    server = Served(tmp_path)
    with server:
        acknowledged = []
        for n in range(30):
            assert put(server, f"kept-{n}", n).status_code == 201
            acknowledged.append(f"kept-{n}")
        pids = [row["pid"] for row in server.rows]
        server.kill()
        wait_until(lambda: not any(_runs(pid) for pid in pids), "the workers end")
        server.start()
        there = {row["id"] for row in server.work("GET", "/Dog/?limit(1000)").json()}
        assert set(acknowledged) <= there


def test_a_server_stops_with_its_workers(tmp_path):
    with Served(tmp_path) as server:
        pids = [row["pid"] for row in server.rows]
        assert server.stop() == 0
        assert not any(_runs(pid) for pid in pids)


def test_a_worker_whose_server_hangs_refuses_writes_and_goes_on_reading(tmp_path):
    with Served(tmp_path) as server:
        put(server, "before", 1)
        port = server.workers_port
        os.kill(server.running.pid, signal.SIGSTOP)
        try:
            with server.client() as client:
                url = f"http://127.0.0.1:{port}"
                told = client.put(f"{url}/Dog/hung", json={})
                assert (told.status_code, "not known" in told.text) == (503, True), told.text
                assert client.get(f"{url}/Dog/before").json()["n"] == 1
                assert client.get(f"{url}/health/ready").status_code == 503
        finally:
            os.kill(server.running.pid, signal.SIGCONT)
        wait_until(lambda: server.work("PUT", "/Dog/after", json={}).status_code == 201, "again")


def _restarted(server, times):
    """Tell whether workers were started again more often than so."""
    return sum(row["restarts"] for row in server.rows) > times


def _runs(pid):
    """Tell whether a process is there; one that has ended and was not waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
