"""The base of values that are built for each message: compared and shown by their fields.

It does what ``dataclass`` does, but mypyc builds an object of a decorated class slowly: a tenth of
a microsecond for each, and as much again for each of its defaults.
"""

from typing import ClassVar


class PlainValue:
    """A value with the fields that ``FIELDS`` names, in the order of its constructor."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self.FIELDS
        )

    __hash__ = None  # type: ignore[assignment] # its fields change

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({shown})"
