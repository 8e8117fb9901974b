"""Users in a JSON file: read again when it changes, replaced as a whole, for its owner only.

    {"secret": "<base64>", "users": {"ann": {"read": true, "write": true, "verifier": "SCRAM-..."}}}

``secret`` makes the answers about unknown names (``users.decoy``); it comes with the file. Once
there has been a file, users are in force: a file that goes away means that nobody can sign in, not
that everybody may come in.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.auth.users import User, user_name
from app.auth.verifier import Verifier, read_verifier
from app.core.callers import Grants
from app.core.entry_limits import USERS_FILE_BYTES_MAX, USERS_FILE_LOOK_SECONDS
from app.core.errors import Code, Error

log = logging.getLogger("rowcast.auth")

_SECRET_BYTES = 32
_KEYS = {"secret", "users"}
_USER_KEYS = {"read", "write", "administer", "verifier"}

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class UserList:
    """What the file holds."""

    secret: bytes
    users: dict[str, User] = field(default_factory=dict)


class UsersFile:
    """The file as the server reads it; ``load`` before all else."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._looking = asyncio.Lock()
        self._looked_at = -1.0 - USERS_FILE_LOOK_SECONDS
        self._stamp: _Stamp | None = None
        self._list: UserList | None = None

    def load(self) -> None:
        """Read the file, if it is there. Blocks; raises INVALID for what is wrong in it."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if stamp is not None:
            self._list = read_users(self._path)
            if self._path.stat().st_mode & 0o077:
                log.warning("%s can be read by others; run: chmod 600 %s", self._path, self._path)
        elif self._list is not None:
            log.warning("%s is gone: nobody can sign in", self._path)
            self._list = UserList(self._list.secret)

    async def secret(self) -> bytes | None:
        """Return the file's secret; None while there has been no file."""
        users = await self._current()
        return users.secret if users is not None else None

    async def find(self, name: str) -> User | None:
        """Return the user of a prepared name."""
        users = await self._current()
        return users.users.get(name) if users is not None else None

    async def _current(self) -> UserList | None:
        """Return what the file holds, or held not much longer ago than a second."""
        if self._clock() - self._looked_at >= USERS_FILE_LOOK_SECONDS:
            async with self._looking:
                if self._clock() - self._looked_at >= USERS_FILE_LOOK_SECONDS:
                    await asyncio.to_thread(self._look)
                    self._looked_at = self._clock()
        return self._list

    def _look(self) -> None:
        try:
            self.load()
        except Error as error:  # those who were known go on being known
            log.error("users stay as they were: %s", error.message)  # noqa: TRY400 - told in full


def read_users(path: Path) -> UserList:
    """Read the file. Raises INVALID with what is wrong and where, but never a secret."""
    try:
        if path.stat().st_size > USERS_FILE_BYTES_MAX:
            raise Error(Code.INVALID, f"{path}: is larger than {USERS_FILE_BYTES_MAX} bytes")
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Error(Code.INVALID, f"{path}: is not JSON; restore it from a copy") from error
    if not isinstance(tree, dict) or set(tree) != _KEYS or not isinstance(tree["users"], dict):
        raise Error(Code.INVALID, f"{path}: should be an object of 'secret' and 'users'")
    try:
        secret = b64decode(tree["secret"], validate=True)
    except (TypeError, ValueError):
        secret = b""
    if len(secret) < _SECRET_BYTES:
        raise Error(Code.INVALID, f"{path}: 'secret' should be {_SECRET_BYTES} bytes in base64")
    users = (_user(path, name, facts) for name, facts in tree["users"].items())
    return UserList(secret, {user.name: user for user in users})


def _user(path: Path, name: str, facts: object) -> User:
    where = f"{path}: user {name!r}"
    if not isinstance(facts, dict) or not set(facts) <= _USER_KEYS:
        raise Error(Code.INVALID, f"{where} has {', '.join(sorted(_USER_KEYS))} and nothing else")
    granted = [facts.get(name, False) for name in ("read", "write", "administer")]
    if not all(isinstance(one, bool) for one in granted):
        raise Error(
            Code.INVALID, f"{where}: 'read', 'write' and 'administer' should be true or false"
        )
    try:
        prepared = user_name(name)
        verifier = read_verifier(str(facts["verifier"])) if "verifier" in facts else None
    except Error as error:
        raise Error(Code.INVALID, f"{where}: {error.message}") from None
    if prepared != name:
        raise Error(Code.INVALID, f"{where}: should be written {prepared!r} (RFC 4013)")
    return User(name, Grants(*granted), verifier)


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes with the file; None when it is not there."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


# -- changing it -----------------------------------------------------------------------------------


def add_user(path: Path, user: User, random: Callable[[int], bytes]) -> bool:
    """Add a user, or put it in the place of the one of this name; return whether it is new."""
    with _changing(path):
        known = read_users(path) if path.exists() else UserList(random(_SECRET_BYTES))
        _write(path, known.secret, {**known.users, user.name: user})
        return user.name not in known.users


def remove_user(path: Path, name: str) -> bool:
    """Remove a user; return whether there was one."""
    if not path.exists():
        return False
    with _changing(path):
        known = read_users(path)
        left = {key: user for key, user in known.users.items() if key != name}
        if len(left) < len(known.users):
            _write(path, known.secret, left)
        return len(left) < len(known.users)


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Let one program at a time change the file; the lock is on its directory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        directory = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(path: Path, secret: bytes, users: dict[str, User]) -> None:
    """Replace the file: a reader sees the old one or the new one."""
    facts = {user.name: _facts(user.grants, user.verifier) for user in users.values()}
    tree = {"secret": b64encode(secret).decode(), "users": facts}
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
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


def _facts(grants: Grants, verifier: Verifier | None) -> dict[str, object]:
    facts: dict[str, object] = asdict(grants)
    return facts | ({"verifier": str(verifier)} if verifier is not None else {})
