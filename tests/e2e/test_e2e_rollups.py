"""Roll-ups of the real program over kills: rows on each door, no reading lost or counted twice."""

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest

from serving import Server, wait_until

pytestmark = pytest.mark.slow  # rows are written once a second

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey at: Date site: String temp: Float cost: Decimal }
type Hourly @table @export
  @rollup(of: "Sensor", by: ["site"], time: "at", every: "1h",
    values: {temp: [sum, count, max], cost: [sum, avg]})
"""


def test_v4_rows_are_exact_over_kills(tmp_path):
    chance, expected = Random(7), {"A": [], "B": []}
    with Server(tmp_path, SCHEMA) as server:
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H}:{{:02}}:00Z"
        for number in range(60):
            site, temp = chance.choice("AB"), chance.randrange(100)
            value = {"at": moment.format(number), "site": site, "temp": temp, "cost": f"{temp}.10"}
            server.request("PUT", f"/Sensor/{number % 5}", json=value).raise_for_status()
            expected[site].append(temp)
            if number % 20 == 10:
                server.kill(children=number == 30)
                server.start()

        def rows():
            wanted = "site,temp_sum,temp_count,temp_max,cost_sum"
            found = server.request("GET", f"/Hourly/?select({wanted})")
            return {row["site"]: row for row in found.json()}

        wanted = {
            site: {"site": site, "temp_sum": sum(temps), "temp_count": len(temps),
                   "temp_max": max(temps),
                   "cost_sum": str(sum(temps) + Decimal("0.10") * len(temps))}
            for site, temps in expected.items()
        }  # fmt: skip
        wait_until(lambda: rows() == wanted, f"the rows are {wanted}")
        one = f"/Hourly/A/{moment.format(0)}"
        assert max(expected["A"]) == server.request("GET", one).json()["temp_max"]
        assert 405 == server.request("PUT", one, json={}).status_code
        server.kill()
        server.start()
        assert wanted == rows()
