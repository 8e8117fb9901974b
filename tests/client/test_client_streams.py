"""A socket's subscriptions and commands without any connection (O10, H25)."""

import json

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Response

from rowcast.core.errors import Code
from rowcast_client import Problem
from rowcast_client.bounds import USUAL, SocketBounds
from rowcast_client.closing import ended, seconds_asked, unopened
from rowcast_client.commands import Commands
from rowcast_client.pace import Pace
from rowcast_client.roster import Roster
from rowcast_client.streams import Stream

LOG = "3f9a1c2e"
URL = "http://server:1"


def event(kind, seq=None):
    return {"cursor": seq and f"{LOG}:{seq}", "topic": "Dog/1", "kind": kind}


def stream(bounds=USUAL, **place):
    return Stream({"topic": "Dog/#"}, place, bounds)


def hear(one, *events):
    return [one.receive(fields, 10) for fields in events]


def kinds(one):
    return [event.kind for event in iter(one.take, None)]


# -- subscriptions ---------------------------------------------------------------------------------


def test_it_goes_on_after_what_is_in_the_queue_and_tells_what_was_taken():
    one = stream(since=f"{LOG}:6")
    hear(one, event("put", 7), event("message"), event("put", 8))
    assert {"topic": "Dog/#", "since": f"{LOG}:8"} == one.words
    assert (f"{LOG}:6", "put", f"{LOG}:7") == (one.cursor, one.take().kind, one.cursor)


def test_it_begins_where_the_log_was_when_it_was_asked_for():
    """A connection that is lost before the first event loses nothing."""
    one = stream(start="new")
    assert {"topic": "Dog/#", "start": "new"} == one.words
    one.opened({"cursor": f"{LOG}:6"})
    assert ({"topic": "Dog/#", "since": f"{LOG}:6"}, f"{LOG}:6") == (one.words, one.cursor)


@pytest.mark.parametrize("place", [{}, {"start": "current"}])
def test_current_records_that_are_cut_begin_anew_with_a_reset(place):
    one = stream(**place)
    one.opened({"cursor": f"{LOG}:9"})
    hear(one, event("snapshot", 3))
    assert "" == one.cursor
    assert "since" not in one.words
    one.opened({"cursor": f"{LOG}:9"})
    hear(one, event("snapshot", 3), event("enter", 8), event("current", 9))
    assert ["snapshot", "reset", "snapshot", "enter", "current"] == kinds(one)
    assert f"{LOG}:9" == one.cursor == one.words["since"]


def test_a_reset_keeps_the_old_cursor_until_all_records_came():
    one = stream(since="0badcafe:1")
    hear(one, event("reset", 9), event("snapshot", 3))
    assert "0badcafe:1" == one.words["since"]
    hear(one, event("current", 9))
    assert f"{LOG}:9" == one.words["since"]


def test_a_full_queue_leaves_the_rest_to_the_log():
    one = stream(SocketBounds(queue_events=2), since=f"{LOG}:6")
    assert [True, True, False] == hear(one, *(event("put", seq) for seq in (7, 8, 9)))
    assert one.is_behind
    assert f"{LOG}:8" == one.words["since"]
    assert not one.is_low
    one.take()
    assert one.is_low
    one.opened({})
    assert ["put", "gap"] == kinds(one)
    hear(one, event("put", 9))
    assert ["put"] == kinds(one)


@pytest.mark.parametrize("asked", [{"topic": "Dog/+", "where": "a=1"}, {"topic": "$query/Old/#"}])
def test_a_live_query_has_no_messages_that_were_missed(asked):
    one = Stream(asked, {"since": f"{LOG}:6"}, SocketBounds(queue_bytes=10))
    assert [True, False] == hear(one, event("enter", 7), event("enter", 8))
    one.opened({})
    assert ["enter"] == kinds(one)


def test_what_began_at_a_filter_is_asked_for_once():
    """One that ends before its number is known is ended first."""
    said = []
    roster = Roster(said.append)
    first, second = stream(), stream()
    roster.add(first)
    assert [] == said, "there is no connection"
    roster.begin()
    roster.remove(first)
    roster.add(second)
    assert ["subscribe"] == [one["op"] for one in said]
    assert roster.answered("s1", {"subscription": 1})
    assert ["subscribe", "unsubscribe", "subscribe"] == [one["op"] for one in said]
    assert not roster.answered("s1", {"subscription": 1})
    assert roster.answered("s2", Problem(403, {}))
    assert 403 == second.problem.status
    roster.receive(event("put", 7) | {"subscription": 1}, 10)
    assert [[], []] == [kinds(first), kinds(second)]


# -- commands --------------------------------------------------------------------------------------


def test_writes_have_numbers_and_say_below_which_all_is_done():
    commands, outcomes = Commands(json.dumps, "me"), []
    for _ in range(250):
        made = commands.add({"op": "put"}, outcomes.append, can_repeat=False, marked=True)
        commands.answered(made.number, {"cursor": "x"})
    left = commands.add({"op": "put"}, outcomes.append, can_repeat=False, marked=True)
    commands.add({"op": "put"}, outcomes.append, can_repeat=False, marked=True)
    assert 250 == len(outcomes)
    marks = [json.loads(one.frame)["producer"] for one in commands.again()]
    assert ["me:1:251:200", "me:1:252:200"] == marks
    commands.withdraw(left)
    assert 1 == len(commands)
    commands.answered(left.number, {})
    assert 250 == len(outcomes)


def test_what_was_sent_and_has_no_number_fails_with_its_connection():
    commands, outcomes = Commands(json.dumps, "me"), {}
    made = [
        commands.add({"op": op}, lambda it, op=op: outcomes.update({op: it}), **how)
        for op, how in (
            ("message", {"can_repeat": False, "marked": False}),
            ("get", {"can_repeat": True, "marked": False}),
            ("put", {"can_repeat": False, "marked": True}),
            ("unsent", {"can_repeat": False, "marked": False}),
        )
    ]
    for command in made[:3]:
        command.is_sent = True
    lost = Problem(0, {})
    commands.lost(lost)
    assert {"message": lost} == outcomes
    assert made[1:] == [*commands.again()]
    assert not any(command.is_sent for command in made)
    commands.refuse_longest(lost)
    assert 3 == len(commands), "none was sent"
    commands.end(lost)
    assert {"message", "get", "put", "unsent"} == set(outcomes)


# -- why a connection ends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "known", "is_final"),
    [
        (4401, 401, Code.UNAUTHENTICATED, True),
        (4403, 403, Code.DENIED, True),
        (1009, 413, Code.TOO_LARGE, True),
        (1011, 500, Code.INTERNAL, False),
        (1012, 0, Code.BUSY, False),
        (1013, 0, Code.BUSY, False),
    ],
)
def test_a_close_code_is_a_problem(code, status, known, is_final):
    found = ended(URL, ConnectionClosedError(Close(code, "so it is"), Close(code, ""), True))
    assert (status, known, is_final) == (found.status, found.code, found.is_final)
    assert "so it is" in str(found)


def test_what_this_side_has_ended_is_lost():
    for closed in (
        ConnectionClosedError(None, Close(1011, "keepalive ping timeout")),
        ConnectionClosedError(Close(1009, ""), Close(1009, ""), False),
    ):
        found = ended(URL, closed)
        assert (0, False) == (found.status, found.is_final)
        assert "was lost" in str(found)


def test_a_server_that_stops_says_when_to_come_back():
    """O11: the time has a random part of its own."""
    goodbye = Close(1012, "the server stops; come back in 1500 ms")
    found = ended(URL, ConnectionClosedError(goodbye, goodbye, True))
    pace = Pace(patient=True, chance=lambda: 0.5)
    assert [1.5, 1.5] == [pace.ended(found, seconds_asked(found)), pace.ended(None)]
    assert 0 == seconds_asked(None)


def test_an_answer_of_http_is_its_problem():
    details = json.dumps({"status": 401, "code": "unauthenticated", "title": "Not signed in"})
    kind = Headers({"Content-Type": "application/problem+json"})
    found = unopened(URL, InvalidStatus(Response(401, "no", kind, details.encode())))
    assert (401, Code.UNAUTHENTICATED) == (found.status, found.code)
    found = unopened(URL, InvalidStatus(Response(200, "fine", Headers(), b"")))
    assert (0, False) == (found.status, found.is_final)
    assert "answered 200 to a WebSocket" in str(found)
