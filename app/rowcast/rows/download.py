"""A download: a file as the answer of a resource's ``get``, for doors that can send one in pieces.

It holds the file open, so that what was begun is sent to its end even if the file is removed
meanwhile. Whoever answers with it closes it; reading blocks, and is for another thread.
"""

from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class Download:
    """An open file, its length, media type, and a tag that changes with it."""

    file: IO[bytes]
    size_bytes: int
    media_type: str
    tag: str

    def read(self, start: int, most_bytes: int) -> bytes:
        """Return a part of it; empty behind its end."""
        self.file.seek(start)
        return self.file.read(most_bytes)

    def close(self) -> None:
        """Give the file free."""
        self.file.close()
