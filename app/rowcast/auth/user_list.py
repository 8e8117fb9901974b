"""The list of users and roles: what stands in their file, read strictly and written again.

    {"secret": "<base64>",
     "users": {"ann": {"read": true, "write": true, "roles": ["admin"], "argon2": "$argon2id$..."}},
     "roles": {"operator": {"read": true, "administer": true, "note": "on call"}}}

``secret`` signs tokens and makes the answers about unknown names (``users.decoy``). It knows no
file and no clock; what is wrong is told with its place, but never with a secret.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from rowcast.auth.hashes import read_hash
from rowcast.auth.users import Role, User, granted, user_name
from rowcast.auth.verifier import read_verifier
from rowcast.core.authentication_limits import (
    ROLE_NAME_CHARS_MAX,
    USER_ATTRIBUTES_CHARS_MAX,
    USER_ROLES_MAX,
    USERS_SECRET_BYTES,
)
from rowcast.core.callers import ADMIN, NONE, Grants
from rowcast.core.errors import Code, Error

GRANTS = ("read", "write", "administer")
_KEYS = {"secret", "users"}
_USER_KEYS = {
    *GRANTS, "roles", "attributes", "disabled", "created", "issue", "verifier", "argon2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UserList:
    """Users and roles by name; never changed, only replaced."""

    secret: bytes
    users: Mapping[str, User] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)

    def with_user(self, user: User) -> "UserList":
        """Return the list with a user in the place of the one of this name, if there is one."""
        known = self.users.get(user.name)
        if known is not None:
            replaced = (known.verifier, known.hashed) != (user.verifier, user.hashed)
            issue = max(user.issue, known.issue + replaced)
            user = replace(user, issue=issue, created=known.created or user.created)
        return replace(self, users={**self.users, user.name: user})

    def without_user(self, name: str) -> "UserList":
        """Return the list without a user."""
        return replace(self, users={key: one for key, one in self.users.items() if key != name})

    def with_role(self, role: Role) -> "UserList":
        """Return the list with a role in the place of the one of this name, if there is one."""
        return replace(self, roles={**self.roles, role.name: role})

    def without_role(self, name: str) -> "UserList":
        """Return the list without a role; its users keep the name, which grants nothing."""
        return replace(self, roles={key: one for key, one in self.roles.items() if key != name})

    @property
    def administered(self) -> bool:
        """Whether any administrator can sign in."""
        return any(
            granted(user.grants, user.roles, self.roles).administer and not user.disabled
            for user in self.users.values()
        )


# -- what users and roles may be -------------------------------------------------------------------


def roles_of(value: object) -> frozenset[str]:
    """Return the names of roles that a value lists. Raises INVALID."""
    if not isinstance(value, list) or len(value) > USER_ROLES_MAX:
        raise Error(Code.INVALID, f"'roles' should be a list of at most {USER_ROLES_MAX} names")
    return frozenset(map(role_name, value))


def role_name(value: object) -> str:
    """Return the name of a role. Raises INVALID."""
    good = isinstance(value, str) and value.isprintable() and value == value.strip()
    if not good or not 0 < len(str(value)) <= ROLE_NAME_CHARS_MAX or set(str(value)) & set("/+#$"):
        raise Error(
            Code.INVALID,
            f"a role is named by 1 to {ROLE_NAME_CHARS_MAX} characters without '/', '+', '#' and "
            "'$', such as operator",
        )
    return str(value)


def attributes_of(value: object) -> Mapping[str, object]:
    """Return a user's attributes. Raises INVALID."""
    if not isinstance(value, dict) or len(str(value)) > USER_ATTRIBUTES_CHARS_MAX:
        raise Error(
            Code.INVALID,
            "'attributes' should be a map of at most "
            f'{USER_ATTRIBUTES_CHARS_MAX} characters, such as {{"sites": ["north"]}}',
        )
    return value


def switch_of(facts: Mapping[str, object], name: str, otherwise: bool = False) -> bool:
    """Return a member that is true or false. Raises INVALID."""
    value = facts.get(name, otherwise)
    if not isinstance(value, bool):
        raise Error(Code.INVALID, f"{name!r} should be true or false")
    return value


def grants_of(facts: Mapping[str, object], otherwise: Grants = NONE) -> Grants:
    """Return the grants among a map's members. Raises INVALID."""
    return Grants(*(switch_of(facts, name, getattr(otherwise, name)) for name in GRANTS))


# -- the file's form -------------------------------------------------------------------------------


def list_of(tree: object) -> UserList:
    """Return the list that the file's JSON is. Raises INVALID with the place."""
    if not isinstance(tree, dict) or not _KEYS <= set(tree) <= {*_KEYS, "roles"}:
        raise Error(Code.INVALID, "should be an object of 'secret', 'users' and perhaps 'roles'")
    users, roles = tree["users"], tree.get("roles", {})
    if not isinstance(users, dict) or not isinstance(roles, dict):
        raise Error(Code.INVALID, "should be an object of 'secret', 'users' and perhaps 'roles'")
    try:
        secret = b64decode(tree["secret"], validate=True)
    except (TypeError, ValueError):
        secret = b""
    if len(secret) < USERS_SECRET_BYTES:
        raise Error(Code.INVALID, f"'secret' should be {USERS_SECRET_BYTES} bytes in base64")
    return UserList(
        secret,
        {name: _user(name, facts) for name, facts in users.items()},
        {name: _role(name, facts) for name, facts in roles.items()},
    )


def _user(name: str, facts: object) -> User:
    where = f"user {name!r}"
    if not isinstance(facts, dict) or not set(facts) <= _USER_KEYS:
        raise Error(Code.INVALID, f"{where} has {', '.join(sorted(_USER_KEYS))} and nothing else")
    try:
        prepared = user_name(name)
        user = User(
            name,
            grants_of(facts),
            read_verifier(str(facts["verifier"])) if "verifier" in facts else None,
            read_hash(str(facts["argon2"])) if "argon2" in facts else None,
            roles_of(facts.get("roles", [])),
            attributes_of(facts.get("attributes", {})),
            switch_of(facts, "disabled"),
            str(facts.get("created", "")),
            _issue(facts.get("issue", 0)),
        )
    except Error as error:
        raise Error(Code.INVALID, f"{where}: {error.message}") from None
    if prepared != name:
        raise Error(Code.INVALID, f"{where}: should be written {prepared!r} (RFC 4013)")
    return user


def _issue(value: object) -> int:
    if not isinstance(value, int):
        raise Error(Code.INVALID, "'issue' should be a number")
    return value


def _role(name: str, facts: object) -> Role:
    where = f"role {name!r}"
    if not isinstance(facts, dict) or not set(facts) <= {*GRANTS, "note"} or name == ADMIN:
        raise Error(Code.INVALID, f"{where} has {', '.join(GRANTS)}, note, and is not {ADMIN!r}")
    try:
        return Role(role_name(name), grants_of(facts), str(facts.get("note", "")))
    except Error as error:
        raise Error(Code.INVALID, f"{where}: {error.message}") from None


def tree_of(known: UserList) -> dict[str, object]:
    """Return the content of the file."""
    tree: dict[str, object] = {
        "secret": b64encode(known.secret).decode(),
        "users": {user.name: _user_facts(user) for user in known.users.values()},
    }
    roles = {role.name: asdict(role.grants) | {"note": role.note} for role in known.roles.values()}
    return tree | ({"roles": roles} if roles else {})


def _user_facts(user: User) -> dict[str, object]:
    facts: dict[str, object] = asdict(user.grants)
    optional: dict[str, object] = {
        "roles": sorted(user.roles),
        "attributes": dict(user.attributes),
        "disabled": user.disabled,
        "created": user.created,
        "issue": user.issue,
        "verifier": str(user.verifier or ""),
        "argon2": str(user.hashed or ""),
    }
    return facts | {name: value for name, value in optional.items() if value}
