"""The tables of a node of a cluster: which may follow the log, and how they are opened (K12)."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from batch_cases import batch_after
from memory_engine import MemoryEngine, Shared
from rowcast.core.errors import Code, Error
from rowcast.journal.log_replay import replay_log
from rowcast.journal.node_opening import (
    Tables,
    check_tables,
    inspect_tables,
    needs_copy,
    open_follower,
    open_sequencer,
    prepare_tables,
    replace_tables,
)
from rowcast.journal.opening import spool_directory
from rowcast.journal.spooled_applying import SpooledApplying
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.log.replicated_log import Spool
from rowcast.program.cluster_membership import check_begin
from rowcast.program.membership_mark import check_alone, check_others, locked, mark, marked
from rowcast.program.settings.cluster import Cluster
from rowcast.store.sqlite import SqlStore
from serving import wait_until

EPOCH = "0123abcd"


@pytest.mark.parametrize(
    ("tables", "first", "entries", "words"),
    [
        (Tables(), 1, 5, ""),
        (Tables(EPOCH, 5, 9), 1, 5, ""),
        (Tables(EPOCH, 3, 9), 4, 2, ""),
        (Tables("ffffffff", 5, 9), 1, 5, "they are of the log ffffffff"),
        (Tables(EPOCH, 6, 9), 1, 5, "has lost its end"),
        (Tables(EPOCH, 2, 9), 4, 2, "the log begins at 4"),
    ],
    ids=["new", "all of it", "just enough", "another log", "went back", "too old"],
)
def test_tables_that_cannot_follow_are_refused(tmp_path, tables, first, entries, words):
    shared = Shared(EPOCH, first)
    shared.entries = [b"x"] * entries
    if not words:
        check_tables(tables, MemoryEngine(shared), tmp_path, seconds=0)
        return
    with pytest.raises(Error, match=words) as caught:
        check_tables(tables, MemoryEngine(shared), tmp_path, seconds=0)
    assert caught.value.code is Code.CONFLICT
    assert "move that directory away" in caught.value.message
    assert ("begin the cluster's log anew" in caught.value.message) == (tables.epoch != EPOCH)


def logged(count, term=1):
    """Return what keeps a log of so many batches, and that of the last."""
    shared, followed = Shared(EPOCH), FollowedLog(EPOCH, Head(0, 0))
    followed.term = term
    for _ in range(count):
        followed.take(batch := batch_after(followed))
        shared.entries.append(batch.data)
    return shared, followed


def test_tables_of_a_past_that_the_log_has_lost_are_refused(tmp_path):
    """Its engine was restored to an earlier state, and another node has written since."""
    shared, followed = logged(3)
    tables = Tables(EPOCH, 3, 9, followed.checksum)
    check_tables(tables, MemoryEngine(shared), tmp_path, seconds=0)
    other, _ = logged(4, term=2)
    with pytest.raises(Error, match="the log has another batch 3 than they") as caught:
        check_tables(tables, MemoryEngine(other), tmp_path, seconds=0)
    assert caught.value.code is Code.CONFLICT
    other.first, other.entries = 4, other.entries[3:]  # nobody can tell any more
    check_tables(tables, MemoryEngine(other), tmp_path, seconds=0)


@pytest.mark.heavy
def test_a_node_with_more_than_the_log_is_not_the_sequencer(tmp_path):
    """Its tables would not take what it acknowledged: they have other batches of those numbers."""
    url, (shared, _) = f"sqlite:///{tmp_path / 'rowcast.db'}", logged(3)
    kept = shared.entries[:]  # it is trimmed
    parts = url, MemoryEngine(shared), time.time, ""
    store = open_sequencer(*parts, made=lambda log: None)
    store.open(())
    store.close()
    tables = inspect_tables(url)
    assert (3, True) == (tables.applied, tables.checksum > 0)
    for entries in (kept[:2], logged(4, term=2)[0].entries):
        shared.first, shared.entries = 1, entries
        with pytest.raises(Error, match="are no longer those of the log") as caught:
            open_sequencer(*parts, made=lambda log: None)
        assert caught.value.code is Code.BUSY
    shared.first, shared.entries = 1, kept  # JetStream had told too early an end
    store = open_sequencer(*parts, made=lambda log: None)
    store.open(())
    store.close()


def test_a_log_that_seems_to_end_before_the_tables_is_asked_again(tmp_path, monkeypatch):
    """K12: servers of JetStream that were killed may tell an end that is too early."""
    shared = Shared(EPOCH)
    shared.entries = [b"x"] * 9
    engine, ends = MemoryEngine(shared), [(1, 3), (1, 3), (1, 9)]
    monkeypatch.setattr(engine, "bounds", lambda: ends.pop(0))
    check_tables(Tables(EPOCH, 9, 9), engine, tmp_path)
    assert not ends


@pytest.mark.parametrize(
    ("tables", "first", "words"),
    [
        (Tables(), 1, ""),
        (Tables(), 4, "has no tables"),
        (Tables(EPOCH, 3, 9), 4, ""),
        (Tables(EPOCH, 2, 9), 4, "it has batches up to 2, the log from 4"),
        (Tables(EPOCH, 9, 9), 4, ""),
        (Tables("ffffffff", 2, 9), 4, ""),
    ],
    ids=["beginning", "new", "just enough", "too old", "went back", "another log"],
)
def test_tables_that_are_a_part_of_the_log_are_replaced_and_no_others(tables, first, words):
    shared = Shared(EPOCH, first)
    shared.entries = [b"x"] * 2
    why = needs_copy(tables, MemoryEngine(shared))
    assert why.endswith(words)
    assert bool(why) == bool(words)


def test_a_copy_does_not_get_the_write_ahead_log_of_what_it_replaces(tmp_path):
    """SQLite would play that into it."""
    database, copy = tmp_path / "rowcast.db", tmp_path / "rowcast.db.fetched"
    for end in ("", "-wal", "-shm", ".fetched"):
        (tmp_path / f"rowcast.db{end}").write_text(end)
    replace_tables(database, copy)
    assert [path.name for path in tmp_path.iterdir()] == ["rowcast.db"]
    assert database.read_text() == ".fetched"


def test_a_copy_is_on_the_disk_before_it_gets_its_name_and_then_the_name(tmp_path, monkeypatch):
    """A loss of power would leave a database with a part of its content, or none."""
    database, copy = tmp_path / "rowcast.db", tmp_path / "rowcast.db.fetched"
    copy.write_text("copy")
    synced, sync = [], os.fsync

    def noted(handle):
        synced.append((str(Path(f"/proc/self/fd/{handle}").readlink()), database.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    replace_tables(database, copy)
    assert synced == [(str(copy), False), (str(tmp_path), True)]


@pytest.mark.slow
def test_a_new_node_has_no_tables_until_it_follows(tmp_path):
    url = f"sqlite:///{tmp_path / 'rowcast.db'}"
    assert inspect_tables(url) == Tables()
    store = open_follower(url, EPOCH, time.time, "")
    store.open(())
    store.close()
    assert inspect_tables(url) == Tables(EPOCH, 0, 0)


class Nothing:
    """An applier that notes what it is told."""

    def __init__(self):
        self.pushed, self.hurried, self.stopped = [], [], False

    def start(self, declared, after, told):
        """Begin."""

    def push(self, number):
        self.pushed.append(number)

    def hurry(self, number):
        self.hurried.append(number)

    def tidy(self, limit):
        return False

    def stop(self):
        self.stopped = True


def test_batches_are_in_files_before_the_applier_hears_of_them(tmp_path):
    followed = FollowedLog(EPOCH, Head(0, 0))
    spool, applying = Spool(tmp_path / "spool", EPOCH, 0), Nothing()
    spooled = SpooledApplying(followed, spool, applying)
    spooled.start((), 0, lambda applied: None)
    followed.term = 1
    for _ in range(5):
        followed.take(batch_after(followed))
        spooled.push(followed.head.number)
    spooled.hurry(5)
    wait_until(lambda: applying.hurried == [5], "it is hurried")
    assert applying.pushed[-1] == 5
    assert [batch.number for batch in spool.read(0, 1 << 20)] == [1, 2, 3, 4, 5]
    spooled.stop()
    assert applying.stopped
    spooled.push(6)  # after its end it does nothing


def test_a_full_disk_is_told_and_tried_again(tmp_path, monkeypatch):
    followed = FollowedLog(EPOCH, Head(0, 0))
    spool, applying, told = Spool(tmp_path / "spool", EPOCH, 0), Nothing(), []
    full = iter([True, True])
    take = spool.take

    def refusing(batch):
        if next(full, False):
            raise Error(Code.BUSY, "the disk is full")
        take(batch)

    monkeypatch.setattr(spool, "take", refusing)
    spooled = SpooledApplying(followed, spool, applying)
    spooled.start((), 0, told.append)
    followed.term = 1
    followed.take(batch_after(followed))
    spooled.push(1)
    wait_until(lambda: applying.pushed == [1], "it is written in the end")
    assert [applied.problem for applied in told] == ["the disk is full"] * 2
    spooled.stop()


@pytest.mark.heavy
def test_a_node_that_could_not_begin_leaves_its_tables_to_the_next_attempt(tmp_path, monkeypatch):
    """The engine had no leader yet: the same process tries again, in another role perhaps."""
    url = f"sqlite:///{tmp_path / 'rowcast.db'}"
    engine = MemoryEngine(Shared(EPOCH))

    def silent():
        raise Error(Code.INVALID, "no answer")

    monkeypatch.setattr(engine, "bounds", silent)
    with pytest.raises(Error, match="no answer"):
        open_sequencer(url, engine, time.time, "", made=lambda log: None)
    store = open_follower(url, EPOCH, time.time, "")
    store.open(())
    store.close()


@pytest.mark.heavy
@pytest.mark.parametrize("numbers", [True, False])
def test_a_node_whose_tables_do_not_open_leaves_them_too(tmp_path, monkeypatch, numbers):
    """The engine has lost its majority since: its applier, which has heard nothing yet, ends."""
    url = f"sqlite:///{tmp_path / 'rowcast.db'}"
    engine = MemoryEngine(Shared(EPOCH))
    if numbers:
        store = open_sequencer(url, engine, time.time, "", made=lambda log: None)
    else:
        store = open_follower(url, EPOCH, time.time, "")

    def silent(*_):
        raise Error(Code.BUSY, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr("rowcast.journal.journaled_store.catch_up", silent)
        with pytest.raises(Error, match="no answer"):
            store.open(())
    store.close()
    again = open_follower(url, EPOCH, time.time, "")
    again.open(())
    again.close()


@pytest.mark.heavy
def test_a_backup_of_a_node_has_what_the_node_has_got(tmp_path):
    """Its files may be ahead of its tables; nobody else may have that when others are gone."""
    database = tmp_path / "rowcast.db"
    store = open_follower(f"sqlite:///{database}", EPOCH, time.time, "")
    store.open(())
    store.close()
    replay_log(database, (), 0)
    spool = Spool(spool_directory(database), EPOCH, 0)
    followed = FollowedLog(EPOCH, Head(0, 0))
    followed.term = 1
    spool.take(batch_after(followed))
    spool.close()
    with closing(SqlStore(database, synced=False)):  # as a node that runs
        with pytest.raises(Error, match="the tables lack batches up to 1") as caught:
            replay_log(database, (), 0)
        assert caught.value.code is Code.BUSY
    # The node itself begins with what its tables have: the rest comes again.
    assert prepare_tables(f"sqlite:///{database}", ()) == Tables(EPOCH, 0, 0)
    replay_log(database, (), 0)
    assert prepare_tables(f"sqlite:///{database}", ()).applied == 1


def test_tables_of_one_cluster_are_not_those_of_another(tmp_path):
    assert marked(tmp_path) == ""
    check_alone(tmp_path)
    mark(tmp_path, "home", EPOCH)
    mark(tmp_path, "home", EPOCH)
    with pytest.raises(Error, match="those of the cluster home, and not of other"):
        mark(tmp_path, "other", EPOCH)
    with pytest.raises(Error, match="a node of the cluster home"):
        check_alone(tmp_path)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(Error, match="cannot be read"):
        check_alone(tmp_path)


def test_a_wrong_name_of_the_cluster_is_told_before_anything_starts(tmp_path):
    """Before its server of NATS, which would wait without end for others of that name."""
    mark(tmp_path, "home", EPOCH, several=True)
    nodes = {"node": "a", "peers": ["a=127.0.0.1:1", "b=127.0.0.1:4", "c=127.0.0.1:7"]}
    check_begin(tmp_path, Cluster(name="home", **nodes))
    with pytest.raises(Error, match="cluster home, and not of hmoe; name that") as caught:
        check_begin(tmp_path, Cluster(name="hmoe", **nodes))
    assert caught.value.code is Code.CONFLICT


def test_one_of_several_nodes_is_no_cluster_of_one(tmp_path):
    mark(tmp_path, "home", EPOCH)
    check_others(tmp_path)
    for _ in range(2):  # a node from before that was noted, and each later start
        mark(tmp_path, "home", EPOCH, several=True)
    with pytest.raises(Error, match="alone it would write a second history") as caught:
        check_others(tmp_path)
    assert caught.value.code is Code.CONFLICT


def test_one_directory_is_one_node(tmp_path):
    with locked(tmp_path / "data"):
        with pytest.raises(Error, match="another process runs a node") as caught:
            locked(tmp_path / "data").__enter__()
        assert caught.value.code is Code.BUSY
    with locked(tmp_path / "data"):
        pass


def test_a_directory_of_another_user_is_named_with_the_reason(tmp_path):
    """A volume of a container often is one. Root may do all, so folders stand for its files."""
    (tmp_path / "cluster.lock").mkdir()
    with pytest.raises(Error, match=r"cluster\.lock cannot be written: Is a directory") as caught:
        locked(tmp_path).__enter__()
    assert caught.value.code is Code.BUSY
    (tmp_path / "cluster.json").mkdir()
    with pytest.raises(Error, match=r"cluster\.json cannot be read: Is a directory") as caught:
        marked(tmp_path)
    assert caught.value.code is Code.INVALID


def test_a_file_is_no_data_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="file is a file; name another with --data"):
        marked(tmp_path / "file")
