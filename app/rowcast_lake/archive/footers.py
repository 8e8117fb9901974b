"""The checksum of a Parquet file's footer, in the eight bytes before it.

Pages have checksums in the format, the footer has none, and a library may end the process on one
that is damaged. No offset in a footer leads behind it or to these bytes, so other readers pass
over them. Source: the format of Apache Parquet, README.md, "File format": the footer, its length in
four bytes and ``PAR1`` end the file.
"""

import os
from pathlib import Path
from typing import IO, Final
from zlib import crc32

_MARK: Final = b"RCsm"
_TAIL_BYTES: Final = 8
_SUM_BYTES: Final = 8


def seal(file: IO[bytes]) -> None:
    """Put the checksum of a file that is finished before its footer."""
    footer, tail, begin = _footer(file)
    file.seek(begin)
    file.write(_MARK + crc32(footer).to_bytes(4, "little") + footer + tail)


def check(path: Path) -> None:
    """Raise OSError if a file's footer is not what was written; one without checksum passes."""
    with path.open("rb") as file:
        check_end(file, path)


def check_end(file: IO[bytes], name: object) -> None:
    """The same of an open file, or of its end."""
    footer, _, begin = _footer(file)
    file.seek(max(0, begin - _SUM_BYTES))
    known = file.read(_SUM_BYTES)
    if known[:4] == _MARK and known[4:] != crc32(footer).to_bytes(4, "little"):
        raise OSError(f"{name} is damaged: its footer has another checksum")


def end_bytes(end: bytes) -> int:
    """Return how much of the end of a file has its footer and the checksum."""
    return int.from_bytes(end[-_TAIL_BYTES:][:4], "little") + _TAIL_BYTES + _SUM_BYTES


def _footer(file: IO[bytes]) -> tuple[bytes, bytes, int]:
    """Return the footer, what follows it, and where it begins; nothing where no footer can be."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read()
    begin = size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
    if begin < 0:
        return b"", tail, size
    file.seek(begin)
    return file.read(size - _TAIL_BYTES - begin), tail, begin
