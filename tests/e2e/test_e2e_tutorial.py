"""docs/tutorial.md, done as it stands there: every command runs, and answers what the page says.

Ports are free ones, so addresses are replaced, and Mosquitto's clients are told theirs. Commands
that watch run beside the others until the end, and print the change that the page makes.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from house import ROOT
from serving import PATIENCE_SECONDS, ROWCAST, Server, environment, wait_until

TUTORIAL = ROOT / "docs" / "tutorial.md"
TIMES = {"created", "updated"}
WATCHES = re.compile(r"rowcast tail|curl -N|mosquitto_sub (?!.*-C)")
CLIENTS = ("curl", "mosquitto_pub", "mosquitto_sub")
MISSING = [name for name in CLIENTS if shutil.which(name) is None]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)}: not installed"),
]


def steps():
    """Give each command of the page, with the answer that follows it, if one is shown."""
    text = TUTORIAL.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|json)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = []
    for language, block in blocks:
        if language == "sh":
            found += [[line, None] for line in block.splitlines()]
        else:
            found[-1][1] = json.loads(block)
    return found


class Reader:
    """A person at a terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Server | None = None
        self.watching: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.programs / "rowcast").symlink_to(ROWCAST)

    def type(self, line: str) -> str:
        """Do what a line says; return what it printed."""
        if line == "rowcast serve":
            self.serve()
        elif line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
        elif WATCHES.match(line):
            self.watch(line)
        else:
            done = self.shell(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = done.communicate(timeout=PATIENCE_SECONDS)
            assert 0 == done.returncode, (line, out, err)
            return out.decode()
        return ""

    def serve(self) -> None:
        """Start the server in the folder, or start it again."""
        if self.server is not None:
            self.server.stop()
            self.server.start()
            return
        schema = (self.folder / "schema.graphql").read_text()
        self.server = Server(self.folder, schema, self.folder / "resources")
        self.server.start()
        for name in CLIENTS[1:]:
            program = self.programs / name
            command = f'exec {shutil.which(name)} -p {self.server.mqtt_port} "$@"'
            program.write_text(f"#!/bin/sh\n{command}\n")
            program.chmod(0o700)

    def watch(self, line: str) -> None:
        """Leave a command running, and wait until it has printed what is there already."""
        file = self.folder / f"watching-{len(self.watching)}"
        with file.open("wb") as out:
            process = self.shell(line, stdout=out, stderr=out)
        self.watching.append((line, process, file))
        wait_until(lambda: file.stat().st_size, f"{line} prints something")

    def shell(self, line: str, **files: object) -> subprocess.Popen[bytes]:
        """Start a line in a shell."""
        variables = environment() | {"PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}
        if self.server is not None:
            line = line.replace("http://127.0.0.1:9926", self.server.url)
            variables["ROWCAST_URL"] = self.server.url
        return subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}" if WATCHES.match(line) else line],
            cwd=self.folder,
            env=variables,
            **files,
        )

    def leave(self) -> None:
        """End everything that was started."""
        for _, process, _ in self.watching:
            process.kill()
            process.wait(PATIENCE_SECONDS)
        if self.server is not None and self.server.process is not None:
            self.server.kill()


@pytest.fixture
def reader(tmp_path):
    person = Reader(tmp_path)
    yield person
    person.leave()


def selected(answer, expected):
    """Return the part of an answer that is shown on the page; times are those of the reader."""
    if isinstance(expected, dict):
        return {name: answer.get(name) if name not in TIMES else expected[name]
                for name in expected if name in answer}  # fmt: skip
    return [selected(*pair) for pair in zip(answer, expected, strict=True)]


def test_the_tutorial_does_what_it_says(reader):
    for line, expected in steps():
        printed = reader.type(line)
        if expected is None:
            assert '"status":4' not in printed, (line, printed)
        else:
            answer = json.loads(printed.splitlines()[-1])
            assert expected == selected(answer, expected), line
        if "PATCH" in line:
            for watched, _, file in reader.watching:
                wait_until(lambda file=file: '"age":5' in file.read_text(), watched)
    assert 3 == len(reader.watching)
