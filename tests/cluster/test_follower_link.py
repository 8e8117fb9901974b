"""What a follower sends to a sequencer that takes nothing (K1)."""

from types import SimpleNamespace

from rowcast.cluster.follower_link import FollowerLink
from rowcast.core.events import MESSAGE, Event
from rowcast.core.tables import Table

EVENT = Event("Ping/1", MESSAGE, b"x" * 1_000, table=Table("Ping", "Ping"))
MOST = 10_000


def test_unlogged_events_for_a_sequencer_that_takes_nothing_fill_no_memory():
    """They waited without a bound, for as long as the server hung."""
    held = []
    link = FollowerLink(
        SimpleNamespace(node="worker0/1", followed=0, proposed=0),
        SimpleNamespace(epoch="0badcafe", number=0),
        {}.get,
        SimpleNamespace(),
        SimpleNamespace(),
        unlogged_bytes_max=MOST,
    )
    link.connected(held.append, lambda: sum(map(len, held)))
    link.problem = ""
    for _ in range(100):
        link.pass_on([EVENT])
    assert MOST <= sum(map(len, held)) < MOST + 2 * len(EVENT.payload)
    held.clear()
    link.pass_on([EVENT])
    assert len(held) == 1
