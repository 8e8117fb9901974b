"""Writes of the JavaScript client over its WebSocket, in Node against the whole program (O10).

The test loses what the client or the server says, and counts the effects in the log.
"""

import json
from urllib.parse import unquote

import pytest
from node_process import MARKS, UI, WEBSOCKET, NodeProcess

from cutting import Way
from serving import SCHEMA, Server, wait_until

pytestmark = MARKS
HIDDEN = "type Hidden @table @export(ws: false) { id: ID @primaryKey  n: Int }"
BODY_BYTES_MAX = 10_000
SHOWN = ("topic", "kind", "value", "_op")


class Writer(NodeProcess):
    """A program with one client, which has a subscription."""

    def __init__(self, url, **options):
        words = UI / "rowcast.js", url, json.dumps(options)
        super().__init__("rowcast_writes.mjs", *words, flags=[WEBSOCKET])
        self.do("subscribe", filter="watched/#")
        self.live()

    def live(self):
        """Wait until there is a connection."""
        while self.next().get("state") != "live":
            pass

    def write(self, verb, *args):
        """Begin a write."""
        self.do("write", verb=verb, args=args)

    def either(self):
        """Return the next outcome of a write."""
        while not (line := self.next()).keys() & {"result", "refused"}:
            pass
        return line

    def outcome(self, name="result"):
        """Return the next outcome of a write, which is of this kind."""
        line = self.either()
        assert name in line, line
        return line[name]

    def call(self, verb, *args):
        self.write(verb, *args)
        return self.outcome()

    def refused(self, verb, *args):
        self.write(verb, *args)
        return self.outcome("refused")

    def figures(self):
        self.do("seen")
        while "seen" not in (line := self.next()):
            pass
        return line["seen"]

    def seen(self):
        """Return commands and requests since the last time, those of the connection left out."""
        seen = self.figures()
        told, asked = seen["told"], seen["asked"]
        return [one for one in told if one["op"] not in {"subscribe", "ping"}], asked


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"http.max_body_bytes": BODY_BYTES_MAX}
    folder = tmp_path_factory.mktemp("server")
    with Server(folder, schema=SCHEMA + HIDDEN, settings=settings) as running:
        yield running


@pytest.fixture
def writer(server):
    with Writer(server.url) as one:
        one.seen()
        yield one


def past(server, topic):
    """Return the values of all events of a topic, in order."""
    events = server.request("GET", f"/{topic}?last=1000").json()
    return [event["value"] for event in events]


def until_past(server, topic, values):
    wait_until(lambda: values == past(server, topic), f"{topic} has had {values}")


WRITES = (
    ("put", [{"n": 1}], {}),
    ("put", [{"n": 2}], {}),
    ("patch", [{"n": 3}], {"ifMatch": "*"}),
    ("publish", [{"n": 9}], {}),
    ("delete", [], {}),
    ("put", [{"n": 4}], {"ifNoneMatch": "*"}),
)
REFUSED = (
    ("put", "Counter/x", [{"n": "many"}], {}),
    ("put", "Counter/x", [{}], {}),
    ("put", "Counter/there", [{"n": 2}], {"ifNoneMatch": "*"}),
    ("patch", "Counter/there", [{"n": 2}], {"ifMatch": "0badcafe:1"}),
    ("patch", "Counter/x", [{"n": 2}], {"ifMatch": "*"}),
    ("delete", "Counter/x", [], {}),
    ("put", "a/+", [1], {}),
    ("publish", "$delayed/soon/x", [1], {}),
)


@pytest.mark.parametrize("table", ["Counter", "home"])
def test_o10_writes_go_over_the_socket_and_give_what_http_gives(server, writer, table):
    """O10: no request is made; the outcomes and the events are those of writes by HTTP."""
    outcomes, events = {}, {}
    for way in ("ws", "http"):
        told = outcomes[way] = []
        for verb, value, options in WRITES:
            done = writer.call(verb, f"{table}/{way}", *value, options | {"via": way})
            assert done.pop("cursor")
            told.append(done)
        found = server.request("GET", f"/{table}/{way}?last=10").json()
        events[way] = [
            {name: str(value).replace(way, "") for name, value in event.items() if name in SHOWN}
            for event in found
        ]
    told, asked = writer.seen()
    assert [len(WRITES)] * 2 == [len(told), len(asked)]
    assert all(f"/{table}/http" in one for one in asked)
    assert outcomes["http"] == outcomes["ws"]
    assert events["http"] == events["ws"]


@pytest.mark.parametrize("write", REFUSED, ids=lambda write: f"{write[0]} {write[1]}")
def test_o10_a_refusal_is_the_same_problem(server, writer, write):
    """O10: with all its fields, and the sentence."""
    server.request("PUT", "/Counter/there", json={"n": 1})
    verb, topic, value, options = write
    problem = writer.refused(verb, topic, *value, options)
    assert [] == writer.seen()[1]
    other = writer.refused(verb, topic, *value, options | {"via": "http"})
    for one in (problem, other):
        one["instance"] = unquote(one["instance"])
    assert other == problem
    assert 400 <= problem["status"] < 500


@pytest.mark.parametrize("lost", ["deaf", "mute"])
@pytest.mark.parametrize(("verb", "topic"), [("put", "Counter/{}"), ("patch", "home/{}")])
def test_o10_a_lost_connection_is_no_loss_and_no_double(server, writer, verb, topic, lost):
    """O10: whether the command was lost, or its answer: it is sent again, and done once."""
    topic = topic.format(lost)
    writer.do("way", **{lost: True})
    values = [{"n": n} for n in range(20)]
    for value in values:
        writer.write(verb, topic, value)
    if lost == "deaf":
        wait_until(lambda: len(past(server, topic)) == len(values), "they are written")
    else:
        assert [] == past(server, topic)
    writer.do("cut")
    writer.do("way", **{lost: False})
    for value in values:
        writer.write(verb, topic, value | {"more": True})
    told = [writer.outcome() for _ in range(2 * len(values))]
    assert len({one["cursor"] for one in told}) == len(told)
    expected = [value for more in ({}, {"more": True}) for value in (x | more for x in values)]
    found = past(server, topic)
    assert [x["n"] for x in expected] == [x["n"] for x in found]


def test_o10_a_message_without_an_answer_is_said_to_be_doubtful(server, writer):
    """O10: it is not sent again, and so never doubled; its record and later messages are."""
    writer.do("way", deaf=True)
    writer.write("publish", "home/doubtful", 1)
    until_past(server, "home/doubtful", [1])
    writer.do("cut")
    writer.do("way", deaf=False)
    problem = writer.outcome("refused")
    assert (0, "Problem", False) == tuple(problem[x] for x in ("status", "name", "isUnsent"))
    assert "home/doubtful" in problem["message"] and "not known" in problem["message"]
    writer.live()
    writer.call("publish", "home/doubtful", 2)
    assert [1, 2] == past(server, "home/doubtful")


@pytest.mark.parametrize("lost", ["deaf", "mute"])
def test_o10_a_message_that_is_asked_for_once_is_sent_again(server, writer, lost):
    topic = f"home/once/{lost}"
    writer.do("way", **{lost: True})
    for n in range(3):
        writer.write("publish", topic, n, {"once": True})
    if lost == "deaf":
        until_past(server, topic, [0, 1, 2])
    writer.do("cut")
    writer.do("way", **{lost: False})
    assert [204] * 3 == [writer.outcome()["status"] for _ in range(3)]
    assert [0, 1, 2] == past(server, topic)


def test_o10_writes_go_on_over_a_kill_of_the_server(server, writer):
    """O10: each that is acknowledged is there, once, in order."""
    for n in range(50):
        writer.write("put", "home/killed", n)
    writer.outcome()
    server.kill()
    for n in range(50, 100):
        writer.write("put", "home/killed", n, {"once": True})
    server.start()
    for _ in range(99):
        writer.outcome()
    found = past(server, "home/killed")
    assert list(range(50)) == [n for n in found if n < 50]
    assert set(range(50, 100)) == {n for n in found if n >= 50}
    assert len(found) == 100


def test_o10_connections_that_are_reset_again_and_again_lose_and_double_nothing(server):
    """O10: by either way, in the middle of commands and of answers."""
    way = Way(server.http_port)
    try:
        with Writer(f"http://127.0.0.1:{way.port}") as writer:
            for n in range(400):
                writer.write("put", "home/cuts", n, {"once": True})
                if n % 40 == 20:
                    writer.outcome()
                    way.cut()
            for _ in range(400 - 10):
                writer.outcome()
    finally:
        way.close()
    assert way.cuts
    assert list(range(400)) == sorted(past(server, "home/cuts"))


def test_o10_so_many_writes_are_in_flight_and_no_more(server):
    """O10: the others wait for their turn, and keep their order."""
    with Writer(server.url, writesInFlight=3) as writer:
        writer.seen()
        writer.do("way", deaf=True)
        for n in range(10):
            writer.write("publish", "home/flight", n, {"once": True})
        until_past(server, "home/flight", [0, 1, 2])
        assert 3 == len(writer.seen()[0])
        writer.do("cut")
        writer.do("way", deaf=False)
        for _ in range(10):
            writer.outcome()
        assert list(range(10)) == past(server, "home/flight")


def test_o10_too_many_writes_that_wait_are_refused(server):
    """O10: at once, unsent; those that wait are done."""
    with Writer(server.url, writesInFlight=1, writesWaiting=2) as writer:
        writer.do("way", deaf=True)
        for n in range(5):
            writer.write("put", "home/many", n)
        told = [writer.outcome("refused") for _ in range(2)]
        assert [(0, True)] * 2 == [(x["status"], x["isUnsent"]) for x in told]
        writer.do("cut")
        writer.do("way", deaf=False)
        assert [204, 204] == [writer.outcome()["status"] for _ in range(3)][1:]
        assert [0, 1, 2] == past(server, "home/many")


@pytest.mark.parametrize("lost", [False, True])
def test_o10_a_client_that_is_closed_finishes_its_writes(server, writer, lost):
    """O10: over the connection, or by HTTP if that is lost."""
    topic = f"home/closed/{lost}"
    writer.do("way", mute=lost)
    for n in range(10):
        writer.write("put", topic, n)
    if lost:
        writer.do("way", refused=True)
        writer.do("cut")
        while writer.next().get("state") != "waiting":
            pass
    writer.do("close")
    for _ in range(10):
        writer.outcome()
    assert list(range(10)) == past(server, topic)
    assert (10 if lost else 0) == len(writer.seen()[1])


def test_o10_what_is_not_answered_in_time_fails_and_says_whether_it_was_sent(server):
    with Writer(server.url, writesInFlight=1, answerMs=400) as writer:
        writer.do("way", mute=True)
        writer.write("put", "home/late", 1)
        writer.write("put", "home/late", 2)
        told = [writer.outcome("refused") for _ in range(2)]
        assert [(0, False), (0, True)] == [(x["status"], x["isUnsent"]) for x in told]
        assert "not known" in told[0]["message"] and "not sent" in told[1]["message"]
        writer.do("way", mute=False)
        writer.do("cut")
        writer.live()
        writer.write("put", "home/late", 3)
        tries = 1
        while "result" not in writer.either():  # a busy server may take longer than this, too
            writer.write("put", "home/late", 3)
            tries += 1
        kept = past(server, "home/late")
        assert 1 <= len(kept) <= tries
        assert [3] * len(kept) == kept


def test_o10_a_silent_connection_is_given_up_for_another_one(server):
    """O10: when half of the time for an answer is over; the close of the old one may take long."""
    with Writer(server.url, answerMs=10_000) as writer:
        writer.do("way", mute=True)
        writer.write("put", "home/silent", 1)
        while writer.next().get("state") != "waiting":
            pass
        writer.do("way", mute=False)
        writer.outcome()
        assert [1] == past(server, "home/silent")


def test_o10_without_a_websocket_writes_go_by_http(server):
    with Writer(server.url, transport="sse") as writer:
        writer.seen()
        for verb, value, options in WRITES:
            writer.call(verb, "home/sse", *value, options)
        told, asked = writer.seen()
        assert ([], len(WRITES)) == (told, len(asked))


def test_o10_where_there_is_no_next_websocket_unanswered_writes_go_by_http(server, writer):
    """O10: with their numbers, so that none is done twice."""
    writer.do("way", deaf=True)
    for n in range(10):
        writer.write("put", "home/moved", n)
    until_past(server, "home/moved", list(range(10)))
    writer.do("way", refused=True)
    writer.do("cut")
    writer.do("way", deaf=False)
    for _ in range(10):
        writer.outcome()
    assert list(range(10)) == past(server, "home/moved")
    assert 10 == sum(one.startswith("PUT /home/moved") for one in writer.seen()[1])


@pytest.mark.parametrize(
    ("topic", "value", "options"),
    [
        ("home/other", "plain", {"type": "text/plain"}),
        ("home/other", 1, {"headers": {"rowcast-producer": "meter-7:1:1"}}),
        ("Counter/", [{"id": "list", "n": 1}], {}),
        ("Hidden/1", {"n": 1}, {}),
        ("$SYS/replays/tour", {"filter": "Counter/#", "from": "-1h"}, {}),
    ],
)
def test_o10_what_the_socket_does_not_offer_goes_by_http(server, writer, topic, value, options):
    writer.call("put", topic, value, options)
    assert 1 == len(writer.seen()[1])


def test_o10_writes_of_a_topic_keep_their_order_over_both_ways(server, writer):
    for n in range(30):
        writer.write("put", "home/both", n, {"via": "http"} if n % 5 == 4 else {})
    for _ in range(30):
        writer.outcome()
    assert list(range(30)) == past(server, "home/both")


def test_o10_a_value_that_is_too_large_for_the_server_fails_alone(server, writer):
    """O10: the server ends the connection for it; the others go on over the next one."""
    large = "x" * (2 * BODY_BYTES_MAX)
    for topic, value in (("home/small", 1), ("home/large", large), ("home/small", 2)):
        writer.write("put", topic, value)
    told = [writer.either() for _ in range(3)]
    assert [413] == [one["refused"]["status"] for one in told if "refused" in one]
    assert [1, 2] == past(server, "home/small")
    assert [] == writer.seen()[1]


def test_o10_a_value_that_would_hold_up_the_others_goes_by_http(writer):
    assert 413 == writer.refused("put", "home/large", "x" * 70_000)["status"]
    told, asked = writer.seen()
    assert ([], 1) == (told, len(asked))


def test_o10_a_quiet_connection_is_asked_whether_it_is_there_and_answers(server):
    """O10: one that hears nothing for a minute is taken for lost."""
    with Writer(server.url, pingMs=50) as writer:
        wait_until(lambda: writer.figures()["pings"] > 1, "pings are answered")


def test_o10_a_server_that_is_away_for_long_is_no_reason_to_do_without_a_websocket(server, writer):
    """O10: SSE is for where WebSockets do not open though the server answers."""
    server.stop()
    for _ in range(4):
        while writer.next().get("state") != "waiting":
            pass
    server.start()
    writer.live()
    writer.seen()
    writer.call("put", "home/back", 1)
    assert [] == writer.seen()[1]
