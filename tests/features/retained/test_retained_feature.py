"""The feature retained as a server has it, and as a server lacks it."""

import asyncio

import pytest

from http_clients import http_client
from serving import PATIENCE_SECONDS, application, features_without

OTHERS = features_without("retained")
SMALL = {"retainer.max_payload_size": 4}


@pytest.mark.parametrize(
    ("features", "put", "listed", "reason"),
    [
        pytest.param(None, 413, 200, "too_large", id="with it"),
        pytest.param(OTHERS, 201, 404, "not_found", id="without it"),
    ],
)
async def test_rules_and_rows_come_with_the_feature(tmp_path, features, put, listed, reason):
    """Without it, what is written with the retain flag is a record like any, and has no rules."""
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(tmp_path, settings=SMALL, features=features) as running,
        http_client(base_url=f"http://127.0.0.1:{running.http_port}") as ask,
    ):
        kept = await ask.put("/plain/1", content=b"abcd")
        large = await ask.put("/plain/2", content=b"abcde")
        rows = await ask.get("/$SYS/retained/")
        assert (201, b"abcd") == (kept.status_code, (await ask.get("/plain/1")).content)
    assert (put, listed) == (large.status_code, rows.status_code)
    refused = large if put == 413 else rows
    assert reason == refused.json()["code"]
