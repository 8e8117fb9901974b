"""A formula: how the value of a computed attribute comes from the record that it belongs to.

Tables, paths of conditions and readers all hold one, and none of them needs to know whether an
expression of the schema or a function of ``resources/`` is behind it. So this module imports
nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operation on numbers that a store can compute: names are stored attributes."""

    sign: str
    left: "Term"
    right: "Term"


Term = Arithmetic | str | int | float


def _nothing(_value: object) -> object:
    return None


class Formula:
    """What computes an attribute; ``of`` never raises, and gives None for what has no value.

    ``inputs`` are the stored attributes that it uses, directly or through other formulas; ``size``
    counts its operations, those of other formulas included. ``term`` is the same for a store, which
    has a number for it wherever ``of`` has one, but perhaps more often; None: it has none.
    """

    __slots__ = ("inputs", "of", "size", "term")

    def __init__(
        self,
        of: Callable[[object], object],
        inputs: frozenset[str],
        size: int = 1,
        term: Term | None = None,
    ) -> None:
        self.of = of
        self.inputs = inputs
        self.size = size
        self.term = term

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it as one that computes nothing: another process only checks what is written."""
        return Formula, (_nothing, self.inputs, self.size, self.term)
