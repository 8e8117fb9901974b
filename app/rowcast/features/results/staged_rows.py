"""Staged rows: uploaded parts of results that are not committed.

They are in files without a name in the data directory, which the system removes with the process,
and in memory only page by page. Bounded in bytes, number and time, for each user and in total: only
users with too much are refused. A job that dies before the commit leaves nothing: idle uploads
expire, and a restart discards all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.result_limits import (
    RESULT_BYTES_MAX,
    RESULT_IDLE_SECONDS,
    RESULT_NAME_CHARS_MAX,
    RESULT_PARTS_MAX,
    RESULTS_AT_ONCE,
    RESULTS_MAX,
    RESULTS_OF_USER_MAX,
)
from rowcast.core.tables import Table
from rowcast.results.result_bounds import ChangeBounds, too_many_changes
from rowcast.results.row_file import Page, RowFile


@dataclass(slots=True)
class StagedRows:
    """The upload of one result, with user and time of the last part."""

    name: str
    user: str
    table: Table
    policy: object
    """The policy by which its rows were checked."""
    touched: float
    file: RowFile
    parts: dict[str, list[Page]] = field(default_factory=dict)
    rows: int = 0

    @property
    def bytes(self) -> int:
        """Its bytes on the disk, with those of parts that were brought again."""
        return self.file.size

    def put(self, part: str, pages: list[Page]) -> None:
        """Add a part whose pages are written, or replace it when it was uploaded again."""
        known = self.parts.get(part, ())
        self.rows += sum(page.rows for page in pages) - sum(page.rows for page in known)
        self.parts[part] = pages

    async def pages(self, parts: Sequence[str]) -> AsyncIterator[list[Event]]:
        """Yield the rows of parts, a page at a time; a thread reads the file."""
        for part in parts:
            for page in self.parts[part]:
                yield await asyncio.to_thread(self.file.read, page, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadBounds(ChangeBounds):
    """How much is uploaded and not committed, and how much one result may change."""

    size_bytes: int = RESULT_BYTES_MAX
    """Bytes of one result, and of all uploads of one user."""
    parts: int = RESULT_PARTS_MAX
    """Parts of one result."""

    @property
    def bytes_of_all(self) -> int:
        """Bytes of all uploads."""
        return self.size_bytes * RESULTS_AT_ONCE


BOUNDS: Final = UploadBounds()


class AllStagedRows:
    """All uploads of a server."""

    def __init__(self, now: WallClock, bounds: UploadBounds, directory: str | None) -> None:
        self._now = now
        self._bounds = bounds
        self._directory = directory
        self._known: dict[str, StagedRows] = {}

    def __iter__(self) -> Iterator[StagedRows]:
        self._forget()
        return iter(list(self._known.values()))

    def opened(self, name: str, user: str, table: Table, policy: object) -> StagedRows:
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
            file = RowFile(self._directory)
            upload = self._known[name] = StagedRows(name, user, table, policy, self._now(), file)
        if (upload.user, upload.table.name) != (user, table.name):
            raise Error(
                Code.CONFLICT, f"the upload {name} is of another user, or for another table"
            )
        upload.touched = self._now()
        return upload

    def check_declared(self, rows: int, size: int, known: int) -> None:
        """Raise TOO_LARGE for a result that cannot be committed, before a row of it comes.

        ``known``: how many records its table has; all other rows of it are new.
        """
        new, most = rows - known, self._bounds
        if size > self._bounds.size_bytes:
            raise _too_large(f"{size} bytes, more than {self._bounds.size_bytes}")
        if new > most.changes:
            raise too_many_changes(f"at least {new} new rows", most)

    def check(self, upload: StagedRows, part: str) -> None:
        """Raise TOO_LARGE above the bound of one commit, BUSY above common bounds.

        Then this upload is discarded; all others stay.
        """
        mine, everybody, most = self._of(upload.user), self._known.values(), self._bounds
        if upload.bytes > most.size_bytes:
            problem = f"more than {most.size_bytes} bytes"
        elif len(upload.parts) > most.parts or len(part) > RESULT_NAME_CHARS_MAX:
            problem = f"more than {most.parts} parts, or a part with a long name"
        else:
            self._check(upload, mine, upload.user, most.size_bytes)
            self._check(upload, everybody, "all together", most.bytes_of_all)
            return
        self.close(upload.name)
        raise _too_large(problem)

    def _check(
        self, upload: StagedRows, counted: Collection[StagedRows], who: str, bytes_max: int
    ) -> None:
        """Raise BUSY when several uploads together exceed a bound."""
        if sum(one.bytes for one in counted) > bytes_max:
            self.close(upload.name)
            raise _busy(
                f"the results that are being brought by {who} have more than {bytes_max} bytes"
            )

    def _of(self, user: str) -> list[StagedRows]:
        return [upload for upload in self._known.values() if upload.user == user]

    def find(self, name: str, user: str) -> StagedRows:
        """Return an upload; raises NOT_FOUND."""
        self._forget()
        upload = self._known.get(name)
        if upload is None or upload.user != user:
            raise _lost(f"upload {name}")
        return upload

    def check_part(self, name: str, user: str, part: str) -> None:
        """Raise NOT_FOUND if an upload has a part no more, or never had it."""
        if part not in self.find(name, user).parts:
            raise _lost(f"part {part} of the upload {name}")

    def close(self, name: str) -> None:
        """Remove an upload."""
        upload = self._known.pop(name, None)
        if upload is not None:
            upload.file.discard()
            asyncio.get_running_loop().run_in_executor(None, upload.file.close)

    def close_all(self) -> None:
        """Remove all uploads."""
        for name in list(self._known):
            self.close(name)

    def _forget(self) -> None:
        oldest = self._now() - RESULT_IDLE_SECONDS
        for name, upload in list(self._known.items()):
            if upload.touched < oldest:
                self.close(name)


def _too_large(problem: str) -> Error:
    return Error(
        Code.TOO_LARGE,
        f"the result has {problem}: so much is not committed at once. Aggregate further, divide "
        "it by parts of its keys, each as a job of its own name, or set results.bytes_max",
    )


def _lost(what: str) -> Error:
    return Error(
        Code.NOT_FOUND,
        f"there is no {what}: the server was restarted, no data was received for "
        f"{RESULT_IDLE_SECONDS} seconds, or more was being brought than is kept; bring the result "
        "again",
    )


def _busy(problem: str) -> Error:
    return Error(
        Code.BUSY,
        f"{problem}; commit or delete one, or try again when one is done",
        retry_after_seconds=10,
    )
