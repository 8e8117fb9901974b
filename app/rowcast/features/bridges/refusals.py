"""What another broker refuses, in words: reason codes of its answers (MQTT 5, 2.4)."""

from collections.abc import Callable, Sequence
from typing import Final

REFUSED: Final = 0x80
"""Reason codes from here on are errors."""
REASONS: Final = {
    0x80: "unspecified error",
    0x83: "implementation specific error",
    0x87: "not authorized",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x99: "payload format invalid",
}


def refusal_text(reason: int) -> str:
    """Return the words for a reason code, and the code."""
    return f"{REASONS.get(reason, 'refused')} (0x{reason:02x})"


def note_refused(
    filters: Sequence[tuple[str, int]],
    note: Callable[[str], None],
    _client: object,
    _mid: int,
    granted: Sequence[int],
    _properties: object,
) -> None:
    """Tell which filters a SUBACK refuses (MQTT 5, 3.9.3; 3.1.1 has 0x80 alone)."""
    refused = [
        f"{text!r}, {refusal_text(reason)}"
        for (text, _), reason in zip(filters, granted, strict=False)
        if reason >= REFUSED
    ]
    if refused:
        note(f"the broker refuses the subscription to {'; '.join(refused)}")
