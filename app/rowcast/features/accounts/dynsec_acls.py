"""Commands about roles and their ACLs, which are rules here: rows of ``$SYS/rules``.

An ACL is a rule about one role, one filter and one action, whose description contains the ACL.
Other rules are listed as equivalent ACLs.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.topics import is_pattern
from rowcast.features.accounts.dynsec_clients import check_priority, roles_of
from rowcast.features.accounts.dynsec_rows import ROLES, RULES, USERS, CommandArguments, Row, Rows

_ACTIONS: Final = {
    "publishClientSend": "write",
    "publishClientReceive": "read",
    "subscribeLiteral": "subscribe",
    "subscribePattern": "subscribe",
}
_SHOWN: Final = {
    "write": ("publishClientSend",),
    "publish": ("publishClientSend",),
    "read": ("publishClientReceive", "subscribePattern"),
    "subscribe": ("subscribePattern",),
    "all": ("publishClientSend", "publishClientReceive", "subscribePattern"),
}
"""Mosquitto's ACL types of a rule's actions."""
_PLACES: Final = {"%u": "${username}", "%c": "${clientid}"}
_DIALECT: Final = "of dynamic-security"


async def _create(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("rolename")
    if await rows.find(ROLES, name) is not None:
        raise Error(Code.CONFLICT, "Role already exists")
    rules = [_rule(name, acl) for acl in arguments.maps("acls")]
    await rows.put(ROLES, name, {"note": _note(arguments)})
    try:
        for rule_name, rule in rules:
            await rows.put(RULES, rule_name, rule)
    except Error:  # such as for a filter that is none: all or nothing
        await _delete(rows, arguments)
        raise


async def _modify(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("rolename")
    await rows.known(ROLES, name)
    rules = dict(_rule(name, acl) for acl in arguments.maps("acls"))
    if note := _note(arguments):
        await rows.change(ROLES, name, {"note": note})
    if arguments.has("acls"):
        for rule_name, rule in rules.items():  # first: until then the former denials hold
            await rows.put(RULES, rule_name, rule)
        for row in await rows.all(RULES):
            if _is_own(row, name) and row["id"] not in rules:
                await rows.remove(RULES, str(row["id"]))


def _note(arguments: CommandArguments) -> str:
    given = [
        arguments.text(name) for name in ("textname", "textdescription") if arguments.has(name)
    ]
    return ": ".join(given)


async def _delete(rows: Rows, arguments: CommandArguments) -> None:
    """Remove a role, from its users and with its ACLs."""
    name = arguments.text("rolename")
    await rows.known(ROLES, name)
    for user in await rows.all(USERS):
        left = [role for role in roles_of(user) if role != name]
        if left != roles_of(user):
            await rows.change(USERS, str(user["name"]), {"roles": left})
    for row in await rows.all(RULES):
        if _is_own(row, name):
            await rows.remove(RULES, str(row["id"]))
    await rows.remove(ROLES, name)


async def _add(rows: Rows, arguments: CommandArguments) -> None:
    role = arguments.text("rolename")
    await rows.known(ROLES, role)
    name, rule = _rule(role, arguments)
    if await rows.find(RULES, name) is not None:
        raise Error(Code.CONFLICT, "ACL with this topic already exists")
    await rows.put(RULES, name, rule)


async def _remove(rows: Rows, arguments: CommandArguments) -> None:
    role = arguments.text("rolename")
    await rows.known(ROLES, role)
    name = _name(role, arguments.text("acltype"), arguments.text("topic"))
    if await rows.find(RULES, name) is None:
        raise Error(Code.NOT_FOUND, "ACL not found")
    await rows.remove(RULES, name)


async def _get(rows: Rows, arguments: CommandArguments) -> Row:
    role = await rows.known(ROLES, arguments.text("rolename"))
    return {"role": _role(role, await rows.all(RULES))}


async def _list(rows: Rows, arguments: CommandArguments) -> Row:
    roles, rules = await rows.all(ROLES), await rows.all(RULES)
    verbose = arguments.switch("verbose")
    listed = [_role(row, rules) if verbose else row["name"] for row in arguments.page(roles)]
    return {"totalCount": len(roles), "roles": listed}


def _rule(role: str, arguments: CommandArguments) -> tuple[str, Row]:
    """Return the rule of an ACL, and its name. Raises INVALID for unsupported ACLs."""
    kind, topic, allows = (
        arguments.text("acltype"),
        arguments.text("topic"),
        arguments.switch("allow"),
    )
    check_priority(arguments)
    if kind.startswith("unsubscribe"):
        raise Error(Code.INVALID, "everybody may unsubscribe here; leave this ACL out")
    if kind not in _ACTIONS:
        known = ", ".join(_ACTIONS)
        raise Error(Code.INVALID, f"Invalid acltype {kind[:40]!r}; known are {known}")
    if kind == "publishClientReceive" and allows:
        raise Error(
            Code.INVALID,
            "whoever may subscribe to a topic receives what is there; leave this ACL out, or allow "
            "subscribePattern",
        )
    if kind == "subscribeLiteral" and is_pattern(topic):
        raise Error(
            Code.INVALID,
            "a filter is asked for what it selects here, so a literal one has no wildcards; say "
            "subscribePattern",
        )
    text = topic
    for theirs, ours in _PLACES.items():
        text = text.replace(theirs, ours)
    rule: Row = {
        "filter": text,
        "effect": "allow" if allows else "deny",
        "actions": [_ACTIONS[kind]],
        "roles": [role],
        "description": f"{kind} {_DIALECT}",
    }
    return _name(role, kind, topic), rule


def _name(role: str, kind: str, topic: str) -> str:
    """Return the deterministic name of an ACL's rule."""
    digest = blake2b(json.dumps([role, kind, topic]).encode(), digest_size=8).hexdigest()
    return f"acl.{re.sub('[^A-Za-z0-9_-]', '-', role)[:40]}.{digest}"


def _is_own(row: Row, role: str) -> bool:
    """Whether a rule was created by a command for this role."""
    return row.get("roles") == [role] and str(row.get("description", "")).endswith(_DIALECT)


def _role(role: Row, rules: list[Row]) -> Row:
    """Return a role in Mosquitto's format."""
    document: Row = {"rolename": role["name"]}
    if role.get("note"):
        document["textdescription"] = role["note"]
    document["acls"] = [acl for rule in rules for acl in _acls(rule, str(role["name"]))]
    return document


def _acls(rule: Row, role: str) -> Iterator[Row]:
    """Yield the equivalent ACLs of a rule for a role."""
    if role not in roles_of(rule):
        return
    text = str(rule.get("filter", ""))
    for theirs, ours in _PLACES.items():
        text = text.replace(ours, theirs)
    kinds = [str(rule.get("description", "")).partition(" ")[0]]
    if not _is_own(rule, role):
        actions = cast("list[str]", rule.get("actions") or [])
        kinds = [kind for action in actions for kind in _SHOWN.get(action, ())]
    for kind in dict.fromkeys(kinds):
        allows = rule.get("effect", "allow") == "allow"
        yield {"acltype": kind, "topic": text, "priority": 0, "allow": allows}


ACLS: Final[Mapping[str, Callable[[Rows, CommandArguments], Awaitable[Row | None]]]] = {
    "createRole": _create,
    "modifyRole": _modify,
    "deleteRole": _delete,
    "addRoleACL": _add,
    "removeRoleACL": _remove,
    "getRole": _get,
    "listRoles": _list,
}
