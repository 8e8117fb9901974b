"""Many connections, filters, wills, tickets and guesses of passwords."""

import base64
import itertools
import random
import time
from contextlib import suppress

from bench import frames
from bench.abuse.talk import (
    EVENTS,
    connected,
    drop,
    frame,
    heard,
    many,
    mqtt5_connect,
    reading,
    request,
    unique,
    websocket,
)
from bench.abuse.victim import Target

CROWD = 5_000
ABORTS_PER_MINUTE = 1_000
SUBSCRIBERS = 10
FILTERS = 10_000
LEVELS = 13
WILLS = 500
GUESSERS = 50


def crowd(target: Target, until: float) -> str:
    """5,000 connections at once: MQTT, event streams, WebSockets."""
    events = EVENTS.replace(b"/Probe/", b"/quiet/")

    def one(number: int):
        kind = number % 10
        if kind == 0:
            return connected(target.http_port, events)
        if kind == 1:
            return connected(target.http_port, websocket("/quiet/"))
        said = frames.connect(f"crowd{number}", 600) + frames.subscribe(f"quiet/{number}", 0)
        return connected(target.mqtt_port, said)

    socks = many(CROWD, one)
    open_then = len(socks)
    reading(socks, until)
    for sock in socks:
        sock.close()
    return f"{open_then} connections"


def stages(target: Target) -> list:
    """Return the stages at which a connection is cut: a port, and what was said until then."""
    connect, wanted = frames.connect(""), frames.subscribe("open/#", 1)
    put = request("PUT", "/Free/cut", b'{"n": 1}', "application/json")
    sayings = {
        target.mqtt_port: (
            b"", connect[:5], connect, connect + wanted[:3], connect + wanted,
            connect + frames.publish("Free/cut", b'{"n": 1}' * 99, 1, 7, retain=True)[:50],
        ),
        target.http_port: (
            b"", put[:20], put[:-4], put, EVENTS[:-1], EVENTS, websocket()[:40], websocket(),
            websocket() + frame(b'{"op": "subscribe", "id": 1, "topic": "open/#"}')[:9],
        ),
        target.tls_port: (b"", b"\x16\x03\x01\x02\x00\x01\x00"),
    }  # fmt: skip
    return [(port, said) for port, all_said in sayings.items() for said in all_said]


def aborts(target: Target, until: float) -> str:
    """1,000 connections a minute that are cut (RST) at every stage."""
    rng, count, places = random.Random(1), 0, stages(target)
    due = time.time()
    for port, said in itertools.cycle(places):
        if due >= until:
            break
        time.sleep(max(0.0, due - time.time()))
        with suppress(OSError):
            sock = connected(port, said)
            if rng.random() < 0.5:
                time.sleep(0.01)
                heard(sock)
            drop(sock)
            count += 1
        due += 60 / ABORTS_PER_MINUTE
    return f"{count} aborts"


def deep_filters(target: Target, until: float) -> str:
    """Thousands of filters that all select one deep topic, and publishes to it."""
    sock = connected(target.mqtt_port, frames.connect("deep"))
    sock.setblocking(True)
    ways = itertools.islice(itertools.product("a+", repeat=LEVELS), FILTERS - 100)
    every = ["/".join(way) for way in ways]
    for start in range(0, len(every), 1_000):
        sock.sendall(frames.subscribe_all(every[start : start + 1_000], 0))
    publisher = connected(target.mqtt_port, frames.connect("deep-pub"))
    publisher.setblocking(True)
    sock.setblocking(False)
    count, end = 0, "/".join("a" * (LEVELS - 1))
    while time.time() < until:
        publisher.sendall(frames.publish(f"{end}/a", b"x"))
        publisher.sendall(frames.publish(f"{end}/{count}", b"x"))
        heard(sock)
        count += 1
        time.sleep(0.05)
    sock.close()
    publisher.close()
    return f"{len(every)} filters, {2 * count} publishes"


def many_filters(target: Target, until: float) -> str:
    """100,000 filters, 10,000 of each client."""
    socks = many(SUBSCRIBERS, lambda n: connected(target.mqtt_port, frames.connect(f"f{n}", 600)))
    asked = 0
    for start, sock in itertools.product(range(0, FILTERS, 500), socks):
        if time.time() > until:
            break
        sock.setblocking(True)
        names = [f"filters/{sock.fileno()}/{number}/+" for number in range(start, start + 500)]
        sock.sendall(frames.subscribe_all(names, 0))
        sock.setblocking(False)
        asked += 500
    reading(socks, until)
    for sock in socks:
        drop(sock)
    return f"{asked} filters"


def wills(target: Target, until: float) -> str:
    """Clients with large wills, each cut off."""
    will = b"\x00" + frames.text("wills/x") + (60_000).to_bytes(2, "big") + bytes(60_000)
    count = 0
    while time.time() < until and count < WILLS:
        said = mqtt5_connect(unique(), flags=0x06, rest=will)
        with suppress(OSError):
            sock = connected(target.mqtt_port)
            sock.setblocking(True)
            sock.settimeout(5)
            sock.sendall(said)
            sock.recv(64)
            drop(sock)
            count += 1
    return f"{count} wills of 60 kB"


def tickets(target: Target, until: float) -> str:
    """Tickets that nobody shows, as fast as they are given."""
    sock = connected(target.http_port)
    sock.setblocking(True)
    sock.settimeout(10)
    said = request("POST", "/$SYS/tickets/", b"", "application/json")
    count, refused = 0, 0
    while time.time() < until:
        sock.sendall(said)
        answer = sock.recv(65_536)
        count += 1
        refused += not answer.startswith(b"HTTP/1.1 2")
    sock.close()
    return f"{count} asked for, {refused} refused"


def guesses(target: Target, until: float) -> str:
    """Fifty peers that guess passwords, over HTTP and MQTT, each name anew."""
    count = 0
    answers: dict[bytes, int] = {}
    while time.time() < until:
        socks = []
        for number in range(GUESSERS):
            name = unique()
            if number % 2:
                token = base64.b64encode(f"{name}:x".encode()).decode()
                said = request(
                    "GET", "/Probe/1", b"", "text/plain", f"Authorization: Basic {token}\r\n"
                )
                socks += many(1, lambda _, s=said: connected(target.http_port, s))
            else:
                rest = frames.text(name) + frames.text("x")
                said = mqtt5_connect(name, flags=0xC2, rest=rest)
                socks += many(1, lambda _, s=said: connected(target.mqtt_port, s))
            count += 1
        for sock in socks:
            sock.setblocking(True)
            sock.settimeout(20)
            with suppress(OSError):
                first = sock.recv(4096)
                answer = first[9:12] if first.startswith(b"HTTP") else first[:4].hex().encode()
                answers[answer] = answers.get(answer, 0) + 1
            sock.close()
    told = ", ".join(f"{name.decode()} {n}" for name, n in sorted(answers.items())[:5])
    return f"{count} guesses: {told}"


def lockout(target: Target, until: float) -> str:
    """Noise that once banned its address, beside somebody there with the right password (P3).

    205 requests of a foreign page with a ticket, 230 wrong names on each door, then 30 wrong
    passwords of the user, mixed, again and again; the honest one signs in anew after each ten.
    """
    honest: dict[str, int] = {}
    kinds = [*["page"] * 205, *["name"] * 230, *["device"] * 230, *["guess"] * 30]
    random.Random(1).shuffle(kinds)
    noise, count = itertools.cycle(kinds), 0
    _sign_in(target, honest)
    for kind in noise:
        if time.time() > until:
            break
        _told(*_noise(target, kind))
        count += 1
        if count % 10 == 0:
            _sign_in(target, honest)
    told = ", ".join(f"{name} {times}" for name, times in sorted(honest.items()))
    return f"{count} of noise; the honest one: {told}"


HONEST = "meter"
"""The client id of who has the right password; strangers use it too."""


def _noise(target: Target, kind: str) -> tuple[int, bytes]:
    """Return a port, and what a stranger says there."""
    if kind == "page":
        head = "GET /Probe/?ticket=x HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        page = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n"
        return target.http_port, (head + page).encode()
    if kind == "device":
        rest = frames.text(unique()) + frames.text("x")
        return target.mqtt_port, mqtt5_connect(HONEST, flags=0xC2, rest=rest)
    name = "root" if kind == "guess" else unique()
    return target.http_port, request("GET", "/Probe/1", b"", "text/plain", _basic(name, unique()))


def _sign_in(target: Target, answers: dict[str, int]) -> None:
    """Sign in as one who may, on both doors; note what came of it."""
    said = request("GET", "/Probe/1", b"", "text/plain", _basic("root", "pencil"))
    http = _told(target.http_port, said)[9:12].decode()
    rest = frames.text("root") + frames.text("pencil")
    for client_id in (HONEST, unique()):
        mqtt = _told(target.mqtt_port, mqtt5_connect(client_id, flags=0xC2, rest=rest))
        word = "MQTT let in" if mqtt[3:4] == b"\0" else f"MQTT refused {mqtt[3:4].hex()}"
        answers[word] = answers.get(word, 0) + 1
    word = "HTTP let in" if http in {"200", "404"} else f"HTTP refused {http}"
    answers[word] = answers.get(word, 0) + 1


def _basic(name: str, password: str) -> str:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return f"Authorization: Basic {token}\r\n"


def _told(port: int, said: bytes) -> bytes:
    """Say something on a connection of its own; return the beginning of the answer."""
    sock = connected(port, said)
    sock.setblocking(True)
    sock.settimeout(20)
    with suppress(OSError), sock:
        return sock.recv(4096)
    return b""
