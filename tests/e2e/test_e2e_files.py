"""Files of the server are for its owner only, whatever the umask and the version before (P3)."""

import stat

import pytest

from serving import Server, rowcast, wait_until

OPEN = ("sh", "-c", 'umask 022; exec "$@"', "sh")
"""Runs a command with the umask that most systems have."""


def readable(place):
    """Return what others could read of a file or directory and all below it."""
    found = [place, *place.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found if not path.is_symlink()}
    return {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077}


@pytest.mark.slow
def test_all_that_is_written_is_for_its_owner_only(tmp_path):
    """The database with its log and lock, snapshots by the child process, users, backups."""
    kept, data = tmp_path / "kept", tmp_path / "data"
    with Server(tmp_path, wrapper=OPEN) as server:
        assert 201 == server.request("PUT", "/Dog/1", json={"name": "Rex"}).status_code
        made = server.request("POST", "/$SYS/snapshots/", json={})
        assert made.is_success, made.text
        wait_until((data / "snapshots" / "newest").exists, "the snapshot is there")
        done = rowcast("user", "add", "ann", "--data", data, stdin="a long secret\n")
        assert 0 == done.returncode, done.stderr
        done = rowcast("backup", kept, "--data", data, "--schema", server.schema_file)
        assert 0 == done.returncode, done.stderr
        names = {path.name for path in data.rglob("*")}
        assert {"rowcast.db", "rowcast.db-wal", "rowcast.db.lock", "users.json"} <= names
        assert ({}, {}) == (readable(data), readable(kept))
    again = tmp_path / "again"
    for path in kept.rglob("*"):  # as an earlier version left it
        path.chmod(0o755 if path.is_dir() else 0o644)
    done = rowcast("restore", kept, "--data", again)
    assert (0, {}) == (done.returncode, readable(again))


@pytest.mark.slow
def test_what_an_earlier_version_left_open_is_closed_at_the_start(tmp_path):
    """It is told; the data directory itself, which may be anything, stays as it is."""
    with Server(tmp_path) as server:
        server.request("PUT", "/Dog/1", json={"name": "Rex"})
    data = tmp_path / "data"
    snapshots = data / "snapshots"
    assert 0 == rowcast("export", "--data", data, "--schema", server.schema_file).returncode
    for path in (*data.iterdir(), data):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with Server(tmp_path) as server:
        assert {str(data): "0o755"} == readable(data)
        for path in (data / "rowcast.db", snapshots):
            assert f"{path} could be read by others" in server.log
