"""When to retain: README.md's two examples, as they stand there (O19)."""

import re
import shlex
from pathlib import Path

import pytest
from clients import needs, run

from serving import Server, wait_until
from talking import Mqtt

pytestmark = [pytest.mark.interop, needs("mosquitto_pub")]

ROOT = Path(__file__).parent.parent.parent


def examples():
    """Return the commands below the heading, a reading and a word of a chat."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("### Records and messages\n")[2].partition("\n#")[0]
    return [shlex.split(block) for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


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
