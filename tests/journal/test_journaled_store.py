"""Log first: the store keeps its interface, whether its tables are up to date or behind."""

import os
import shutil
import signal
import threading
import time

import pytest
from conformance import ALL, Conformance
from journal_place import APPLYING, JournalPlace, abandon
from store_cases import DOG, TABLES, Writer

from build import ANN
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.features.retained.retain_rules import Quota
from rowcast.journal.applier import Applier
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.log_replay import replay_log
from rowcast.journal.opening import log_directory, open_journal
from rowcast.journal.tail import Tail
from rowcast.store.backup import applied_in
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Change, Keep
from rowcast.writes.write import Write
from serving import PATIENCE_SECONDS, wait_until

SCHEMA = "type Dog @table @export { id: ID @primaryKey  name: String  age: Int }"


class TestJournaledStore(Conformance):
    """Runs all of it, with each applier."""

    @pytest.fixture(params=APPLYING)
    def place(self, request, tmp_path):
        place = JournalPlace(tmp_path, APPLYING[request.param])
        yield place
        place.close()

    @pytest.fixture
    def store(self, place, empty_journal):
        shutil.copytree(empty_journal, place.path.parent, dirs_exist_ok=True)
        return place.start()

    @pytest.fixture
    def writer(self):
        return Writer()


@pytest.fixture
def behind(tmp_path, empty_journal):
    """A store whose tables do not follow until the test lets them."""
    shutil.copytree(empty_journal, tmp_path, dirs_exist_ok=True)
    place = JournalPlace(tmp_path, APPLYING["lagging"], JournaledStore)
    store = place.start()
    place.applying.paused = True
    store.resume = lambda: (setattr(place.applying, "paused", False), store.applying.push(
        store._log.head.number))  # fmt: skip
    yield store
    place.close()


def test_a_record_is_read_from_the_tail(behind):
    writer = Writer()
    behind.append(behind.pack([writer.value(DOG, "a", {"name": "Rex"})]))
    behind.append(behind.pack([writer.value(DOG, "b", {}), writer.event("t", PUT, b"1")]))
    assert {"id": "a", "name": "Rex"} == behind.get(DOG, "Dog/a").decoded
    assert {"Dog/a", "t"} == set(behind.lookup([(DOG, "Dog/a"), (DOG, "Dog/c"), (None, "t")]))
    behind.append(behind.pack([writer.event("Dog/a", DELETE, table=DOG)]))
    assert behind.get(DOG, "Dog/a") is None
    assert 0 == behind.tail.applied


def test_facts_are_read_from_the_tail(behind):
    behind.append(behind.pack((), [Change("o", "a", b"1"), Change("o", "b", b"2")]))
    behind.append(behind.pack((), [Change("o", "a", None), Change("p", "x", b"3")]))
    places = [("o", "a"), ("o", "b"), ("p", "x"), ("p", "y")]
    assert {("o", "b"): b"2", ("p", "x"): b"3"} == behind.facts(places)
    behind.append(behind.pack((), [Change("o", "", None), Change("o", "c", b"4")]))
    assert {("o", "c"): b"4"} == behind.facts([("o", "b"), ("o", "c")])


def test_a_query_waits_for_what_was_written_when_it_was_asked(behind):
    behind.append(behind.pack([Writer().value(DOG, "a", {"name": "Rex"})]))
    found = []
    asking = threading.Thread(
        target=lambda: found.append(behind.scan(DOG, TopicFilter("Dog/+"), "", 9))
    )
    asking.start()
    asking.join(0.1)
    assert [] == found
    behind.resume()
    asking.join(PATIENCE_SECONDS)
    assert ["Dog/a"] == [record.topic for record in found[0].records]


def test_a_read_does_not_wait_for_ever(tmp_path):
    place = JournalPlace(tmp_path, APPLYING["lagging"])
    store = place.start()
    store._read_seconds = 0.01
    place.applying.paused = True
    store.append(store.pack([Writer().event("t", PUT)]))
    with pytest.raises(Error) as refused:
        store.read(0, 9)
    assert Code.BUSY is refused.value.code
    place.close()


def test_writers_wait_for_tables_that_are_far_behind(behind):
    writer = Writer()
    behind.tail = Tail(lag_seconds=60, lag_events=2)
    behind._room_seconds = 0.01
    for _ in range(3):
        behind.append(behind.pack([writer.event("t", MESSAGE)]))
    with pytest.raises(Error) as refused:
        behind.append(behind.pack([writer.event("t", MESSAGE)]))
    assert Code.BUSY is refused.value.code
    behind.resume()
    behind._room_seconds = 10
    behind.append(behind.pack([writer.event("t", MESSAGE)]))
    assert 4 == len(behind.read(0, 9))


def test_who_goes_ahead_waits_only_for_tables_that_are_much_further_behind(behind):
    """P2: also where one slow event is behind for long."""
    writer, waited = Writer(), []
    behind.tail = Tail(lag_seconds=0, lag_events=2)
    behind._room_seconds = 0.01
    for _ in range(5):
        assert behind.is_behind is bool(waited)
        waited.append(
            behind.append(behind.pack([writer.event("t", MESSAGE)]), may_outrun_tables=True)
        )
    with pytest.raises(Error) as refused:
        behind.append(behind.pack([writer.event("t", MESSAGE)]), may_outrun_tables=True)
    assert (Code.BUSY, 5) == (refused.value.code, len(waited))
    behind.resume()


def test_nobody_waits_for_tables_that_take_a_large_batch_but_another_large_one(behind):
    """L11: a result of many rows is one batch; small writes go on, within their own bounds."""
    writer = Writer()
    behind.tail = Tail(lag_seconds=0, lag_events=2)
    behind._room_seconds = 0.01

    def append(events):
        return behind.append(behind.pack([writer.event("t", MESSAGE) for _ in range(events)]))

    append(3)
    assert not behind.is_behind
    with pytest.raises(Error) as refused:
        append(3)
    assert Code.BUSY is refused.value.code
    for _ in range(3):
        append(1)
    assert behind.is_behind
    with pytest.raises(Error) as refused:
        append(1)
    assert Code.BUSY is refused.value.code
    behind.resume()
    behind._room_seconds = 10
    append(3)
    assert 9 == len(behind.read(0, 99))


def test_a_quota_is_exact_although_the_tables_are_behind(behind):
    """E18: what is not applied counts as new; only without room the tables are waited for."""
    writer, quota = Writer(), Quota(4, behind)
    for _ in range(3):  # one message, written three times
        behind.append(behind.pack([writer.event("t/1", PUT)]))

    def check(topic, transaction):
        quota.check(Write(writer.event(topic, PUT), ANN), None, transaction)

    check("t/2", 1)
    assert 0 == behind.tail.applied
    threading.Timer(0.05, behind.resume).start()
    for topic in ("t/2", "t/3", "t/4"):
        check(topic, 2)
    assert 3 == behind.tail.applied
    with pytest.raises(Error) as refused:
        check("t/5", 2)
    assert Code.TOO_LARGE is refused.value.code


def test_a_trim_of_nothing_is_not_in_the_log(tmp_path):
    """An idle server must not write and sync for each table at each sweep."""
    place, writer = JournalPlace(tmp_path, APPLYING["inline"]), Writer()
    store = place.start()
    store.commit([writer.event("t", MESSAGE), writer.event("t", MESSAGE)])
    before = store._log.head.number
    assert 0 == store.trim(None, Keep(events=2), 0, 9)
    assert before == store._log.head.number
    assert 1 == store.trim(None, Keep(events=1), 0, 9)
    assert before + 1 == store._log.head.number
    place.close()


def test_a_start_removes_files_of_the_log_that_the_tables_have(tmp_path):
    """Or a server that is restarted often would keep all of them."""
    place, writer = JournalPlace(tmp_path, APPLYING["inline"]), Writer()
    store = place.start()
    store._log._segment_bytes = 100
    for _ in range(5):
        store.commit([writer.event("t", MESSAGE)])
    files = log_directory(place.path)
    assert 5 <= len(list(files.glob("*.log")))
    store = place.start()
    assert 1 == len(list(files.glob("*.log")))
    assert (5, 6) == (len(store.read(0, 9)), store.read(0, 9)[-1].seq + 1)
    place.close()


def test_what_is_not_applied_is_applied_at_the_next_start(tmp_path):
    place, writer = JournalPlace(tmp_path, APPLYING["lagging"]), Writer()
    store = place.start()
    store.define(TopicTable("mqtt_a", TopicRoot("a")))
    place.applying.paused = True
    store.append(store.pack([writer.value(DOG, "a", {"name": "Rex"}), writer.event("a/b", PUT)]))
    store.append(store.pack([writer.event("a/b", DELETE)], [Change("o", "n", b"1")]))
    head = store.head()
    abandon(place)
    again = place.start()
    assert (head, "Rex") == (again.head(), again.get(DOG, "Dog/a").decoded["name"])
    assert again.get(None, "a/b") is None
    assert [("o", "n", b"1")] == again.states("o")
    assert 2 == len(again.read(0, 9, [TopicRoot("a")]))
    place.close()


def test_a_program_that_reads_the_tables_has_the_log_applied(tmp_path):
    """A backup or an export after a kill has what was acknowledged."""
    place, writer = JournalPlace(tmp_path, APPLYING["lagging"]), Writer()
    store = place.start()
    place.applying.paused = True
    store.append(store.pack([writer.value(DOG, "a", {"name": "Rex"})]))
    abandon(place)
    replay_log(place.path, TABLES)
    alone = SqlStore(place.path)
    alone.open(TABLES)
    assert "Rex" == alone.get(DOG, "Dog/a").decoded["name"]
    alone.close()


def test_a_program_that_reads_the_tables_waits_for_a_running_server(behind, tmp_path):
    behind.append(behind.pack([Writer().event("t", PUT, b"x")]))
    with pytest.raises(Error) as refused:
        replay_log(tmp_path / "rowcast.db", TABLES, 0.01)
    assert Code.BUSY is refused.value.code
    behind.resume()
    replay_log(tmp_path / "rowcast.db", TABLES)
    assert 1 == applied_in(tmp_path / "rowcast.db")


def test_a_database_from_before_the_log_is_opened(tmp_path):
    path, writer = tmp_path / "rowcast.db", Writer()
    old = SqlStore(path)
    old.open(TABLES)
    old.commit([writer.value(DOG, "a", {"name": "Rex"}), writer.event("t", PUT)])
    old.close()
    store = JournalPlace(tmp_path, APPLYING["inline"]).start()
    store.commit([writer.event("t", PUT, b"2")])
    assert [1, 2, 3] == [event.seq for event in store.read(0, 9)]
    assert (old.epoch, b"2") == (store.epoch, store.get(None, "t").payload)
    store.close()


def test_a_log_that_was_removed_is_begun_after_the_tables(tmp_path):
    place, writer = JournalPlace(tmp_path, APPLYING["inline"]), Writer()
    place.start().commit([writer.event("t", PUT)])
    place.close()
    for file in log_directory(place.path).iterdir():
        file.unlink()
    place.start().commit([writer.event("t", PUT, b"2")])
    assert [1, 2] == [event.seq for event in place.start().read(0, 9)]
    place.close()


def test_a_log_of_other_tables_is_put_aside(tmp_path, caplog):
    place, writer = JournalPlace(tmp_path, APPLYING["inline"]), Writer()
    place.start().commit([writer.event("t", PUT)])
    place.close()
    for name in ("", "-wal", "-shm"):
        place.path.with_name(f"rowcast.db{name}").unlink(missing_ok=True)
    assert [] == place.start().read(0, 9)
    assert "belongs to other tables" in caplog.text
    place.close()


def test_an_event_that_cannot_be_applied_does_not_stop_others(tmp_path, caplog):
    place, writer = JournalPlace(tmp_path, APPLYING["inline"]), Writer()
    store = place.start()
    bad = writer.event("u/poison", PUT, b"{}")
    commit = store._tables.commit

    def refuse(events, changes=(), applied=0):
        if any(event.topic == bad.topic for event in events):
            raise ValueError("poison")
        return commit(events, changes, applied)

    store._tables.commit = refuse
    store.commit([writer.event("t", PUT, b"1"), bad, writer.event("t", PUT, b"2")])
    assert [b"1", b"2"] == [event.payload for event in store.read(0, 9)]
    assert "cannot be applied" in caplog.text
    place.close()


def test_of_a_topic_only_the_last_becomes_a_record(tmp_path):
    """Many batches are one transaction; the history has every event."""
    place, writer = JournalPlace(tmp_path, APPLYING["lagging"]), Writer()
    store = place.start()
    place.applying.paused = True
    for age in range(20):
        store.append(store.pack([writer.value(DOG, "a", {"age": age})]))
    log, tables = store._log, store._tables
    commits, commit = [], SqlStore.commit

    class Counted(SqlStore):
        def commit(self, events, changes=(), applied=0):
            commits.append(len(events))
            return commit(self, events, changes, applied)

    counted = Counted(tables.path, lock=False, synced=False)
    counted.open(TABLES)
    Applier(counted, TABLES).apply(log.read(0, 10**6))
    assert ([20], 19) == (commits, counted.get(DOG, "Dog/a").decoded["age"])
    assert 20 == len(counted.history(DOG, "Dog/a", ALL))
    counted.close()
    abandon(place)


def test_a_table_that_cannot_be_made_is_refused_with_a_reason(tmp_path):
    place = JournalPlace(tmp_path, APPLYING["lagging"])
    store = place.start()
    store._read_seconds = 0.05
    place.applying.paused = True
    with pytest.raises(Error, match="do not follow the log") as slow:
        store.define(TopicTable("mqtt_u", TopicRoot("u")))
    assert Code.BUSY is slow.value.code
    place.applying.paused = False
    place.applying.push(store._log.head.number)
    store.define(TopicTable("mqtt_u", TopicRoot("u")))  # the first attempt is in the log
    assert [TopicTable("mqtt_u", TopicRoot("u"))] == store.topic_tables()
    place.close()


def test_who_waits_for_tables_is_told_why_they_cannot_be_written():
    tail, told = Tail(), []
    waits = threading.Thread(target=lambda: told.append(tail.wait(1, 60)))
    waits.start()
    wait_until(lambda: tail._changed._waiters, "it waits")
    tail.take_applied(0, {}, "the disk is full")
    waits.join(PATIENCE_SECONDS)
    assert ([False], "the disk is full") == (told, tail.problem)
    tail.take_applied(1, {})
    assert (True, "") == (tail.wait(1, 0), tail.problem)


# -- the process -----------------------------------------------------------------------------------


@pytest.fixture
def apart(tmp_path):
    store = open_journal(tmp_path / "rowcast.db", time.time, SCHEMA, applier=spawn_applier)
    store.open(parsed())
    yield store
    store.close()


def parsed():
    from rowcast.schema import parse_schema

    return parse_schema(SCHEMA).tables


@pytest.mark.heavy
def test_a_process_applies_what_is_appended(apart):
    (dog,) = parsed()
    writer = Writer()
    apart.commit([writer.value(dog, "a", {"name": "Rex"}), writer.event("u/1", PUT, b"x")])
    assert ["Dog/a"] == [r.topic for r in apart.scan(dog, TopicFilter("Dog/+"), "", 9).records]
    apart.define(TopicTable("mqtt_u", TopicRoot("u")))
    apart.commit([writer.event("u/2", MESSAGE, b"y")])
    assert [TopicTable("mqtt_u", TopicRoot("u"))] == apart.topic_tables()
    assert 2 == len(apart.read(0, 9, [TopicRoot("u")]))
    assert (1, 1) == (apart.count(dog), apart.figures(TopicRoot("u")).events)
    assert 1 == apart.trim(TopicRoot("u"), Keep(events=0, seconds=0.001), 1e10, 9).result(
        PATIENCE_SECONDS
    )
    assert 3 == apart.trimmed(TopicRoot("u"))
    assert not apart.tidy(100).result(PATIENCE_SECONDS) or not apart.tidy(100).result(
        PATIENCE_SECONDS
    )


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_loses_nothing(apart):
    writer = Writer()
    for number in range(200):
        apart.commit([writer.event(f"u/{number % 7}", PUT, b"%d" % number)])
        if number in {50, 120}:
            apart.caught_up()  # so that the one before is started again
            os.kill(apart.applying.pid, signal.SIGKILL)
    assert [b"%d" % number for number in range(200)] == [e.payload for e in apart.read(0, 999)]
    assert 7 == apart.count(None)
    assert 2 == apart.applying.restarts


@pytest.mark.heavy
def test_the_process_ends_with_the_server(tmp_path):
    store = open_journal(tmp_path / "rowcast.db", time.time, SCHEMA, applier=spawn_applier)
    store.open(parsed())
    store.append(store.pack([Writer().event("u/1", PUT, b"x")]))
    process = store.applying._child.process
    store.close()
    assert 0 == process.wait(0)
    again = open_journal(tmp_path / "rowcast.db", time.time, SCHEMA)
    again.open(parsed())
    assert b"x" == again.get(None, "u/1").payload
    again.close()
