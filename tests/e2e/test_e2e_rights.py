"""M9: REST, SSE, WebSocket, MQTT and queries agree with the reference evaluator."""

from functools import partial

import pytest
from rights_doors import compare

from serving import application


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_door_agrees_with_the_reference(tmp_path, seed):
    """M9, L6, L7, L12, L13: for random policies, users, records and acts."""
    assert await compare(seed, partial(application, tmp_path), 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
async def test_every_door_agrees_with_the_reference_for_long(tmp_path, seed):
    """M9."""
    assert await compare(seed, partial(application, tmp_path), 40)
