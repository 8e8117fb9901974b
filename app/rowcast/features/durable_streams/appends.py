"""Appends: what is appended, and how the state of a stream changes with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.core.durable_stream_limits import DURABLE_PRODUCERS_MAX
from rowcast.core.facts import Change
from rowcast.features.durable_streams.stream import ProducerNumber, Stream

OWNER: Final = "stream/"
"""The prefix of owners of the facts of streams, followed by the topic."""
STATE: Final = "state"
PRODUCER: Final = "producer:"
"""The prefix of names of facts about producers."""


@dataclass(frozen=True, slots=True)
class Append:
    """What is appended: messages, or bytes as one; none only to close the stream."""

    messages: Sequence[bytes] = ()
    mark: ProducerNumber | None = None
    seq: str = ""
    closes: bool = False
    producers_max: int = DURABLE_PRODUCERS_MAX
    """How many producers the stream remembers after it."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of an append."""

    stream: Stream
    repeat: bool = False
    number: int = 0
    """The last number of its producer."""


def changes_of(stream: Stream, content: Append, tail: int) -> list[Change]:
    """Return the facts after an append; changes nothing, because it may be asked again."""
    owner, mark = OWNER + stream.topic, content.mark
    changed: dict[str, object] = {"tail": tail, "first": first_of(stream, content, tail)}
    if content.seq:
        changed["seq"] = content.seq
    if content.closes:
        changed["closed"] = True
        changed["closed_by"] = mark and mark.fields()
    changes = [Change(owner, STATE, stream.packed(**changed))]
    if mark is not None:
        value = f"{mark.epoch}:{mark.number}".encode()
        changes.append(Change(owner, PRODUCER + mark.producer, value))
        names = _forgotten(stream, content)
        changes += [Change(owner, PRODUCER + name, None) for name in names]
    return changes


def note(stream: Stream, content: Append) -> None:
    """Take over what was stored."""
    mark = content.mark
    if mark is not None:
        for name in _forgotten(stream, content):
            del stream.producers[name]
        stream.producers.pop(mark.producer, None)
        stream.producers[mark.producer] = (mark.epoch, mark.number)
    stream.seq = content.seq or stream.seq
    if content.closes:
        stream.closed, stream.closed_by = True, mark


def first_of(stream: Stream, content: Append, tail: int) -> int:
    """Return the position of a stream's first own event after an append, which ends at ``tail``.

    The events of one append have numbers that follow each other.
    """
    is_first = content.messages and stream.tail <= stream.start
    return tail - len(content.messages) + 1 if is_first else stream.first


def _forgotten(stream: Stream, content: Append) -> list[str]:
    """Return the producers that make room, those that were active least recently."""
    others = [name for name in stream.producers if content.mark and name != content.mark.producer]
    return others[: max(0, len(others) + 1 - content.producers_max)]
