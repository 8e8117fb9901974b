"""The command line of ``scripts/bench cluster``: what several nodes and processes cost, and give.

Everything that is compared runs in the same run, in rounds that take turns; a figure is the median
of its rounds. The generator is this process, on one core; where its share of that is near 100%, the
figure is the generator's.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from bench.case import NONE
from bench.cluster import loads, nodes
from bench.cluster.loads import Figures
from bench.proc import BenchError, Placement, apart, free_port
from bench.stats import Target, medians, spread
from bench.streams import Streams

WORKERS = 2
WARMUP_SHARE = 0.3
WINDOW = 16
"""Messages that are published and not yet at all subscribers."""
READERS = 30
SAMPLES = 300

Round = Callable[[], Figures]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asked for."""

    rounds: int
    seconds: float
    readers: int
    samples: int
    place: Placement

    @property
    def warmup(self) -> float:
        """Seconds before those that count."""
        return self.seconds * WARMUP_SHARE


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of a case beside that of its base."""

    base: str
    target: Target = NONE


def measure(cases: Mapping[str, Round], rounds: int) -> dict[str, list[Figures]]:
    """Run all cases in turn, the order rotating."""
    names = list(cases)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(cases[name]())
    return found


def lines(
    title: str, unit: str, found: Mapping[str, list[Figures]], compared: Mapping[str, Compared]
) -> list[str]:
    """Return a table: rate, its spread, the generator's share, and the ratio to another one."""
    figures = {name: medians(rounds) for name, rounds in found.items()}
    out = [f"{title} ({unit})"]
    for name, rounds in found.items():
        text = f"  {name:34}{figures[name]['rate']:>12,.0f}"
        text += f"  spread {spread(rounds, 'rate'):4.0%}"
        text += f"  generator {figures[name]['generator_share']:4.0%} of a core"
        if (each := compared.get(name)) is not None:
            ratio = figures[name]["rate"] / figures[each.base]["rate"]
            text += f"  {ratio:.2f}x of {each.base}"
            if (reached := each.target.reached(ratio)) is not None:
                text += f" (goal {each.target.at_least:g}x: {'yes' if reached else 'NO'})"
        out.append(text)
    return out


def writes(plan: Plan, folder: Path) -> list[str]:
    """Durable writes: one server, three nodes, and three servers of NATS alone."""
    with ExitStack() as stack:
        alone = stack.enter_context(nodes.one(folder / "alone", plan.place))
        three = stack.enter_context(nodes.three(folder / "three", plan.place))
        bare = stack.enter_context(nodes.nats(folder / "nats"))
        ports = [node.mqtt_port for node in three]
        times = plan.seconds, plan.warmup
        cases = {
            "one server": lambda: loads.writes([alone.mqtt_port], *times),
            "three nodes": lambda: loads.writes(ports[:1], *times),
            "three nodes, writers at all": lambda: loads.writes(ports, *times),
            "three nats-servers, no grouping": lambda: loads.nats_writes(bare, *times),
        }
        found = measure(cases, plan.rounds)
    compared = {
        "three nodes": Compared("one server", Target(at_least=0.5)),
        "three nodes, writers at all": Compared("one server", Target(at_least=0.5)),
        "three nats-servers, no grouping": Compared("three nodes"),
    }
    return lines("durable writes, MQTT QoS 1 retained", "writes/s", found, compared)


def lag(plan: Plan, folder: Path) -> list[str]:
    """How far a follower is behind, beside the sequencer itself."""
    with nodes.three(folder / "three", plan.place) as three:
        first, follower, _ = three
        cases = {
            "a reader at the sequencer": first,
            "a reader at a follower": follower,
        }
        found = measure(
            {
                name: lambda node=node: loads.lag(first.http_port, node.http_port, plan.samples)
                for name, node in cases.items()
            },
            plan.rounds,
        )
    out = ["from the answer to a PUT at the sequencer to the event (ms)"]
    for name, rounds in found.items():
        figures = medians(rounds)
        out.append(f"  {name:34}p50 {figures['p50_ms']:.1f}  p99 {figures['p99_ms']:.1f}")
    reached = medians(found["a reader at a follower"])["p99_ms"] < 50
    return [*out, f"  goal: p99 below 50 ms while cores are idle: {'yes' if reached else 'NO'}"]


def fan_out(plan: Plan, folder: Path) -> list[str]:
    """Publishers at one node, subscribers at all three; beside one server that has them all."""
    with ExitStack() as stack:
        alone = stack.enter_context(nodes.one(folder / "alone", plan.place))
        three = stack.enter_context(nodes.three(folder / "three", plan.place))

        def run(ports: list[int], pid: int) -> Figures:
            spec = stream_spec(plan, pid) | {"ports": ports}
            return loads.FanOut(spec).run()

        ports = [node.mqtt_port for node in three]
        found = measure(
            {
                "one server": lambda: run([alone.mqtt_port], alone.process.pid),
                "three nodes": lambda: run(ports, three[0].process.pid),
            },
            plan.rounds,
        )
    title = f"MQTT fan-out to {plan.readers} subscribers, a publisher at one node"
    return lines(title, "messages/s", found, {"three nodes": Compared("one server")})


def stream_spec(plan: Plan, pid: int) -> dict[str, object]:
    """Return what a load of streams is told."""
    spec = {"pid": pid, "warmup": plan.warmup, "seconds": plan.seconds, "window": WINDOW}
    return spec | {"readers": plan.readers, "path": "/Sensor/1", "protocol": "sse"}


def workers_tls(plan: Plan, folder: Path) -> list[str]:
    """TLS connects, each with a GET: a server, and one with workers."""
    folder.mkdir()
    tls = certificate(folder)
    secure = free_port()
    with ExitStack() as stack:
        own = tls | {"http.securePort": secure, "mqtt.network.securePort": free_port()}
        stack.enter_context(nodes.one(folder / "alone", plan.place, own))
        many = stack.enter_context(with_workers(folder / "workers", plan, tls))
        times = plan.seconds, plan.warmup
        cases = {
            "one process": lambda: loads.connects(secure, *times),
            f"{WORKERS} workers": lambda: loads.connects(many, *times),
        }
        found = measure(cases, plan.rounds)
    return lines("TLS connects, each with a GET", "connects/s", found, against_one())


def workers_sse(plan: Plan, folder: Path) -> list[str]:
    """SSE fan-out: a server, and one with workers."""
    with ExitStack() as stack:
        alone = stack.enter_context(nodes.one(folder / "alone", plan.place))
        many = stack.enter_context(with_workers(folder / "workers", plan, {}))

        def run(port: int) -> Figures:
            return Streams(stream_spec(plan, os.getpid()) | {"http_port": port}).run()

        cases = {
            "one process": lambda: run(alone.http_port),
            f"{WORKERS} workers": lambda: run(many),
        }
        found = measure(cases, plan.rounds)
    title = f"SSE fan-out to {plan.readers} readers"
    return lines(title, "events/s", found, against_one())


@contextmanager
def with_workers(folder: Path, plan: Plan, more: Mapping[str, object]) -> Iterator[int]:
    """Run a server with workers; gives the port that these share."""
    port = free_port()
    settings = {"workers.count": WORKERS, "workers.http_port": port, **more}
    if more:
        settings |= {"http.securePort": free_port(), "mqtt.network.securePort": free_port()}
    with nodes.one(folder, plan.place, settings):
        yield port


def certificate(folder: Path) -> dict[str, object]:
    """Write a certificate for this machine; return the settings that name it."""
    made = trustme.CA().issue_cert("localhost")
    shown, key = folder / "server.pem", folder / "server.key"
    made.cert_chain_pems[0].write_to_path(shown)
    made.private_key_pem.write_to_path(key)
    return {"tls.certificate": shown, "tls.privateKey": key}


def against_one() -> dict[str, Compared]:
    """Return that workers are compared with one process."""
    return {f"{WORKERS} workers": Compared("one process", Target(at_least=1.5))}


PHASES: dict[str, Callable[[Plan, Path], list[str]]] = {
    "writes": writes,
    "lag": lag,
    "fan-out": fan_out,
    "workers-tls": workers_tls,
    "workers-sse": workers_sse,
}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench cluster", description="Measure clusters and workers beside one process."
    )
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"of {', '.join(PHASES)} (all)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of a round (5)")
    parser.add_argument("--readers", type=int, default=READERS, help=f"of fan-out ({READERS})")
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"of lag ({SAMPLES})")
    parser.add_argument("--directory", help="where servers keep their data (the system's default)")
    options = parser.parse_args()
    if unknown := set(options.phases) - set(PHASES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose of {', '.join(PHASES)}")
    return options


def main() -> int:
    """Run the phases that were asked for, and print a table of each."""
    options, place = parse(), apart()
    if place.generator:
        os.sched_setaffinity(0, place.generator)
    plan = Plan(options.rounds, options.seconds, options.readers, options.samples, place)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before; medians of {plan.rounds} rounds")
    failed = 0
    for name in options.phases or PHASES:
        with tempfile.TemporaryDirectory(prefix="rowcast-bench-", dir=options.directory) as folder:
            try:
                print("", *PHASES[name](plan, Path(folder) / name), sep="\n", flush=True)
            except (BenchError, OSError) as error:
                failed = 1
                print(f"bench: {name} LEFT OUT: {error}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
