"""Commands about clients, which are users here: who may sign in, and with which roles."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.features.accounts.dynsec_rows import ROLES, USERS, CommandArguments, Row, Rows

_NOTES: Final = ("textname", "textdescription")
"""Mosquitto's texts of a client; here they are attributes."""


async def _create(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("username")
    if await rows.find(USERS, name) is not None:
        raise Error(Code.CONFLICT, "Client already exists")
    none = {"read": False, "write": False}
    await rows.put(USERS, name, {"grants": none, **await _user_change(rows, arguments, {})})


async def _modify(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("username")
    known = await rows.known(USERS, name)
    if said := await _user_change(rows, arguments, known):
        await rows.change(USERS, name, said)


async def _user_change(rows: Rows, arguments: CommandArguments, known: Row) -> Row:
    """Return the members of a user in a command; raises for unsupported ones."""
    if arguments.maps("groups"):
        raise Error(Code.INVALID, "there are no groups here: give the client their roles")
    if arguments.has("clientid"):
        raise Error(Code.INVALID, "a user is not bound to a client id here; leave it out")
    said: Row = {}
    if arguments.has("password"):
        said["password"] = arguments.text("password")
    if arguments.has("setup_code"):
        said["setup_code"] = arguments.text("setup_code")
    if arguments.has("roles"):
        said["roles"] = [await _role(rows, item) for item in arguments.maps("roles")]
    notes = {note: arguments.text(note) for note in _NOTES if arguments.has(note)}
    if notes:
        said["attributes"] = {**cast("Row", known.get("attributes") or {}), **notes}
    return said


async def _role(rows: Rows, arguments: CommandArguments) -> str:
    """Return the named role; raises if it does not exist, or has a priority."""
    name = arguments.text("rolename")
    check_priority(arguments)
    await rows.known(ROLES, name)
    return name


def check_priority(arguments: CommandArguments) -> None:
    """Raise INVALID for a priority: here a denial always wins."""
    if arguments.number("priority", -1) > 0:
        raise Error(Code.INVALID, "nothing has a priority here: a denial wins over all that allows")


async def _delete(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("username")
    await rows.known(USERS, name)
    await rows.remove(USERS, name)


async def _set_password(rows: Rows, arguments: CommandArguments) -> None:
    name, password = arguments.text("username"), arguments.text("password")
    await rows.known(USERS, name)
    await rows.change(USERS, name, {"password": password})


async def _enable(rows: Rows, arguments: CommandArguments) -> None:
    await _switch(rows, arguments, disabled=False)


async def _disable(rows: Rows, arguments: CommandArguments) -> None:
    await _switch(rows, arguments, disabled=True)


async def _switch(rows: Rows, arguments: CommandArguments, *, disabled: bool) -> None:
    name = arguments.text("username")
    await rows.known(USERS, name)
    await rows.change(USERS, name, {"disabled": disabled})


async def _add_role(rows: Rows, arguments: CommandArguments) -> None:
    name = arguments.text("username")
    roles = roles_of(await rows.known(USERS, name))
    role = await _role(rows, arguments)
    if role in roles:
        raise Error(Code.CONFLICT, "the client has the role already")
    await rows.change(USERS, name, {"roles": [*roles, role]})


async def _remove_role(rows: Rows, arguments: CommandArguments) -> None:
    name, role = arguments.text("username"), arguments.text("rolename")
    roles = roles_of(await rows.known(USERS, name))
    if role not in roles:
        raise Error(Code.NOT_FOUND, "the client does not have the role")
    await rows.change(USERS, name, {"roles": [item for item in roles if item != role]})


async def _get(rows: Rows, arguments: CommandArguments) -> Row:
    return {"client": _client(await rows.known(USERS, arguments.text("username")))}


async def _list(rows: Rows, arguments: CommandArguments) -> Row:
    users = await rows.all(USERS)
    page = arguments.page(users)
    listed = [_client(row) if arguments.switch("verbose") else row["name"] for row in page]
    return {"totalCount": len(users), "clients": listed}


def roles_of(row: Row) -> list[str]:
    """Return the roles in a user's row."""
    return list(cast("list[str]", row.get("roles") or []))


def _client(row: Row) -> Row:
    """Return a user in Mosquitto's format."""
    attributes = cast("Row", row.get("attributes") or {})
    document: Row = {"username": row["name"]}
    document |= {note: attributes[note] for note in _NOTES if note in attributes}
    if row.get("disabled"):
        document["disabled"] = True
    document["roles"] = [{"rolename": name} for name in roles_of(row)]
    document["groups"] = []
    return document


PEOPLE: Final[Mapping[str, Callable[[Rows, CommandArguments], Awaitable[Row | None]]]] = {
    "createClient": _create,
    "modifyClient": _modify,
    "deleteClient": _delete,
    "setClientPassword": _set_password,
    "enableClient": _enable,
    "disableClient": _disable,
    "addClientRole": _add_role,
    "removeClientRole": _remove_role,
    "getClient": _get,
    "listClients": _list,
}
