"""The command of `scripts/abuse`: one attack after the other, and a table of what came of it.

Where a client beside the attack waits more than twice as long, the attack is run again on a second
server: what the client of the first notices then is what a machine with that load costs anybody,
and no fault of the server that is attacked.
"""

import argparse
import multiprocessing
import os
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
RATIO_MAX = 2.0
"""The 99th percentile of others may at most double."""
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
    "filters": Plan(crowds.many_filters, 12, 2),  # later most of them are there
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
    "| delivery p99 | ratio | p99 of write, delivery beside an attack on another server | ratio "
    "| what came of it |"
)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/abuse", description=__doc__)
    parser.add_argument("attacks", nargs="*", help="beginnings of names; none: all of them")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    parser.add_argument("--set", action="append", default=[], help="a server's setting")
    parser.add_argument("--uvloop", action="store_true", help="run on it; no call is timed then")
    parser.add_argument("--count", type=int, default=10_000, help="live subscriptions (revoked)")
    given = parser.parse_args()
    if given.list:
        print(*PLANS, "revoked", sep="\n")
        return
    raise_descriptors()
    if given.uvloop:
        os.environ["ABUSE_UVLOOP"] = "yes"
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
    victim = _victim(folder / "victim", settings)
    try:
        alone = _alone(victim)
        calm = victim.usage()
        before = replace(victim.settled(calm), longest=calm.longest)
        with Peak(victim.process.pid) as peak:
            beside, said = _beside(plan, victim.target, victim.target)
        then = victim.usage()
        after = victim.settled(before)
    except Exception as failure:  # noqa: BLE001 - the next attack goes on
        return f"| {name} | the server or the attack failed: {failure!r}: {victim.process.tail()}"
    finally:
        victim.stop()
    control = None
    if max(_ratios(beside, alone)) > RATIO_MAX:
        control = _control(plan, folder, settings)
    return _line(name, (alone, beside, control), (before, peak.most, then, after), said)


def _victim(folder: Path, settings: list[str]) -> Victim:
    folder.mkdir()
    return Victim(folder, [*SETTINGS, *settings], {"root": "pencil"})


def _alone(victim: Victim) -> Noticed:
    measure(victim.target.mqtt_port, 2)  # warm
    return measure(victim.target.mqtt_port, 10)


def _control(plan: Plan, folder: Path, settings: list[str]) -> Noticed:
    """Return what is noticed at one server while another one is attacked."""
    calm, attacked = (_victim(folder / name, settings) for name in ("calm", "attacked"))
    try:
        _alone(calm)
        return _beside(plan, attacked.target, calm.target)[0]
    finally:
        calm.stop()
        attacked.stop()


def _beside(plan: Plan, attacked: Target, measured: Target) -> tuple[Noticed, str]:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    until = time.time() + plan.seconds
    process = context.Process(target=_attack, args=(plan.attack, attacked, until, results))
    process.start()
    time.sleep(plan.lead)
    beside = measure(measured.mqtt_port, max(5.0, until - time.time() - 1))
    said = results.get(timeout=180)
    process.join()
    return beside, said


def _attack(attack: Attack, target: Target, until: float, results) -> None:
    raise_descriptors()
    try:
        results.put(attack(target, until))
    except Exception as failure:  # noqa: BLE001 - told in the table
        results.put(f"the attack ended: {failure!r}")


def _ratios(beside: Noticed, other: Noticed) -> list[float]:
    return [
        beside.quantile(what, 0.99) / other.quantile(what, 0.99)
        for what in ("writes", "deliveries")
    ]


def _line(
    name: str,
    noticed: tuple[Noticed, Noticed, Noticed | None],
    used: tuple[Usage, int, Usage, Usage],
    said: str,
) -> str:
    alone, beside, control = noticed
    before, peak, then, after = used
    writes, deliveries = _ratios(beside, alone)
    shown = ""
    if control is not None:
        p99s = (control.quantile(what, 0.99) for what in ("writes", "deliveries"))
        ratios = (f"{ratio:.1f}" for ratio in _ratios(beside, control))
        shown = ", ".join(f"{p99:.1f}" for p99 in p99s) + " | " + ", ".join(ratios)
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
        shown or " | ",
        said + (f"; {beside.lost} LOST" if beside.lost else ""),
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
