"""Descriptions: of a table at its path, and of all paths at the root."""

from typing import Final

from rowcast.codecs import JSON
from rowcast.core.queries import Query
from rowcast.core.tables import Attribute, Table, Type
from rowcast.doors.http.messages.asgi import path_of
from rowcast.doors.http.rest.allowed_methods import not_offered, offered
from rowcast.doors.http.rest.request import Request
from rowcast.kernel.kernel import Kernel

SYSTEM: Final = "$SYS/"


async def send_description(request: Request) -> None:
    """Answer GET at a table's path without the slash with its description."""
    table = request.route.table
    if table is None:
        raise not_offered(request.route, request.method)
    count = await request.kernel.count(table, Query(), request.caller)
    await request.answer(describe(table) | {"count": count})


def describe(table: Table) -> dict[str, object]:
    """Return a table as a value."""
    return {
        "name": table.name,
        "path": table.path,
        "database": table.database,
        "description": table.description,
        "records": path_of(table.topic("")),
        "primaryKey": table.primary_key.name if table.primary_key else None,
        "sealed": table.sealed,
        "attributes": [_describe(item) for item in table.attributes if not item.hidden],
    }


def _describe(attribute: Attribute) -> dict[str, object]:
    facts: dict[str, object] = {"name": attribute.name, "type": type_text(attribute)}
    if attribute.description:
        facts["description"] = attribute.description
    if attribute.primary_key or attribute.indexed:
        facts["indexed"] = True
    if attribute.role is not None:
        facts["role"] = str(attribute.role)
    return facts


def type_text(attribute: Attribute) -> str:
    """Return an attribute's type in schema syntax: ``[String]!``."""
    if attribute.type is Type.LIST and attribute.items is not None:
        text = f"[{type_text(attribute.items)}]"
    else:
        text = attribute.type_name or str(attribute.type)
    return text + ("!" if attribute.required else "")


async def send_system_index(request: Request) -> None:
    """Answer GET at ``$SYS/`` with the list of system rows (M11)."""
    request.kernel.rights.check_index(request.caller)
    route = request.kernel.registry.route
    paths = system_paths(request.kernel)
    await request.answer(
        [{"path": path_of(f"{path}/"), "rows": list(offered(route(f"{path}/x")))} for path in paths]
    )


def system_paths(kernel: Kernel) -> list[str]:
    """Return the paths of system rows."""
    return [entry.path for entry in kernel.registry.entries if entry.path.startswith(SYSTEM)]


async def send_index(request: Request) -> None:
    """Answer GET at the root with an index, if nothing is declared there."""
    request.kernel.rights.check_index(request.caller)
    settings = request.edge.settings
    entries = [
        entry
        for entry in request.kernel.registry.entries
        if entry.shape is None or "rest" not in entry.shape.table.hidden_from
    ]
    await request.answer(
        {
            "name": settings.title,
            "version": settings.version,
            "position": request.kernel.head,
            "documentation": "/docs",
            "openapi": "/openapi.json",
            "asyncapi": "/asyncapi.json",
            "resources": [
                {"path": path_of(entry.path), "kind": "table" if entry.shape else "resource"}
                for entry in entries
            ],
            "formats": [JSON, "application/cbor", "application/x-msgpack"],
        }
    )
