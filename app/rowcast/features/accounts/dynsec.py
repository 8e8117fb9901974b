"""Mosquitto's dialect of administration: the commands of its dynamic-security plugin (L10).

A message at ``$CONTROL/dynamic-security/v1`` is ``{"commands": [{"command": "listClients"}]}``, and
is answered at ``.../response``, in the order of the commands; POST over HTTP does likewise. Each
command is translated to changes of rows, written as the caller: so rights, audit and the effects on
live connections are those of the rows. Commands without an equivalent are answered with an error.
The message itself is not stored, because it may contain a password.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from rowcast.codecs import JSON, decode, encode
from rowcast.core.callers import SERVER
from rowcast.core.control_limits import CONTROL_COMMANDS_MAX
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.queries import Query
from rowcast.features.accounts.dynsec_acls import ACLS
from rowcast.features.accounts.dynsec_clients import PEOPLE
from rowcast.features.accounts.dynsec_rows import CommandArguments, Rows
from rowcast.kernel.kernel import Kernel
from rowcast.routes.resource import Resource
from rowcast.writes.write import Write

PATH: Final = "$CONTROL/dynamic-security"
TOPIC: Final = f"{PATH}/v1"
RESPONSE: Final = f"{TOPIC}/response"

Command = Callable[[Rows, CommandArguments], Awaitable[Mapping[str, object] | None]]

_NO_GROUPS: Final = "there are no groups here: give clients roles, as many as you like"
_NO_DEFAULTS: Final = (
    "what is allowed where no ACL says anything is said for each user by its grants, "
    "and a client that is created by a command has none: see $SYS/users"
)
_NONE_SUCH: Final = {
    "setClientId": "a user is not bound to a client id here; ACLs may name it as %c",
    "setDefaultACLAccess": _NO_DEFAULTS,
    "getDefaultACLAccess": _NO_DEFAULTS,
    "setAnonymousGroup": "who may call without a name is said by the setting security.anonymous",
    "getAnonymousGroup": "who may call without a name is said by the setting security.anonymous",
}
COMMANDS: Final[Mapping[str, Command]] = {**PEOPLE, **ACLS}


def control_rows() -> type[Resource]:
    """Return the resource class that executes commands."""
    turns = asyncio.Lock()
    """Messages are executed sequentially, because a command reads what it then changes."""

    class Control(Resource):
        """The topic of the commands."""

        path = PATH
        kernel: Kernel

        async def publish(self, message: object) -> object:
            """Execute the commands of a message, and publish the result of each."""
            answers = await self._answers(message)
            payload = encode({"responses": answers}, JSON)
            event = Event(RESPONSE, MESSAGE, payload, JSON, 1)
            self.kernel.writes.commit_or_announce((Write(event, SERVER, logged=False),))
            return None

        async def post(self, value: object) -> object:
            """Execute the commands and return the answers."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            return {"responses": await self._answers(value)}

        async def put(self, value: object) -> None:  # noqa: ARG002 - whatever it is
            """Refuse: commands are not stored."""
            raise Error(Code.NOT_ALLOWED, f"publish to {TOPIC} without retain")

        async def patch(self, value: object) -> None:
            """Refuse likewise."""
            await self.put(value)

        async def delete(self) -> None:
            """Refuse likewise."""
            await self.put(None)

        async def get(self, query: Query | None = None) -> object:  # noqa: ARG002 - whatever it is
            """Refuse: there is nothing to read."""
            raise Error(Code.NOT_ALLOWED, f"publish or POST commands to {TOPIC}")

        async def _answers(self, message: object) -> list[dict[str, object]]:
            if self.topic != TOPIC:
                raise Error(Code.NOT_FOUND, f"commands are published to {TOPIC}")
            async with turns:
                return await _answered(Rows(self.kernel, self.caller), message)

    return Control


async def _answered(rows: Rows, message: object) -> list[dict[str, object]]:
    """Execute all commands of a message."""
    try:
        value = decode(message, JSON) if isinstance(message, bytes) else message
        if isinstance(value, str):
            value = decode(value.encode(), JSON)
    except Error as error:
        return [_failed("Unknown command", None, f"the payload is no JSON: {error.message}")]
    commands = value.get("commands") if isinstance(value, dict) else None
    if not isinstance(commands, list):
        return [_failed("Unknown command", None, 'say {"commands": [{"command": "listClients"}]}')]
    answers = [await _answer(rows, item) for item in commands[:CONTROL_COMMANDS_MAX]]
    if len(commands) > CONTROL_COMMANDS_MAX:
        words = f"more than {CONTROL_COMMANDS_MAX} commands; the others were not carried out"
        answers.append(_failed("Unknown command", None, words))
    return answers


async def _answer(rows: Rows, item: object) -> dict[str, object]:
    if not isinstance(item, dict) or not isinstance(item.get("command"), str):
        return _failed("Unknown command", None, "a command is a map with the member 'command'")
    name, mark = item["command"][:100], item.get("correlationData")
    command = COMMANDS.get(name)
    if command is None:
        known = ", ".join(COMMANDS)
        words = _NO_GROUPS if "Group" in name else f"there is no such command; known are {known}"
        return _failed(name, mark, _NONE_SUCH.get(name, words))
    try:
        data = await command(rows, CommandArguments(item))
    except Error as error:
        return _failed(name, mark, error.message)
    answer: dict[str, object] = {"command": name}
    if data is not None:
        answer["data"] = data
    return answer if mark is None else answer | {"correlationData": mark}


def _failed(name: str, mark: object, words: str) -> dict[str, object]:
    answer: dict[str, object] = {"command": name, "error": words}
    return answer if mark is None else answer | {"correlationData": mark}
