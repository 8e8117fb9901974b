"""A bridge counts what was lost to it (M4, H24)."""

from types import SimpleNamespace

from rowcast.features.bridges.bridge import Bridge
from rowcast.subscriptions.gaps import Gap, GapCause


def test_a_gap_counts_as_many_as_it_says():
    notes = []
    bridge = SimpleNamespace(dropped=0, _note=notes.append)
    Bridge._note_loss(bridge, Gap(GapCause.SLOW, 7))
    Bridge._note_loss(bridge, Gap(GapCause.TRIMMED, None, None, 3, 9))
    assert (7, ["events were lost to it: slow", "events were lost to it: trimmed"]) == (
        bridge.dropped, notes
    )  # fmt: skip
