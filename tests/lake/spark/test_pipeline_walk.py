"""The walk of docs/spark.md, "Quick start", typed as it stands there."""

import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from typer.testing import CliRunner

from house import ROOT
from serving import ROWCAST, Server, environment, wait_until
from test_docs import blocks, commands, section

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="NO SPARK: the walk is NOT tested here")

from rowcast.program.cli import command  # noqa: E402

SPARK = ROOT / "docs/spark.md"
READINGS = 900
"""Of the 26,115 that the walk loads: the same commands, in less time."""


class Walker:
    """Types commands in the server's folder, with the same session of Spark for all."""

    def __init__(self, server):
        self.server, self.tails, self.said = server, [], []
        self.environment = environment() | {"ROWCAST_URL": server.url}

    def type(self, words):
        name, *rest = words
        if name == "scripts/load":
            port = self.server.settings["mqtt.network.port"]
            script = [sys.executable, ROOT / "scripts" / "replay.py", *rest]
            self._run([*script, "--limit", READINGS, "--port", port])
        elif name == "curl":
            parts = urlsplit(rest[-1])
            answer = httpx.get(f"{self.server.url}{parts.path}?{parts.query}")
            self.said.append(answer.json())
        elif rest[:1] == ["tail"]:
            self.tails.append(
                subprocess.Popen(
                    [ROWCAST, *rest], stdout=subprocess.PIPE, text=True, env=self.environment
                )
            )
        elif rest[:1] == ["pipeline"]:
            done = CliRunner().invoke(command, rest, env={"ROWCAST_URL": self.server.url})
            assert done.exit_code == 0, (rest, done.output, done.exception)
            self.said.append(done.output)
        else:
            self._run([ROWCAST, *rest])

    def _run(self, words):
        done = subprocess.run(
            list(map(str, words)),
            cwd=self.server.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)

    def close(self):
        for tail in self.tails:
            tail.kill()
            tail.wait()
            tail.stdout.close()


def test_the_walk_of_the_readme(spark, tmp_path, monkeypatch):
    """S9, S14: real data live, export, roll up, write back, watch it arrive, look at a plot."""
    text = section(SPARK.read_text(), "Quick start")
    typed = [words for block in blocks(text, "sh") for words in commands(block)]
    assert len(typed) == 9
    schema = (ROOT / "schema.graphql").read_text()
    monkeypatch.chdir(tmp_path)
    with Server(tmp_path, schema) as server:
        walker = Walker(server)
        try:
            for words in typed:
                walker.type(words)
                if "tail" in words:
                    wait_until(lambda: is_watched(server), "rowcast tail is there")
            printed, written, hottest, plotted, anomalies = walker.said
            assert re.search(r"WeatherStats of .*: (\d+) rows, \1 written, 0 unchanged", written)
            days = READINGS // 3 // 24
            assert "JFK/temp/1d/2013-01-01" not in printed.splitlines()[0]
            assert "EWR/humid/1d/2013-01-01T00:00:00Z" in printed
            arrived = (line for line in walker.tails[0].stdout if "  put  " in line)
            seen = {line.split()[2] for line in islice(arrived, 3 * 2 * days)}
            assert 3 * 2 * days == len(seen)
            assert "WeatherStats/JFK/temp/1d/2013-01-02T00:00:00Z" in seen
            assert 3 == len(hottest)
            assert hottest[0]["max"] >= hottest[1]["max"] >= hottest[2]["max"] > 39
            assert "plot.svg" in plotted
            assert Path("plot.svg").read_text().count('class="line"') == 3
            assert "WeatherAnomaly of" in anomalies
            # Once more on the same cut: not one event.
            before = last_event(server)
            walker.type(next(words for words in typed if "--out" in words and "--to" in words))
            assert before == last_event(server)
        finally:
            walker.close()


def last_event(server):
    """The newest of the statistics."""
    return httpx.get(f"{server.url}/WeatherStats/", params={"last": 1}).json()[0]["_seq"]


def is_watched(server):
    """Whether somebody watches the statistics."""
    told = httpx.get(f"{server.url}/$SYS/events/", params={"last": 50}).json()
    return any(row["value"].get("filter") == "WeatherStats/#" for row in told)
