"""Compaction of the real program over kills: no deletion is trimmed that was not noted (E16)."""

from random import Random

import pytest

from rowcast_client import SyncRowcast
from serving import Server, wait_until

pytestmark = pytest.mark.slow  # the log is trimmed once a second

SCHEMA = """
type Note @table(maxCount: 3, compact: ["id"]) @export { id: ID @primaryKey n: Int }
type Stay @table(maxCount: 3, compact: ["site"]) @export { id: ID @primaryKey site: Int }
"""
SETTINGS = {"history.sweep_seconds": 1}


def seq_of(cursor):
    return int(cursor.rpartition(":")[2])


def test_e16_a_cursor_gets_every_end_over_kills(tmp_path):
    """E16: what a client holds after each return is what REST answers, and it never begins anew."""
    chance, held, cursor = Random(16), {}, ""
    with Server(tmp_path, SCHEMA, settings=SETTINGS) as server:
        for number in range(6):
            for _ in range(20):
                topic = f"/Note/{chance.randrange(9)}"
                if chance.random() < 0.5:
                    server.request("DELETE", topic)
                else:
                    server.request("PUT", topic, json={"n": number}).raise_for_status()
            last = server.request("PUT", "/Note/z", json={"n": number})
            if number % 2:
                wait_until(lambda since=cursor: is_trimmed(server, since), "the log is trimmed")
            server.kill(children=number % 3 == 0)
            server.start()
            kinds, cursor = come(server, held, cursor, last.headers["etag"].strip('"'))
            assert "reset" not in kinds
            assert stored(server) == held
            assert number % 2 == 0 or "gap" in kinds


def is_trimmed(server, cursor, path="/Note/z"):
    """Whether the log begins after a cursor."""
    told = server.request("GET", f"{path}?from=0").headers.get("rowcast-trimmed")
    return told is not None and seq_of(told) > seq_of(cursor)


def stored(server):
    return {f"Note/{row['id']}": row["n"] for row in server.request("GET", "/Note/").json()}


def come(server, held, cursor, last):
    """Return what a client hears until it has all, and its cursor."""
    kinds = []
    with SyncRowcast(server.url) as rows:
        events = rows.subscribe("Note/#", since=cursor)
        for event in events:
            kinds.append(event.kind)
            if event.kind == "delete":
                held.pop(event.topic, None)
            elif event.topic:
                held[event.topic] = event.value["n"]
            if events.cursor and seq_of(events.cursor) >= seq_of(last):
                return kinds, events.cursor
    raise AssertionError(kinds)


def whole_range(server):
    """Return the answer with all events, unless the log was trimmed while they were read."""
    answer = server.request("GET", "/Stay/?from=0")
    assert answer.status_code in {200, 410}, answer.text
    return answer if answer.is_success else None


def test_e16_the_newest_event_of_each_key_stays_over_kills(tmp_path):
    """E16: nothing is trimmed that was not kept before, at whatever moment the server dies."""
    chance, written = Random(17), []
    with Server(tmp_path, SCHEMA, settings=SETTINGS) as server:
        for number in range(4):
            for _ in range(15):
                site = chance.randrange(9)
                answer = server.request("PUT", f"/Stay/{chance.randrange(4)}", json={"site": site})
                written.append((seq_of(answer.headers["etag"].strip('"')), site))
            if number % 2:
                cursor = f":{written[-5][0]}"
                wait_until(lambda c=cursor: is_trimmed(server, c, "/Stay/"), "the log is trimmed")
            server.kill(children=number % 3 == 0)
            server.start()
            answer = wait_until(lambda: whole_range(server), "no trim is in the way")
            trimmed = seq_of(answer.headers.get("rowcast-trimmed", ":0"))
            newest = {site: seq for seq, site in written if seq <= trimmed}
            left = [seq for seq, _ in written if seq > trimmed]
            assert sorted(newest.values()) + left == [event["_seq"] for event in answer.json()]
        assert len(newest) > 5
