"""The servers under load: ours and its peers, each a process of its own."""

import getpass
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.proc import BenchError, Process, free_port

ROOT = Path(__file__).resolve().parents[1]
PEERS = Path(__file__).resolve().parent / "peers"
PEERS_VENV = ROOT / ".venv-peers"
AMQTT = "amqtt>=0.11,<0.12"
OURS = "rowcast"
PIP_TIMEOUT_SECONDS = 300
SCHEMA = """\
type Sensor @table @export {
  id: ID @primaryKey
  v: Float
  t: Long
  p: String
}

type Log @table @export
"""
MOSQUITTO_CONFIG = """\
# Everything else is Mosquitto's default: max_queued_messages 1000 and, unless said below,
# max_inflight_messages 20. It keeps its user, because a change of user would clear the signal that
# ends it together with the harness.
user {user}
listener {port} 127.0.0.1
allow_anonymous true
persistence false
log_dest stderr
log_type error
log_type warning
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    name: str
    process: Process
    mqtt_port: int = 0
    http_port: int = 0
    data: Path | None = None
    """Where ours keeps its database."""


Starter = Callable[[Path, frozenset[int]], Server]


def start(
    name: str, directory: Path, cores: frozenset[int], undeclared: str, features: str = ""
) -> Server:
    """Start the named server with its data under the directory, and wait until it is ready.

    ``features``, a directory beside this file, is what ours is to have of resources and hooks.
    """
    directory.mkdir(parents=True)
    kind, _, revision = name.partition("@")
    if kind == OURS:
        server = start_ours(name, directory, cores, undeclared, revision, features)
    else:
        server = STARTERS[kind](directory, cores)
    try:
        server.process.wait_ready([port for port in (server.mqtt_port, server.http_port) if port])
    except BaseException:
        server.process.stop()
        raise
    return server


def start_ours(
    name: str,
    directory: Path,
    cores: frozenset[int],
    undeclared: str = "route",
    revision: str = "",
    features: str = "",
    schema: str = SCHEMA,
    wrapper: Sequence[str] = (),
) -> Server:
    """Start Rowcast, of this checkout or of a revision of it; ``wrapper`` is what runs Python."""
    tables = directory / "schema.graphql"
    tables.write_text(schema)
    mqtt_port, http_port = free_port(), free_port()
    command: list[str | Path] = [*wrapper, ROOT / ".venv/bin/rowcast"]
    env = {}
    if revision:
        root, module = unpack(revision, directory / "code")
        env["PYTHONPATH"] = str(root)
        command = [sys.executable, "-c", f"from {module} import main; main()"]
    command += ["serve", "--http-port", str(http_port), "--mqtt-port", str(mqtt_port)]
    command += ["--data", directory / "data", "--schema", tables]
    command += ["--set", f"topics.undeclared={undeclared}"]
    if features:
        command += ["--resources", PEERS.parent / "features" / features]
    if not revision and not (ROOT / ".venv/bin/rowcast").exists():
        raise BenchError(".venv/bin/rowcast is missing; run scripts/install")
    process = Process(command, directory / "server.log", cores, env)
    return Server(name, process, mqtt_port, http_port, directory / "data")


def start_plain(directory: Path, cores: frozenset[int]) -> Server:
    """Start Rowcast as it is when no feature is asked for, to see what one costs."""
    return start_ours("rowcast-plain", directory, cores)


COMMAND_LINES = (("", "app.cli"), ("app", "rowcast.cli"), ("app", "rowcast.program.cli"))
"""Where the command line has been: the source root, and the module below it."""


def unpack(revision: str, directory: Path) -> tuple[Path, str]:
    """Write the code of a revision into the directory; return what ``command_line_in`` finds."""
    directory.mkdir()
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", revision, "app"], capture_output=True, check=False
    )
    if archive.returncode:
        raise BenchError(f"git has no revision {revision}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
    return command_line_in(directory)


def command_line_in(directory: Path) -> tuple[Path, str]:
    """Return the source root of a revision's code, and the module of its command line.

    It looks at files. Importing by trial would find this checkout, which is installed: the
    benchmark would then measure it beside itself.
    """
    for root, module in COMMAND_LINES:
        if (directory / root / module.replace(".", "/")).with_suffix(".py").is_file():
            return directory / root, module
    raise BenchError(f"{directory} has a command line at no known place")


def start_mosquitto(
    directory: Path, cores: frozenset[int], more: str = "", name: str = "mosquitto"
) -> Server:
    """Start the system's Mosquitto, memory only."""
    binary = mosquitto_binary()
    if not binary:
        raise BenchError("Mosquitto is not installed (Debian package mosquitto)")
    port = free_port()
    config = directory / "mosquitto.conf"
    config.write_text(MOSQUITTO_CONFIG.format(port=port, user=getpass.getuser()) + more)
    return Server(name, Process([binary, "-c", config], directory / "server.log", cores), port)


def start_mosquitto_unlimited(directory: Path, cores: frozenset[int]) -> Server:
    """Start Mosquitto without its limit of 20 in flight, behind which 2.0.11 drops messages."""
    return start_mosquitto(directory, cores, "max_inflight_messages 0\n", "mosquitto-unlimited")


def mosquitto_binary() -> str | None:
    """Return where Mosquitto is, if it is."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def start_amqtt(directory: Path, cores: frozenset[int]) -> Server:
    """Start amqtt from the peers' own environment."""
    ensure_peers()
    port = free_port()
    config = directory / "amqtt.yaml"
    config.write_text((PEERS / "amqtt_broker.yaml").read_text().replace("PORT", str(port)))
    command: list[str | Path] = [PEERS_VENV / "bin/amqtt", "-c", config]
    return Server("amqtt", Process(command, directory / "server.log", cores), port)


def ensure_peers() -> None:
    """Make .venv-peers: amqtt pins a version of websockets that is not ours."""
    if (PEERS_VENV / "bin/amqtt").exists():
        return
    print(f"making {PEERS_VENV.name} with {AMQTT} ...", file=sys.stderr, flush=True)
    venv.create(PEERS_VENV, with_pip=True)
    done = subprocess.run(
        [PEERS_VENV / "bin/python", "-m", "pip", "install", "--quiet", AMQTT],
        capture_output=True,
        check=False,
        timeout=PIP_TIMEOUT_SECONDS,
    )
    if done.returncode:
        raise BenchError(f"pip could not install {AMQTT}: {done.stderr.decode()[-500:]}")


def start_asgi(name: str, module: str) -> Starter:
    """Return a starter of an application of peers/ under uvicorn."""

    def starter(directory: Path, cores: frozenset[int]) -> Server:
        port = free_port()
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "uvicorn",
            f"{module}:app",
            "--app-dir",
            PEERS,
        ]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        command += ["--log-level", "warning", "--no-access-log"]
        env = {"BENCH_DATABASE": str(directory / "peer.db")}
        process = Process(command, directory / "server.log", cores, env)
        return Server(name, process, http_port=port)

    return starter


STARTERS: dict[str, Starter] = {
    "rowcast-plain": start_plain,
    "mosquitto": start_mosquitto,
    "mosquitto-unlimited": start_mosquitto_unlimited,
    "amqtt": start_amqtt,
    "uvicorn-hello": start_asgi("uvicorn-hello", "hello"),
    "fastapi-sqlmodel": start_asgi("fastapi-sqlmodel", "fastapi_app"),
    "sse-starlette": start_asgi("sse-starlette", "streams_app"),
    "fastapi-websocket": start_asgi("fastapi-websocket", "streams_app"),
}
