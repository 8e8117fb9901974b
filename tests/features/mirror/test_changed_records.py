"""What the mirror reads anew where the log no longer has it (K16)."""

from build import DOG
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.features.mirror.changed_records import ChangedRecords


def event(seq, topic, kind=PUT):
    return Event(topic, kind, b"{}", table=DOG, seq=seq)


def test_changes_after_a_position_are_noted_once_and_taken():
    changed = ChangedRecords()
    changed.restart(4)
    for seq, topic, kind in ((5, "Dog/1", PUT), (6, "Dog/2", PUT), (7, "Dog/1", PUT)):
        changed.note(event(seq, topic, kind))
    changed.note(event(8, "Dog/3", MESSAGE))
    assert (True, True, False) == tuple(changed.covers(seq) for seq in (5, 4, 3))
    assert {"Dog/1": "Dog", "Dog/2": "Dog"} == changed.take(8)
    assert (0, True, False) == (len(changed), changed.covers(8), changed.covers(7))


def test_more_than_may_be_noted_covers_less():
    changed = ChangedRecords(most=2)
    for seq in range(1, 5):
        changed.note(event(seq, f"Dog/{seq}"))
    assert (False, True) == (changed.covers(2), changed.covers(3))
    assert {"Dog/4": "Dog"} == changed.take(4)
