"""Child processes that hang are ended and started again; those that are only slow are not."""

import os
import signal

from test_e2e_workers import Served, by_workers

from serving import wait_until


def test_a_worker_that_hangs_is_ended_and_started_again(tmp_path):
    """It kept its share of new connections, and nobody was told."""
    with Served(tmp_path, **{"workers.heartbeat_timeout_seconds": 6}) as server:
        hung = server.rows[0]["pid"]
        os.kill(hung, signal.SIGSTOP)

        def warned():
            return server.request("GET", "/health").json()["warnings"].get("workers", "")

        wait_until(lambda: "worker 0 has sent no heartbeat for" in warned(), "a warning")
        wait_until(lambda: server.rows[0]["hangs"], "it is ended")
        wait_until(lambda: not warned(), "it is started again")
        [first, other] = server.rows
        assert (first["ready"], first["restarts"], first["hangs"]) == (True, 1, 1)
        assert (other["restarts"], other["hangs"]) == (0, 0)
        assert first["pid"] != hung
        assert "so it is ended" in server.log
        answers = by_workers(server, lambda it: it.work("PUT", "/Dog/1", json={}))
        assert all(answer.is_success for answer in answers)


def test_a_server_that_was_paused_ends_no_worker(tmp_path):
    """Its clock went on meanwhile, and so did the workers."""
    with Served(tmp_path, **{"workers.heartbeat_timeout_seconds": 4}) as server:
        pids, log = [row["pid"] for row in server.rows], server.log
        os.kill(server.running.pid, signal.SIGSTOP)
        with server.client() as client:  # ten seconds, until it is refused
            url = f"http://127.0.0.1:{server.workers_port}/Dog/1"
            assert client.put(url, json={}).status_code == 503
        os.kill(server.running.pid, signal.SIGCONT)
        wait_until(lambda: server.work("PUT", "/Dog/1", json={}).is_success, "it goes on")
        assert [row["pid"] for row in server.rows] == pids
        assert "no heartbeat" not in server.log.removeprefix(log)


def test_an_applier_that_hangs_is_shown_and_a_short_pause_ends_nothing(tmp_path):
    """After half a minute it is ended: ``tests/journal/test_applier_child.py``."""
    with Served(tmp_path, **{"workers.count": 0}) as server:
        assert server.request("PUT", "/Dog/1", json={}).status_code == 201

        def row():
            return server.request("GET", "/$SYS/applier/").json()[0]

        begun = row()
        assert (begun["restarts"], begun["hangs"], begun["problem"]) == (0, 0, "")
        os.kill(begun["pid"], signal.SIGSTOP)
        wait_until(lambda: row()["silent_seconds"] > 1, "its silence is shown")
        os.kill(begun["pid"], signal.SIGCONT)
        wait_until(lambda: not row()["silent_seconds"], "it goes on")
        assert row() == begun
