"""The closed list of errors.

Everything that Rowcast refuses is an ``Error`` with one of the codes below; any other exception is
a bug. An edge maps a code to its protocol once and shows ``message`` to the
caller; the text of any other exception is never shown.
"""

from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """Why something was refused."""

    INVALID = "invalid"
    """The bytes cannot be decoded or parsed."""
    UNPROCESSABLE = "unprocessable"
    """Well formed, but a value is not of the declared type: the second face of INVALID."""
    UNAUTHENTICATED = "unauthenticated"
    """The caller has not proved who it is."""
    DENIED = "denied"
    """The caller is known and may not do this."""
    NOT_FOUND = "not_found"
    """Nothing is at this topic or path."""
    NOT_ALLOWED = "not_allowed"
    """The resource exists and does not offer this verb: the second face of NOT_FOUND."""
    CONFLICT = "conflict"
    """Another writer was first; the current version is attached."""
    PRECONDITION = "precondition"
    """A condition of the caller's does not hold: the second face of CONFLICT."""
    GONE = "gone"
    """The history asked for is no longer kept."""
    TOO_LARGE = "too_large"
    """Over a size limit."""
    UNSUPPORTED = "unsupported"
    """A media type that is not understood here."""
    NOT_ACCEPTABLE = "not_acceptable"
    """No media type offered is accepted: the second face of UNSUPPORTED."""
    BUSY = "busy"
    """Too much at once, or the disk refuses; the same request may succeed later."""
    INTERNAL = "internal"
    """A mistake of the server or a resource: the log has it under an id; its text is not shown."""


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
"""Refusals of what was written, and not of who wrote it or of when."""


class Error(Exception):
    """A refusal: its code, a sentence for the caller, and facts an edge may pass on.

    ``detail`` holds plain values, for example ``cursor`` (the current one, on CONFLICT) or
    ``retry_after_seconds`` (on BUSY) or ``allow`` (verbs, on NOT_ALLOWED).
    """

    def __init__(self, code: Code, message: str, **detail: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.place = ""
        """Where on this machine: for who runs a command or the server, and not for its callers."""

    @property
    def full(self) -> str:
        """The sentence with the place."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __repr__(self) -> str:
        return f"Error({self.code.name}, {self.message!r})"


def stopping() -> Error:
    """Return the answer to what is asked when the server goes."""
    return Error(Code.BUSY, "the server is stopping; try again in a moment")
