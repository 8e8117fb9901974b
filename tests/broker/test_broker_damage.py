"""Facts that are damaged or foreign: they never keep the server from starting (D27, D37)."""

import pytest

from app.store.store import Change

LASTING = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}


@pytest.mark.parametrize("value", [b"", b"\xff", b"\xa0", b"\x61a"], ids=bytes.hex)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("session/c", "session"),
        ("session/c", "place"),
        ("session/c", "will"),
        ("session/c", "filter/b"),
        ("session/c", "out/x"),
        ("session/c", "in/x"),
        ("session/c", "mood"),
        ("group/g/s", "state"),
        ("group/g/s", "mood"),
        ("group/g/s/#/t", "state"),
    ],
)
async def test_the_server_starts_all_the_same(world, owner, name, value):
    """D27: what cannot be read is left out and told in the log; the others come back."""
    for client_id in ("c", "d"):
        await world.subscribed("b", client_id=client_id, qos=1, connect=LASTING)
    world.store.commit([], [Change(owner, name, value)])
    other = await world.killed()
    assert ["b"] == [item.topics.text for item in other.broker.sessions.get("d").interests]
    again = other.peer()
    assert 0 == (await again.connect("d", **LASTING)).reason
