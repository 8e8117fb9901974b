"""TanStack DB, as an application uses it, over a live query of the whole program (M3)."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from clients import library, needs

HERE = Path(__file__).parent
UI = HERE.parent.parent / "app" / "rowcast" / "doors" / "http" / "ui"
_, INSTALLED = library("@tanstack", "db")
SECONDS = 180
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    needs("node"),
    INSTALLED,
]


@pytest.fixture
def steps(server):
    server.request("PUT", "/Counter/a", json={"n": 1})
    done = subprocess.run(
        [shutil.which("node") or "node", HERE / "tanstack.mjs", UI, server.url],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert not done.returncode, done.stderr
    return {one.pop("step"): one for one in map(json.loads, done.stdout.splitlines())}


def row(name, n):
    return {"id": name, "n": n}


def test_m3_it_follows_writes_at_once_and_takes_back_what_is_refused(server, steps):
    """M3: with live queries of the library's own, and transactions that are the server's."""
    b, c = row("b", 2), row("c", 32)
    assert [row("a", 1)] == steps["ready"]["rows"]
    assert [b] == steps["followed"]["rows"]
    new = row("c", 30)
    assert {"rows": [b, new], "large": [new]} == steps["inserted"]
    assert {"outcome": "kept", "rows": [b, new]} == steps["kept"]
    assert {"outcome": ["kept", "kept"], "rows": [b, c]} == steps["updated"]
    assert [row("b", "many"), c] == steps["wrong"]["rows"]
    assert {"outcome": 422, "rows": [b, c]} == steps["back"]
    assert {"outcome": 422, "rows": [b, c]} == steps["mixed"]
    d, e = row("d", 4), row("e", 5)
    assert {"outcome": "kept", "rows": [b, c, d, e]} == steps["both"]
    assert {"outcome": "kept", "rows": [c, e]} == steps["deleted"]
    assert [c, e] == server.request("GET", "/Counter/?n=gt=0&sort(id)").json()
