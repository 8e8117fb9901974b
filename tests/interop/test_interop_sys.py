"""``$SYS/broker`` beside a real Mosquitto: names of topics and forms of payloads (F24)."""

import re
import socket
import subprocess

import pytest
from clients import needs, running

from serving import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.interop, needs("mosquitto"), needs("mosquitto_sub")]

FORMS = (r"\d+", r"\d+\.\d\d", r"\d+ seconds", r"\w+ version \d+(\.\d+)*")
LAST = {"$SYS/broker/clients/expired", "$SYS/broker/uptime", "$SYS/broker/version"}
TOPICS_MIN = 45
"""What Mosquitto 2 tells, without what depends on how it was built."""


def form(payload):
    """Return which of the forms a payload has."""
    return next(pattern for pattern in FORMS if re.fullmatch(pattern, payload))


def tree(port, wanted):
    """Return the topics below $SYS and their first payloads, as an exporter gets them."""
    found = {}
    options = ("-h", "127.0.0.1", "-p", port, "-t", "$SYS/#", "-F", "%t|%p")
    with running("mosquitto_sub", *options) as program:
        while not wanted(found):
            topic, payload = program.line().decode().split("|")
            found.setdefault(topic, payload)
    return found


@pytest.fixture
def mosquitto(tmp_path):
    """A Mosquitto on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nsys_interval 1\npersistence false\n"
    )
    process = subprocess.Popen(
        ["mosquitto", "-c", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: _answers(port), "Mosquitto listens")
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


def _answers(port):
    with socket.socket() as connecting:
        return connecting.connect_ex(("127.0.0.1", port)) == 0


def test_what_mosquitto_tells_is_told_here_in_the_same_form(server, mosquitto):
    """F24: its exporters find each of their topics and read its payload."""
    theirs = tree(mosquitto, lambda found: found.keys() >= LAST and len(found) >= TOPICS_MIN)
    ours = tree(server.mqtt_port, lambda found: set(theirs) <= set(found))
    differing = {
        topic: (payload, ours[topic])
        for topic, payload in theirs.items()
        if form(payload) != form(ours[topic])
    }
    assert {} == differing
