"""Protocol violations of a peer.

One class is both what a reader raises and what a connection reports as its last item, so that a
breach has one form from the byte where it was found to the DISCONNECT that answers it. It must
not know how it is answered: whether a CONNACK, a DISCONNECT or only a close is due depends on
what was sent before, which the broker knows.
"""

from rowcast.core.errors import Code, Error
from rowcast.mqtt.reasons import Reason


class Violation(Error):  # noqa: N818 - the word of MQTT 5, 4.13
    """A breach of the specification: the reason to give and a sentence for the peer's author."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(Code.INVALID, message)
        self.reason = reason
        self.version = 0
        """The version that a CONNECT names which is refused for something else; 0 if none."""

    def __repr__(self) -> str:
        return f"Violation({self.reason.name}, {self.message!r})"


class UnsupportedVersion(Violation):
    """A CONNECT of a version that is not spoken here, and the CONNACK to send before closing."""

    def __init__(self, message: str, connack: bytes) -> None:
        super().__init__(Reason.UNSUPPORTED_PROTOCOL_VERSION, message)
        self.connack = connack


def malformed(message: str) -> Violation:
    """Return the violation that bytes which cannot be parsed are (MQTT 5, 4.13.1)."""
    return Violation(Reason.MALFORMED_PACKET, message)


def protocol_error(message: str) -> Violation:
    """Return the violation that well-formed bytes against the rules are (MQTT 5, 4.13.1)."""
    return Violation(Reason.PROTOCOL_ERROR, message)
