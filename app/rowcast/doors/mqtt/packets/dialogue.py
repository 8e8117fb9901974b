"""What a client knows of an authentication that is under way."""

from typing import Protocol

from rowcast.mqtt.packets import Auth


class Dialogue(Protocol):
    """An authentication by AUTH packets, which may need several of them (MQTT 5, 4.12)."""

    def take(self, packet: Auth) -> None:
        """Process an AUTH. Raises a Violation for an unexpected one."""

    def abandon(self) -> None:
        """Hear that the connection ends."""
