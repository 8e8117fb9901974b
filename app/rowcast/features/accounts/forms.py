"""Forms: values written to a user or a role, applied to the list of all of them.

A row that was read may be written back: members that only the server sets are ignored. Other
unknown members are refused, with a spelling suggestion. It knows neither files nor doors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rowcast.auth.passwords import Kept
from rowcast.auth.user_list import (
    GRANTS,
    UserList,
    attributes_of,
    grants_of,
    role_name,
    roles_of,
    switch_of,
)
from rowcast.auth.users import Role, User, kept_name
from rowcast.core.callers import ADMIN, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean

READ_ONLY: Final = frozenset(
    {
        "name", "rights", "created", "signs_in_with", "last_seen", "last_door", "last_peer",
        "last_failure", "failure", "failures", "users",
    }
)  # fmt: skip
_USER: Final = (
    "password",
    "setup_code",
    "scram",
    "roles",
    "grants",
    *GRANTS,
    "attributes",
    "disabled",
)
_ROLE: Final = ("grants", *GRANTS, "note")
_USUAL: Final = Grants(read=True, write=True)
"""The default grants of a user, as with ``rowcast user add``."""


@dataclass(frozen=True, slots=True)
class UserChange:
    """A change of one user: the given members, and the stored form of a password.

    ``merges``: missing members are unchanged, as with PATCH. ``kept`` None: the password is
    unchanged; ``password: null`` removes it. ``at`` and ``issue`` are for a new user: its creation
    time, and a value that no earlier user of this name had.
    """

    name: str
    members: Mapping[str, object]
    kept: Kept | None = None
    merges: bool = False
    at: str = ""
    issue: int = 0

    def edit(self, known: UserList) -> UserList:
        """Return the list with this user changed. Raises INVALID, NOT_FOUND, CONFLICT."""
        old = known.users.get(self.name)
        if old is None and self.merges:
            raise Error(Code.NOT_FOUND, f"there is no user {self.name!r}; put one")
        base = old if old is not None and self.merges else User(self.name, _USUAL)
        members = self.members
        user = replace(
            base,
            grants=_grants(members, base.grants),
            roles=roles_of(members["roles"]) if "roles" in members else base.roles,
            attributes=_attributes(members, base.attributes),
            disabled=switch_of(members, "disabled", base.disabled),
            created=old.created if old is not None else self.at,
            issue=old.issue if old is not None else self.issue,
            verifier=old.verifier if old is not None else None,
            hashed=old.hashed if old is not None else None,
        )
        if self.kept is not None:
            user = replace(user, verifier=self.kept[0], hashed=self.kept[1])
        elif "password" in members:
            user = replace(user, verifier=None, hashed=None)
        return checked(known, known.with_user(user))


def user_members(name: str, value: object) -> Mapping[str, object]:
    """Return the members of a user's value. Raises INVALID."""
    kept_name(name)
    members = _members(value, _USER, 'a user is a map such as {"password": "...", "roles": []}')
    password = members.get("password")
    if password is not None and not isinstance(password, str):
        raise Error(Code.INVALID, "'password' should be a text, or null to remove it")
    return members


def role_edit(name: str, value: object, known: UserList, *, merges: bool) -> UserList:
    """Return the list with a role changed. Raises INVALID, NOT_FOUND, CONFLICT."""
    if role_name(name) == ADMIN:
        raise Error(Code.CONFLICT, f"the role {ADMIN!r} may do everything; it cannot be changed")
    members = _members(value, _ROLE, 'a role is a map such as {"read": true, "note": "..."}')
    old = known.roles.get(name)
    if old is None and merges:
        raise Error(Code.NOT_FOUND, f"there is no role {name!r}; put one")
    base = old if old is not None and merges else Role(name)
    note = members.get("note", base.note)
    if not isinstance(note, str):
        raise Error(Code.INVALID, "'note' should be a text")
    return checked(known, known.with_role(Role(name, _grants(members, base.grants), note)))


def checked(before: UserList, after: UserList) -> UserList:
    """Return the new list; raises CONFLICT for one without an administrator."""
    if not after.administered and not before.users:
        raise Error(
            Code.CONFLICT,
            f'the first user must be an administrator: put one with {{"roles": ["{ADMIN}"]}}, or '
            f"run: rowcast user add NAME --role {ADMIN}",
        )
    if not after.administered and before.administered:
        raise Error(
            Code.CONFLICT,
            f"then no user would have the role {ADMIN!r}, and nobody could change users here; "
            "give it to one who is not disabled first",
        )
    return after


def _members(value: object, names: tuple[str, ...], hint: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Error(Code.INVALID, hint)
    members = {name: one for name, one in value.items() if name not in READ_ONLY}
    for name in members:
        if name not in names:
            text = str(name)[:80]
            raise Error(Code.INVALID, f"there is no member {text!r}{did_you_mean(text, names)}")
    return members


def _grants(members: Mapping[str, object], base: Grants) -> Grants:
    """Return the grants: those under ``grants``, and those at the top level."""
    under = members.get("grants", {})
    if not isinstance(under, dict) or not set(under) <= set(GRANTS):
        example = '{"read": true, "write": false}'
        raise Error(
            Code.INVALID, f"'grants' should be a map of {', '.join(GRANTS)}, such as {example}"
        )
    return grants_of(members, grants_of(under, base))


def _attributes(members: Mapping[str, object], base: Mapping[str, object]) -> Mapping[str, object]:
    """Return the attributes; with PATCH they are merged, and null removes one (RFC 7396)."""
    if "attributes" not in members:
        return base
    given = attributes_of(members["attributes"])
    both = {**base, **given}
    return attributes_of({name: value for name, value in both.items() if value is not None})
