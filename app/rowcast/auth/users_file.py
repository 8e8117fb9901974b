"""Users in a JSON file: read again when it changes, replaced as a whole, for its owner only.

``user_list`` has its format. Once there has been a file, users are in force: if the file is
removed, nobody can sign in, rather than everybody being accepted. The server and the command
``rowcast user`` change it alike, under one lock, so there is one truth.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rowcast.auth.user_list import UserList, list_of, tree_of
from rowcast.auth.users import Role, User
from rowcast.core.authentication_limits import (
    USERS_FILE_BYTES_MAX,
    USERS_FILE_LOOK_SECONDS,
    USERS_SECRET_BYTES,
)
from rowcast.core.errors import Code, Error

log = logging.getLogger("rowcast.auth")


class _Stamp(NamedTuple):
    """What changes with the file: ``changed`` whatever its writer says of its time."""

    changed: int
    modified: int
    size: int
    number: int
    mode: int


Edit = Callable[[UserList], UserList]
"""Makes a new list from the current one; raises an Error to refuse."""


class UsersFile:
    """The file as the server reads it; ``load`` before all else."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._looking = asyncio.Lock()
        self._looked_at = -1.0 - USERS_FILE_LOOK_SECONDS
        self._ahead: asyncio.Task[None] | None = None
        """A look before the last one is too old."""
        self._stamp: _Stamp | None = None
        self._list: UserList | None = None
        self._kinds = False, False

    def load(self) -> None:
        """Read the file, if it is there. Blocks; raises INVALID if its content is invalid."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        if stamp is not None:
            self._list = self._read(stamp)
            users = self._list.users.values()
            self._kinds = (
                any(one.verifier and not one.hashed for one in users),
                any(one.hashed for one in users),
            )
            if stamp.mode & 0o077:
                log.warning("%s can be read by others; run: chmod 600 %s", self._path, self._path)
        elif self._list is not None:
            log.warning("%s is gone: nobody can sign in", self._path)
            self._list = UserList(self._list.secret)
        self._stamp = stamp

    def _read(self, stamp: _Stamp) -> UserList:
        try:
            return read_users(self._path)
        except Error as error:
            if not isinstance(error.__cause__, OSError):  # else it may be read without a change
                self._stamp = stamp
            raise

    @property
    def listed(self) -> UserList | None:
        """The list, as last looked at; None while there has been no file."""
        return self._list

    @property
    def in_force(self) -> bool:
        """Whether there has been a file."""
        return self._list is not None

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Whether users have a verifier and no hash, and whether users have a hash."""
        return self._kinds

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles, as last looked at."""
        return self._list.roles if self._list is not None else {}

    @property
    def names(self) -> list[str]:
        """The names of all users, as last looked at."""
        return list(self._list.users) if self._list is not None else []

    @property
    def fresh(self) -> bool:
        """Whether the file was looked at just now."""
        return self._clock() - self._looked_at < USERS_FILE_LOOK_SECONDS

    def look_ahead(self) -> bool:
        """Return the same; begin the next look when that is about to end: a crowd need not wait."""
        age = self._clock() - self._looked_at
        if age >= USERS_FILE_LOOK_SECONDS:
            return False
        if age >= USERS_FILE_LOOK_SECONDS / 2 and self._ahead is None:
            self._ahead = asyncio.get_running_loop().create_task(self._look_ahead())
        return True

    async def secret(self) -> bytes | None:
        """Return the file's secret; None while there has been no file."""
        users = await self._current()
        return users.secret if users is not None else None

    async def find(self, name: str) -> User | None:
        """Return the user of a prepared name."""
        await self._current()
        return self.known(name)

    def known(self, name: str) -> User | None:
        """Return the same at once, as last looked at."""
        return self._list.users.get(name) if self._list is not None else None

    async def look(self) -> None:
        """Look whether the file was changed, if nobody has just now."""
        await self._current()

    async def change(self, edit: Edit, random: Callable[[int], bytes]) -> None:
        """Change the file and use the change at once. Raises what ``edit`` raises, and INVALID."""
        async with self._looking:
            await asyncio.to_thread(change_users, self._path, edit, random)
            await asyncio.to_thread(self.load)

    async def _current(self) -> UserList | None:
        """Return the content of the file, at most about a second old."""
        if not self.fresh:
            async with self._looking:
                if not self.fresh:
                    await self._look_now()
        return self._list

    async def _look_ahead(self) -> None:
        try:
            async with self._looking:
                await self._look_now()
        finally:
            self._ahead = None

    async def _look_now(self) -> None:
        await asyncio.to_thread(self._look)
        self._looked_at = self._clock()

    def _look(self) -> None:
        try:
            self.load()
        except Error as error:  # those who were known go on being known
            log.error("users stay as they were: %s", error.message)  # noqa: TRY400 - told in full


def read_users(path: Path) -> UserList:
    """Read the file. Raises INVALID with the reason and place, but never a secret."""
    try:
        if path.stat().st_size > USERS_FILE_BYTES_MAX:
            raise Error(Code.INVALID, f"{path}: is larger than {USERS_FILE_BYTES_MAX} bytes")
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Error(Code.INVALID, f"{path}: is not JSON; restore it from a copy") from error
    try:
        return list_of(tree)
    except Error as error:
        raise Error(Code.INVALID, f"{path}: {error.message}") from None


def _stamp(path: Path) -> _Stamp | None:
    """Return a stamp that changes with the file; None if there is no file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    return _Stamp(facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_mode)


# -- changing it -----------------------------------------------------------------------------------


def change_users(path: Path, edit: Edit, random: Callable[[int], bytes]) -> tuple[UserList, ...]:
    """Put the list that ``edit`` makes in the place of the one that is there; return both."""
    with _changing(path):
        known = read_users(path) if path.exists() else UserList(random(USERS_SECRET_BYTES))
        changed = edit(known)
        if changed != known:
            _write(path, changed)
        return known, changed


def remove_user(path: Path, name: str) -> bool:
    """Remove a user; return whether there was one."""
    if not path.exists():
        return False
    known, _ = change_users(path, lambda known: known.without_user(name), os.urandom)
    return name in known.users


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Let one program at a time change the file; the lock is on its directory."""
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        directory = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(path: Path, known: UserList) -> None:
    """Replace the file: a reader sees the old one or the new one."""
    tree = tree_of(known)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        fresh.unlink(missing_ok=True)  # of a life that was killed: in a container all have one id
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            _give_to_owner(handle, path)
            json.dump(tree, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(handle)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise Error(Code.INVALID, f"{path}: cannot be written: {error.strerror}") from error


def _give_to_owner(handle: int, path: Path) -> None:
    """Let the new file belong to whom the old one, or else the directory, belongs: not to root."""
    owner = (path if path.exists() else path.parent).stat()
    if os.geteuid() == 0:
        os.fchown(handle, owner.st_uid, owner.st_gid)
