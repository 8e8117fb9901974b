"""Staged rows: uploaded parts of results that are not committed.

They are in files of the data directory, and in memory only page by page. Bounded in bytes, number
and time, for each user and in total: only users with too much are refused. What was answered
survives the server (``upload_files.py``), and is continued by the user who has begun it, unless its
table or the rules have changed meanwhile. A job that dies before the commit leaves nothing: idle
uploads expire, also while the server is away.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.result_limits import (
    RESULT_BYTES_MAX,
    RESULT_IDLE_SECONDS,
    RESULT_NAME_CHARS_MAX,
    RESULT_NOTED_ROW_BYTES,
    RESULT_NOTES_BYTES,
    RESULT_PARTS_MAX,
    RESULT_TOUCH_SECONDS,
    RESULTS_AT_ONCE,
    RESULTS_MAX,
    RESULTS_OF_USER_MAX,
)
from rowcast.core.tables import Table
from rowcast.features.results.upload_files import FoundUpload, Title, UploadFiles
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
    kept: tuple[Title, UploadFiles] | None = None
    """What outlives the server; None without a directory for it."""
    commits: list[tuple[str, int]] = field(default_factory=list)
    """As which results of which jobs it was to be committed, by their owner and number."""
    users: int = 0
    """How many commits read it now."""
    coming: int = 0
    """How many parts are being brought now."""
    declared: bool = False
    """Whether it was begun without a part."""

    @property
    def bytes(self) -> int:
        """Its bytes on the disk, with those of parts that were brought again."""
        return self.file.size

    @property
    def noted(self) -> int:
        """Bytes of the notes of its parts, also of those that were brought again."""
        return self.kept[1].noted if self.kept is not None else 0

    async def put(self, part: str, pages: list[Page]) -> None:
        """Add a part whose pages are written, or replace it when it was uploaded again.

        It is durable on return. Raises BUSY when the disk refuses it.
        """
        # An empty part that comes again is noted already.
        same = not pages and self.parts.get(part) == []
        if self.kept is not None and not same:
            title, files = self.kept
            await asyncio.to_thread(files.note_part, title, part, pages, self.touched)
        known = self.parts.get(part, ())
        self.rows += sum(page.rows for page in pages) - sum(page.rows for page in known)
        self.parts[part] = pages

    async def begin_commit(self, owner: str, number: int) -> None:
        """Keep as which result of a job it is about to be committed; raises BUSY."""
        if (owner, number) in self.commits:
            return
        if self.kept is not None:
            title, files = self.kept
            await asyncio.to_thread(files.note_commit, title, owner, number, self.touched)
        self.commits.append((owner, number))

    async def touch(self) -> None:
        """Keep when it was used last, also for a restart."""
        if self.kept is not None:
            await asyncio.to_thread(self.kept[1].touch, self.touched)

    def discard(self, *, remove: bool) -> None:
        """Refuse all further reads and writes; close the files, and ``remove`` those with a name.

        Threads do it, so that nobody waits for the file system.
        """
        self.file.discard()
        work = self.file.close
        if self.kept is not None:
            files = self.kept[1]
            files.discard()
            work = files.remove if remove else files.close
        asyncio.get_running_loop().run_in_executor(None, work)

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
    notes_bytes: int = RESULT_NOTES_BYTES
    """Bytes of the notes of one upload, beside a share of those of the rows."""

    @property
    def notes_bytes_max(self) -> int:
        """Bytes of the notes of one upload."""
        return self.notes_bytes + self.size_bytes // RESULT_NOTED_ROW_BYTES

    @property
    def bytes_of_all(self) -> int:
        """Bytes of all uploads."""
        return self.size_bytes * RESULTS_AT_ONCE


BOUNDS: Final = UploadBounds()


TitleOf = Callable[[str, str, Table], Title]
"""Returns what is kept of an upload: of its name, its user and its table."""


class AllStagedRows:
    """All uploads of a server; those in a ``folder`` outlive it."""

    def __init__(
        self, now: WallClock, bounds: UploadBounds, folder: Path | None, title: TitleOf
    ) -> None:
        self._now = now
        self._bounds = bounds
        self._folder = folder
        self._title = title
        self._known: dict[str, StagedRows] = {}

    def restore(
        self, found: Sequence[FoundUpload], tables: Mapping[str, Table], policy: object
    ) -> None:
        """Take in uploads of an earlier run, within the bounds; the rest is removed.

        ``found`` has the last one used first; all of them go on under ``policy``.
        """
        for one in found:
            title, files = one.title, one.files
            table, touched = tables[title.table], min(one.touched, self._now())
            upload = StagedRows(title.name, title.user, table, policy, touched, files.rows)
            upload.parts, upload.commits, upload.kept = one.parts, one.commits, (title, files)
            upload.rows = sum(page.rows for pages in one.parts.values() for page in pages)
            if self._has_room(upload):
                self._known[upload.name] = upload
            else:
                upload.discard(remove=True)
        self._forget()

    def _has_room(self, upload: StagedRows) -> bool:
        mine, most = self._of(upload.user), self._bounds
        return (
            len(self._known) < RESULTS_MAX
            and len(mine) < RESULTS_OF_USER_MAX
            and len(upload.parts) <= most.parts
            and sum(one.bytes for one in (*mine, upload)) <= most.size_bytes
            and sum(one.bytes for one in (*self._known.values(), upload)) <= most.bytes_of_all
        )

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
            upload = self._known[name] = self._begun(name, user, table, policy)
        if (upload.user, upload.table.name) != (user, table.name):
            raise Error(
                Code.CONFLICT, f"the upload {name} is of another user, or for another table"
            )
        upload.touched = self._now()
        return upload

    def _begun(self, name: str, user: str, table: Table, policy: object) -> StagedRows:
        if self._folder is None:
            return StagedRows(name, user, table, policy, self._now(), RowFile(None))
        files = UploadFiles(self._folder)
        upload = StagedRows(name, user, table, policy, self._now(), files.rows)
        upload.kept = self._title(name, user, table), files
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
        elif upload.noted > most.notes_bytes_max:
            problem = "parts that came again too often"
        else:
            self._check(upload, mine, upload.user, most.size_bytes)
            self._check(upload, everybody, "all together", most.bytes_of_all)
            return
        self.close(upload)
        raise _too_large(problem)

    def _check(
        self, upload: StagedRows, counted: Collection[StagedRows], who: str, bytes_max: int
    ) -> None:
        """Raise BUSY when several uploads together exceed a bound."""
        if sum(one.bytes for one in counted) > bytes_max:
            self.close(upload)
            raise _busy(
                f"the results that are being brought by {who} have more than {bytes_max} bytes"
            )

    def _of(self, user: str) -> list[StagedRows]:
        return [upload for upload in self._known.values() if upload.user == user]

    def find(self, name: str, user: str) -> StagedRows:
        """Return an upload; raises NOT_FOUND."""
        upload = self.look(name, user)
        if upload is None:
            raise lost(f"upload {name}")
        return upload

    def look(self, name: str, user: str) -> StagedRows | None:
        """Return an upload, if it is there."""
        self._forget()
        upload = self._known.get(name)
        return upload if upload is not None and upload.user == user else None

    @asynccontextmanager
    async def in_use(self, upload: StagedRows) -> AsyncIterator[None]:
        """Keep an upload while it is committed, however long that takes, also for a restart."""
        upload.users += 1
        touching = asyncio.create_task(self._touch(upload))
        try:
            yield
        finally:
            touching.cancel()
            upload.users -= 1

    async def _touch(self, upload: StagedRows) -> None:
        while True:
            upload.touched = self._now()
            await upload.touch()
            await asyncio.sleep(RESULT_TOUCH_SECONDS)

    def check_part(self, name: str, user: str, part: str) -> None:
        """Raise NOT_FOUND if an upload has a part no more, or never had it."""
        if part not in self.find(name, user).parts:
            raise lost(f"part {part} of the upload {name}")

    @contextmanager
    def bringing(self, upload: StagedRows) -> Iterator[None]:
        """Bring a part; where the first one is refused, nothing is left that takes a place."""
        upload.coming += 1
        try:
            yield
        finally:
            upload.coming -= 1
            if not (upload.parts or upload.coming or upload.declared):
                self.close(upload)

    def close(self, upload: StagedRows) -> None:
        """Remove an upload; a later one of its name stays."""
        if self._known.get(upload.name) is upload:
            del self._known[upload.name]
            upload.discard(remove=True)

    def leave(self) -> None:
        """Close the files of all uploads, for the next run of the server."""
        for upload in self._known.values():
            upload.discard(remove=False)
        self._known.clear()

    def _forget(self) -> None:
        oldest = self._now() - RESULT_IDLE_SECONDS
        for upload in list(self._known.values()):
            if upload.touched < oldest and not upload.users:
                self.close(upload)


def _too_large(problem: str) -> Error:
    return Error(
        Code.TOO_LARGE,
        f"the result has {problem}: so much is not committed at once. Aggregate further, divide "
        "it by parts of its keys, each as a job of its own name, or set results.bytes_max",
    )


def lost(what: str) -> Error:
    """Return the Error of what was brought, and is not there."""
    return Error(
        Code.NOT_FOUND,
        f"there is no {what}: no data was received for {RESULT_IDLE_SECONDS} seconds, more was "
        "being brought than is kept, the rules or the table have changed when the server was "
        "restarted, or another node has taken over; bring the result again",
    )


def _busy(problem: str) -> Error:
    return Error(
        Code.BUSY,
        f"{problem}; commit or delete one, or try again when one is done",
        retry_after_seconds=10,
    )
