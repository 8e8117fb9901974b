"""Live queries as local collections, in Node against the whole program (M3).

What a collection shows is what REST answers, with the writes of its own that are on their way.
"""

import json
from random import Random

import pytest
from node_process import MARKS, UI, NodeProcess

from serving import Server

pytestmark = MARKS


class Collected(NodeProcess):
    """A program with one collection."""

    def __init__(self, url, table, where="", **options):
        words = UI / "collection.js", url, table, where, json.dumps(options)
        super().__init__("rowcast_collection.mjs", *words)

    def ask(self, what, **members):
        self.do(what, **members)
        return self.next()

    def write(self, verb, *args):
        self.do("write", verb=verb, args=args)

    def until(self, name, found=lambda value: True):
        """Return the first line with this member whose value is as wanted."""
        while True:
            line = self.next()
            if name in line and found(line[name]):
                return line

    def ready(self):
        self.do("ready")
        return self.until("ready")["ready"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(server):
    server.request("DELETE", "/Counter/?n=ge=-1000000")


def put(server, name, **value):
    assert server.request("PUT", f"/Counter/{name}", json=value).is_success


def counted(server, query):
    return server.request("GET", f"/Counter/?{query}").json()


def test_m3_it_has_what_rest_answers(server):
    """M3: first and after each of many writes, of which some are no step of the query."""
    chance = Random(5)
    put(server, "a", n=11)
    put(server, "b", n=1)
    with Collected(server.url, "Counter", "n=gt=10") as dogs:
        assert [{"id": "a", "n": 11}] == dogs.ready()
        for _ in range(30):
            if chance.random() < 0.2:
                server.request("DELETE", f"/Counter/{chance.choice('abcd')}")
            else:
                put(server, chance.choice("abcd"), n=chance.randrange(20))
        put(server, "end", n=99)
        shown = dogs.until("rows", lambda rows: any(row["id"] == "end" for row in rows))["rows"]
        assert counted(server, "n=gt=10&sort(id)") == shown


def test_m3_a_transaction_is_shown_whole(server):
    """M3: the records before it, or after it."""
    put(server, "a", n=1)
    put(server, "b", n=2)
    with Collected(server.url, "Counter", "n=gt=0") as numbers:
        numbers.ready()
        writes = [{"op": "put", "topic": f"Counter/{x}", "value": {"n": 50}} for x in "abc"]
        server.request("POST", "/$tx", json=writes)
        line = numbers.until("changed", lambda ids: "c" in ids)
        assert ["a", "b", "c"] == line["changed"]
        assert [50, 50, 50] == [row["n"] for row in line["rows"]]


def test_a_write_shows_at_once_and_stays(server):
    """M3: before it is answered; and then it is the server's."""
    put(server, "a", n=1)
    with Collected(server.url, "Counter", "n=gt=0") as numbers:
        numbers.ready()
        numbers.do("hold")
        numbers.write("patch", "a", {"n": 7})
        line = numbers.until("pending", lambda ids: ids == ["a"])
        assert [{"id": "a", "n": 7}] == line["rows"]
        assert [{"id": "a", "n": 1}] == counted(server, "n=gt=0")
        numbers.do("go")
        seen = [numbers.next() for _ in range(3)]
        assert all([{"id": "a", "n": 7}] == line["rows"] for line in seen if "rows" in line)
        assert [{"id": "a", "n": 7}] == counted(server, "n=gt=0")


@pytest.mark.parametrize(
    ("verb", "args", "shown"),
    [
        ("patch", ["a", {"n": "many"}], [{"id": "a", "n": "many"}]),
        ("put", ["b", {"n": "many"}], [{"id": "a", "n": 1}, {"id": "b", "n": "many"}]),
        ("create", [{"id": "a", "n": 2}], [{"id": "a", "n": 2}]),
        ("delete", ["a", {"ifMatch": "0badcafe:1"}], []),
    ],
)
def test_a_refused_write_is_taken_back(server, verb, args, shown):
    """M3: its writer gets the Problem, and the records are as before."""
    put(server, "a", n=1)
    with Collected(server.url, "Counter") as numbers:
        numbers.ready()
        numbers.write(verb, *args)
        assert shown == numbers.until("rows", bool if shown else lambda rows: not rows)["rows"]
        lines = [numbers.next(), numbers.next()]
        assert {422, 412} & {line.get("refused") for line in lines}
        assert [[{"id": "a", "n": 1}]] == [line["rows"] for line in lines if "rows" in line]


def test_writes_of_one_record_are_sent_in_order(server):
    with Collected(server.url, "Counter", "n=gt=0") as numbers:
        numbers.ready()
        numbers.do("hold")
        for n in range(1, 21):
            numbers.write("put", "a", {"n": n})
        numbers.do("go")
        numbers.until("pending", lambda ids: not ids)
        assert [{"id": "a", "n": 20}] == counted(server, "n=gt=0")
        found = server.request("GET", "/Counter/a?last=20").json()
        assert list(range(1, 21)) == [event["value"]["n"] for event in found]


def test_a_write_whose_answer_is_lost_has_one_effect(server):
    """B11: it is sent again with its idempotency key."""
    put(server, "a", n=1)
    with Collected(server.url, "Counter", "n=gt=0") as numbers:
        numbers.ready()
        numbers.do("lose", count=2)
        numbers.write("put", "a", {"n": 2})
        assert 204 == numbers.until("result")["result"]["status"]
        found = server.request("GET", "/Counter/a?last=5").json()
        assert 1 == [event["value"] for event in found].count({"id": "a", "n": 2})


def test_a_write_that_is_no_step_is_shown_no_longer_than_until_it_is_settled(server):
    """M3: no event tells of it, because the query does not select the record."""
    with Collected(server.url, "Counter", "n=gt=10") as numbers:
        numbers.ready()
        numbers.write("put", "a", {"n": 3})
        assert [{"id": "a", "n": 3}] == numbers.until("rows", bool)["rows"]
        assert [] == numbers.until("pending", lambda ids: not ids)["rows"]


def test_o10_it_goes_on_over_a_restart(server):
    put(server, "a", n=1)
    with Collected(server.url, "Counter", "n=gt=0") as numbers:
        numbers.ready()
        server.stop()
        numbers.write("patch", "a", {"n": 5})  # sent again until the server is there
        assert [{"id": "a", "n": 5}] == numbers.until("pending", bool)["rows"]
        server.start()
        put(server, "b", n=6)
        assert 204 == numbers.until("result")["result"]["status"]
        both = numbers.until("rows", lambda rows: len(rows) > 1 and rows[0]["n"] == 5)["rows"]
        assert counted(server, "n=gt=0&sort(id)") == both


def test_its_order_is_that_of_ids_or_its_own_and_conditions_may_have_any_signs(server):
    put(server, "b", n=1, text="a/b+c#d %")
    put(server, "a", n=2, text="a/b+c#d %")
    where = "text==a%2Fb%2Bc%23d%20%25"
    with Collected(server.url, "Counter", where) as numbers:
        assert ["a", "b"] == [row["id"] for row in numbers.ready()]


def test_patches_are_merged_as_the_server_does(server):
    before = {"a": 1, "b": {"c": [1], "d": None}, "e": {"f": 1}}
    after = {"b": {"c": [1, 2], "g": 3}, "e": 4}
    with Collected(server.url, "Counter") as numbers:
        numbers.ready()
        patch = numbers.ask("difference", before=before, after=after)
        assert {"a": None, "b": {"d": None, "c": [1, 2], "g": 3}, "e": 4} == patch
        assert after == numbers.ask("merge", value=before, patch=patch)


def test_a_query_that_is_refused_says_so(server):
    with Collected(server.url, "Counter", "n=gt=many") as numbers:
        numbers.do("ready")
        assert 400 == numbers.until("refused")["refused"]
