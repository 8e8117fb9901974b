"""PostgreSQL as an engine: a real server, stopped, restarted, paused and set up wrongly."""

import itertools
import os
import threading

import psycopg
import pytest

from engine_conformance import ALL, EngineConformance
from free_ports import free_port
from postgres_server import PASSWORD, running_postgres
from rowcast.core.errors import Code, Error
from rowcast.engines.postgres import DISK_FULL, Place, PostgresEngine
from serving import wait_until

SECONDS = 30.0
SHORT_SECONDS = 0.5
"""Of one request, for tests that get no answer."""
COUNTER = itertools.count()


@pytest.fixture(scope="module")
def server():
    with running_postgres() as running:
        yield running


@pytest.fixture
def connect(server):
    """Open one more connection to the same log."""
    opened, name = [], f"Log-{next(COUNTER)}"
    epochs = itertools.count(0x10)

    def connect(bytes_max=64 << 20, request_seconds=10.0, first=1):
        place = Place(name, bytes_max, f"{next(epochs):08x}", first)
        opened.append(PostgresEngine(server.url, place, SECONDS, request_seconds))
        return opened[-1]

    yield connect
    for engine in opened:
        engine.close()


def refusal(call, *arguments):
    """Return the Error of a call."""
    with pytest.raises(Error) as caught:
        call(*arguments)
    return caught.value


def answered(call, *arguments):
    """Return what a call returns once it has an answer."""

    def once():
        try:
            return [call(*arguments)]
        except Error as error:
            assert error.code is Code.BUSY
            return []

    return wait_until(once, "an answer")[0]


class TestPostgres(EngineConformance):
    @pytest.fixture
    def connect(self, connect):
        return connect


class TestServer:
    def test_an_engine_goes_on_after_a_restart(self, server, connect):
        engine = connect()
        engine.append(1, b"a")
        server.start("restart", "-m", "immediate")
        engine.append(2, b"b")  # what the old connection says is seen before anything is sent
        assert engine.read(0, ALL) == [b"a", b"b"]

    def test_a_full_disk_is_named_until_an_entry_is_taken(self, server, connect):
        engine, other = connect(), connect()
        engine.append(1, b"a")
        with server.full_disk(f"Log-{next(COUNTER) - 1}"):
            for one in (engine, other):
                error = refusal(one.append, 2, b"b")
                assert (Code.BUSY, True) == (error.code, DISK_FULL in error.message)
                assert DISK_FULL == one.problem
            other.lease()
            assert DISK_FULL == other.problem
        engine.append(2, b"b")
        assert ("", DISK_FULL) == (engine.problem, other.problem)
        other.lease()  # each node asks for it again and again
        assert "" == other.problem

    def test_without_a_server_it_is_busy_and_works_again_after(self, server, connect):
        engine = connect(request_seconds=SHORT_SECONDS)
        engine.append(1, b"a")
        server.stop()
        try:
            for call, *arguments in (
                (engine.append, 2, b"b"), (engine.read, 0, ALL), (engine.bounds,), (engine.lease,),
                (engine.take_lease, 0, b"me"), (engine.trim, 1),
            ):  # fmt: skip
                error = refusal(call, *arguments)
                assert error.code is Code.BUSY
                assert PASSWORD not in error.full
        finally:
            server.start()
        answered(engine.append, 2, b"b")
        assert answered(engine.read, 0, ALL) == [b"a", b"b"]

    @pytest.mark.slow
    def test_a_paused_server_is_busy_also_for_other_threads(self, server, connect):
        engine = connect(request_seconds=SHORT_SECONDS)
        engine.append(1, b"a")
        codes = []
        with server.paused():
            threads = [
                threading.Thread(target=lambda: codes.append(refusal(engine.append, 2, b"b").code))
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            codes.append(refusal(engine.bounds).code)  # a new connection gets no answer either
        assert codes == [Code.BUSY] * 4

        def goes_on():
            try:
                engine.append(engine.bounds()[1] + 1, b"c")
            except Error as error:  # nobody knows when the paused server stores what it was sent
                assert error.code in {Code.BUSY, Code.CONFLICT}
                return False
            return True

        wait_until(goes_on, "the engine goes on")
        assert set(answered(engine.read, 0, ALL)) - {b"b"} == {b"a", b"c"}

    def test_a_standby_is_busy_until_it_is_promoted(self, server, connect):
        engine = connect()
        engine.append(1, b"a")
        server.control("stop", "-m", "fast")
        server.give(server.data / "standby.signal", "")
        server.start()
        try:
            error = refusal(engine.append, 2, b"b")
            assert error.code is Code.BUSY
            assert "standby" in error.message
        finally:
            server.control("promote")
        answered(engine.append, 2, b"b")

    @pytest.mark.slow
    def test_an_entry_that_no_standby_has_is_neither_answered_nor_shown(self, server, connect):
        engine, other = connect(request_seconds=SHORT_SECONDS), connect()
        engine.append(1, b"a")
        with server.setting("synchronous_standby_names", "nobody"):
            wait_until(server.waits_for_standby, "commits wait")
            assert refusal(engine.append, 2, b"b").code is Code.BUSY
            assert refusal(engine.append, 2, b"b").code is Code.BUSY
            assert refusal(engine.bounds).code is Code.BUSY
            assert other.read(0, ALL) == [b"a"]
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_until(lambda: server.ask(waiting) == 1, "only the append waits on")
        wait_until(lambda: answered(engine.read, 1, ALL) == [b"b"], "the entry is there")
        assert refusal(engine.append, 2, b"b").code is Code.CONFLICT

    def test_a_commit_whose_wait_is_cancelled_is_not_answered(self, server, connect):
        engine = connect()
        refused = []
        append = threading.Thread(target=lambda: refused.append(refusal(engine.append, 1, b"a")))
        cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
        with server.setting("synchronous_standby_names", "nobody"):
            wait_until(server.waits_for_standby, "commits wait")
            append.start()
            wait_until(lambda: server.ask(f"{cancel} WHERE wait_event = 'SyncRep'"), "it waits")
            append.join()
        assert refused[0].code is Code.BUSY
        assert "canceling" in refused[0].message
        assert answered(engine.read, 0, ALL) == [b"a"]


class TestOpening:
    @pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
    def test_a_server_that_may_lose_commits_is_refused(self, server, connect, name):
        engine = connect()
        engine.append(1, b"a")
        with server.setting(name, "off"):
            error = refusal(connect)
            assert error.code is Code.INVALID
            assert f"{name} = off" in error.message
            assert PASSWORD not in error.full
        connect()

    def test_synchronous_commit_is_turned_on(self, server, connect):
        with server.setting("synchronous_commit", "off"):
            engine = connect()
            engine.append(1, b"a")
            assert engine._ask(lambda link: link.execute("SHOW synchronous_commit").fetchone()) == (
                "on",
            )

    def test_of_several_hosts_the_one_that_writes_is_taken(self, server):
        parts = psycopg.conninfo.conninfo_to_dict(server.url)
        url = psycopg.conninfo.make_conninfo(
            server.url, host="127.0.0.1,127.0.0.1", port=f"{free_port()},{parts['port']}"
        )
        engine = PostgresEngine(url, Place("several", 1 << 20, "000000aa"), SECONDS)
        engine.append(1, b"a")
        engine.close()

    def test_nodes_that_make_the_log_at_once_agree_on_its_epoch(self, connect):
        engines = []
        threads = [threading.Thread(target=lambda: engines.append(connect())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(engines) == 4
        assert len({engine.epoch for engine in engines}) == 1

    def test_the_first_number_is_that_of_who_made_it(self, connect):
        engine, other = connect(first=11), connect(first=1)
        for one in (engine, other):
            assert one.bounds() == (11, 10)
            assert one.read(10, ALL) == []
            assert refusal(one.read, 0, ALL).code is Code.GONE
            assert refusal(one.append, 1, b"a").code is Code.CONFLICT
        other.append(11, b"a")
        assert engine.bounds() == (11, 11)
        assert engine.read(10, ALL) == [b"a"]

    def test_logs_of_two_names_are_two(self, server, connect):
        connect().append(1, b"a")
        place = Place("quoted-Name_2", 1 << 20, "000000aa")
        other = PostgresEngine(server.url, place, SECONDS)
        assert (other.epoch, other.bounds()) == ("000000aa", (1, 0))
        other.close()
        assert refusal(other.bounds).code is Code.BUSY
        assert refusal(PostgresEngine, server.url, Place("a" * 56, 1, "aa"), 0).code is Code.INVALID

    def test_a_log_that_was_made_anew_is_not_gone_on_with(self, server, connect):
        engine = connect()
        engine.append(1, b"a")
        server.ask(f"UPDATE \"{engine._schema}\".about SET epoch = 'ffffffff'")
        server.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            f" WHERE application_name = '{engine._schema}'"
        )
        wait_until(lambda: engine._link is None or engine._link.is_over, "the connection ends")
        error = refusal(engine.append, 2, b"b")
        assert error.code is Code.BUSY
        assert "another one" in error.message

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://owner:hidden-%zz@127.0.0.1/postgres",
            "postgresql://owner:hidden-word@more@127.0.0.1/postgres",
            "postgresql://owner:hidden-word/more@127.0.0.1/postgres",
            "postgresql://owner:12/hidden-word@127.0.0.1/postgres",
            "postgresql://owner:hidden-word",
            "hidden-word",
            "",
        ],
    )
    def test_an_address_that_cannot_be_read_is_not_shown(self, url):
        error = refusal(PostgresEngine, url, Place("a", 1, "aa"), 0)
        assert error.code is Code.INVALID
        assert "hidden" not in error.full
        assert error.__suppress_context__ or error.__context__ is None

    def test_a_wrong_password_is_not_shown(self, server):
        url = server.url.replace(PASSWORD, "hidden-other")
        error = refusal(PostgresEngine, url, Place("a", 1, "aa"), 0)
        assert error.code is Code.BUSY
        assert "owner" in error.message
        assert "hidden" not in error.full


class TestTrim:
    def test_the_newest_bytes_stay(self, connect):
        engine = connect(bytes_max=500)
        for number in range(1, 21):
            engine.append(number, bytes(100))
        engine.trim(10)
        assert engine.bounds() == (11, 20)
        engine.trim(20)
        assert engine.bounds() == (16, 20)
        assert refusal(engine.read, 14, ALL).code is Code.GONE
        assert len(engine.read(15, ALL)) == 5

    def test_the_last_one_stays(self, connect):
        engine = connect(bytes_max=0)
        for number in range(1, 4):
            engine.append(number, b"a" * number)
        engine.trim(ALL)
        assert engine.bounds() == (3, 3)
        assert connect().read(2, ALL) == [b"aaa"]
        engine.append(4, b"")
        engine.trim(4)
        assert engine.bounds() == (4, 4)  # the third is beyond, the last has no bytes

    @pytest.mark.slow
    def test_a_large_entry_is_stored_read_and_deleted(self, connect):
        writer, engine = connect(request_seconds=2.0), connect(bytes_max=1 << 20)
        data = os.urandom(1 << 20) * 64
        writer.append(1, data)  # which takes a slow disk longer than any other request
        assert engine.read(0, 1) == [data]
        engine.append(2, b"b")
        engine.trim(2)
        assert engine.bounds() == (2, 2)
