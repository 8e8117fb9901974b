"""Staged rows: uploaded parts of results that are not committed.

They are in memory only, bounded in rows, bytes, number and time, for each user and in total: only
users with too much are refused. A job that dies before the commit leaves nothing: idle uploads
expire, and a restart discards all of them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import (
    RESULT_BYTES_MAX,
    RESULT_IDLE_SECONDS,
    RESULT_NAME_CHARS_MAX,
    RESULT_PARTS_MAX,
    RESULT_ROWS_MAX,
    RESULTS_BYTES_MAX,
    RESULTS_MAX,
    RESULTS_OF_USER_MAX,
    RESULTS_ROWS_MAX,
)
from rowcast.kernel.write import Write


@dataclass(slots=True)
class StagedRows:
    """The upload of one result, with user and time of the last part."""

    name: str
    user: str
    table: str
    policy: object
    """The policy by which its rows were checked."""
    touched: float
    parts: dict[str, list[Write]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    def drop(self, part: str) -> None:
        """Remove a part, which is uploaded again."""
        for write in self.parts.pop(part, ()):
            self.rows -= 1
            self.bytes -= len(write.event.payload)

    def add(self, part: str, write: Write) -> None:
        """Add a row of a part."""
        self.parts.setdefault(part, []).append(write)
        self.rows += 1
        self.bytes += len(write.event.payload)


@dataclass(frozen=True, slots=True)
class UploadBounds:
    """How much is uploaded and not committed."""

    rows: int = RESULT_ROWS_MAX
    """Rows of one result, and of all uploads of one user."""
    size_bytes: int = RESULT_BYTES_MAX
    """Bytes of these."""
    parts: int = RESULT_PARTS_MAX
    """Parts of one result."""
    rows_of_all: int = RESULTS_ROWS_MAX
    """Rows of all uploads."""
    bytes_of_all: int = RESULTS_BYTES_MAX


BOUNDS: Final = UploadBounds()


class AllStagedRows:
    """All uploads of a server."""

    def __init__(self, now: WallClock, bounds: UploadBounds = BOUNDS) -> None:
        self._now = now
        self._bounds = bounds
        self._known: dict[str, StagedRows] = {}

    def __iter__(self) -> Iterator[StagedRows]:
        self._forget()
        return iter(list(self._known.values()))

    def opened(self, name: str, user: str, table: str, policy: object) -> StagedRows:
        """Return the upload of a part, creating it for the first."""
        self._forget()
        upload = self._known.get(name)
        if upload is None:
            if len(self._of(user)) >= RESULTS_OF_USER_MAX:
                raise _busy(f"{user} is bringing {RESULTS_OF_USER_MAX} results already")
            if len(self._known) >= RESULTS_MAX:
                raise _busy(f"{RESULTS_MAX} results are being brought")
            if len(name) > RESULT_NAME_CHARS_MAX:
                raise Error(Code.INVALID, "the name of an upload is too long")
            upload = self._known[name] = StagedRows(name, user, table, policy, self._now())
        if (upload.user, upload.table) != (user, table):
            raise Error(
                Code.CONFLICT, f"the upload {name} is of another user, or for another table"
            )
        upload.touched = self._now()
        return upload

    def check(self, upload: StagedRows, part: str) -> None:
        """Raise TOO_LARGE above the bound of one commit, BUSY above common bounds.

        Then this upload is discarded; all others stay.
        """
        mine, everybody, most = self._of(upload.user), self._known.values(), self._bounds
        if upload.rows > most.rows:
            problem = f"more than {most.rows} rows"
        elif upload.bytes > most.size_bytes:
            problem = f"more than {most.size_bytes} bytes"
        elif len(upload.parts) > most.parts or len(part) > RESULT_NAME_CHARS_MAX:
            problem = f"more than {most.parts} parts, or a part with a long name"
        else:
            self._check(upload, mine, upload.user, most.rows, most.size_bytes)
            self._check(upload, everybody, "all together", most.rows_of_all, most.bytes_of_all)
            return
        self._known.pop(upload.name, None)
        raise Error(
            Code.TOO_LARGE,
            f"the result has {problem}: so much is not committed at once. Aggregate further, or "
            "divide it: write it by parts of its keys, each as a job of its own name",
        )

    def _check(
        self,
        upload: StagedRows,
        counted: Collection[StagedRows],
        who: str,
        rows_max: int,
        bytes_max: int,
    ) -> None:
        """Raise BUSY when several uploads together exceed a bound."""
        rows, size = (sum(getattr(i, name) for i in counted) for name in ("rows", "bytes"))
        if rows > rows_max or size > bytes_max:
            self._known.pop(upload.name, None)
            raise _busy(
                f"the results that are being brought by {who} have more than {rows_max} rows or "
                f"{bytes_max} bytes"
            )

    def _of(self, user: str) -> list[StagedRows]:
        return [upload for upload in self._known.values() if upload.user == user]

    def find(self, name: str, user: str) -> StagedRows:
        """Return an upload; raises NOT_FOUND."""
        self._forget()
        upload = self._known.get(name)
        if upload is None or upload.user != user:
            raise Error(
                Code.NOT_FOUND,
                f"there is no upload {name}: the server was restarted, or nothing came for "
                f"{RESULT_IDLE_SECONDS} seconds; bring the result again",
            )
        return upload

    def close(self, name: str) -> None:
        """Remove an upload."""
        self._known.pop(name, None)

    def _forget(self) -> None:
        oldest = self._now() - RESULT_IDLE_SECONDS
        self._known = {
            name: upload for name, upload in self._known.items() if upload.touched >= oldest
        }


def _busy(problem: str) -> Error:
    return Error(
        Code.BUSY,
        f"{problem}; commit or delete one, or try again when one is done",
        retry_after_seconds=10,
    )
