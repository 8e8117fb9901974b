"""What clients are told when their server, or their node, stops (MQTT 5, 4.11)."""

import asyncio
import logging
from collections.abc import Sized
from secrets import randbelow

from rowcast.core.limits import MQTT_CLOSE_SECONDS
from rowcast.core.overload_limits import GOODBYE_RETRY_MS_MIN, GOODBYE_RETRY_SPREAD_MS
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Disconnect
from rowcast.mqtt.reasons import Reason

log = logging.getLogger("rowcast.mqtt")


def disconnect_reason(server_reference: str) -> tuple[Reason, str, dict[str, object]]:
    """Return the reason, the words and the properties: when to come back, or where to go instead.

    ``server_reference`` is the other server (MQTT 5, 3.14.2.2.5); empty without one.
    """
    if server_reference:
        words = "the server is shutting down; use the other one meanwhile"
        return Reason.USE_ANOTHER_SERVER, words, {"server_reference": server_reference}
    milliseconds = GOODBYE_RETRY_MS_MIN + randbelow(GOODBYE_RETRY_SPREAD_MS)
    when: dict[str, object] = {"user_property": (("retry-after-ms", str(milliseconds)),)}
    return Reason.SERVER_SHUTTING_DOWN, "the server is shutting down", when


def disconnect_bytes(server_reference: str, bytes_max: int, *, problems: bool) -> bytes:
    """Return DISCONNECT with what fits into ``bytes_max``, the client's Maximum Packet Size.

    0: no limit. ``problems``: whether it wants a Reason String. Empty where nothing fits.
    """
    reason, words, where = disconnect_reason(server_reference)
    said: dict[str, object] = {"reason_string": words} if problems else {}
    for properties in (said | where, where, None):  # MQTT-3.14.2-3, MQTT-3.14.2-4
        frame = encode(Disconnect(reason, properties), MQTT_5)
        if not bytes_max or len(frame) <= bytes_max:
            return frame
    return b""


async def all_gone(clients: Sized, emptied: asyncio.Event) -> None:
    """Wait until all clients are gone; ``emptied`` is set when the last one leaves.

    Each cuts its transport itself when the peer does not take the end.
    """
    if not clients:
        return
    try:
        async with asyncio.timeout(2 * MQTT_CLOSE_SECONDS):
            await emptied.wait()
    except TimeoutError:
        log.warning("%d connections did not end in time", len(clients))
