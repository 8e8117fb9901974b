"""``rowcast cluster verify`` waits for nodes that cannot be compared yet, and says for what."""

import json

import httpx
import pytest
from typer.testing import CliRunner

from rowcast.core.errors import Code, Error
from rowcast.program.commands import cluster as commands
from rowcast.program.commands.cluster import TRIES, compare
from rowcast_client import Problem, SyncRowcast

ROWS = [{"id": "1", "n": 1}, {"id": "2", "n": 2}]


class Node:
    """Answers as a node does, after these refusals: a status, a code and a sentence each."""

    def __init__(self, head, *refusals, rows=ROWS, of="asof"):
        self.head, self.rows, self.of = head, rows, of
        self.refusals = list(refusals)
        self.cuts = []

    def __call__(self, request):
        cut = request.url.params.get("asof")
        if self.refusals and self.of in str(request.url):
            status, code, detail = self.refusals.pop(0)
            told = {"title": "T", "code": code, "detail": detail}
            return httpx.Response(status, json=told, headers={"retry-after": "3"})
        if cut is None:
            self.head += 1
            return httpx.Response(200, json=[], headers={"rowcast-position": f"aa:{self.head}"})
        self.cuts.append(cut)
        return httpx.Response(200, text="".join(f"{json.dumps(row)}\n" for row in self.rows))


def compared(*nodes, tables=("Dog",)):
    """Return whether nodes have the same, and for how long they were waited for."""
    waits = []
    urls = [f"http://127.0.0.1:{number}" for number in range(len(nodes))]
    clients = [
        SyncRowcast(url, transport=httpx.MockTransport(node))
        for url, node in zip(urls, nodes, strict=True)
    ]
    try:
        return compare(urls, clients, tables, waits.append), waits
    finally:
        for client in clients:
            client.close()


def test_nodes_are_compared_at_the_oldest_of_their_heads(capsys):
    one, other = Node(40), Node(20)
    assert (True, []) == compared(one, other)
    assert ["aa:21"] == one.cuts == other.cuts
    assert "Dog  2 records" in capsys.readouterr().out


@pytest.mark.parametrize(
    "refusal",
    [
        (503, "busy", "this node has followed the log up to 3"),
        (410, "gone", "the log no longer has all of it"),
        (413, "too_large", "more than 100000 records changed since"),
    ],
)
@pytest.mark.parametrize("of", ["asof", "limit"])
def test_what_is_refused_for_now_is_asked_again_at_a_newer_position(capsys, refusal, of):
    one, other = Node(20), Node(40, refusal, refusal, of=of)
    assert (True, [3, 3]) == compared(one, other)
    assert ["aa:23"] == other.cuts
    told = capsys.readouterr()
    assert 2 == told.err.count(f"not yet: T: {refusal[2]}; asking again")
    assert 1 == told.out.count("Dog  2 records")


def test_tables_that_were_compared_are_not_compared_again(capsys):
    class Late(Node):
        def __call__(self, request):
            if "Cat" in str(request.url) and not self.cuts[1:]:
                self.cuts.append("refused")
                return httpx.Response(503, json={"title": "T", "code": "busy", "detail": "d"})
            return super().__call__(request)

    same, waits = compared(Node(20), Late(40), tables=("Dog", "Cat"))
    assert (same, len(waits)) == (True, 1)
    out = capsys.readouterr().out
    assert (1, 1) == (out.count("Dog  2 records"), out.count("Cat  2 records"))


def test_a_difference_is_told_and_a_lasting_refusal_is_an_error(capsys):
    differs = Node(20, rows=[ROWS[0], {"id": "2", "n": 3}])
    assert (False, []) == compared(Node(20), differs)
    assert "Dog  DIFFERS after 1 equal records" in capsys.readouterr().out
    with pytest.raises(Error, match=f"could not be compared, {TRIES} times: T: later") as refused:
        compared(Node(20), Node(20, *[(503, "busy", "later")] * TRIES))
    assert Code.BUSY is refused.value.code
    with pytest.raises(Problem, match="no right") as denied:
        compared(Node(20), Node(20, (403, "denied", "no right")))
    assert 403 == denied.value.status


@pytest.mark.parametrize(
    ("names", "options", "told"),
    [
        ("abc", (), "two nodes would remain, of which none may fail"),
        ("abc", ("--two-remain",), ""),
        ("abcd", (), ""),
        ("ab", (), ""),  # it has left, and the command is repeated
    ],
)
def test_a_node_leaves_where_three_remain_or_two_are_asked_for(monkeypatch, names, options, told):
    """K12: the cluster of two is made by nobody who does not say so."""
    deleted = []

    def answer(request):
        if request.method == "DELETE":
            deleted.append(request.url.path)
        rows = [{"node": name, "connected": name != "c"} for name in names]
        return httpx.Response(200, json=rows)

    client = SyncRowcast("http://127.0.0.1:1", transport=httpx.MockTransport(answer))
    monkeypatch.setattr(commands, "client_of", lambda _url: client)
    ended = CliRunner().invoke(commands.cluster, ["leave", "c", *options])
    assert (str(ended.exception or "").find(told) >= 0, bool(deleted)) == (True, not told)
    assert bool(ended.exception) == bool(told)
