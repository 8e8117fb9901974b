"""Uploads over a restart: what was answered is there, for its user, once, and within the bounds.

A restart is a second world over the same folder; the first one is left as a kill leaves it.
"""

import asyncio
import errno
import os
import shutil
import struct
import threading
from dataclasses import replace
from zlib import crc32

import pytest
from test_bulk_commit import A_DOG, World, dogs

from build import ANN, DOG, EPOCH, TABLES, Server
from memory_store import MemoryStore
from rightful import Rightful
from rowcast.core import result_limits
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.features.results.pending_commit import Order
from serving import PATIENCE_SECONDS, until

BEN = Caller("ben", ANN.grants, "http")


def killed(folder, world=None, **facts):
    """Return a world that begins in a folder as a kill has left it."""
    facts.setdefault("room", Server(store=world.room.store) if world else None)
    return World(directory=str(folder), **facts)


async def restarted(folder, world=None, **facts):
    world = killed(folder, world, **facts)
    await world.results.restore()
    return world


def order(*parts, rows=9, again=False, cut="0badcafe:1"):
    return Order("up", "Dog", "hourly", cut, parts, rows, replace=False, again=again)


def files(folder):
    return sorted(folder.glob("uploads/*"))


async def brought(folder, **facts):
    world = World(directory=str(folder), **facts)
    for part, names in enumerate(({"a": "Rex", "b": "Ida"}, {"c": "Bob"})):
        await world.results.stage("up", str(part), "Dog", dogs(**names), ANN)
    return world


async def test_m5_an_upload_goes_on_after_a_kill(tmp_path):
    """M5: with all parts, and one that is sent again, as its answer was lost, counts once."""
    await brought(tmp_path)
    world = await restarted(tmp_path)
    (upload,) = world.results.uploads
    assert (upload.user, upload.rows, list(upload.parts)) == ("ann", 3, ["0", "1"])
    await world.results.stage("up", "1", "Dog", dogs(c="Bob"), ANN, after="0")
    await world.results.stage("up", "2", "Dog", dogs(d="Tom"), ANN, after="1")
    world = await restarted(tmp_path)
    receipt = await world.results.commit(order("0", "1", "2"), ANN)
    assert (receipt.rows, receipt.written) == (4, 4)
    assert world.names() == {"Dog/a": "Rex", "Dog/b": "Ida", "Dog/c": "Bob", "Dog/d": "Tom"}
    await until(lambda: not files(tmp_path))


async def test_m5_an_orderly_stop_leaves_uploads_too(tmp_path):
    world = await brought(tmp_path)
    await world.results.stop()
    world = await restarted(tmp_path)
    assert (await world.results.commit(order("0", "1"), ANN)).written == 3


async def test_m9_only_its_user_continues_an_upload(tmp_path):
    await brought(tmp_path)
    world = await restarted(tmp_path)
    with pytest.raises(Error, match="is of another user") as refused:
        await world.results.stage("up", "2", "Dog", dogs(d="Tom"), BEN)
    assert refused.value.code is Code.CONFLICT
    with pytest.raises(Error, match="there is no upload up") as refused:
        await world.results.commit(order("0", "1"), BEN)
    assert refused.value.code is Code.NOT_FOUND


async def test_only_the_owner_of_the_data_reads_the_files(tmp_path):
    before = os.umask(0)
    try:
        await brought(tmp_path)
    finally:
        os.umask(before)
    modes = [place.stat().st_mode & 0o777 for place in (tmp_path / "uploads", *files(tmp_path))]
    assert modes == [0o700, 0o600, 0o600]


@pytest.mark.heavy
async def test_m5_what_a_kill_has_torn_was_never_answered_and_is_cut_off(tmp_path):
    """M5: at each byte of the last note; what was written of its rows is cut off, too."""
    await brought(tmp_path / "whole")
    notes, rows = files(tmp_path / "whole")
    data, one = notes.read_bytes(), notes.read_bytes().rfind(b'["part"') - 8
    for size in range(one, len(data)):
        place = tmp_path / str(size)
        shutil.copytree(tmp_path / "whole", place)
        (place / "uploads" / notes.name).write_bytes(data[:size])
        world = await restarted(place)
        (upload,) = world.results.uploads
        assert (list(upload.parts), upload.rows, upload.bytes) == (["0"], 2, 2 * A_DOG)
        assert (place / "uploads" / rows.name).stat().st_size == 2 * A_DOG
        await world.results.stage("up", "1", "Dog", dogs(c="Bob"), ANN, after="0")
        world = await restarted(place)
        assert (await world.results.commit(order("0", "1"), ANN)).written == 3


async def test_a_part_whose_rows_the_disk_has_lost_is_not_there(tmp_path):
    await brought(tmp_path)
    os.truncate(files(tmp_path)[1], 2 * A_DOG + 1)
    world = await restarted(tmp_path)
    (upload,) = world.results.uploads
    assert list(upload.parts) == ["0"]
    with pytest.raises(Error, match="no part 1 of the upload up"):
        await world.results.stage("up", "2", "Dog", [], ANN, after="1")


async def test_rows_that_are_damaged_are_refused(tmp_path):
    await brought(tmp_path)
    rows = files(tmp_path)[1]
    data = bytearray(rows.read_bytes())
    data[data.index(b"Ida")] = ord("A")
    rows.write_bytes(data)
    world = await restarted(tmp_path)
    with pytest.raises(Error, match="damaged; bring the result again") as refused:
        await world.results.commit(order("0", "1"), ANN)
    assert refused.value.code is Code.CONFLICT
    assert world.names() == {}


async def test_what_is_no_upload_is_removed(tmp_path):
    await brought(tmp_path)
    notes, rows = files(tmp_path)
    rows.with_name("left.rows").write_bytes(b"of one whose notes were removed first")
    notes.with_name("torn.notes").write_bytes(notes.read_bytes()[:20])
    notes.with_name("odd.notes").write_bytes(b"\0\0\0\4\0\0\0\0what")
    title, other = notes.read_bytes().partition(b"}")[0] + b"}", b'["part","0"]'
    head = struct.pack(">II", len(other), crc32(other))
    notes.with_name("other.notes").write_bytes(title + head + other)
    await restarted(tmp_path)
    assert files(tmp_path) == [notes, rows]


async def other_rules(folder):
    room = Rightful()
    await room.rule("one", filter="Dog/#", actions=["write"], users=["eve"])
    return await restarted(folder, room=room)


async def test_m5_an_upload_outlives_a_disk_that_is_full_for_one_part(tmp_path, monkeypatch):
    """M5: the job is told BUSY, and sends the part again; it counts once, also in bytes."""
    world = await brought(tmp_path)
    (upload,) = world.results.uploads
    before = upload.bytes

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        for _ in range(3):
            with pytest.raises(Error, match="No space left") as refused:
                await world.results.stage("up", "2", "Dog", dogs(d="Tom"), ANN, after="1")
            assert refused.value.code is Code.BUSY
    assert ([upload], before) == (list(world.results.uploads), upload.bytes)
    await world.results.stage("up", "2", "Dog", dogs(d="Tom"), ANN, after="1")
    world = await restarted(tmp_path)
    receipt = await world.results.commit(order("0", "1", "2"), ANN)
    assert (receipt.rows, receipt.written) == (4, 4)
    assert world.names() == {"Dog/a": "Rex", "Dog/b": "Ida", "Dog/c": "Bob", "Dog/d": "Tom"}


@pytest.mark.parametrize("change", ["log", "path", "table", "rules"])
async def test_an_upload_for_another_log_table_or_rules_is_removed(tmp_path, change):
    """So after a restore of a backup it is none that could be committed."""
    if change == "rules":
        world = await brought(tmp_path, room=Rightful())
        assert [*(await restarted(tmp_path, room=Rightful())).results.uploads]
        world = await other_rules(tmp_path)
    else:
        await brought(tmp_path)
        tables = {"path": (replace(DOG, path="Hound"), *TABLES[1:]), "table": TABLES[1:]}
        store = MemoryStore("0badbeef" if change == "log" else EPOCH)
        room = Server(tables.get(change, TABLES), store=store)
        world = await restarted(tmp_path, room=room)
    assert [*world.results.uploads] == []
    assert files(tmp_path) == []


async def test_an_upload_that_nobody_continues_expires_while_the_server_is_away(tmp_path):
    world = await brought(tmp_path)
    room = Server()
    room.time = world.room.time + result_limits.RESULT_IDLE_SECONDS
    assert [*(await restarted(tmp_path, room=room)).results.uploads]
    room = Server()
    room.time = world.room.time + result_limits.RESULT_IDLE_SECONDS + 1
    assert [*(await restarted(tmp_path, room=room)).results.uploads] == []
    await until(lambda: not files(tmp_path))


async def test_l11_bounds_hold_for_what_is_found_and_the_last_used_stay(tmp_path):
    """L11: of one user, of all, and the parts of each: bounds may be lower than before."""
    world = World(directory=str(tmp_path))
    for number in range(4):
        world.room.time += 1
        for part in range(1 + (number == 3)):
            await world.results.stage(f"u{number}", str(part), "Dog", dogs(a="1"), ANN)

    async def kept(**bounds):
        shutil.copytree(tmp_path / "uploads", tmp_path / "now" / "uploads", dirs_exist_ok=True)
        room = Server()
        room.time = world.room.time
        found = await restarted(tmp_path / "now", room=room, **bounds)
        kept = [upload.name for upload in found.results.uploads]
        await until(lambda: len(files(tmp_path / "now")) == 2 * len(kept))
        return kept

    assert await kept() == ["u3", "u2", "u1", "u0"]
    assert await kept(parts=1) == ["u2", "u1", "u0"]
    assert await kept(size_bytes=3 * A_DOG) == ["u3", "u2"]


async def test_m5_a_commit_that_was_switched_is_answered_and_not_done_again(tmp_path):
    """M5: also with again=true, when a kill comes before the upload is removed."""
    world = await brought(tmp_path / "before")
    (upload,) = world.results.uploads
    await upload.begin_commit("result/ann/hourly/", 1)  # as a commit that is killed begins
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    first = await world.results.commit(order("0", "1"), ANN)
    world = await restarted(tmp_path / "after", world)
    assert [*world.results.uploads] == files(tmp_path / "after") == []
    await world.room.put("Dog/a", b'{"name": "by hand"}')
    again = await world.results.commit(order("0", "1", again=True), ANN)
    assert (again.repeat, again.position, again.number) == (True, first.position, first.number)
    assert world.names()["Dog/a"] == "by hand"
    assert [*world.results.uploads] == []
    lost = await world.results.commit(order("0", "1", again=True), ANN)
    assert (lost.repeat, lost.number) == (True, first.number)


async def test_a_later_upload_of_the_same_name_is_committed_again(tmp_path):
    world = await brought(tmp_path)
    await world.results.commit(order("0", "1"), ANN)
    await world.results.stage("up", "0", "Dog", dogs(a="new"), ANN)
    world = await restarted(tmp_path, world)
    receipt = await world.results.commit(order("0", again=True), ANN)
    assert (receipt.repeat, receipt.written) == (False, 1)
    assert world.names()["Dog/a"] == "new"


async def test_m5_a_commit_that_was_killed_before_its_switch_is_carried_out(tmp_path):
    world = await brought(tmp_path)
    (upload,) = world.results.uploads
    await upload.begin_commit("result/ann/hourly/", 1)
    world = await restarted(tmp_path, world)
    receipt = await world.results.commit(order("0", "1"), ANN)
    assert (receipt.repeat, receipt.written, receipt.number) == (False, 3, 1)


async def test_an_upload_does_not_expire_while_it_is_committed(tmp_path):
    world = await brought(tmp_path)
    uploads = world.results.uploads
    (upload,) = uploads
    async with uploads.in_use(upload):
        world.room.time += result_limits.RESULT_IDLE_SECONDS + 1
        assert [*uploads] == [upload]
    assert [*uploads] == []


async def test_m5_a_commit_that_is_killed_again_and_again_keeps_its_upload(tmp_path):
    """M5: of a large result each commit takes minutes, and writes no note that is there already."""
    world, idle = await brought(tmp_path), result_limits.RESULT_IDLE_SECONDS
    (upload,) = world.results.uploads
    await upload.begin_commit("result/ann/hourly/", 1)
    notes, now = files(tmp_path)[0], world.room.time
    for _ in range(3):
        room, now = Server(store=world.room.store), now + idle
        room.time = now
        world = await restarted(tmp_path, room=room)
        (upload,) = world.results.uploads
        async with world.results.uploads.in_use(upload):
            await upload.begin_commit("result/ann/hourly/", 1)
            await until(lambda now=now: abs(notes.stat().st_mtime - now) < 1)


async def test_a_full_disk_leaves_whole_notes(tmp_path, monkeypatch):
    world = await brought(tmp_path)
    (upload,) = world.results.uploads
    write = os.write

    def full(handle, data):
        write(handle, data[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Error, match="No space left") as refused:
        await upload.begin_commit("result/ann/hourly/", 1)
    monkeypatch.undo()
    assert refused.value.code is Code.BUSY
    await world.results.stage("up", "2", "Dog", dogs(d="Tom"), ANN)
    (found,) = (await restarted(tmp_path)).results.uploads
    assert list(found.parts) == ["0", "1", "2"]


async def test_what_is_sent_again_and_again_takes_no_more_disk(tmp_path):
    """A part without rows, and the commit of one that is busy; rows that come again count."""
    world = await brought(tmp_path)
    (upload,) = world.results.uploads
    sizes = []
    for _ in range(3):
        await world.results.stage("up", "2", "Dog", [], ANN)
        await upload.begin_commit("result/ann/hourly/", 1)
        sizes.append([place.stat().st_size for place in files(tmp_path)])
    assert sizes[0] == sizes[1] == sizes[2]
    await world.results.stage("up", "1", "Dog", dogs(c="Bob"), ANN)
    assert 4 * A_DOG <= upload.bytes  # of three rows, and one that came again
    (found,) = (await restarted(tmp_path)).results.uploads
    assert (list(found.parts), found.commits) == (["0", "1", "2"], upload.commits)


async def test_l11_parts_that_come_again_for_ever_are_refused(tmp_path):
    """L11: a start reads all notes, and those of small parts are larger than their rows."""
    bounds = {"size_bytes": 64 * A_DOG, "notes_bytes": 900}

    again = ("up", "a long name of a part " * 4, "Dog", dogs(a="Rex"), ANN)
    world = World(directory=str(tmp_path), **bounds)
    for _ in range(2):
        for _ in range(3):
            await world.results.stage(*again)
        world = await restarted(tmp_path, **bounds)
        (upload,) = world.results.uploads
        assert upload.noted == files(tmp_path)[0].stat().st_size
    with pytest.raises(Error, match="parts that came again too often") as refused:
        await world.results.stage(*again)
    assert refused.value.code is Code.TOO_LARGE
    assert 900 + A_DOG < upload.noted < 900 + 3 * A_DOG
    assert upload.bytes < 64 * A_DOG
    await until(lambda: not files(tmp_path))


async def test_rules_are_read_once_for_all_uploads_under_them(tmp_path):
    """Of ten thousand rules it takes the loop most of a second."""
    room = Rightful()
    world, declared, read = World(room, str(tmp_path)), room.rights.in_force, []
    room.rights.in_force = lambda: read.append(1) or declared()
    for name in ("u1", "u2", "u3"):
        await world.results.stage(name, "0", "Dog", dogs(a="Rex"), ANN)
    assert read == [1]
    await room.rule("one", filter="Cat/#", actions=["write"], users=["eve"])
    await world.results.stage("u4", "0", "Dog", dogs(a="Rex"), ANN)
    old, _, _, new = (upload.kept[0].rights for upload in world.results.uploads)
    assert (read, old != new) == ([1, 1], True)


async def test_l11_a_slow_disk_leaves_threads_to_others(tmp_path, monkeypatch):
    """L11: however many parts wait for it; whoever signs in needs one."""
    go, sync, world = threading.Event(), os.fdatasync, World(directory=str(tmp_path))

    def slow(handle):
        assert go.wait(PATIENCE_SECONDS)
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", slow)
    stage, rows = world.results.stage, dogs(a="Rex")
    parts = [asyncio.create_task(stage("up", str(at), "Dog", rows, ANN)) for at in range(64)]
    try:
        await until(lambda: sum(one.bytes for one in world.results.uploads) >= 64 * A_DOG)
        async with asyncio.timeout(PATIENCE_SECONDS / 4):
            await asyncio.to_thread(int)
    finally:
        go.set()
        await asyncio.gather(*parts)
    (upload,) = world.results.uploads
    assert len(upload.parts) == 64
