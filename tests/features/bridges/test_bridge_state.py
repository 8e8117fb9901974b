"""What of a bridge survives a restart (H21, H41)."""

from rowcast.codecs import CBOR, encode
from rowcast.core.events import MESSAGE, Event
from rowcast.features.bridges.backlog import Backlog, Caps, Policy, Waiting
from rowcast.features.bridges.outbox import Outbox
from rowcast.features.bridges.state import change_of, kept_of, saved_in


def fact(change):
    return (change.owner, change.name, change.value)


def test_what_is_open_comes_back():
    box = Outbox()
    for seq in (3, 5, 9):
        box.take(Event(f"t/{seq}", MESSAGE, b"x", seq=seq))
    box.send()
    box.send()
    box.failed(5, "refused", 0.0)
    saved = saved_in([fact(change_of("b", kept_of(box, Backlog())))])["b"]
    assert 9 == saved.upto
    assert [(3, "t/3", 0), (5, "t/5", 1), (9, "t/9", 0)] == [
        (item.seq, item.topic, item.attempts) for item in saved.open
    ]


def test_what_was_open_may_have_been_sent_since():
    """H41: nobody notes what is sent between the last save and a kill."""
    box = Outbox()
    box.take(Event("t", MESSAGE, b"x", seq=3))
    saved = saved_in([fact(change_of("b", kept_of(box, Backlog())))])["b"]
    box.send()
    assert [True] == [item.again for item in saved.open]


def test_what_was_never_logged_does_not():
    box = Outbox()
    box.take(Event("t", MESSAGE, b"x"))
    assert () == saved_in([fact(change_of("b", kept_of(box, Backlog())))])["b"].open


def test_a_damaged_one_begins_anew():
    assert {} == saved_in([("gateway/b", "place", b"\xff"), ("gateway/c", "place", b"\xa0")])


def test_what_was_dropped_stays_so():
    """H24."""
    backlog = Backlog(Caps(events=1, policy=Policy.DROP_NEWEST), floor=7)
    for seq in (9, 10, 11):
        backlog.add(Waiting(seq, 1, 1))
    saved = saved_in([fact(change_of("b", kept_of(Outbox(), backlog)))])["b"]
    assert (7, ((10, 11),)) == (saved.floor, saved.holes)


def test_a_place_of_before_there_were_caps_is_read():
    value = encode({"upto": 5, "open": [[3, "t", 1, "refused", False]]}, CBOR)
    saved = saved_in([("gateway/b", "place", value)])["b"]
    assert (5, 0, [3]) == (saved.upto, saved.floor, [item.seq for item in saved.open])


def test_what_it_began_with_comes_back():
    """K3: under which name its numbers are, and up to where it sends no messages."""
    kept = kept_of(Outbox(), Backlog(), "b/sync-1", 7)
    saved = saved_in([fact(change_of("b", kept))])["b"]
    assert ("b/sync-1", 7) == (saved.producer, saved.first)
