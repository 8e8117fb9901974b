"""Rows of ``$SYS/users`` and ``$SYS/roles``: users, roles and last logins (L10, M11).

PUT and PATCH create and change one, DELETE removes it; SSE, WebSocket and MQTT publish each change.
Only administrators see them, and a user its own row. Passwords are write-only. Last logins are
known since the server's start.
"""

from collections.abc import Sequence
from dataclasses import asdict

from rowcast.auth.users import User, granted
from rowcast.core.callers import ADMIN, ALL
from rowcast.features.accounts.accounts import ROLES, USERS, Directory
from rowcast.routes.system_rows import SystemRows, time_text

Facts = dict[str, object]


def user_rows(directory: Directory) -> type[SystemRows]:
    """Return the resource class that reads and changes users."""

    class UserRows(SystemRows):
        """One row for each user."""

        path = USERS
        followed = ("name", "roles", "grants", "attributes", "disabled", "created")

        def names(self) -> Sequence[str]:
            return directory.users.names

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            user = directory.users.known(name)
            return None if user is None else _user(directory, user)

        async def put(self, value: object) -> None:
            """Create or replace a user."""
            await directory.put_user(self.id, value, self.caller, merges=False)

        async def patch(self, value: object) -> None:
            """Change members of a user."""
            await directory.put_user(self.id, value, self.caller, merges=True)

        async def delete(self) -> None:
            """Remove a user and close its connections."""
            await directory.remove_user(self.id, self.caller)

    return UserRows


def role_rows(directory: Directory) -> type[SystemRows]:
    """Return the resource class that reads and changes roles."""

    class RoleRows(SystemRows):
        """One row for each role; the administrators' always exists."""

        path = ROLES
        followed = ("name", "grants", "note")

        def names(self) -> Sequence[str]:
            return [ADMIN, *directory.users.roles]

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            return _role(directory, name)

        async def put(self, value: object) -> None:
            """Create or replace a role."""
            await directory.put_role(self.id, value, self.caller, merges=False)

        async def patch(self, value: object) -> None:
            """Change members of a role."""
            await directory.put_role(self.id, value, self.caller, merges=True)

        async def delete(self) -> None:
            """Remove a role."""
            await directory.remove_role(self.id, self.caller)

    return RoleRows


def _user(directory: Directory, user: User) -> Facts:
    sighting = directory.authenticator.sightings.of(user.name)
    ways = (("password", user.check), ("scram", user.verifier))
    return {
        "name": user.name,
        "roles": sorted(user.roles),
        "grants": asdict(user.grants),
        "rights": asdict(granted(user.grants, user.roles, directory.users.roles)),
        "attributes": dict(user.attributes),
        "disabled": user.disabled,
        "created": user.created or None,
        "signs_in_with": [word for word, has in ways if has is not None],
        "last_seen": time_text(sighting.last_seen),
        "last_door": sighting.door,
        "last_peer": sighting.peer,
        "last_failure": time_text(sighting.last_failure),
        "failure": sighting.failure,
        "failures": sighting.failures,
    }


def _role(directory: Directory, name: str) -> Facts | None:
    role = directory.users.roles.get(name)
    if role is None and name != ADMIN:
        return None
    users = map(directory.users.known, directory.users.names)
    return {
        "name": name,
        "grants": asdict(role.grants if role is not None else ALL),
        "note": role.note if role is not None else "may do everything",
        "users": sum(user is not None and name in user.roles for user in users),
    }
