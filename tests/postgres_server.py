"""A PostgreSQL server for tests, with its files in a folder of its own."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest

from free_ports import free_port
from serving import wait_until

PASSWORD = "hidden-word"


def programs():
    """Return the folder of initdb and pg_ctl; None where there is no PostgreSQL."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path("/usr/local/bin")]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def other_user():
    """Return as whom PostgreSQL runs, which refuses root: arguments of subprocess.run."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
    return {}


class Postgres:
    """One server with its files in a folder."""

    def __init__(self, binaries, folder, user):
        self.binaries, self.folder, self.user = binaries, folder, user
        self.data = folder / "data"
        self.url = f"postgresql://owner:{PASSWORD}@127.0.0.1:{free_port()}/postgres"
        word = folder / "word"
        self.give(folder)
        self.give(word, PASSWORD)
        self.run("initdb", "-D", self.data, "-U", "owner", "-A", "scram-sha-256", "-N",
                 f"--pwfile={word}")  # fmt: skip

    def give(self, path, text=None):
        """Let PostgreSQL have a file, which is written, or a folder."""
        if text is not None:
            path.write_text(text)
        if self.user:
            os.chown(path, self.user["user"], self.user["group"])

    def run(self, program, *arguments):
        command = [self.binaries / program, *arguments]
        with tempfile.TemporaryFile("w+") as said:
            ended = subprocess.run(
                command, stdout=said, stderr=said, cwd=self.folder, check=False, **self.user
            )
            said.seek(0)
            assert ended.returncode == 0, said.read()

    def control(self, *arguments):
        self.run("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", *arguments)

    def start(self, action="start", *arguments):
        port = psycopg.conninfo.conninfo_to_dict(self.url)["port"]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self.control("-o", options, action, *arguments)

    def go_on(self):
        """Start it again if it has ended, as on a full disk."""
        main = self.pids[:1]
        if not (main and Path(f"/proc/{main[0]}").exists()):
            self.start()

    def stop(self):
        self.control("stop", "-m", "immediate")

    def ask(self, statement):
        """Return the first value of one statement, on a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None

    def waits_for_standby(self):
        """Whether commits wait for standbys; a server notices that some time after its setting."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            pid = connection.info.backend_pid
            state = f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {pid}"
            write = "SELECT pg_logical_emit_message(true, 'probe', '')"
            commit = threading.Thread(target=connection.execute, args=(write,))
            commit.start()
            waits = wait_until(
                lambda: (self.ask(state) and ["waits"]) or (not commit.is_alive() and ["done"]),
                "a commit waits or ends",
            ) == ["waits"]  # fmt: skip
            while commit.is_alive():
                self.ask(f"SELECT pg_cancel_backend({pid})")
                commit.join(0.05)
        return waits

    @contextlib.contextmanager
    def setting(self, name, value):
        """Change a setting of the running server, and take it back."""
        usual = self.ask(f"SHOW {name}")
        self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self._reload(name, value)
        try:
            yield
        finally:
            self.ask(f"ALTER SYSTEM RESET {name}")
            self._reload(name, usual)

    @contextlib.contextmanager
    def full_disk(self, cluster):
        """Refuse entries of a cluster's log as on a full disk (SQLSTATE 53100)."""
        log = f'"rowcast_{cluster}".log'
        self.ask(
            "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END$$"
        )
        self.ask(f"CREATE TRIGGER full_disk BEFORE INSERT ON {log} EXECUTE FUNCTION full_disk()")
        try:
            yield
        finally:
            self.ask(f"DROP TRIGGER full_disk ON {log}")

    def _reload(self, name, value):
        self.ask("SELECT pg_reload_conf()")
        wait_until(lambda: self.ask(f"SHOW {name}") == value, f"{name} is {value}")

    @property
    def pids(self):
        """All its processes, its own first; none when it has ended."""
        try:
            main = int((self.data / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return []
        tasks = Path(f"/proc/{main}/task").glob("*/children")
        return [main, *(int(pid) for task in tasks for pid in task.read_text().split())]

    @contextlib.contextmanager
    def paused(self):
        """Stop all its processes (SIGSTOP), and let them go on."""
        pids = self.pids
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def running_postgres(disk=contextlib.nullcontext):
    """Start a server, and end it; skip the test where there is none.

    ``disk`` is called with its folder, and has a file system there.
    """
    binaries = programs()
    if binaries is None:
        pytest.skip("no PostgreSQL is installed here (postgres, /usr/lib/postgresql/*/bin)")
    user = other_user()
    # not a folder of pytest: another user may not enter those
    with tempfile.TemporaryDirectory(prefix="rowcast-postgres-") as folder, disk(Path(folder)):
        running = Postgres(binaries, Path(folder), user)
        running.start()
        try:
            yield running
        finally:
            running.stop()
