"""What of a bridge survives a restart (H21, H41)."""

from app.core.events import MESSAGE, Event
from app.gateway.outbox import Outbox
from app.gateway.state import change_of, saved_in


def fact(change):
    return (change.owner, change.name, change.value)


def test_what_is_open_comes_back():
    box = Outbox()
    for seq in (3, 5, 9):
        box.take(Event(f"t/{seq}", MESSAGE, b"x", seq=seq))
    box.send()
    box.send()
    box.failed(5, "refused", 0.0)
    saved = saved_in([fact(change_of("b", box))])["b"]
    assert 9 == saved.upto
    assert [(3, "t/3", 0), (5, "t/5", 1), (9, "t/9", 0)] == [
        (item.seq, item.topic, item.attempts) for item in saved.open
    ]


def test_what_was_open_may_have_been_sent_since():
    """H41: nobody notes what is sent between the last save and a kill."""
    box = Outbox()
    box.take(Event("t", MESSAGE, b"x", seq=3))
    saved = saved_in([fact(change_of("b", box))])["b"]
    box.send()
    assert [True] == [item.again for item in saved.open]


def test_what_was_never_logged_does_not():
    box = Outbox()
    box.take(Event("t", MESSAGE, b"x"))
    assert () == saved_in([fact(change_of("b", box))])["b"].open


def test_a_damaged_one_begins_anew():
    assert {} == saved_in([("gateway/b", "place", b"\xff"), ("gateway/c", "place", b"\xa0")])
