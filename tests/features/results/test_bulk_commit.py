"""Results of jobs: checked like any write, committed together, once, and taken back as a whole.

S14 and M5, without Spark and without a machine.
"""

import asyncio
import threading
from functools import partial

import pytest

from build import ANN, Listener, Server
from rightful import Rightful
from rowcast.core import result_limits
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.meta import meta_of
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.results.pending_commit import Order
from rowcast.features.results.results import BulkCommit
from rowcast.features.results.staged_rows import UploadBounds
from serving import PATIENCE_SECONDS, until

A_DOG = 67
"""Bytes of the page of one dog."""


class World:
    """A kernel that takes results."""

    def __init__(self, room=None, directory=None, **bounds):
        self.room = room or Server()
        self.results = BulkCommit(
            self.room.kernel, self._facts, self.room.now, UploadBounds(**bounds), directory
        )
        self.heard = Listener(self.room, "Dog/#")
        self.count = 0

    async def _facts(self, owner):
        return self.room.store.states(owner)

    async def write(self, rows, cut="0badcafe:1", caller=ANN, **facts):
        """Bring rows in two parts and commit them."""
        self.count += 1
        name = f"up{self.count}"
        half = len(rows) // 2
        for part, some in enumerate((rows[:half], rows[half:])):
            await self.results.stage(name, str(part), "Dog", some, caller)
        order = {"job": "hourly", "replace": False, "again": False, **facts}
        return await self.results.commit(
            Order(name, "Dog", cut=cut, parts=("0", "1"), rows=len(rows), **order), caller
        )

    def names(self):
        """What each record of the table says."""
        from rowcast.core.topics import TopicFilter

        page = self.room.store.scan(
            self.room.registry.shapes["Dog"].table, TopicFilter("Dog/#"), "", 99
        )
        return {record.topic: record.decoded["name"] for record in page.records}


def dogs(**names):
    return [{"id": key, "name": name} for key, name in names.items()]


async def test_m5_a_result_is_one_transaction_and_tells_where_it_comes_from():
    world = World()
    before = world.room.committer.commits
    receipt = await world.write(dogs(a="Rex", b="Ida", c="Bob"))
    assert world.room.committer.commits == before + 1
    assert (receipt.rows, receipt.written, receipt.unchanged) == (3, 3, 0)
    assert [event.topic for event in world.heard.events] == ["Dog/a", "Dog/b", "Dog/c"]
    assert meta_of(world.heard.events[0], "0badcafe")["_from_cut"] == "0badcafe:1"


async def test_m5_the_same_result_again_makes_no_event_and_gets_the_same_receipt():
    world = World()
    first = await world.write(dogs(a="Rex", b="Ida"))
    world.heard.events.clear()
    again = await world.write(dogs(a="Rex", b="CHANGED"))
    assert again.repeat
    assert (again.position, again.number) == (first.position, first.number)
    other = await world.write(dogs(a="Rex", b="Ida"), cut="0badcafe:2")
    assert (other.written, other.unchanged, other.repeat) == (0, 2, False)
    assert world.heard.events == []
    assert world.names() == {"Dog/a": "Rex", "Dog/b": "Ida"}


async def test_m5_a_result_that_replaces_takes_away_what_the_job_wrote_and_nothing_else():
    world = World()
    await world.room.put("Dog/mine", b'{"name": "Tom"}')
    await world.write(dogs(a="Rex", b="Ida", c="Bob"), replace=True)
    await world.room.put("Dog/c", b'{"name": "by hand"}')
    receipt = await world.write(dogs(a="Rex"), cut="0badcafe:2", replace=True)
    assert (receipt.removed, receipt.unchanged) == (1, 1)
    assert world.names() == {"Dog/mine": "Tom", "Dog/a": "Rex", "Dog/c": "by hand"}
    await world.write([], cut="0badcafe:3", replace=True)
    assert world.names() == {"Dog/mine": "Tom", "Dog/c": "by hand"}


async def test_m5_a_result_without_rows_cut_and_upload_is_no_repeat_of_an_earlier_one():
    world = World()
    empty = Order("", "Dog", "hourly", "", (), 0, replace=True, again=False)
    for _ in range(2):
        await world.write(dogs(a="Rex", b="Ida"), cut="", replace=True)
        receipt = await world.results.commit(empty, ANN)
        assert (receipt.removed, receipt.repeat, world.names()) == (2, False, {})


async def test_m5_an_older_cut_is_fenced_off_unless_it_is_meant():
    world = World()
    await world.write(dogs(a="new"), cut="0badcafe:9")
    with pytest.raises(Error, match="newer cut") as refused:
        await world.write(dogs(a="old"), cut="0badcafe:8")
    assert refused.value.code is Code.PRECONDITION
    await world.write(dogs(a="old"), cut="0badcafe:8", again=True)
    assert world.names() == {"Dog/a": "old"}
    stream = await world.write(dogs(a="s"), cut="query#3", job="stream")
    assert not stream.repeat
    with pytest.raises(Error, match="newer cut"):
        await world.write(dogs(a="zombie"), cut="query#2", job="stream")


async def test_a_bad_row_is_named_and_nothing_is_written():
    world = World()
    for row, words in (
        ({"id": "b", "age": "x"}, r"row 1 \(Dog/b\): age"),
        ({"name": "x"}, "row 1 has no 'id'"),
    ):
        with pytest.raises(Error, match=words):
            await world.results.stage("u", "0", "Dog", [*dogs(a="Rex"), row], ANN)
    with pytest.raises(Error, match="two rows of the result are for Dog/a"):
        await world.write([*dogs(a="Rex"), *dogs(a="Ida")])
    assert world.names() == {}


async def test_a_row_that_a_hook_moves_to_a_topic_without_a_table_is_named():
    class Moving(Hook):
        def on_publish_received(self, caller, event):
            return event.changed(topic="plain/b") if event.topic == "Dog/b" else None

    hooks = Hooks()
    hooks.add(Moving())
    world = World(Server(hooks=hooks))
    with pytest.raises(Error, match=r"row 1 \(plain/b\): no table declares this topic") as refused:
        await world.write(dogs(x="Tom", y="Bob", a="Rex", b="Ida"))
    assert refused.value.code is Code.UNPROCESSABLE
    assert world.names() == {}


async def test_rights_are_those_of_each_record_at_the_commit_too():
    world = World()
    reader = Caller("bob", Grants(read=True), "http")
    with pytest.raises(Error) as refused:
        await world.write(dogs(a="Rex"), caller=reader)
    assert refused.value.code is Code.DENIED
    await world.results.stage("up", "0", "Dog", dogs(a="Rex"), ANN)
    other = Caller("eve", ANN.grants, "http")
    with pytest.raises(Error, match="there is no upload up"):
        order = Order("up", "Dog", "j", "", ("0",), 1, replace=False, again=False)
        await world.results.commit(order, other)


@pytest.mark.parametrize("began", [False, True])
async def test_a_part_after_one_that_is_lost_is_refused_at_once(began):
    """M5: at another node; else a job of minutes learns at its commit that it was in vain."""
    world = World()
    stage = partial(world.results.stage, "up", table="Dog", rows=dogs(a="Rex"), caller=ANN)
    await stage("0-0")
    await stage("0-1", after="0-0")
    await stage("0-1", after="0-0")  # repeated, as its answer was lost
    world.results.uploads.close(*world.results.uploads)
    if began:  # another task of the job was sooner
        await stage("1-0")
    with pytest.raises(Error, match=r"there is no .*up: .*bring the result again") as refused:
        await stage("0-2", after="0-1")
    assert refused.value.code is Code.NOT_FOUND
    assert [list(upload.parts) for upload in world.results.uploads] == [["1-0"]] * began


async def test_uploads_are_bounded_and_forgotten():
    world = World(size_bytes=100)
    with pytest.raises(Error, match=r"more than 100 bytes.* results\.bytes_max") as refused:
        await world.write(dogs(a="1", b="2", c="3", d="4"))
    assert refused.value.code is Code.TOO_LARGE
    assert list(world.results.uploads) == []
    world = World()
    users = [Caller(f"u{number}", ANN.grants, "http") for number in range(99)]
    for number in range(result_limits.RESULTS_MAX):
        await world.results.stage(f"u{number}", "0", "Dog", dogs(a="1"), users[number])
    with pytest.raises(Error) as refused:
        await world.results.stage("one more", "0", "Dog", [], ANN)
    assert refused.value.code is Code.BUSY
    world.room.time += result_limits.RESULT_IDLE_SECONDS + 1
    assert list(world.results.uploads) == []
    assert world.names() == {}


async def test_parts_without_rows_are_bounded_too():
    world = World(parts=2)
    for part in ("0", "1"):
        await world.results.stage("u", part, "Dog", [], ANN)
    with pytest.raises(Error, match="parts") as refused:
        await world.results.stage("u", "2", "Dog", [], ANN)
    assert refused.value.code is Code.TOO_LARGE
    with pytest.raises(Error, match="long name"):
        await world.results.stage("v", "x" * 101, "Dog", [], ANN)


async def test_l11_one_user_keeps_no_other_from_bringing_results():
    """Neither by many uploads nor by many bytes; what is there stays."""
    world, ben = World(size_bytes=8 * A_DOG + 20), Caller("ben", ANN.grants, "http")
    for number in range(result_limits.RESULTS_OF_USER_MAX):
        await world.results.stage(f"u{number}", "0", "Dog", dogs(a="1"), ANN)
    with pytest.raises(Error, match="is bringing 8 results already") as refused:
        await world.results.stage("one more", "0", "Dog", [], ANN)
    assert refused.value.code is Code.BUSY
    await world.results.stage("ben's", "0", "Dog", dogs(a="1"), ben)
    with pytest.raises(Error, match="brought by ann have more than") as refused:
        await world.results.stage("u0", "1", "Dog", dogs(b="2" * 40, c="3"), ANN)
    assert refused.value.code is Code.BUSY
    kept = [upload.name for upload in world.results.uploads]
    assert kept == [*(f"u{number}" for number in range(1, 8)), "ben's"]
    await world.results.stage("ben's", "1", "Dog", dogs(b="2"), ben)
    await world.results.stage("u0", "0", "Dog", dogs(a="1"), ANN)


async def test_all_uploads_together_are_bounded():
    world = World(size_bytes=A_DOG + 1)
    users = [Caller(name, ANN.grants, "http") for name in ("ann", "ben", "eve")]
    for user in users[:2]:
        await world.results.stage(user.user, "0", "Dog", dogs(a="1"), user)
    with pytest.raises(Error, match="are being brought by all together") as refused:
        await world.results.stage("eve", "0", "Dog", dogs(a="1"), users[2])
    assert refused.value.code is Code.BUSY
    assert [upload.name for upload in world.results.uploads] == ["ann", "ben"]


async def test_too_large_is_said_before_a_row_is_brought():
    world = World(size_bytes=1000, changes=2)
    await world.write(dogs(a="1", b="2"))
    await world.results.declare("next", "Dog", 4, 1000, ANN)  # two of them may be there
    assert [upload.name for upload in world.results.uploads] == ["next"]
    for rows, size, words in ((5, 0, "at least 3 new rows"), (1, 1001, "1001 bytes")):
        with pytest.raises(Error, match=words) as refused:
            await world.results.declare("more", "Dog", rows, size, ANN)
        assert refused.value.code is Code.TOO_LARGE
    with pytest.raises(Error, match="no exported table 'Dig'"):
        await world.results.declare("more", "Dig", 1, 1, ANN)
    assert [upload.name for upload in world.results.uploads] == ["next"]


async def test_rows_that_are_as_before_do_not_count_and_others_are_bounded():
    world = World(changes=3)
    for cut, names in enumerate((("a", "b", "c"), ("d", "e", "f"), ("g",))):
        await world.write(dogs(**dict.fromkeys(names, "old")), cut=f"q#{cut}")
    everyone = dict.fromkeys("abcdefg", "old")
    with pytest.raises(Error, match=r"more than 3 changes, .* results\.changes_max") as refused:
        await world.write(dogs(**dict.fromkeys("abcd", "new")), cut="q#7")
    assert refused.value.code is Code.TOO_LARGE
    assert set(world.names().values()) == {"old"}
    world.heard.events.clear()
    receipt = await world.write(dogs(**everyone | {"b": "new", "f": "new"}), cut="q#8")
    assert (receipt.rows, receipt.written, receipt.unchanged) == (7, 2, 5)
    assert [event.topic for event in world.heard.events] == ["Dog/b", "Dog/f"]
    with pytest.raises(Error, match="two rows of the result are for Dog/a"):
        await world.write([*dogs(a="old"), *dogs(a="old")], cut="q#9")


async def test_staged_rows_are_in_files_that_are_removed_with_the_upload(tmp_path):
    world = World(directory=str(tmp_path))
    await world.results.stage("up", "0", "Dog", dogs(a="Rex", b="Ida"), ANN)
    (upload,) = world.results.uploads
    assert (upload.rows, upload.bytes) == (2, 2 * A_DOG)
    assert sorted(file.suffix for file in tmp_path.glob("uploads/*")) == [".notes", ".rows"]
    pages = [page async for page in upload.pages(["0"])]
    assert [event.payload for page in pages for event in page] == [
        b'{"id":"a","name":"Rex"}',
        b'{"id":"b","name":"Ida"}',
    ]
    world.results.uploads.close(upload)
    with pytest.raises(Error, match="discarded meanwhile"):
        [page async for page in upload.pages(["0"])]
    await until(lambda: not list(tmp_path.glob("uploads/*")))


async def test_a_disk_that_keeps_no_rows_refuses_the_part_and_forgets_the_upload(tmp_path):
    (tmp_path / "uploads").touch()
    world = World(directory=str(tmp_path))
    with pytest.raises(Error, match="cannot be kept until its commit: File exists") as refused:
        await world.results.stage("up", "0", "Dog", dogs(a="Rex"), ANN)
    assert refused.value.code is Code.BUSY
    assert list(world.results.uploads) == []


async def test_a_part_that_is_brought_again_counts_once():
    world = World()
    for name in ("first", "second"):
        await world.results.stage("up", "0", "Dog", dogs(a=name), ANN)
    order = Order("up", "Dog", "j", "", ("0",), 1, replace=False, again=False)
    assert (await world.results.commit(order, ANN)).written == 1
    assert world.names() == {"Dog/a": "second"}


async def test_a_part_counts_once_all_its_rows_are_kept(monkeypatch):
    """And one that was brought before stays when it is brought again with a row that is none."""
    world = World()
    await world.results.stage("up", "0", "Dog", dogs(a="first"), ANN)
    (upload,) = world.results.uploads
    begun, go = threading.Event(), threading.Event()
    write = upload.file.write

    def slow(page):
        begun.set()
        assert go.wait(PATIENCE_SECONDS)
        write(page)

    monkeypatch.setattr(upload.file, "write", slow)
    task = asyncio.create_task(world.results.stage("up", "1", "Dog", dogs(b="Ida"), ANN))
    await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    order = Order("up", "Dog", "j", "", ("0", "1"), 2, replace=False, again=False)
    assert (list(upload.parts), upload.rows) == (["0"], 1)
    go.set()
    await task
    monkeypatch.undo()
    with pytest.raises(Error, match="row 0"):
        await world.results.stage("up", "0", "Dog", [{"id": "a", "name": 5}], ANN)
    assert (await world.results.commit(order, ANN)).written == 2
    assert world.names() == {"Dog/a": "first", "Dog/b": "Ida"}


async def test_m5_a_disk_that_refuses_leaves_the_old_result_whole():
    world = World()
    await world.write(dogs(a="old", b="old"))
    commit = world.room.store.commit

    def refuse(*_):
        raise Error(Code.BUSY, "the disk is full")

    world.room.store.commit = refuse
    with pytest.raises(Error, match="the disk is full"):
        await world.write(dogs(a="new", b="new"), cut="0badcafe:2")
    world.room.store.commit = commit
    assert set(world.names().values()) == {"old"}
    order = Order("up2", "Dog", "hourly", "0badcafe:2", ("0", "1"), 2, replace=False, again=False)
    receipt = await world.results.commit(order, ANN)  # what was brought is still there
    assert (receipt.written, receipt.repeat) == (2, False)
    assert set(world.names().values()) == {"new"}
    assert list(world.results.uploads) == []


async def test_one_result_of_a_job_at_a_time():
    world = World()
    world.room.writer.held = True
    first = asyncio.ensure_future(world.write(dogs(a="Rex")))
    await until(lambda: world.results._committing)  # threads bring its rows
    with pytest.raises(Error, match="is being committed"):
        await world.write(dogs(a="Ida"), cut="0badcafe:2")
    world.room.writer.release()
    assert (await first).written == 1


async def test_m9_an_upload_tells_nobody_how_many_records_are_hidden():
    """M9: where rights hide records, what is too large is said at the commit."""
    world = World(Rightful(), changes=2)
    for name in "12":
        await world.room.write(f"Dog/{name}", {"owner": "ben"})
    await world.results.declare("up", "Dog", 5, 0, ANN)
    reader = Caller("ro", Grants(read=True, write=False), "http")
    with pytest.raises(Error, match="ro may not write 'Dog'") as refused:
        await world.results.declare("up", "Dog", 5, 0, reader)
    assert refused.value.code is Code.DENIED
    with pytest.raises(Error, match=r"ro may not write '\$SYS/results/up'"):
        world.room.rights.check_write("$SYS/results/up", reader)
    assert ["ann"] == [upload.user for upload in world.results.uploads]
