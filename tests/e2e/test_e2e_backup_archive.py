"""Backup and restore of a server whose log was archived (O12, M2)."""

import json

import pytest

from serving import Server, rowcast, wait_until
from talking import Mqtt

SCHEMA = "type Counter @table @export { id: ID @primaryKey n: Long! }"
SETTINGS = {
    "log.archive": "true",
    "history.keep_events": 4,
    "history.keep_seconds": 0,
    "history.sweep_seconds": 0.1,
}
COUNT = 30
PLACES = ("/Counter/a", "/home/temp")


def write(server, numbers):
    """Write these numbers at both places, and wait until nearly all is in files."""
    with Mqtt(server.mqtt_port) as client:
        for number in numbers:
            client.publish("Counter/a", json.dumps({"n": number}).encode())
            client.publish("home/temp", str(number).encode(), retain=False)
    oldest = min(newest(server, place)[0]["_seq"] for place in PLACES)
    wait_until(lambda: archived(server, oldest), "all but the last four are in files")


def newest(server, place):
    answer = server.request("GET", f"{place}?last=5")
    answer.raise_for_status()
    return answer.json()


def archived(server, seq):
    """Whether both parts are archived up to a number."""
    rows = server.request("GET", "/$SYS/archive/").json()
    return 2 == sum((row["last"] or 0) >= seq for row in rows)


def past(server):
    """Return number and value of each event at both places."""
    found = []
    for place in PLACES:
        answer = server.request("GET", f"{place}?from=0")
        answer.raise_for_status()
        assert "rowcast-trimmed" not in answer.headers
        found.append([(row["_seq"], row["value"]) for row in answer.json()])
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a backup, what the server told of its past then, and a later backup."""
    folder = tmp_path_factory.mktemp("kept")
    with Server(folder, SCHEMA, settings=SETTINGS) as server:
        write(server, range(COUNT))
        told = past(server)
        options = ("--data", folder / "data", "--schema", server.schema_file)
        done = rowcast("backup", folder / "monday", *options)
        assert 0 == done.returncode, done.stderr
        write(server, range(COUNT, 2 * COUNT))
        later = past(server)
        for name, before in (("tuesday", "monday"), ("again", "tuesday")):
            done = rowcast("backup", folder / name, "--previous", folder / before, *options)
            assert 0 == done.returncode, done.stderr
    return folder, told, later


def restored(kept, tmp_path, name="monday", *options):
    return rowcast("restore", kept[0] / name, "--data", tmp_path / "data", *options)


@pytest.mark.parametrize(("name", "at"), [("monday", 1), ("tuesday", 2)])
def test_o12_m2_what_was_archived_is_told_after_a_restore_as_before(kept, tmp_path, name, at):
    """Its history, its records as they were, and what comes after them, from files to the log."""
    done = restored(kept, tmp_path, name)
    assert 0 == done.returncode, done.stderr
    assert "archived files; they are read with log.archive: true" in done.stderr
    with Server(tmp_path, SCHEMA, settings=SETTINGS) as server:
        assert kept[at] == past(server)
        epoch = server.request("GET", "/health").json()["head"].partition(":")[0]
        for seq, value in kept[at][0][::7]:
            answer = server.request("GET", f"/Counter/a?asof={epoch}:{seq}")
            assert {"id": "a", **value} == answer.json()
        write(server, range(100, 100 + COUNT))
        again = past(server)
        assert kept[at] == [events[:-COUNT] for events in again]
        assert [*range(100, 100 + COUNT)] == [x["n"] for _, x in again[0][-COUNT:]]
    modes = {path.stat().st_mode & 0o77 for path in (tmp_path / "data").rglob("*")}
    assert {0} == modes


def test_o12_m2_to_an_earlier_position_the_files_before_it_come_back(kept, tmp_path):
    seq = kept[2][0][-2][0]  # in the log still
    epoch = json.loads((kept[0] / "tuesday/manifest.json").read_text())["cursor"].partition(":")[0]
    done = restored(kept, tmp_path, "tuesday", "--to", f"{epoch}:{seq}")
    assert 0 == done.returncode, done.stderr
    with Server(tmp_path, SCHEMA, settings=SETTINGS) as server:
        wanted = [[x for x in events if x[0] <= seq] for events in kept[2]]
        assert wanted == past(server)


def test_o12_files_that_an_earlier_backup_has_are_linked(kept):
    inodes = [
        {file.relative_to(place): file.stat().st_ino for file in place.rglob("*.parquet")}
        for place in (kept[0] / "tuesday", kept[0] / "again")
    ]
    assert inodes[0]
    assert inodes[0] == inodes[1]


@pytest.mark.parametrize("fault", ["is missing", "is not as it was backed up"])
def test_o12_m2_a_fault_in_a_file_of_the_archive_is_told(kept, tmp_path, fault):
    """What was archived can be left out: then it counts as trimmed."""
    files = sorted((kept[0] / "monday").rglob("*.parquet"))
    whole = files[0].read_bytes()
    try:
        if fault == "is missing":
            files[0].unlink()
        else:
            files[0].write_bytes(whole[:100] + b"?" + whole[101:])
        done = restored(kept, tmp_path)
        assert 1 == done.returncode
        assert f"{files[0]} {fault}" in done.stderr
        assert "leave out what was archived: --no-archive" in done.stderr
        assert not (tmp_path / "data").exists()
        done = restored(kept, tmp_path, "monday", "--no-archive")
        assert 0 == done.returncode, done.stderr
    finally:
        files[0].write_bytes(whole)
    with Server(tmp_path, SCHEMA, settings=SETTINGS) as server:
        answer = server.request("GET", "/Counter/a?from=0")
        assert "rowcast-trimmed" in answer.headers
        assert COUNT - 1 == answer.json()[-1]["value"]["n"]
