"""Tables as JSON schemas, shared by the OpenAPI and the AsyncAPI document."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rowcast.core.tables import Attribute, Role, Table, Type, is_kept
from rowcast.core.topic_tables import TopicRoot, TopicTable, row_table

Document = dict[str, object]

_TYPES: Final[Mapping[Type, Document]] = {
    Type.ID: {"type": "string"},
    Type.STRING: {"type": "string"},
    Type.INT: {"type": "integer", "format": "int32"},
    Type.LONG: {"type": "integer", "format": "int64"},
    Type.FLOAT: {"type": "number", "format": "double"},
    Type.DECIMAL: {"type": "string", "format": "decimal"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.DATE: {"type": "string", "format": "date-time"},
    Type.BYTES: {"type": "string", "contentEncoding": "base64"},
    Type.ANY: {},
}
ROWS: Final = replace(row_table(TopicTable("TopicRow", TopicRoot(None))), path="mqtt_{level}")
"""The table that represents all topic tables."""
PROBLEM: Final[Document] = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
    },
}


def add_schemas(table: Table, schemas: Document) -> None:
    """Add the schemas of a table's records and patches, and of the types within them."""
    made = _object(table.attributes, table.sealed, table.description, schemas, whole=True)
    schemas[table.name] = made | ({"readOnly": True} if is_kept(table) else {})
    schemas[f"{table.name}Patch"] = _object(
        table.attributes, table.sealed, "A merge patch (RFC 7396).", schemas, whole=False
    )


def _object(
    attributes: tuple[Attribute, ...],
    sealed: bool,
    description: str,
    schemas: Document,
    *,
    whole: bool,
) -> Document:
    seen = [item for item in attributes if not item.hidden and item.relationship is None]
    made: Document = {
        "type": "object",
        "properties": {item.name: _schema(item, schemas) for item in seen},
    }
    required = [item.name for item in seen if item.required and _is_written(item)]
    if required and whole:
        made["required"] = required
    if sealed:
        made["additionalProperties"] = False
    if description:
        made["description"] = description
    return made


def _is_written(attribute: Attribute) -> bool:
    """Whether a client must send the attribute: neither the server sets it nor the path has it."""
    times = {Role.CREATED_TIME, Role.UPDATED_TIME}
    return attribute.stored and attribute.role not in times and not attribute.primary_key


def _schema(attribute: Attribute, schemas: Document) -> Document:
    made = _bare(attribute, schemas)
    if not attribute.required and not attribute.primary_key:
        made = _or_null(made)
    if attribute.description:
        made["description"] = attribute.description
    if not attribute.stored or attribute.role in {Role.CREATED_TIME, Role.UPDATED_TIME}:
        made["readOnly"] = True
    return made


def _bare(attribute: Attribute, schemas: Document) -> Document:
    if attribute.type is Type.LIST and attribute.items is not None:
        return {"type": "array", "items": _schema(attribute.items, schemas)}
    if attribute.type is Type.OBJECT:
        name = attribute.type_name
        if name not in schemas:
            schemas[name] = {}  # a type may contain itself
            schemas[name] = _object(attribute.fields, attribute.sealed, "", schemas, whole=True)
        return ref(name)
    return dict(_TYPES[attribute.type])


def _or_null(schema: Document) -> Document:
    kind = schema.get("type")
    if kind is not None:
        return schema | {"type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def ref(name: str) -> Document:
    """Refer to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
