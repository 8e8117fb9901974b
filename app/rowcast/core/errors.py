"""The closed list of errors.

Everything that Rowcast refuses is an ``Error`` with one of the codes below; any other exception is
a bug. A door maps a code to its protocol once and shows ``message`` to the caller; the text of any
other exception is never shown.
"""

from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """Why something was refused."""

    INVALID = "invalid"
    """The bytes cannot be decoded or parsed."""
    UNPROCESSABLE = "unprocessable"
    """Well formed, but a value is not of the declared type: a variant of INVALID."""
    UNAUTHENTICATED = "unauthenticated"
    """The caller has not proved who it is."""
    DENIED = "denied"
    """The caller is known and may not do this."""
    NOT_FOUND = "not_found"
    """Nothing is at this topic or path."""
    NOT_ALLOWED = "not_allowed"
    """The resource exists and does not support this verb: a variant of NOT_FOUND."""
    CONFLICT = "conflict"
    """Another writer was first; the current version is attached."""
    PRECONDITION = "precondition"
    """A condition of the caller is not met: a variant of CONFLICT."""
    GONE = "gone"
    """The requested history has been removed."""
    TOO_LARGE = "too_large"
    """Over a size limit."""
    UNSUPPORTED = "unsupported"
    """An unsupported media type."""
    NOT_ACCEPTABLE = "not_acceptable"
    """No available media type is acceptable: a variant of UNSUPPORTED."""
    BUSY = "busy"
    """Overload, or the disk is full; the same request may succeed later."""
    INTERNAL = "internal"
    """A bug of the server or of a resource: logged under an id; its text is not shown."""


UNFIT: Final = frozenset(
    {
        Code.INVALID,
        Code.UNPROCESSABLE,
        Code.NOT_FOUND,
        Code.NOT_ALLOWED,
        Code.TOO_LARGE,
        Code.UNSUPPORTED,
    }
)
"""Codes for invalid content, independent of the writer and the time."""


class Error(Exception):
    """An error: its code, a sentence for the caller, and facts that a door may pass on.

    ``detail`` holds plain values, for example ``cursor`` (the current one, on CONFLICT) or
    ``retry_after_seconds`` (on BUSY) or ``allow`` (verbs, on NOT_ALLOWED). ``elsewhere`` (on BUSY)
    says that this node is no longer the sequencer, or does not know the outcome of a write: a
    client should reconnect and send it again, to the node that is.
    """

    def __init__(self, code: Code, message: str, **detail: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.place = ""
        """A file or line on this machine: shown to the operator, not to callers."""

    @property
    def full(self) -> str:
        """The sentence, with the place prepended."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to make an equal one, for pickle: in another process."""
        facts = {"detail": self.detail, "place": self.place}
        return Error, (self.code, self.message), facts

    def __repr__(self) -> str:
        return f"Error({self.code.name}, {self.message!r})"


def stopping() -> Error:
    """Return the Error for requests during shutdown."""
    return Error(Code.BUSY, "the server is stopping; try again in a moment")
