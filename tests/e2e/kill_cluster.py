"""Kills, pauses and cuts off nodes of a real cluster under load, and looks what is there.

Three nodes with their NATS servers, on this machine. MQTT sessions of QoS 1 and 2 follow the
sequencer (``kill_sessions.py``); HTTP writers write at each node, also with conditions; readers of
Server-Sent Events go on with their cursor at whichever node. Each round has one fault: the
sequencer, a follower, the engine (a NATS server, or with ``--engine postgres`` the database) or two
nodes at once are killed (SIGKILL) or paused (SIGSTOP); with ``--cuts`` (as root) each node is
on a host of its own (``networks.py``), and links between them are cut, too; with ``--disks`` the
disk of a node, of its tables or of the engine is full for a while (``full_disks.py``), and a node
that cannot write says so. After each round the nodes are as they were; at the end

- every acknowledged write is at every node, under the ETag that was told, and none is refused and
  there;
- every acknowledged count with ``If-Match`` is counted, and no other than those without an answer;
- all readers have read the same events, the whole log, without a gap or a repeat;
- every acknowledged message has arrived, at QoS 2 once, and no session was lost;
- all nodes have the same records, and the same digest of them.
"""

import argparse
import hashlib
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from full_disks import Disk, engines_of, limited, mounted, own_mounts, places, small
from kill_sessions import Pair, Play, pause

from clusters import Cluster, Node
from networks import Network
from postgres_server import Postgres, running_postgres
from serving import PATIENCE_SECONDS, wait_until
from talking import Events

# ruff: noqa: T201 - a program that talks to people

BUSY_MESSAGES, BUSY_WRITES = 100, 50
"""Arrived in each session, and acknowledged, before the first fault: faults meet work, on a slow
machine too."""
CUT_TIMES = 3
"""A cut is noticed by silence, so it lasts longer than a pause."""
FULL_TIMES = 3
"""A full disk is noticed by what is written, and by what asks now and then."""
FULL = re.compile("the disk does not take|disk of the database|as on a full disk")
"""What a node says of it: of its files, of its tables, and of its NATS server."""
FAULT_SECONDS_MAX = 5.0
"""How long something is paused, or away: more and less than the time of the lease."""
WORK_SECONDS_MAX = 1.5
"""Between two faults."""
GONE = (OSError, httpx.HTTPError, ValueError)


@dataclass
class Ledger:
    """What writers were told."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """The ETag of each record, which is written once."""
    refused: set[str] = field(default_factory=set)
    """Records whose write was refused with the word that it was not tried."""
    unknown: set[str] = field(default_factory=set)
    counted: int = 0
    perhaps: int = 0
    """Counts without an answer."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Door:
    """What a load balancer does: MQTT clients connect to one node after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turn = 0

    @property
    def settings(self) -> dict[str, object]:
        """The port of the next node: those that follow pass their clients on."""
        self._turn += 1
        nodes = list(self._cluster.nodes.values())
        return nodes[self._turn % len(nodes)].settings


class Work:
    """Clients of HTTP at all nodes, until they are told to end."""

    def __init__(self, cluster: Cluster, pace: float) -> None:
        self.cluster, self.ledger = cluster, Ledger()
        self._pace = pace
        self.ended = False
        self.read: dict[str, list[str]] = {name: [] for name in cluster.nodes}
        """The ids of the events that each reader has read, in its order."""
        self._last = ""
        self._since = ""
        self._threads = [
            threading.Thread(target=self._live, args=(role, node))
            for node in cluster.nodes.values()
            for role in (self._write, self._count, self._follow)
        ]

    def start(self) -> None:
        """Let everybody work; the first record is where readers begin."""
        answer = self.cluster.settle().request("PUT", "/Dog/count", json={"n": 0})
        self._since = answer.headers["etag"].strip('"')
        for thread in self._threads:
            thread.start()

    def is_busy(self) -> bool:
        """Return whether enough was written that a fault meets work."""
        return bool(self.ledger.wrong) or len(self.ledger.acknowledged) > BUSY_WRITES

    def finish(self) -> None:
        """End writers; wait until readers have read all, and end them."""
        try:
            node = self.cluster.settle()
            self.ended = True
            for thread in self._threads[0::3] + self._threads[1::3]:
                thread.join()
            answer = node.request("PUT", "/Dog/last", json={"n": 0})
            self._last = answer.headers["etag"].strip('"')
            wait_until(
                lambda: all(ids[-1:] == [self._last] for ids in self.read.values()),
                "all readers have read the last event",
            )
        finally:
            self.ended = True
            for thread in self._threads:
                thread.join()

    def _live(self, role: Callable[[Node], None], node: Node) -> None:
        while not (
            self.ended and (role != self._follow or self.read[node.name][-1:] == [self._last])
        ):
            try:
                role(node)
            except GONE:
                pause(0.02)
            except BaseException as failure:  # noqa: BLE001 - told by the main thread
                self.ledger.wrong.append(f"{node.name}: {failure!r}")
                return

    def _write(self, node: Node) -> None:
        """Write records at this node, each once, on one connection."""
        ledger = self.ledger
        with node.client() as client:
            while not self.ended:
                pause(self._pace)
                with ledger.lock:
                    name = (
                        f"r{len(ledger.acknowledged) + len(ledger.refused) + len(ledger.unknown)}"
                    )
                    ledger.unknown.add(name)
                answer = client.put(f"/Dog/{name}", json={"name": node.name, "n": 1})
                with ledger.lock:
                    if answer.is_success:
                        ledger.unknown.discard(name)
                        ledger.acknowledged[name] = answer.headers["etag"]
                        continue
                    assert answer.status_code == 503, answer.text
                    if "not known" not in answer.text:
                        ledger.unknown.discard(name)
                        ledger.refused.add(name)
                pause(0.02)

    def _count(self, node: Node) -> None:
        """Count up, on the condition that nobody else has meanwhile."""
        with node.client() as client:
            while not self.ended:
                record = client.get("/Dog/count")
                if record.status_code == 503:  # a node that cannot begin says why
                    pause(0.02)
                    continue
                assert record.status_code == 200, record.text
                mine = {"If-Match": record.headers["etag"]}
                with self.ledger.lock:
                    self.ledger.perhaps += 1
                answer = client.put("/Dog/count", json={"n": record.json()["n"] + 1}, headers=mine)
                with self.ledger.lock:
                    known = answer.is_success or "not known" not in answer.text
                    self.ledger.perhaps -= known
                    self.ledger.counted += answer.is_success
                assert answer.status_code in {204, 412, 503}, answer.text
                pause(max(0.01, self._pace))

    def _follow(self, node: Node) -> None:
        """Read on with the cursor, at whichever node; a connection is left now and then."""
        ids = self.read[node.name]
        there = random.choice(list(self.cluster.nodes.values()))
        with Events(there, "/Dog/", ids[-1] if ids else self._since) as stream:
            stream.socket.settimeout(3.0)
            if stream.status == 503:  # this node is behind: the reader goes on at another one
                return
            assert stream.status == 200, stream.status
            for event in stream:
                if event.fields.get("status") == 503:  # the last word of a node without a disk
                    return
                if event.kind in {"put", "patch"}:
                    ids.append(event.id)
                elif event.kind != "current":
                    raise AssertionError(f"a reader was told {event.text}")
                if ids[-1:] == [self._last] or (len(ids) % 500 == 0 and not self.ended):
                    return


FAULTS = ("kill sequencer", "kill follower", "kill engine", "kill two", "pause sequencer")
FAULTS += ("pause follower", "pause engine")
CUTS = ("cut sequencer", "cut follower")
FILLS = ("fill sequencer", "fill follower", "fill tables", "fill engine")
DiskOf = Callable[[str, Node, Postgres | None], Disk]
DISKS: dict[str, DiskOf] = {"limits": limited, "mounts": small}


class Faults:
    """Has something go wrong, and mends it; ``database`` is where the log is, unless in NATS."""

    def __init__(
        self,
        cluster: Cluster,
        rng: random.Random,
        database: Postgres | None = None,
        disk: DiskOf = limited,
    ) -> None:
        self._cluster, self._rng, self._database = cluster, rng, database
        self._disk = disk

    def have(self, kind: str) -> None:
        """Have one fault of a kind, such as ``kill follower``."""
        how, _, what = kind.partition(" ")
        seconds = self._rng.random() * FAULT_SECONDS_MAX
        sequencer, nodes = self._cluster.settle(), list(self._cluster.nodes.values())
        follower = self._rng.choice(self._cluster.followers)
        if how == "fill":
            node = {"sequencer": sequencer, "follower": follower}.get(what)
            self._fill(what, node or self._rng.choice(nodes), seconds * FULL_TIMES)
        elif what == "engine":
            self._engine(how, self._rng.choice(nodes), seconds)
        else:
            chosen = {"sequencer": [sequencer], "follower": [follower]}.get(what)
            getattr(self, f"_{how}")(chosen or self._rng.sample(nodes, 2), seconds)

    def _fill(self, what: str, node: Node, seconds: float) -> None:
        """Have no room on a disk, for long enough that it is noticed."""
        disk, until = self._disk(what, node, self._database), time.monotonic() + seconds
        told = what == "engine" and self._database is not None  # which is no node's

        def is_over() -> bool:
            nonlocal told
            disk.fill()
            told = told or tells(node)
            return told and time.monotonic() > until

        try:
            wait_until(is_over, f"node {node.name} tells that its disk is full")
        finally:
            disk.free()
        if self._database is not None:
            self._database.go_on()

    def _kill(self, nodes: list[Node], seconds: float) -> None:
        for node in nodes:
            node.kill()
        pause(seconds)
        for node in nodes:
            node.launch()

    def _pause(self, nodes: list[Node], seconds: float) -> None:
        (node,) = nodes
        stop(node.running.pid, seconds)

    def _cut(self, nodes: list[Node], seconds: float) -> None:
        """Cut a node off; longer than others wait for a sign of life, now and then."""
        cluster, (node,) = self._cluster, nodes
        assert cluster.network is not None
        number = cluster.number(node)
        cluster.network.cut(number)
        pause(seconds * CUT_TIMES)
        cluster.network.mend(number)

    def _engine(self, how: str, node: Node, seconds: float) -> None:
        if self._database is None:
            (server,) = wait_until(lambda: engines_of(node), "its NATS server runs")
            if how == "kill":
                os.kill(server, signal.SIGKILL)
            else:
                stop(server, seconds)
        elif how == "kill":
            self._database.start("restart", "-m", "immediate")
        else:
            with self._database.paused():
                pause(seconds)


def tells(node: Node) -> bool:
    """Whether a node is not ready, and says that it is for its disk."""
    try:
        answer = node.request("GET", "/health/ready")
    except GONE:
        return False
    return answer.status_code == 503 and FULL.search(answer.text) is not None


def stop(pid: int, seconds: float) -> None:
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    pause(seconds)
    os.kill(pid, signal.SIGCONT)


def digest(node: Node) -> str:
    """Return a digest of a node's records."""
    found = hashlib.sha256()
    for path in ("/Dog/?sort(+id)&limit(1000000)", "/Counter/?sort(+id)"):
        answer = node.request("GET", path)
        assert answer.status_code == 200, answer.text
        found.update(answer.content)
    return found.hexdigest()


def check(cluster: Cluster, work: Work) -> None:
    """Compare what is there with what was told."""
    ledger = work.ledger
    assert not ledger.wrong, ledger.wrong
    wait_until(lambda: len({digest(node) for node in cluster.running}) == 1, "equal digests")
    with cluster.running[0].client() as client:
        for name, etag in ledger.acknowledged.items():
            record = client.get(f"/Dog/{name}")
            assert record.headers.get("etag") == etag, (name, etag, record.text)
        for name in ledger.refused:
            assert client.get(f"/Dog/{name}").status_code == 404, f"{name} was refused"
        count = client.get("/Dog/count").json()["n"]
    low, high = ledger.counted, ledger.counted + ledger.perhaps
    assert low <= count <= high, f"{count} counted, {low} acknowledged, {high} perhaps"
    first, *others = work.read.values()
    numbers = [int(id_.rpartition(":")[2]) for id_ in first]
    assert numbers == sorted(set(numbers)), "a reader has read something twice, or back"
    for ids in others:
        assert ids == first, "two readers have not read the same"
    there = {etag.strip('"') for etag in ledger.acknowledged.values()}
    assert there <= set(first), f"{len(there - set(first))} acknowledged were not read"


@dataclass
class Plan:
    """What is to be run."""

    rounds: int
    seed: int
    kinds: tuple[str, ...] = FAULTS
    network: Network | None = None
    database: Postgres | None = None
    disks: str = "limits"
    """How disks are full: a key of ``DISKS``."""
    pace: float = 0.0
    """Seconds that each writer waits between two writes."""


def run(folder: Path, plan: Plan, say: Callable[[str], object] = print) -> tuple[Work, list[Pair]]:
    """Have so many faults; raise on the first wrong thing."""
    rng = random.Random(plan.seed)
    engine = {} if plan.database is None else {"cluster.engine": plan.database.url}
    cluster = Cluster(folder, network=plan.network, **engine)
    with ExitStack() as closing:
        if plan.disks == "mounts":
            for place in places(cluster, engines=plan.database is None):
                closing.enter_context(mounted(place))
        closing.enter_context(cluster)
        work, play = Work(cluster, plan.pace), Play(Door(cluster), rng, plan.pace)
        faults = Faults(cluster, rng, plan.database, DISKS[plan.disks])
        work.start()
        play.start()
        try:
            wait_until(lambda: work.is_busy() and play.is_busy(BUSY_MESSAGES), "work to disturb")
            for count in range(1, plan.rounds + 1):
                pause(rng.random() * WORK_SECONDS_MAX)
                kind = rng.choice(plan.kinds)
                begun = time.monotonic()
                faults.have(kind)
                mended = time.monotonic()
                cluster.settle()
                say(
                    f"round {count}: {kind}, mended after {mended - begun:.1f} s, settled "
                    f"{time.monotonic() - mended:.1f} s later; "
                    f"{len(work.ledger.acknowledged)} written, "
                    f"{work.ledger.counted} counted, {sum(pair.arrived for pair in play.pairs)} "
                    "messages"
                )
                assert not any(pair.wrong for pair in play.pairs), play.pairs
                assert not work.ledger.wrong, work.ledger.wrong
        finally:
            try:
                play.finish()
            finally:
                work.finish()
        assert not any(pair.wrong for pair in play.pairs), play.pairs
        check(cluster, work)
    return work, play.pairs


def main() -> None:
    """Run the rounds that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="scripts/kill cluster", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("rounds", nargs="?", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--engine", choices=("nats", "postgres"), default="nats")
    parser.add_argument("--cuts", action="store_true", help="cut links, too; needs root")
    parser.add_argument(
        "--disks",
        choices=DISKS,
        help="fill disks, too: by limits of processes, or small file systems, which needs root",
    )
    parser.add_argument("--only", default="", help="faults that begin so, such as fill")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between two writes")
    options = parser.parse_args()
    if options.cuts and options.engine == "postgres":
        parser.error("--cuts needs an engine on each host: leave out --engine postgres")
    print(f"{options.rounds} rounds, --seed {options.seed}; {PATIENCE_SECONDS} s of patience")
    plan = Plan(options.rounds, options.seed, pace=options.pace)
    with ExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="rowcast-kill-"))
        if options.cuts:
            plan.network = closing.enter_context(Network(3))
            plan.kinds += (*CUTS, *CUTS)
        if options.disks:
            plan.kinds, plan.disks = plan.kinds + FILLS, options.disks
        plan.kinds = tuple(kind for kind in plan.kinds if kind.startswith(options.only))
        if options.disks == "mounts":
            own_mounts()
        if options.engine == "postgres":
            disk = mounted if plan.disks == "mounts" else nullcontext
            plan.database = closing.enter_context(running_postgres(disk))
        work, pairs = run(Path(folder), plan, lambda line: print(line, flush=True))
    ledger = work.ledger
    print(
        f"nothing is lost: {len(ledger.acknowledged)} records acknowledged, "
        f"{len(ledger.refused)} refused, {len(ledger.unknown)} without an answer; "
        f"{ledger.counted} counts; {len(next(iter(work.read.values())))} events read by each of "
        f"{len(work.read)} readers"
    )
    print("\n".join(map(str, pairs)))


if __name__ == "__main__":
    sys.exit(main())
