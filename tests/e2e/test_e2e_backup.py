"""Backup and restore with the real program, beside a server that is written to (O12)."""

import os
import shutil
import sqlite3
import threading
from collections import Counter
from contextlib import closing

import pytest

from rowcast.core.errors import Code, Error
from rowcast.program import backups
from rowcast.program.config import Config
from serving import PATIENCE_SECONDS, SCHEMA, Server, rowcast
from talking import Events, Mqtt


def restored(tmp_path, name, *options):
    """Restore into a new folder; return it and what was printed."""
    folder = tmp_path / name
    folder.mkdir()
    done = rowcast("restore", tmp_path / "kept", "--data", folder / "data", *options)
    assert 0 == done.returncode, done.stderr
    return folder, done


def test_a_back_up_of_a_busy_server_is_one_moment_of_it(tmp_path):
    """O12: a batch is in it as a whole or not at all; the server goes on."""
    folder = tmp_path / "first"
    folder.mkdir()
    with Server(folder) as server:
        (folder / "data" / "other.key").write_text("kept too")
        begun, stop = threading.Event(), threading.Event()

        def write():
            with server.client() as client:
                number = 0
                while not stop.is_set():
                    number += 1
                    rows = [{"name": "n", "age": number}] * 4
                    client.post("/Dog/?atomic=true", json=rows).raise_for_status()
                    begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert begun.wait(PATIENCE_SECONDS)
            options = ("--data", folder / "data", "--schema", server.schema_file)
            done = rowcast("backup", tmp_path / "kept", *options)
        finally:
            stop.set()
            writer.join()
        assert 0 == done.returncode, done.stderr
        again = rowcast("backup", tmp_path / "kept", *options)
        assert (1, True) == (again.returncode, "there already" in again.stderr)
        cursor = done.stdout.strip()
    folder, _ = restored(tmp_path, "second")
    assert (folder / "data" / "other.key").read_text() == "kept too"
    with Server(folder) as server:
        ages = server.request("GET", "/Dog/?select(age)").json()
        assert {4} == set(Counter(ages).values())
        assert max(ages) == len(ages) // 4
        head = server.request("GET", "/health").json()["head"]
        assert head.split(":")[0] != cursor.split(":")[0]
        with Events(server, f"/Dog/?since={cursor}") as events:
            assert "reset" == events.next().fields["kind"]
        past = server.request("GET", f"/Dog/a?from={cursor}")
        assert 410 == past.status_code


def test_as_it_was_before_the_mistake(tmp_path):
    """O12: to a cursor of the log in it; clients with a place after that begin anew."""
    folder = tmp_path / "first"
    folder.mkdir()
    lasting = {"session_expiry_interval": 3_600}
    with Server(folder, SCHEMA) as server:
        put = server.request("PUT", "/Dog/1", json={"name": "Rex"})
        server.request("PUT", "/home/lamp", content=b"on").raise_for_status()
        good = server.request("GET", "/health").json()["head"]
        with Mqtt(server.mqtt_port, client_id="away", properties=lasting) as client:
            client.subscribe("Dog/+", 1)
        server.request("DELETE", "/Dog/1").raise_for_status()
        server.request("PUT", "/Dog/2", json={"name": "Wrong"}).raise_for_status()
        server.request("PUT", "/home/lamp", content=b"off").raise_for_status()
        options = ("--data", folder / "data", "--schema", server.schema_file)
        assert 0 == rowcast("backup", tmp_path / "kept", *options).returncode
    nowhere = rowcast("restore", tmp_path / "kept", "--data", folder / "data")
    assert (1, True) == (nowhere.returncode, "there already" in nowhere.stderr)
    late = rowcast("restore", tmp_path / "kept", "--data", tmp_path / "late", "--to", "now")
    assert (1, True) == (late.returncode, "now is after this backup" in late.stderr)
    folder, done = restored(tmp_path, "second", "--to", good)
    assert good.split(":")[1] == done.stdout.strip().split(":")[1]
    with Server(folder) as server:
        assert {"id": "1", "name": "Rex"} == server.request("GET", "/Dog/1").json()
        assert 404 == server.request("GET", "/Dog/2").status_code
        assert b"on" == server.request("GET", "/home/lamp").content
        assert (
            412
            == server.request(
                "PUT", "/Dog/1", json={"name": "X"}, headers={"if-match": put.headers["etag"]}
            ).status_code
        )
        with Mqtt(server.mqtt_port, client_id="away", properties=lasting) as client:
            assert client.connack is not None
            assert not client.connack.session_present
        server.request("PUT", "/Dog/3", json={"name": "New"}).raise_for_status()
        assert 2 == len(server.request("GET", "/Dog/").json())


def test_a_restore_that_fails_leaves_the_archive_that_was_there(tmp_path, monkeypatch):
    """O12: that of the same log, which a node keeps."""

    def fail(*_, **__):
        raise Error(Code.BUSY, "the disk is full")

    folder, kept, new = tmp_path / "first", tmp_path / "kept", tmp_path / "new"
    folder.mkdir()
    with Server(folder) as server:
        epoch = server.request("GET", "/health").json()["head"].split(":")[0]
        assert 0 == rowcast("backup", kept, "--data", folder / "data").returncode
    earlier = new / backups.ARCHIVE / epoch / "1" / "0-9.parquet"
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"whole")
    monkeypatch.setattr(backups, "_copy_files", fail)
    with pytest.raises(Error, match="the disk is full"):
        backups.restore(kept, new, same_log=True)
    assert b"whole" == earlier.read_bytes()


def test_a_damaged_back_up_is_refused(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    with Server(folder) as server:
        server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
        rowcast("backup", tmp_path / "kept", "--data", folder / "data")
    file = tmp_path / "kept" / "rowcast.db"
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)
    done = rowcast("restore", tmp_path / "kept", "--data", tmp_path / "new")
    assert (1, True) == (done.returncode, "not as it was backed up" in done.stderr)
    assert not (tmp_path / "new" / "rowcast.db").exists()
    nothing = rowcast("restore", tmp_path, "--data", tmp_path / "new")
    assert "is no backup" in nothing.stderr


def test_what_is_no_back_up_is_said(tmp_path):
    """O12: a wrong name and a damaged manifest are told apart, each with what to do."""
    done = rowcast("restore", tmp_path / "nothing", "--data", tmp_path / "data")
    assert (1, True) == (
        done.returncode,
        "name the directory that `rowcast backup` made" in done.stderr,
    )
    (tmp_path / "manifest.json").write_text("{}")
    done = rowcast("restore", tmp_path, "--data", tmp_path / "data")
    assert (1, True) == (done.returncode, "is damaged; take another backup" in done.stderr)
    assert not (tmp_path / "data").exists()


def test_a_restore_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """O12: in the object store too, which comes last; what was there before stays as it was."""

    def archived(_, data, epochs, __):
        (data / backups.ARCHIVE / epochs[1]).mkdir(parents=True)
        (data / backups.ARCHIVE / epochs[1] / "0-9.parquet").touch()
        return 1

    def fail(*_, **__):
        raise Error(Code.BUSY, "the store is away")

    folder, kept, new = tmp_path / "first", tmp_path / "kept", tmp_path / "new"
    folder.mkdir()
    with Server(folder) as server:
        server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
        (folder / "data" / "users.json").write_text("those of the backup")
        assert 0 == rowcast("backup", kept, "--data", folder / "data").returncode
    with monkeypatch.context() as patch:
        patch.setattr(backups, "restore_archive", archived)
        patch.setattr(backups, "restore_stored", fail)
        with pytest.raises(Error, match="the store is away"):
            backups.restore(kept, new, stored=Config())
        assert not new.exists()
        new.mkdir()
        (new / "notes.txt").write_text("others")
        with pytest.raises(Error, match="the store is away"):
            backups.restore(kept, new, stored=Config())
        assert {"notes.txt": "others"} == {file.name: file.read_text() for file in new.iterdir()}
    backups.restore(kept, new)
    assert "those of the backup" == (new / "users.json").read_text()


def test_a_result_that_is_being_brought_is_in_no_backup(tmp_path):
    """O12, M5: and one that is beside a restored log is not of it; its job brings it again."""
    folder = tmp_path / "first"
    folder.mkdir()
    with Server(folder) as server:
        part = {"table": "Dog", "rows": [{"id": "1", "name": "Rex"}]}
        server.request("PUT", "/$SYS/results/up/0", json=part).raise_for_status()
        done = rowcast(
            "backup", tmp_path / "kept", "--data", folder / "data", "--schema", server.schema_file
        )
        assert 0 == done.returncode, done.stderr
        server.kill()
        server.start()
        assert ["up"] == [row["id"] for row in server.request("GET", "/$SYS/results/").json()]
    assert not [*(tmp_path / "kept").rglob("*uploads*")]
    again, _ = restored(tmp_path, "second")
    (folder / "data" / "uploads").rename(again / "data" / "uploads")
    with Server(again) as server:
        assert [] == server.request("GET", "/$SYS/results/").json()
        assert not [*(again / "data" / "uploads").iterdir()]


def test_a_restore_leaves_what_is_there(tmp_path):
    """O12: users, and a journal that SQLite would take for that of the restored database."""
    folder, kept, new = tmp_path / "first", tmp_path / "kept", tmp_path / "new"
    folder.mkdir()
    with Server(folder):
        (folder / "data" / "users.json").write_text("[]")
        assert 0 == rowcast("backup", kept, "--data", folder / "data").returncode
    new.mkdir()
    for name, text in {"users.json": "[1]", "rowcast.db-wal": "x", "rowcast.db-log": "x"}.items():
        (new / name).write_text(text)
        done = rowcast("restore", kept, "--data", new)
        assert (1, True) == (done.returncode, f"{new / name} is there already" in done.stderr)
        assert text == (new / name).read_text()
        (new / name).unlink()
    (new / "users.json").write_text("[]")  # as in the backup: of a restore that was killed
    assert 0 == rowcast("restore", kept, "--data", new).returncode


def test_a_restore_after_one_that_was_killed(tmp_path):
    """O12: what that has left beside its database is not taken for this one's."""
    folder, kept, new = tmp_path / "first", tmp_path / "kept", tmp_path / "new"
    folder.mkdir()
    with Server(folder) as server:
        server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
        assert 0 == rowcast("backup", kept, "--data", folder / "data").returncode
    part = new / f"{backups.FILE_NAME}{backups._UNFINISHED}"
    new.mkdir()
    shutil.copyfile(kept / backups.FILE_NAME, part)
    with closing(sqlite3.connect(part)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute('DELETE FROM "Dog"')
        writer.commit()
        left = {file.name: file.read_bytes() for file in new.iterdir()}
    for name, data in left.items():
        (new / name).write_bytes(data)
    assert 0 == rowcast("restore", kept, "--data", new).returncode
    with closing(sqlite3.connect(new / backups.FILE_NAME)) as reader:
        assert [("Rex",)] == reader.execute('SELECT name FROM "Dog"').fetchall()
    assert not list(new.glob("*unfinished*"))


def test_a_backup_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """O12: as a full disk would stay full."""

    def fail(*_):
        raise OSError(28, "No space left on device")

    folder, kept = tmp_path / "first", tmp_path / "kept"
    folder.mkdir()
    with Server(folder):
        monkeypatch.setattr(backups, "_write", fail)
        with pytest.raises(Error, match="No space left"):
            backups.back_up(Config(data=folder / "data"), kept)
    assert not list(tmp_path.glob("kept*"))


def test_a_database_elsewhere_is_restored_there(tmp_path):
    """O12: where the server looks for it, with the same settings."""
    folder, kept = tmp_path / "first", tmp_path / "kept"
    folder.mkdir()
    file = tmp_path / "elsewhere" / "rows.db"
    words = ("--data", tmp_path / "new", "--set", f"store.url=sqlite:///{file}")
    with Server(folder) as server:
        server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
        assert 0 == rowcast("backup", kept, "--data", folder / "data").returncode
    assert 0 == rowcast("restore", kept, *words).returncode
    with closing(sqlite3.connect(file)) as reader:
        assert [("Rex",)] == reader.execute('SELECT name FROM "Dog"').fetchall()
    again = rowcast("restore", kept, *words)
    assert f"{file} is there already" in again.stderr
    assert "--set store.url=" in again.stderr


def test_a_backup_and_a_restore_are_on_the_disk_when_they_are_done(tmp_path, monkeypatch):
    """O12: each file, and the names of all, are synced."""
    synced = set()

    def sync(handle, real=os.fsync):
        synced.add(os.fstat(handle).st_ino)
        real(handle)

    folder, kept, new = tmp_path / "first", tmp_path / "kept", tmp_path / "new"
    folder.mkdir()
    with Server(folder):
        (folder / "data" / "users.json").write_text("[]")
        words = {"data": folder / "data", "schema": tmp_path / "schema.graphql"}
        words["schema"].write_text(SCHEMA)
        monkeypatch.setattr(os, "fsync", sync)
        backups.back_up(Config(**words), kept)
    backups.restore(kept, new)
    for place in (kept, new):
        found = [file for file in (place, *place.rglob("*")) if file.name != backups.FILE_NAME]
        assert {file.stat().st_ino for file in found} <= synced, found
    assert tmp_path.stat().st_ino in synced
