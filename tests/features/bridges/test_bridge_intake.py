"""What comes in over a bridge and is not stored yet is bounded (P2)."""

import asyncio
from types import SimpleNamespace

import pytest

from rowcast.core.gateway_limits import GATEWAY_HEARD_BYTES_HIGH, GATEWAY_HEARD_MAX
from rowcast.features.bridges.link import _Intake


@pytest.mark.parametrize(("count", "size"), [(1, GATEWAY_HEARD_BYTES_HIGH), (GATEWAY_HEARD_MAX, 1)])
async def test_no_more_is_read_while_enough_is_in_hand(count, size):
    """P2: many messages, or a few large ones."""
    intake, reads = _Intake(), []

    async def read(_n):
        reads.append(1)
        return b""

    protocol = SimpleNamespace(read=read)
    intake.bound(protocol)
    for _ in range(count):
        intake.add(size)
    waiting = asyncio.ensure_future(protocol.read())
    for _ in range(3):
        await asyncio.sleep(0)
    assert [] == reads
    intake.done(size)
    await waiting
    assert [1] == reads
