"""The directory: administration of users and roles, and the effects of changes.

A change is written to the file, is effective when it is answered, and is published to subscribers.
Connections that it ends are closed by then. The rows are ``user_rows`` and ``role_rows``.

The right to change users was checked before, but the change waits for a hash and for the file. So
it is checked again when the list is replaced, under a lock: of several concurrent first
administrators only one succeeds (P3).
"""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rowcast.auth.authenticator import Authenticator
from rowcast.auth.passwords import keep_password
from rowcast.auth.setup_code import SetupCode
from rowcast.auth.user_list import UserList
from rowcast.auth.users import password_text
from rowcast.auth.users_file import Edit, UsersFile
from rowcast.core.authentication_limits import PASSWORD_CHECKS_AT_ONCE
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.fingerprint import fingerprint
from rowcast.features.accounts.forms import UserChange, checked, role_edit, user_members
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text

USERS = "$SYS/users"
ROLES = "$SYS/roles"
_ANONYMOUS = Caller().user


class Directory:
    """Reads and changes users and roles; call ``begin`` with the kernel."""

    def __init__(self, users: UsersFile, authenticator: Authenticator, now: WallClock) -> None:
        self.users = users
        self.authenticator = authenticator
        self._now = now
        self._kernel: Kernel | None = None
        self._reported = users.listed
        self._mark = 0
        """Differs for users and roles that may read something else; there may be many, so each
        change of one changes it, and it is not made anew."""
        self._note(_differences(None, self._reported), None, self._reported)
        self.setup_code = SetupCode()
        """The code that creates the first user."""
        self._turns = asyncio.Semaphore(PASSWORD_CHECKS_AT_ONCE)

    def begin(self, kernel: Kernel) -> None:
        """Register with the kernel's reauthorization."""
        self._kernel = kernel
        kernel.reauthorization.judges.append(self.authenticator.judge)
        kernel.reauthorization.removals.append(self.authenticator.is_removed)
        kernel.reauthorization.rights_in_force.append(lambda: self._mark)

    async def put_user(self, name: str, value: object, caller: Caller, *, merges: bool) -> None:
        """Create or change a user. Raises INVALID, NOT_FOUND, CONFLICT, DENIED."""
        members = user_members(name, value)
        code = members.get("setup_code")
        self._judge(self.users.listed, caller, code)  # before any work
        kept, password = None, members.get("password")
        if isinstance(password, str):
            text, scram = password_text(password.encode(errors="replace")), members.get("scram")
            async with self._turns:
                kept = await asyncio.to_thread(
                    keep_password, text, secrets.token_bytes, scram=scram is not False
                )
        now = self._now()
        change = UserChange(name, members, kept, merges, time_text(now) or "", int(now))
        await self._change(change.edit, caller, code)

    async def remove_user(self, name: str, caller: Caller) -> None:
        """Remove a user and close its connections."""

        def edit(known: UserList) -> UserList:
            return checked(known, _listed(known, name).without_user(name))

        await self._change(edit, caller)

    async def put_role(self, name: str, value: object, caller: Caller, *, merges: bool) -> None:
        """Create or change a role. Raises INVALID, NOT_FOUND, CONFLICT."""
        await self._change(lambda known: role_edit(name, value, known, merges=merges), caller)

    async def remove_role(self, name: str, caller: Caller) -> None:
        """Remove a role; users keep its name, which grants nothing."""

        def edit(known: UserList) -> UserList:
            if name not in known.roles:
                raise Error(Code.NOT_FOUND, f"there is no role {name!r}")
            return checked(known, known.without_role(name))

        await self._change(edit, caller)

    async def revoke(self, caller: Caller) -> None:
        """Revoke all sign-ins of a user: tokens, cookies, connections.

        Raises DENIED for a token of another issuer, whose user is not the one of that name here.
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
        """Apply a change, checking the right again at that time. Raises DENIED."""

        def judged(known: UserList) -> UserList:
            self._judge(known, caller, code)
            return edit(known)

        await self.change(judged)

    def _judge(self, known: UserList | None, caller: Caller, code: object) -> None:
        """Raise DENIED for a first user without the code, and for one that lost the race."""
        if known is not None and known.users:
            if caller.user == _ANONYMOUS:
                raise Error(Code.DENIED, "there is an administrator meanwhile; sign in")
        elif not caller.issuer:  # whose roles come from a trusted issuer
            self.setup_code.check(code)

    async def change(self, edit: Edit) -> None:
        """Change users and roles; connections no longer authorised are closed on return."""
        await self.users.change(edit, secrets.token_bytes)
        self.notify()

    def notify(self) -> None:
        """Notify of differences to the list at the last call."""
        before, after, kernel = self._reported, self.users.listed, self._kernel
        if before is after or kernel is None:
            return
        self._reported = after
        differences = _differences(before, after)
        self._note(differences, before, after)
        for path, name, happened in differences:
            if path == ROLES:
                kernel.reauthorization.altered()
            elif happened != "added":  # who is new has read nothing
                kernel.reauthorization.altered(name)
        kernel.reauthorization.changed()
        for path, name, happened in differences:
            kernel.live.changed(path, name, happened)

    def _note(
        self,
        differences: Iterable[tuple[str, str, str]],
        before: UserList | None,
        after: UserList | None,
    ) -> None:
        for path, name, _ in differences:
            for known in (before, after):
                self._mark ^= _mark_of(known, path, name)


def _mark_of(known: UserList | None, path: str, name: str) -> int:
    """Return a number for what a user or a role may read; 0 for none."""
    if known is None:
        return 0
    if path == ROLES:
        role = known.roles.get(name)
        return 0 if role is None else int(fingerprint((path, name, role.grants)), 16)
    user = known.users.get(name)
    if user is None:
        return 0
    facts = (user.grants, user.roles, user.attributes, user.disabled)
    return int(fingerprint((path, name, facts)), 16)


def _listed(known: UserList, name: str) -> UserList:
    if name not in known.users:
        raise Error(Code.NOT_FOUND, f"there is no user {name!r}")
    return known


def _differences(before: UserList | None, after: UserList | None) -> list[tuple[str, str, str]]:
    """Return path, name and kind of change of each changed user and role."""
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
