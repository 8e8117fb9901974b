"""10,000 live subscriptions whose right ends: how long until all of them are told (L8).

MQTT clients, WebSockets and event streams, all of one user; on each way of ending them a writer
goes on all the time, and what is delivered after the change is counted.
"""

import base64
import json
import selectors
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import frames
from bench.abuse.talk import connected, unique, websocket
from bench.abuse.victim import Target, Usage, Victim
from bench.proc import cpu_seconds

ADMIN, USER = "root", "reader"
PASSWORD = "pencil"
WAIT_SECONDS = 30.0
TOKEN_SECONDS = 150
"""Of a token: the connections of all its readers are made within it."""
MQTT_OF_TEN, SOCKETS_OF_TEN = 6, 2
WRITES_PER_SECOND = 1
TOKEN = "token over"
SETTINGS = [
    "mqtt.ban.failed_logins=0",
    "mqtt.connect_timeout_seconds=120",
    "websocket.heartbeat_seconds=600",
    f"security.token_seconds={TOKEN_SECONDS}",
]
STEPS = (0.5, 0.99, 1.0)


@dataclass(slots=True)
class Reader:
    """One live subscription."""

    sock: socket.socket
    door: str
    ready: bool = False
    ended: float = 0.0
    reason: str = ""
    last_delivery: float = 0.0
    tail: bytes = b""


@dataclass(slots=True)
class Crowd:
    """All readers, and what became of them."""

    readers: list[Reader] = field(default_factory=list)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def add(self, reader: Reader) -> None:
        """Watch a reader."""
        self.readers.append(reader)
        self.selector.register(reader.sock, selectors.EVENT_READ, reader)

    def turn(self, seconds: float) -> None:
        """Take what came."""
        for key, _ in self.selector.select(seconds):
            reader: Reader = key.data
            try:
                data = reader.sock.recv(65_536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            now = time.time()
            if data:
                _hear(reader, data, now)
            if not data or reader.ended:
                reader.ended = reader.ended or now
                self.selector.unregister(reader.sock)
                reader.sock.close()


def _hear(reader: Reader, data: bytes, now: float) -> None:
    """Note whether it was answered, was given an event, or was told of the end."""
    seen = reader.tail + data
    reader.tail = seen[-200:]
    if not reader.ready:
        words = {"mqtt": b"\x90", "ws": b" 101 ", "sse": b" 200 "}[reader.door]
        reader.ready = words in seen
    if b'"v"' in data or b"secret" in data:
        reader.last_delivery = now
    if reader.door == "sse" and b"event: problem" in seen:
        reader.ended, reader.reason = now, "problem"
    elif reader.door == "mqtt" and reader.ready and b"\xe0" in data:
        at = data.rindex(b"\xe0")
        reader.ended, reader.reason = now, f"0x{data[at + 2]:02x}" if len(data) > at + 2 else ""
    elif reader.door == "ws" and reader.ready and b"\x88" in data:
        at = data.rindex(b"\x88")
        reader.ended, reader.reason = now, str(int.from_bytes(data[at + 2 : at + 4], "big"))


def _basic(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()


def ask(target: Target, method: str, path: str, body: object = None) -> dict[str, object]:
    """Ask as the administrator."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{target.http_port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": _basic(ADMIN), "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        data = answer.read()
    return json.loads(data) if data else {}


def gather(target: Target, count: int, token: str = "") -> Crowd:
    """Return so many readers of ``Probe``, signed in as the user or with a token, all answered."""
    crowd = Crowd()
    shown = f"Bearer {token}" if token else _basic(USER)
    sign = f"Authorization: {shown}\r\n\r\n".encode()
    stream = b"GET /Probe/ HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n" + sign
    sockets = websocket()[:-2] + sign
    secret = token or PASSWORD
    for number in range(count):
        kind = number % 10
        if kind < MQTT_OF_TEN:
            flags = b"\xc2"
            who = frames.text(unique()) + frames.text(USER) + frames.text(secret)
            body = frames.text("MQTT") + b"\x05" + flags + b"\x02\x58" + b"\x00" + who
            said = b"\x10" + frames.varint(len(body)) + body
            wanted = b"\x00\x01\x00" + frames.text("Probe/#") + b"\x00"
            said += b"\x82" + frames.varint(len(wanted)) + wanted
            crowd.add(Reader(connected(target.mqtt_port, said), "mqtt"))
        elif kind < MQTT_OF_TEN + SOCKETS_OF_TEN:
            crowd.add(Reader(connected(target.http_port, sockets), "ws"))
        else:
            crowd.add(Reader(connected(target.http_port, stream), "sse"))
        if number % 50 == 0:
            crowd.turn(0)
    limit = time.time() + 4 * WAIT_SECONDS
    while not all(reader.ready for reader in crowd.readers) and time.time() < limit:
        crowd.turn(0.1)
    return crowd


class Writer:
    """The administrator, who writes on and is measured by what readers get."""

    def __init__(self, target: Target) -> None:
        self.sock = connected(target.mqtt_port)
        self.sock.setblocking(True)
        who = frames.text("writer") + frames.text(ADMIN) + frames.text(PASSWORD)
        body = frames.text("MQTT") + b"\x04\xc2\x02\x58" + who
        self.sock.sendall(b"\x10" + frames.varint(len(body)) + body)
        self.sock.recv(4)
        self.sock.setblocking(False)
        self.next = time.time()

    def write(self) -> None:
        """Write what is due."""
        now = time.time()
        if now >= self.next:
            self.next = now + 1 / WRITES_PER_SECOND
            with suppress(OSError):
                self.sock.sendall(frames.publish("Probe/1", b'{"v": 1}', 0, retain=True))
                self.sock.recv(4096)


def _measure(name: str, victim: Victim, crowd: Crowd, change: Callable[[], float]) -> str:
    """Change something, and return a line of the table about what became of all readers."""
    target = victim.target
    writer = Writer(target)
    ready = sum(reader.ready for reader in crowd.readers)
    before: Usage = victim.usage()
    spent = cpu_seconds(target.pid)
    begun = change()
    limit = begun + WAIT_SECONDS
    while any(not reader.ended for reader in crowd.readers) and time.time() < limit:
        writer.write()
        crowd.turn(0.01)
    spent = cpu_seconds(target.pid) - spent
    ended = sorted(reader.ended - begun for reader in crowd.readers if reader.ended)
    times = ", ".join(
        f"{ended[min(len(ended) - 1, int(step * len(ended)))]:.2f}" if ended else "-"
        for step in STEPS
    )
    late = sum(reader.last_delivery > begun + 1 for reader in crowd.readers)
    reasons: dict[str, int] = {}
    for reader in crowd.readers:
        word = f"{reader.door} {reader.reason or 'closed'}" if reader.ended else "still there"
        reasons[word] = reasons.get(word, 0) + 1
    then = victim.usage()
    for reader in crowd.readers:
        reader.sock.close()
    told = ", ".join(f"{word} {count}" for word, count in sorted(reasons.items()))
    return (
        f"| {name} | {ready} | {len(ended)} | {times} | {spent:.2f} | {late} "
        f"| {then.longest * 1e3:.0f} | {before.rss / 1e6:.0f} | {told} |"
    )


def main(count: int, ways: list[str]) -> None:
    """End all readers in some of the ways, or in all, and print how long it took."""
    print(
        "| way | live | ended | s until half, 99 %, all are told | server CPU s "
        "| given something after 1 s | longest call in the loop ms | RSS MB | how they were told |"
    )
    print("|" + " --- |" * 9, flush=True)
    with tempfile.TemporaryDirectory(prefix="rowcast-revoked-") as folder:
        victim = Victim(Path(folder), SETTINGS, {ADMIN: PASSWORD})
        victim.signs_in = True
        try:
            for name in ways or (*WAYS, TOKEN):
                print(_one(name, victim, count), flush=True)
        except OSError as failure:
            sys.exit(f"the server failed: {failure!r}\n{victim.process.tail()}")
        finally:
            victim.stop()


def _one(name: str, victim: Victim, count: int) -> str:
    target = victim.target
    ask(target, "PUT", f"/$SYS/users/{USER}", {"password": PASSWORD})
    if name == TOKEN:
        token, until = _token(target)
        crowd = gather(target, count, token)
        return _measure(name, victim, crowd, lambda: until)
    crowd = gather(target, count)
    change = WAYS[name]

    def now() -> float:
        begun = time.time()
        change(target)
        return begun

    line = _measure(name, victim, crowd, now)
    if name == "rule":
        ask(target, "DELETE", "/$SYS/rules/no-probe")
    return line


def _token(target: Target) -> tuple[str, float]:
    body = json.dumps({"user": USER, "password": PASSWORD}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{target.http_port}/$SYS/login",
        body,
        {"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        said = json.loads(answer.read())
    claims = said["token"].split(".")[1]
    return said["token"], float(json.loads(base64.urlsafe_b64decode(claims + "=="))["exp"])


DENY = {"filter": "Probe/#", "effect": "deny", "actions": ["all"], "users": [USER]}
WAYS: dict[str, Callable[[Target], object]] = {
    "disabled": lambda target: ask(target, "PATCH", f"/$SYS/users/{USER}", {"disabled": True}),
    "rights less": lambda target: ask(
        target, "PATCH", f"/$SYS/users/{USER}", {"grants": {"read": False}}
    ),
    "rule": lambda target: ask(target, "PUT", "/$SYS/rules/no-probe", DENY),
    "password": lambda target: ask(target, "PATCH", f"/$SYS/users/{USER}", {"password": "other"}),
    "removed": lambda target: ask(target, "DELETE", f"/$SYS/users/{USER}"),
}
