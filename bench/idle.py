"""Idle MQTT connections: what each of them costs the server in resident memory."""

import time
from typing import Any

from bench.links import open_mqtt
from bench.proc import cpu_seconds, rss_bytes

WARM_CONNECTIONS = 20
SETTLE_SECONDS = 0.5


def idle(spec: dict[str, Any]) -> dict[str, float]:
    """Open the connections, each with one subscription, and compare the memory."""
    port, pid, count = spec["mqtt_port"], spec["pid"], spec["connections"]
    for number in range(WARM_CONNECTIONS):
        open_mqtt(port, f"warm{number}", f"warm/{number}").close()
    time.sleep(SETTLE_SECONDS)
    memory, cpu = rss_bytes(pid), cpu_seconds(pid)
    socks = [open_mqtt(port, f"idle{number}", f"idle/{number:05}") for number in range(count)]
    time.sleep(SETTLE_SECONDS)
    figures = {
        "bytes": (rss_bytes(pid) - memory) / count,
        "server_us": (cpu_seconds(pid) - cpu) * 1e6 / count,
        "connections": float(count),
    }
    for sock in socks:
        sock.close()
    return figures
