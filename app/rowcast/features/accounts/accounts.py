"""The directory: users and roles as those see them who administer, and what becomes of a change.

A change is written to the file, is in force when it is answered, and is told to who watches. Whom
it ends is gone by then. The rows themselves are ``user_rows`` and ``role_rows``.

Whether somebody may change users has been judged before, but what is asked for waits for a hash
and for the file. So it is judged once more where the list is replaced, which one does at a time: of
many who would be the first administrator one is (P3).
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace

from rowcast.auth.authenticator import Authenticator
from rowcast.auth.passwords import keep_password
from rowcast.auth.setup_code import SetupCode
from rowcast.auth.user_list import UserList
from rowcast.auth.users import password_text
from rowcast.auth.users_file import Edit, UsersFile
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.entry_limits import PASSWORD_CHECKS_AT_ONCE
from rowcast.core.errors import Code, Error
from rowcast.features.accounts.forms import Said, checked, role_edit, user_members
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.rows.system_rows import time_text

USERS = "$SYS/users"
ROLES = "$SYS/roles"
_ANONYMOUS = Caller().user


class Directory:
    """Reads and changes users and roles; ``begin`` when there is a kernel."""

    def __init__(self, users: UsersFile, authenticator: Authenticator, now: WallClock) -> None:
        self.users = users
        self.authenticator = authenticator
        self._now = now
        self._kernel: Kernel | None = None
        self._told = users.listed
        self.setup_code = SetupCode()
        """What the first user is made with."""
        self._turns = asyncio.Semaphore(PASSWORD_CHECKS_AT_ONCE)

    def begin(self, kernel: Kernel) -> None:
        """Let the kernel ask who may stay, and tell it of changes from now on."""
        self._kernel = kernel
        kernel.access.judges.append(self.authenticator.judge)
        kernel.access.removals.append(self.authenticator.is_removed)

    async def put_user(self, name: str, value: object, caller: Caller, *, merges: bool) -> None:
        """Make or change a user. Raises INVALID, NOT_FOUND, CONFLICT, DENIED."""
        members = user_members(name, value)
        code = members.get("setup_code")
        self._judge(self.users.listed, caller, code)  # before any work is done for it
        kept, password = None, members.get("password")
        if isinstance(password, str):
            text, scram = password_text(password.encode(errors="replace")), members.get("scram")
            async with self._turns:
                kept = await asyncio.to_thread(
                    keep_password, text, secrets.token_bytes, scram=scram is not False
                )
        now = self._now()
        said = Said(name, members, kept, merges, time_text(now) or "", int(now))
        await self._change(said.edit, caller, code)

    async def remove_user(self, name: str, caller: Caller) -> None:
        """Remove a user; whatever it has open ends."""

        def edit(known: UserList) -> UserList:
            return checked(known, _listed(known, name).without_user(name))

        await self._change(edit, caller)

    async def put_role(self, name: str, value: object, caller: Caller, *, merges: bool) -> None:
        """Make or change a role. Raises INVALID, NOT_FOUND, CONFLICT."""
        await self._change(lambda known: role_edit(name, value, known, merges=merges), caller)

    async def remove_role(self, name: str, caller: Caller) -> None:
        """Remove a role; who has it keeps the word, which grants nothing."""

        def edit(known: UserList) -> UserList:
            if name not in known.roles:
                raise Error(Code.NOT_FOUND, f"there is no role {name!r}")
            return checked(known, known.without_role(name))

        await self._change(edit, caller)

    async def revoke(self, caller: Caller) -> None:
        """End all that a user has signed in with until now: tokens, cookies, connections.

        Raises DENIED for who signed in elsewhere: a user here of that name is somebody else.
        """
        if caller.issuer:
            raise Error(
                Code.DENIED,
                f"{caller.user} has signed in with a token of {caller.issuer}; sign out there",
            )

        def edit(known: UserList) -> UserList:
            user = _listed(known, caller.user).users[caller.user]
            return known.with_user(replace(user, issue=user.issue + 1))

        await self.change(edit)

    async def _change(self, edit: Edit, caller: Caller, code: object = None) -> None:
        """Change them as somebody who still may when the change is made. Raises DENIED."""

        def judged(known: UserList) -> UserList:
            self._judge(known, caller, code)
            return edit(known)

        await self.change(judged)

    def _judge(self, known: UserList | None, caller: Caller, code: object) -> None:
        """Raise DENIED for the first user without the code, and for who is late."""
        if known is not None and known.users:
            if caller.user == _ANONYMOUS:
                raise Error(Code.DENIED, "there is an administrator meanwhile; sign in")
        elif not caller.issuer:  # whose roles a trusted issuer vouches for
            self.setup_code.check(code)

    async def change(self, edit: Edit) -> None:
        """Change users and roles; who may no longer be here is gone when this returns."""
        await self.users.change(edit, secrets.token_bytes)
        self.tell()

    def tell(self) -> None:
        """Tell who is concerned, if the list is another one than when this was called last."""
        before, after, kernel = self._told, self.users.listed, self._kernel
        if before is after or kernel is None:
            return
        self._told = after
        kernel.access.changed()
        for path, name, happened in _differences(before, after):
            kernel.live.changed(path, name, happened)


def _listed(known: UserList, name: str) -> UserList:
    if name not in known.users:
        raise Error(Code.NOT_FOUND, f"there is no user {name!r}")
    return known


def _differences(before: UserList | None, after: UserList | None) -> list[tuple[str, str, str]]:
    """Return path, name and what happened, of each user and role that is another one now."""
    old = before or UserList(b"")
    new = after or UserList(b"")
    return [*_of(USERS, old.users, new.users), *_of(ROLES, old.roles, new.roles)]


def _of(
    path: str, old: Mapping[str, object], new: Mapping[str, object]
) -> list[tuple[str, str, str]]:
    added = [(path, name, "added") for name in new if name not in old]
    removed = [(path, name, "removed") for name in old if name not in new]
    return (
        added
        + removed
        + [(path, name, "changed") for name in new if name in old and old[name] != new[name]]
    )
