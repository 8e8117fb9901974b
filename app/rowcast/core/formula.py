"""A formula: how the value of a computed attribute comes from the record that it belongs to.

Tables, paths of conditions and readers all hold one, and none of them needs to know whether an
expression of the schema or a function of ``resources/`` is behind it. So this module imports
nothing.
"""

from collections.abc import Callable


class Formula:
    """What computes an attribute; ``of`` never raises, and gives None for what has no value.

    ``inputs`` are the stored attributes that it uses, directly or through other formulas; ``size``
    counts its operations, those of other formulas included.
    """

    __slots__ = ("inputs", "of", "size")

    def __init__(
        self, of: Callable[[object], object], inputs: frozenset[str], size: int = 1
    ) -> None:
        self.of = of
        self.inputs = inputs
        self.size = size
