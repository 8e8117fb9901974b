"""What features cost: measured one by one, and declared in docs/costs.md. No time is asserted."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.costs import FEATURES, SERVERS
from bench.costs_cli import BEGIN, END, HEADINGS, PAGE, SMALLEST, table
from bench.costs_run import measure
from bench.proc import accepts
from serving import PATIENCE_SECONDS, ROWCAST, STARTER, TooLate, environment, wait_until

NAMES = [feature.name for feature in FEATURES]
BASES = [feature.base for feature in FEATURES]


class Forked:
    """A server that need not import itself anew."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        command = [str(ROWCAST), *arguments]
        self._log = folder / "server.log"
        with self._log.open("wb") as log, Path(os.devnull).open("rb") as nothing:
            files = (nothing, log, log)
            self._process = STARTER.start(command, folder, environment(), files)
        self.pid = self._process.pid

    def wait_ready(self, ports: Sequence[int]) -> None:
        def listens() -> bool:
            assert self._process.poll() is None, self._log.read_text()
            return all(map(accepts, ports))

        try:
            wait_until(listens, f"it listens on {ports}")
        except TooLate as late:
            raise TooLate(f"{late}\n{self._log.read_text()}") from late

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)


def declared(text: str) -> list[list[str]]:
    """Return the rows of the table between the markers."""
    between = text.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in between.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines]


def test_the_document_names_the_features_that_are_measured() -> None:
    """O17: neither one that is not measured, nor one that is not declared."""
    heads, _, *rows = declared(PAGE.read_text(encoding="utf-8"))
    assert list(HEADINGS) == heads
    assert [feature.title for feature in FEATURES] == [row[0] for row in rows]


def test_each_feature_is_beside_one_that_is_measured() -> None:
    """O17: one difference at a time, down to the bare case."""
    assert len(set(NAMES)) == len(NAMES)
    without = [name for name, base in zip(NAMES, BASES, strict=True) if base not in NAMES]
    assert ["bare"] == without
    assert set(SERVERS) == {feature.server for feature in FEATURES}


@pytest.mark.slow
def test_every_feature_can_be_measured(tmp_path: Path) -> None:
    """O17: in its smallest form; that the server has what is measured, its answers show."""
    found = measure(tmp_path, SMALLEST, Forked)
    assert NAMES == list(found)
    assert all(figures["cpu"] > 0 < figures["latency"] for figures in found.values())
    assert 2 + len(NAMES) == len(table(found))
