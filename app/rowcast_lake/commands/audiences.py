"""Audiences: what the settings and the file of users say of a role for which is exported.

A role may read what its members may: the access list limits all callers, and a user without the
grant to read sees only what a rule allows. Rules and ``@auth`` are in the data, and are applied by
``snapshots/role_view.py``.
"""

from collections.abc import Collection
from dataclasses import dataclass

from rowcast.auth.user_list import UserList
from rowcast.auth.users import granted
from rowcast.auth.users_file import read_users
from rowcast.core.errors import Code, Error
from rowcast.features.rights.access_list import AccessList
from rowcast.program.config import Config


@dataclass(frozen=True, slots=True)
class Members:
    """What is known of the members of an audience."""

    roles: Collection[str] = ()
    """The declared roles, and the roles of users."""
    reads: bool = True
    """Whether all of its members have the grant to read; True if it has none."""
    access: AccessList | None = None


def members_of(chosen: Config, audience: str, out: str | None) -> Members:
    """Return what is known of a role's members; raises INVALID without a place for its exports.

    No role may have its snapshots in the directory of those for administrators.
    """
    if not audience:
        return Members()
    if out is None:
        raise Error(
            Code.INVALID,
            "name a directory of their own for these snapshots: --audience needs --out",
        )
    access = AccessList(rule.rule() for rule in chosen.hooks.acl)
    file = chosen.users_file
    if not file.exists():
        return Members(access=access)
    known = read_users(file)
    roles = frozenset(known.roles).union(*(one.roles for one in known.users.values()))
    return Members(roles, _all_read(known, audience), access)


def _all_read(known: UserList, role: str) -> bool:
    members = [user for user in known.users.values() if role in user.roles]
    return all(granted(user.grants, user.roles, known.roles).read for user in members)
