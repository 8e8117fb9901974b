"""Offsets: positions of the log as texts, which sort as the positions do."""

from rowcast.core.errors import Code, Error
from rowcast.kernel.kernel import Kernel


def offset_of(kernel: Kernel, position: int) -> str:
    """Return the offset of a position: the position, and the name of the log as a number."""
    return f"{position:016d}_{int(kernel.reader.epoch, 16):016d}"


def position_of(kernel: Kernel, offset: str) -> int:
    """Return the position of an offset; raises INVALID, and GONE for one of another log."""
    number, _, epoch = offset.partition("_")
    if len(offset) != 33 or not (number.isdigit() and epoch.isdigit() and offset.isascii()):
        raise Error(
            Code.INVALID,
            f"{offset[:80]!r} is no offset; use one from Stream-Next-Offset, -1 or now",
        )
    position, here = int(number), kernel.reader.epoch
    if position and int(epoch) != int(here, 16):
        raise Error(Code.GONE, f"the offset {offset} is of another log; begin with -1")
    if position > kernel.committer.announced:
        raise Error(Code.INVALID, f"the offset {offset} is beyond the end of the log")
    return position
