"""Exports of a running server: begun, followed, ended and removed over REST (S1, S12)."""

import json
import os
import re
from pathlib import Path

import pytest
from exporting import Exporting
from made_up_snapshots import EPOCH, name_of, put_snapshot

from rowcast.core.export_limits import EXPORT_JOBS_WAITING_MAX
from rowcast.features.snapshots.jobs import Order, without_places
from serving import until


@pytest.fixture
def world(tmp_path, monkeypatch):
    return Exporting(tmp_path / "data/snapshots", str(Path(__file__).parent), monkeypatch)


async def test_an_export_is_begun_and_its_snapshot_shown(world):
    """S1: POST answers 202 with where the job is; in the end there is a row of the snapshot."""
    async with world.running():
        began = await world.ask("POST", json={"tables": ["Dog"]})
        assert (202, "waiting") == (began.status_code, began.json()["state"])
        path = began.headers["location"].removeprefix("/$SYS/snapshots/")
        row = await world.ended(path)
        assert ("done", "Dog", 1, 2) == tuple(row[x] for x in ("state", "table", "rows", "of"))
        assert [Order(("Dog",))] == world.orders
        listed = {row["id"]: row for row in await world.row("")}
        assert {path, name_of(101)} == listed.keys()
        shown = listed[name_of(101)]
        assert ("complete", f"{EPOCH}:101", 2, 10, True) == tuple(
            shown[x] for x in ("state", "cut", "rows", "bytes", "newest")
        )
        assert {"rows": 2, "digest": "sha256:1"} == (await world.row("newest"))["tables"]["Dog"]


@pytest.mark.heavy
async def test_one_export_runs_and_others_wait(world):
    """S1: a few orders wait, more are BUSY; DELETE of a job's row ends it, running or not."""
    world.after = "import signal; signal.pause()"
    async with world.running():
        posted = [await world.ask("POST") for _ in range(EXPORT_JOBS_WAITING_MAX + 2)]
        assert [202] * (EXPORT_JOBS_WAITING_MAX + 1) + [503] == [x.status_code for x in posted]
        names = [x.headers["location"].rpartition("/")[2] for x in posted[:-1]]
        await until(lambda: world.exports.jobs[names[0]].state == "running")
        assert "waiting" == (await world.row(names[1]))["state"]
        world.after = ""
        for name in names[2:]:
            assert 204 == (await world.ask("DELETE", name)).status_code
        assert names[:2] == [row["id"] for row in await world.row("")]
        assert 204 == (await world.ask("DELETE", names[0])).status_code
        assert "done" == (await world.ended(names[1]))["state"]
        assert 404 == (await world.ask("GET", names[0])).status_code


async def test_exports_that_wait_go_on_after_a_look_that_fails(world, monkeypatch):
    """Such as at an object store that does not answer for a moment."""
    async with world.running():
        newest = world.exports.catalogue.newest

        def fails():
            if len(world.orders) < 2:
                raise OSError("it does not answer")
            return newest()

        monkeypatch.setattr(world.exports.catalogue, "newest", fails)
        posted = [await world.ask("POST") for _ in range(2)]
        names = [x.headers["location"].rpartition("/")[2] for x in posted]
        assert ["done", "done"] == [(await world.ended(name))["state"] for name in names]


@pytest.mark.heavy
async def test_the_server_s_end_is_the_end_of_its_export(world, tmp_path):
    """S1: the process is gone, and the server that comes next has no job and makes others."""
    pid = tmp_path / "pid"
    world.before = f"open({str(pid)!r}, 'w').write(str(os.getpid()))"
    world.after = "import signal; signal.pause()"
    async with world.running():
        await world.ask("POST")
        await until(lambda: pid.exists() and pid.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    world.after = ""
    async with world.running():
        assert [] == await world.row("")
        path = (await world.ask("POST")).headers["location"].rpartition("/")[2]
        assert "done" == (await world.ended(path))["state"]


async def test_a_failed_export_says_why(world):
    """S1: what the process said last is in the row; the snapshots of before are as they were."""
    world.after = "sys.exit('some words\\nrowcast: the disk is full; free some space')"
    put_snapshot(world.root, 7)
    async with world.running():
        path = (await world.ask("POST")).headers["location"].rpartition("/")[2]
        row = await world.ended(path)
        assert ("failed", "the disk is full; free some space") == (row["state"], row["error"])
        assert name_of(7) == (await world.row("newest"))["id"]


async def test_a_failed_export_does_not_say_where_files_are():
    """P3: the row is for everybody who reads $SYS; the log of the server has all of it."""
    command = [
        "python",
        "export",
        "--data",
        "/srv/data",
        "--out",
        "/srv/data/snaps",
        "--schema",
        "s",
    ]
    said = "/srv/data/snaps/x is held; s is a file in /srv/data/rowcast.db"
    told = "the directory of snapshots/x is held; s is a file in the data directory/rowcast.db"
    assert told == without_places(said, command)


WRONG = [
    ([], "ordered with"),
    ({"table": []}, "did you mean"),
    ({"tables": "Dog"}, "list of names"),
    ({"changes": 1}, "true or false"),
    ({"changes": True, "tables": ["Dog"]}, "all tables"),
]


async def test_a_wrong_order_is_refused_with_how_to_say_it(world):
    """S1: each with what is wrong."""
    async with world.running():
        for body, says in WRONG:
            refused = await world.ask("POST", json=body)
            assert (400, True) == (refused.status_code, says in refused.json()["detail"]), body


async def test_an_order_of_a_table_that_is_not_there_is_refused_at_once(world):
    """S1: with the name that was meant, or those that there are; no job is begun."""
    async with world.running():
        for name, says in [("Dgo", 'did you mean "Dog"?'), ("Zebra", "; there are ")]:
            refused = await world.ask("POST", json={"tables": ["Dog", name]})
            assert (404, "not_found") == (refused.status_code, refused.json()["code"])
            assert f"there is no table {name!r} to export" in refused.json()["detail"]
            assert says in refused.json()["detail"]
        assert "Dog" in refused.json()["detail"].partition("there are")[2]
        assert [] == await world.row("")
        for name in ("_retained", "mqtt_sys_events"):  # not declared, and tables nonetheless
            assert 202 == (await world.ask("POST", json={"tables": [name]})).status_code


async def test_rows_are_live(world):
    """S1, M11: who watches hears of the job, how far it is, its end, and the snapshot."""
    async with world.running():
        watch = world.client.stream("GET", "/", headers={"accept": "text/event-stream"})
        async with watch as stream:
            lines = stream.aiter_lines()
            assert "event: current" in [await anext(lines) for _ in range(3)]
            await world.ask("POST")
            heard = []
            async for line in lines:
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    heard.append(event)
                    if name_of(101) in line:
                        break
        told = [
            (event["value"]["state"], event["value"]["rows"]) for event in heard if "value" in event
        ]
        begun = [("waiting", None), ("running", None), ("running", 1)]
        assert [*begun, ("done", 1), ("complete", 2)] == told


async def test_a_schedule_begins_what_is_due(world):
    """S1: what is not there yet is due at once; the snapshot comes first."""
    async with world.running(**{"snapshots.every": "1h", "snapshots.changes": "30m"}):
        await until(lambda: len(world.orders) == 2 and not world.exports.open_jobs)
        assert [Order(), Order(changes=True)] == world.orders


async def test_what_other_programs_make_and_remove_is_seen(world):
    """S1: a snapshot that a command line made is there at the next look, and may be removed."""
    put_snapshot(world.root, 7)
    put_snapshot(world.root, 9)
    put_snapshot(world.root, 12, page=10)
    (world.root / ".making-13").mkdir()
    async with world.running():
        page = "changes/seq=000000000000000010-000000000000000012"
        assert [page, name_of(7), name_of(9)] == [row["id"] for row in await world.row("")]
        row = await world.row(page)
        assert (10, 12) == (row["from_seq"], row["seq"])
        assert 204 == (await world.ask("DELETE", "newest")).status_code
        assert name_of(7) == (await world.row("newest"))["id"]
        assert 404 == (await world.ask("DELETE", name_of(9))).status_code
        assert 204 == (await world.ask("DELETE", name_of(7))).status_code
        assert 204 == (await world.ask("DELETE", page)).status_code
        assert [] == await world.row("")
        assert 404 == (await world.ask("GET", "newest")).status_code


async def test_a_damaged_manifest_is_told(world):
    put_snapshot(world.root, 7).joinpath("manifest.json").write_text("{")
    put_snapshot(world.root, 8).joinpath("manifest.json").write_text("{}")
    async with world.running():
        rows = await world.row("")
        assert ["damaged", "damaged"] == [row["state"] for row in rows]
        assert "no JSON" in rows[0]["error"]
        assert "tables" in rows[1]["error"]
        assert str(world.root) not in str(rows)


@pytest.mark.parametrize(
    "text", ['{"secret": 1', '"secret"', '{"tables": "secret"}', "\udcff secret"]
)
async def test_a_damaged_page_is_told_without_its_content(world, text):
    """P3: nor where it is on this machine."""
    file = put_snapshot(world.root, 7).joinpath("manifest.json")
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    async with world.running():
        (row,) = await world.row("")
    assert ("damaged", True) == (row["state"], row["error"].startswith("the manifest.json"))
    assert not any(word in str(row) for word in ("secret", "0xff", str(world.root)))


@pytest.mark.parametrize(
    ("lacking", "null"), [("rows", False), ("bytes", True), ("sha256", False), ("epoch", True)]
)
async def test_what_a_manifest_lacks_hides_no_other_snapshot(world, lacking, null):
    """S1: one that was damaged in part is told like another; the list is whole."""
    file = put_snapshot(world.root, 7).joinpath("manifest.json")
    text = file.read_text()
    value = re.search(rf'"{lacking}": ("\w+"|\d+)', text)[0]
    file.write_text(text.replace(value, f'"{lacking}": null' if null else '"odd": 1'))
    put_snapshot(world.root, 8)
    async with world.running():
        assert ["damaged", "complete"] == [row["state"] for row in await world.row("")]
        answer = await world.ask("GET", f"{name_of(7)}/manifest.json")
    assert (404, True) == (answer.status_code, "damaged" in answer.text)


@pytest.mark.heavy
async def test_changes_that_cannot_go_on_have_a_fresh_snapshot_made(world):
    """S6: without any snapshot, or behind a hole of the log; only where they are scheduled."""
    world.after = """
if changes:
    print(json.dumps(dict(code="gone")), flush=True)
    sys.exit("rowcast: make a fresh snapshot")
"""
    async with world.running(**{"snapshots.changes": "30m"}):
        await until(lambda: len(world.orders) == 2 and not world.exports.open_jobs)
        assert [Order(changes=True), Order()] == world.orders
        assert name_of(102) == (await world.row("newest"))["id"]
        path = (await world.ask("POST", json={"changes": True})).headers["location"]
        row = await world.ended(path.rpartition("/")[2])
        assert ("failed", "gone") == (row["state"], row["code"])
