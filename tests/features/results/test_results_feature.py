"""The feature results as a server has it, and as a server lacks it."""

import asyncio

import pytest

from http_clients import http_client
from rowcast.program.features import FEATURES
from serving import PATIENCE_SECONDS, application, features_without

PART = {"table": "Dog", "rows": [{"id": "1", "name": "Rex"}]}
ORDER = {"upload": "up", "table": "Dog", "job": "daily", "cut": "1", "parts": ["0"], "rows": 1}
PRICES = "type Price @table @export { id: ID @primaryKey, is: Decimal, rate: Float }"


async def answers(folder, features):
    """Bring a result over HTTP, and return what came of each request, and of the record."""
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(folder, features=features) as running,
        http_client(base_url=f"http://127.0.0.1:{running.http_port}") as ask,
    ):
        return (
            await ask.put("/$SYS/results/up/0", json=PART),
            await ask.post("/$SYS/results/", json=ORDER),
            await ask.get("/Dog/1"),
        )


async def test_a_server_takes_results(tmp_path):
    brought, committed, dog = await answers(tmp_path, FEATURES)
    assert brought.is_success
    assert 1 == committed.json()["written"]
    assert "Rex" == dog.json()["name"]


async def test_a_server_without_results_says_that_nothing_takes_them(tmp_path):
    others = features_without("results")
    brought, committed, dog = await answers(tmp_path, others)
    assert (404, "not_found") == (brought.status_code, brought.json()["code"])
    assert (405, 404) == (committed.status_code, dog.status_code)


@pytest.mark.parametrize("number", ["1.10", "12345678901234567890.123456789", "3", "-0.5"])
async def test_a_decimal_of_a_result_keeps_the_digits_of_its_number(tmp_path, number):
    row = f'{{"id": "1", "is": {number}, "rate": 1.10}}'
    part = f'{{"table": "Price", "rows": [{row}]}}'
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        application(tmp_path, PRICES) as running,
        http_client(base_url=f"http://127.0.0.1:{running.http_port}") as ask,
    ):
        json = {"content-type": "application/json"}
        await ask.put("/$SYS/results/up/0", content=part, headers=json)
        await ask.post("/$SYS/results/", json=ORDER | {"table": "Price"})
        price = await ask.get("/Price/1")
    assert {"id": "1", "is": number, "rate": 1.1} == price.json()
