"""The command of `scripts/abuse`: one attack after the other, and a table of what came of it."""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.abuse import bombs, crowds, heavy, revoked, scans, slow
from bench.abuse.probe import Noticed, measure
from bench.abuse.talk import raise_descriptors
from bench.abuse.victim import Peak, Target, Usage, Victim

Attack = Callable[[Target, float], str]
LEAD_SECONDS = 3.0
"""From the beginning of an attack to the measuring beside it."""
SETTINGS = ("mqtt.requireAuthentication=false",)
"""There is a user, so that passwords can be guessed, and everybody on this machine may come in."""
MB = 1e6


@dataclass(frozen=True, slots=True)
class Plan:
    """An attack, and for how long it has to go on to be felt."""

    attack: Attack
    seconds: float = 12.0
    lead: float = LEAD_SECONDS


PLANS = {
    "head": Plan(slow.http_head, 35),
    "body": Plan(slow.http_body, 65),
    "ws-handshake": Plan(slow.ws_handshake, 35),
    "ws-frame": Plan(slow.ws_frame, 45),
    "mqtt-connect": Plan(slow.mqtt_connect, 14),
    "mqtt-publish": Plan(slow.mqtt_publish, 20),
    "tls": Plan(slow.tls_handshake, 14),
    "unfinished": Plan(slow.unfinished, 20, 10),
    "flood": Plan(slow.flood_alone),
    "stopped": Plan(slow.stopped_readers, 20),
    "crowd": Plan(crowds.crowd, 40, 20),
    "aborts": Plan(crowds.aborts, 60),
    "deep-filters": Plan(crowds.deep_filters, 15, 5),
    "filters": Plan(crowds.many_filters, 30, 15),
    "wills": Plan(crowds.wills),
    "tickets": Plan(crowds.tickets),
    "guesses": Plan(crowds.guesses, 20),
    "lockout": Plan(crowds.lockout, 60),
    "bombs": Plan(bombs.refused_bodies, 30),
    "large": Plan(bombs.kept_bodies, 15),
    "inflating": Plan(bombs.inflating),
    "queries": Plan(bombs.queries),
    "scans": Plan(scans.scans, 45, 25),
    "cursors": Plan(bombs.far_cursors),
    "bytes": Plan(heavy.few_large, 15),
    "small-flood": Plan(heavy.many_small, 15),
    "large-flood": Plan(heavy.many_middle, 15),
    "maps": Plan(heavy.maps, 60, 10),
}
HEAD = (
    "| attack | RSS MB before, peak, after | descriptors | sessions | tasks "
    "| longest call in the loop ms | write p50 / p99 ms before | during | ratio of p99 "
    "| delivery p99 | ratio | what came of it |"
)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/abuse", description=__doc__)
    parser.add_argument("attacks", nargs="*", help="beginnings of names; none: all of them")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    parser.add_argument("--set", action="append", default=[], help="a server's setting")
    parser.add_argument("--count", type=int, default=10_000, help="live subscriptions (revoked)")
    given = parser.parse_args()
    if given.list:
        print(*PLANS, "revoked", sep="\n")
        return
    raise_descriptors()
    if given.attacks[:1] == ["revoked"]:
        revoked.main(given.count, given.attacks[1:])
        return
    chosen = [n for n in PLANS if not given.attacks or n.startswith(tuple(given.attacks))]
    print(HEAD)
    print("|" + " --- |" * (HEAD.count("|") - 1), flush=True)
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="rowcast-abuse-") as folder:
            print(_row(name, PLANS[name], Path(folder), given.set), flush=True)


def _row(name: str, plan: Plan, folder: Path, settings: list[str]) -> str:
    victim = Victim(folder, [*SETTINGS, *settings], {"root": "pencil"})
    try:
        port = victim.target.mqtt_port
        measure(port, 2)  # warm
        alone = measure(port, 10)
        calm = victim.usage()
        before = replace(victim.settled(calm), longest=calm.longest)
        with Peak(victim.process.pid) as peak:
            beside, said = _beside(plan, victim)
        then = victim.usage()
        after = victim.settled(before)
        return _line(name, alone, beside, (before, peak.most, then, after), said)
    except Exception as failure:  # noqa: BLE001 - the next attack goes on
        return f"| {name} | the server or the attack failed: {failure!r}: {victim.process.tail()}"
    finally:
        victim.stop()


def _beside(plan: Plan, victim: Victim) -> tuple[Noticed, str]:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    until = time.time() + plan.seconds
    process = context.Process(target=_attack, args=(plan.attack, victim.target, until, results))
    process.start()
    time.sleep(plan.lead)
    beside = measure(victim.target.mqtt_port, max(5.0, until - time.time() - 1))
    said = results.get(timeout=180)
    process.join()
    return beside, said


def _attack(attack: Attack, target: Target, until: float, results) -> None:
    raise_descriptors()
    try:
        results.put(attack(target, until))
    except Exception as failure:  # noqa: BLE001 - told in the table
        results.put(f"the attack ended: {failure!r}")


def _line(
    name: str, alone: Noticed, beside: Noticed, used: tuple[Usage, int, Usage, Usage], said: str
) -> str:
    before, peak, then, after = used
    writes, deliveries = (
        beside.quantile(what, 0.99) / alone.quantile(what, 0.99)
        for what in ("writes", "deliveries")
    )
    cells = (
        name,
        f"{before.rss / MB:.0f}, {max(peak, after.rss) / MB:.0f}, {after.rss / MB:.0f}",
        f"{before.descriptors} {after.descriptors}",
        f"{before.sessions} {after.sessions}",
        f"{before.tasks} {after.tasks}",
        f"{before.longest * 1e3:.0f} {then.longest * 1e3:.0f}",
        f"{alone.quantile('writes', 0.5):.1f} / {alone.quantile('writes', 0.99):.1f}",
        f"{beside.quantile('writes', 0.5):.1f} / {beside.quantile('writes', 0.99):.1f}",
        f"{writes:.1f}",
        f"{beside.quantile('deliveries', 0.99):.1f}",
        f"{deliveries:.1f}",
        said + (f"; {beside.lost} LOST" if beside.lost else ""),
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
