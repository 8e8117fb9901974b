"""Building blocks of commands at ``$CONTROL``: rows, and arguments of a command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.core.limits import SYSTEM_ROWS_MAX
from rowcast.core.queries import Query
from rowcast.core.topics import RULES
from rowcast.features.accounts.accounts import ROLES, USERS

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

__all__ = ["ROLES", "RULES", "USERS", "CommandArguments", "Row", "Rows"]

Row = dict[str, object]
_PAGE: Final = SYSTEM_ROWS_MAX


class Rows:
    """Rows of users, roles and rules, as one caller reads and writes them."""

    def __init__(self, kernel: "Kernel", caller: Caller) -> None:
        self._kernel = kernel
        self._caller = caller

    async def find(self, path: str, name: str) -> Row | None:
        """Return one row."""
        resource = self._kernel.resource(f"{path}/{name}", self._caller)
        return cast("Row | None", await resource.get()) if resource is not None else None

    async def known(self, path: str, name: str) -> Row:
        """Return one row; raises NOT_FOUND with Mosquitto's message."""
        row = await self.find(path, name)
        if row is None:
            raise Error(Code.NOT_FOUND, "Client not found" if path == USERS else "Role not found")
        return row

    async def all(self, path: str) -> list[Row]:
        """Return all rows, page by page."""
        found: list[Row] = []
        resource = self._kernel.resource(path, self._caller)
        while resource is not None:
            page = await resource.get(Query(offset=len(found), limit=_PAGE))
            rows = cast("list[Row]", page)
            found += rows
            if len(rows) < _PAGE:
                break
        return found

    async def put(self, path: str, name: str, value: Row) -> None:
        """Write a row."""
        await self._write(PUT, path, name, value)

    async def change(self, path: str, name: str, value: Row) -> None:
        """Change members of a row."""
        await self._write(PATCH, path, name, value)

    async def remove(self, path: str, name: str) -> None:
        """Remove a row."""
        await self._write(DELETE, path, name, None)

    async def _write(self, kind: str, path: str, name: str, value: Row | None) -> None:
        payload = b"" if value is None else encode(value, JSON)
        media = None if value is None else JSON
        event = Event(f"{path}/{name}", kind, payload, media, 1, True)
        event.client = self._caller.client_id
        await self._kernel.write(event, self._caller)


class CommandArguments:
    """The arguments of one command, with typed accessors. Raises INVALID."""

    def __init__(self, members: Mapping[str, object]) -> None:
        self._members = members

    def has(self, name: str) -> bool:
        """Whether a member was given."""
        return self._members.get(name) is not None

    def text(self, name: str) -> str:
        """Return a required text."""
        value = self._members.get(name)
        if not isinstance(value, str) or not value:
            raise Error(Code.INVALID, f"Invalid/missing {name}")
        return value

    def number(self, name: str, otherwise: int) -> int:
        """Return a number."""
        value = self._members.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else otherwise

    def switch(self, name: str) -> bool:
        """Return a boolean."""
        return self._members.get(name) is True

    def maps(self, name: str) -> list["CommandArguments"]:
        """Return a list of maps; empty if not given."""
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise Error(Code.INVALID, f"Invalid/missing {name}")
        return [CommandArguments(item) for item in value]

    def page(self, names: list[Row]) -> list[Row]:
        """Return the page of ``count`` and ``offset``."""
        first, count = max(self.number("offset", 0), 0), self.number("count", -1)
        return names[first:] if count <= 0 else names[first : first + count]
