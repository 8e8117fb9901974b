"""What a subscription does when its connection ends, without any connection (O10)."""

import json

import httpx
import pytest
import trustme

from rowcast.core.errors import Error
from rowcast_client import Problem, SyncRowcast
from rowcast_client.connection import http_options
from rowcast_client.following import Following

LOG = "3f9a1c2e"


def block(kind, seq=None, value=None):
    """An event as the server sends it: a snapshot has no place to go on from."""
    cursor = f"{LOG}:{seq}" if seq else None
    line = f"id: {cursor}\n" if cursor and kind not in {"snapshot", "reset"} else ""
    data = {"cursor": cursor, "topic": "Dog/1", "kind": kind, "version": seq, "value": value}
    return f"{line}data: {json.dumps(data)}\n\n".encode()


def follow(**options):
    place = {key: options.pop(key) for key in ("since", "start", "last") if key in options}
    return Following(["Dog/#"], place, chance=lambda: 0.5, **options)


def hear(following, chunk, **headers):
    """Open a connection, and return the kinds that it brings."""
    headers = {f"rowcast-{name}": value for name, value in headers.items()}
    events = [*following.opened(headers), *following.take(chunk)]
    return [event.kind for event in events]


def test_it_goes_on_after_what_was_handed_over_not_after_what_came():
    following = follow(start="new")
    list(following.opened({"rowcast-position": f"{LOG}:6"}))
    events = following.take(block("put", 7) + block("put", 8))
    next(events)
    assert f"{LOG}:7" == following.cursor
    assert {"Accept": "text/event-stream", "Last-Event-ID": f"{LOG}:7"} == following.headers
    assert (("topic", "Dog/#"),) == following.params


def test_c23_marks_after_transactions_are_asked_for_at_each_connection():
    """C23: the cursor is that of the mark, once it was handed over."""
    following = follow(commits=True, start="new")
    assert (("topic", "Dog/#"), ("commits", "true"), ("start", "new")) == following.params
    assert ["put", "commit"] == hear(following, block("put", 7) + block("commit", 8))
    assert f"{LOG}:8" == following.cursor
    assert (("topic", "Dog/#"), ("commits", "true")) == following.params


def test_m4_an_interval_is_asked_for_at_each_connection():
    """M4: a reconnect does not make the values come more often."""
    following = follow(conflate="1s", start="new")
    assert (("topic", "Dog/#"), ("conflate", "1s"), ("start", "new")) == following.params
    assert ["put"] == hear(following, block("put", 7))
    assert (("topic", "Dog/#"), ("conflate", "1s")) == following.params


def test_a_stream_that_is_cut_before_its_first_event_goes_on_where_it_began():
    """O10: what happens between two connections is not lost."""
    following = follow(start="new")
    assert [] == hear(following, b"", position=f"{LOG}:6")
    assert f"{LOG}:6" == following.cursor


def test_a_cut_among_the_records_begins_anew_and_says_so():
    """O10: a record that was shown may be gone, and nobody would tell of it any more."""
    following = follow()
    assert ["snapshot"] == hear(following, block("snapshot", 3), position=f"{LOG}:9")
    assert "" == following.cursor
    again = block("snapshot", 3) + block("current", 9)
    assert ["reset", "snapshot", "current"] == hear(following, again, position=f"{LOG}:9")
    assert f"{LOG}:9" == following.cursor
    assert ["put"] == hear(following, block("put", 10))


def test_a_reset_keeps_the_old_cursor_until_all_records_came():
    """O10: cut between, the server says reset again; nothing is taken for continued."""
    following = follow(since="0badcafe:1")
    assert ["reset", "snapshot"] == hear(following, block("reset", 9) + block("snapshot", 3))
    assert "0badcafe:1" == following.cursor
    hear(following, block("current", 9))
    assert f"{LOG}:9" == following.cursor


def test_pauses_grow_have_a_random_part_and_a_bound():
    following = follow(patient=True)
    assert [0.75, 1.5, 3, 6, 12, 24, 45, 45] == [following.ended() for _ in range(8)]


def test_the_server_may_say_how_long_to_wait():
    """O11: its own pause has a random part for each client."""
    following = follow()
    hear(following, b"retry: 1234\n\n")
    assert [1.234, 1.5] == [following.ended(), following.ended()]
    busy = Problem(503, {"code": "busy"})
    busy.retry_after = 29
    assert 29 == following.ended(busy)


@pytest.mark.parametrize("status", [0, 408, 429, 500, 503])
def test_what_another_try_may_change_is_tried_again(status):
    following = follow(patient=True)
    assert 0.75 == following.ended(Problem(status, {}))


@pytest.mark.parametrize(("status", "patient"), [(0, False), (503, False), (401, True)])
def test_the_first_failure_and_what_is_final_are_told(status, patient):
    with pytest.raises(Problem):
        follow(patient=patient).ended(Problem(status, {}))


def test_a_stream_that_ends_with_a_problem_raises_it():
    """G9: who may not watch any more is told why."""
    data = json.dumps({"status": 403, "code": "denied", "title": "Not permitted", "detail": "no"})
    following = follow()
    list(following.opened({}))
    with pytest.raises(Problem) as caught:
        list(following.take(f"event: problem\ndata: {data}\n\n".encode()))
    assert (403, "Not permitted: no", True) == (
        caught.value.status, str(caught.value), caught.value.is_final,
    )  # fmt: skip


def test_two_places_are_refused():
    with pytest.raises(Error, match="since and start exclude"):
        follow(since="a:1", start="new")
    with pytest.raises(Error, match="has a filter"):
        Following([], {})


def test_a_problem_of_a_proxy_is_told_by_its_status():
    transport = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    with SyncRowcast(transport=transport) as rows, pytest.raises(Problem) as caught:
        rows.get("Dog/1")
    assert (502, "502 Bad Gateway", False) == (
        caught.value.status, str(caught.value), caught.value.is_final,
    )  # fmt: skip


def test_a_wrong_format_and_a_wrong_address_are_told():
    with pytest.raises(Error, match=r"no format 'cbr'.*cbor"):
        SyncRowcast(format="cbr")
    with pytest.raises(Error, match="write it as http://"):
        SyncRowcast("127.0.0.1:9926")


def test_a_heartbeat_is_no_event():
    following = follow()
    beat = b'event: heartbeat\ndata: {"head": "3f9a1c2e:12"}\n\n'
    assert ["put"] == hear(following, block("put", 10) + beat)
    assert f"{LOG}:10" == following.cursor


def certificates(url, authority=None):
    """Return how many certificates of authorities a client reads for an address."""
    trust = http_options(url, "", "", "", authority)["verify"]
    return trust.cert_store_stats()["x509_ca"]


def test_certificates_are_read_for_an_address_with_tls_only(tmp_path):
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    assert 0 == certificates("http://127.0.0.1:9926", authority)
    assert 1 + certificates("https://127.0.0.1") == certificates("https://127.0.0.1", authority)
