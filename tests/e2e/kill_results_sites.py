"""Kills two sites that keep a table equal while jobs write large results there, and others write.

A job's result is staged: it has more rows than are written in one batch, and removes some. Single
writers at both sites write some of its records meanwhile. Whatever is killed when, both sites end
with the same records; the newer one of a row and a write has won; and each has each write once.
"""

import json
import random
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from kill_results import SCHEMA, begin_job

from free_ports import free_ports
from serving import PATIENCE_SECONDS, Server, TooLate, wait_until

ROWS = 6_000
"""More than RESULT_STAGED_CHANGES_MIN, also without the tenth that each result leaves out."""
HANDS = 200
"""Records that others write, too."""
KEEP_OUT = "n % 10 != number % 10"
LOG = """
    SELECT l.topic, l.seq, l.version, l.kind, l.client, l.properties FROM rowcast_log AS l
    JOIN rowcast_tables AS t ON t.id = l.table_id WHERE t.name = 'Hourly' ORDER BY l.seq
"""


class Hands(threading.Thread):
    """Writes single records at a site."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.dice = random.Random(seed)
        self.stopping = threading.Event()
        self.written = 0

    def run(self) -> None:
        with self.server.client() as client:
            while not self.stopping.wait(0.01):
                key = self.dice.randrange(HANDS)
                try:
                    if self.dice.random() < 0.2:
                        client.delete(f"/Hourly/{key}")
                    else:
                        row = {"id": str(key), "round": -1, "text": "by hand"}
                        client.put(f"/Hourly/{key}", json=row)
                except Exception:  # noqa: BLE001 - the server is being killed
                    continue
                self.written += 1


def sites(stack: ExitStack, folder: Path) -> list[Server]:
    """Return two servers, each with a bridge to the other."""
    ports, servers = free_ports(2), []
    for name, port, there in zip(("north", "south"), ports, reversed(ports), strict=True):
        (folder / name).mkdir()
        bridge = {"name": "other", "host": "127.0.0.1", "port": there, "sync": ["Hourly/#"],
                  "reconnect_interval_ms": 100}  # fmt: skip
        settings = {"mqtt.network.port": port, "gateway.brokers": json.dumps([bridge])}
        servers.append(stack.enter_context(Server(folder / name, SCHEMA, settings=settings)))
    return servers


def records(server: Server) -> dict[str, object]:
    """Return value and version of all records."""
    with server.client() as client:
        rows = client.get(f"/Hourly/?limit({2 * ROWS})&meta=true").json()
    return {row["id"]: (row["round"], row["text"], row["_version"]) for row in rows}


def bridge_of(server: Server) -> dict[str, object]:
    """Return what a site tells of its bridge."""
    row: dict[str, object] = server.request("GET", "/$SYS/brokers/other").json()
    return row


def is_idle(server: Server) -> bool:
    """Whether its bridge has sent all."""
    row = bridge_of(server)
    return bool(row["connected"]) and not row["outbox_pending"]


def settle(servers: Sequence[Server]) -> None:
    """Wait until all bridges have sent all, and as long as they send anything."""
    sent: list[object] = []
    while True:
        before, sent = sent, [bridge_of(server)["messages_sent"] for server in servers]
        try:
            wait_until(lambda: all(map(is_idle, servers)), "all has been sent")
        except TooLate:
            if sent == before:
                raise
        else:
            return


def logged(server: Server) -> list[tuple[str, int, int, str, str, object]]:
    """Return the events of the log."""
    path = server.folder / "data" / "rowcast.db"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        return file.execute(LOG).fetchall()


def check_log(server: Server) -> Counter[str]:
    """Look at a site's log: newer events follow older ones, each once; results are in one piece."""
    newest: dict[str, int] = {}
    rounds: list[str] = []
    counts = Counter[str]()
    for topic, seq, version, kind, client, properties in logged(server):
        assert version > newest.get(topic, 0), f"{topic} at {seq}: {kind} of {version} is older"
        newest[topic] = version
        if client.startswith("job/") and (not rounds or rounds[-1] != client):
            rounds.append(client)
        counts["remote" if properties and '"origin"' in str(properties) else client[:4]] += 1
    return counts


def run(folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill so many jobs and sites; return what was counted."""
    dice, figures = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        servers = sites(stack, folder)
        north, south = servers
        hands = [Hands(server, seed + at) for at, server in enumerate(servers)]
        with begin_job(north, 1, ROWS, KEEP_OUT) as job:
            job.wait(PATIENCE_SECONDS)
        for hand in hands:
            hand.start()
        number = 1
        for _ in range(kills):
            number += 1
            with begin_job(north, number, ROWS, KEEP_OUT) as job:
                try:
                    job.wait(dice.random() * 4)
                except subprocess.TimeoutExpired:
                    figures["killed in the middle"] += 1
                victim = dice.choice([north, north, south, None])
                if victim is not None:
                    victim.kill(children=dice.random() < 0.5)
                    victim.start()
                    figures["sites killed"] += 1
                if victim is None or dice.random() < 0.5:
                    job.kill()
                job.wait(PATIENCE_SECONDS)
        for hand in hands:
            hand.stopping.set()
            hand.join()
        with begin_job(north, number + 1, ROWS, KEEP_OUT) as job:
            assert job.wait(PATIENCE_SECONDS) == 0
        settle(servers)
        wait_until(lambda: records(north) == records(south), "the sites are equal")
        settle(servers)
        found = records(north)
        assert found == records(south)
        of_last = sum(row[0] == number + 1 for row in found.values())  # type: ignore[index]
        assert of_last >= ROWS * 9 // 10 - HANDS, of_last
        for name, server in zip(("north", "south"), servers, strict=True):
            for what, count in check_log(server).items():
                figures[f"{name} {what}"] = count
        figures["by hand"] = sum(hand.written for hand in hands)
        figures["results"] = number + 1
    return dict(figures)
