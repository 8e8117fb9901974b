"""README.md's commands, as they stand there: five minutes, and when to retain (O19)."""

import json
import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest
from clients import needs, run, running

from serving import ROWCAST, Server, wait_until
from talking import Mqtt

pytestmark = [pytest.mark.interop, needs("mosquitto_pub")]

ROOT = Path(__file__).parent.parent.parent


def blocks(heading):
    """Return the lines of each block of commands below a heading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"{heading}\n")[2].partition("\n#")[0]
    found = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [[shlex.split(line) for line in block.splitlines()] for block in found]


def examples():
    """Return the commands about records and messages: a reading and a word of a chat."""
    return [command for block in blocks("### Records and messages") for command in block]


def at(server, command):
    """Return a command for a server that has ports of its own."""
    program, *words = command
    if program.startswith("mosquitto_"):
        return [program, "-p", str(server.mqtt_port), *words]
    if program == "rowcast":
        return [str(ROWCAST), *words, "--url", server.url]
    return [program, "-s", *(word.replace("http://127.0.0.1:9926", server.url) for word in words)]


@needs("curl")
def test_five_minutes(tmp_path):
    """Each block does what the sentence above it says: write, read, watch, change, query."""
    (write, read), watches, (change,), (query, history) = blocks("## Five minutes")
    with (
        Server(tmp_path, (ROOT / "schema.graphql").read_text(encoding="utf-8")) as server,
        ExitStack() as stack,
    ):
        run(*at(server, write))
        record = json.loads(run(*at(server, read)))
        assert ("1", "Rex", "collie") == (record["id"], record["name"], record["breed"])
        assert record["created"]
        watching = [stack.enter_context(running(*at(server, command))) for command in watches]
        for program, (name, *_) in zip(watching, watches, strict=True):
            until_shown(program, b"connected to" if name == "rowcast" else b'"collie"')
        run(*at(server, change))
        for program in watching:
            until_shown(program, b'"border collie"')
        run(*at(server, write[:-1]), '{"name": "Bo", "breed": "poodle"}')
        other = [word.replace("Dog/1", "Dog/2") for word in write]
        run(*at(server, other))
        found = json.loads(run(*at(server, query)))
        assert [("2", "collie")] == [(row["id"], row["breed"]) for row in found]
        said = json.loads(run(*at(server, history)))
        assert ["collie", "border collie", "poodle"] == [row["value"]["breed"] for row in said]


def until_shown(program, text):
    """Read lines of a program until one has a text; spaces do not matter."""
    while text.replace(b" ", b"") not in (line := program.line()).replace(b" ", b""):
        assert line != b"(the program has ended)"


def test_a_reading_is_the_record_and_a_word_is_history(tmp_path):
    """Who comes later gets the reading, not the word; who is there gets both; the log has both."""
    reading, word = examples()
    with Server(tmp_path, (ROOT / "schema.graphql").read_text(encoding="utf-8")) as server:
        port = ("-p", str(server.mqtt_port))
        with Mqtt(server.mqtt_port) as there:
            there.subscribe("Weather/+", 1)
            there.subscribe("Chat/+", 1)
            for command in (reading, word):
                run(*command[:1], *port, *command[1:])
            assert ["Weather/JFK", "Chat/lobby"] == [there.message().topic for _ in range(2)]
        assert 39.0 == server.request("GET", "/Weather/JFK").json()["temp"]
        assert 404 == server.request("GET", "/Chat/lobby").status_code
        said = server.request("GET", "/Chat/lobby?last=10").json()
        assert ["hello"] == [item["value"]["subject"] for item in said]
        with Mqtt(server.mqtt_port) as late:
            late.subscribe("Chat/+", 1)
            late.subscribe("Weather/+", 1)
            assert "Weather/JFK" == wait_until(late.message, "the reading comes").topic
