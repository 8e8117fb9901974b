"""Producers of a stream: numbered appends without gaps, in epochs (Durable Streams, 5.2.1).

Each stream stores the epoch and the last number of a producer in the transaction of its append. The
marks of ``features/idempotency/`` are not used: they remember numbers in any order and per user,
and here a gap is refused, and a stream that is created anew knows no producer.
"""

from dataclasses import dataclass, field

from rowcast.core.errors import Code, Error
from rowcast.features.durable_streams.stream import ProducerNumber, Stream


@dataclass(frozen=True, slots=True)
class Refusal(Exception):  # noqa: N818 - it is the answer to an append, with what it says besides
    """An error, and the headers that belong to it."""

    error: Error
    headers: dict[str, str] = field(default_factory=dict)


def is_repeat(stream: Stream, mark: ProducerNumber) -> bool:
    """Whether an append was done before; raises Refusal for a wrong epoch or number."""
    known = stream.producers.get(mark.producer)
    name = f"the producer {mark.producer[:80]!r}"
    epoch, last = (mark.epoch, -1) if known is None else known
    if mark.epoch < epoch:
        words = f"{name} goes on in epoch {epoch}; epoch {mark.epoch} is over"
        raise Refusal(Error(Code.DENIED, words), {"Producer-Epoch": str(epoch)})
    if mark.epoch > epoch:
        if mark.number:
            words = f"{name} begins epoch {mark.epoch}, so its number is 0, not {mark.number}"
            raise Refusal(Error(Code.INVALID, words))
        return False
    if mark.number <= last:
        return True
    if mark.number > last + 1:
        if stream.closed:
            return False
        words = f"{name} skips numbers: {last + 1} comes next, not {mark.number}"
        raise Refusal(
            Error(Code.CONFLICT, words),
            {
                "Producer-Expected-Seq": str(last + 1),
                "Producer-Received-Seq": str(mark.number),
            },
        )
    return False
