"""The words of ``schema.graphql`` beyond GraphQL's own: our directives and scalars.

Validation reads them before the user's document, so an unknown word, or a known one in the wrong
place, is found by GraphQL's own rules, with the nearest right one. Arguments that steer what the
server does by itself (``eviction``, ``scanInterval``, ``replicate``, ``audit``) are accepted, as
Harper's schemas have them, and do nothing. What an argument may hold is checked by ``arguments``:
GraphQL's rules do not look at literals here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rowcast.core.tables import Type

DEFINITIONS: Final = """
directive @table(
  table: String, database: String, schema: String, expiration: String, eviction: String,
  scanInterval: String, replicate: Boolean, audit: Boolean, logs: String, history: String,
  maxCount: Int, maxBytes: String, partition: String, invalid: String,
  compact: [String], tombstones: String
) on OBJECT
directive @export(name: String, rest: Boolean, mqtt: Boolean, ws: Boolean, sse: Boolean) on OBJECT
directive @sealed on OBJECT
directive @deadline(after: String) on OBJECT
directive @deliver(policy: String, conflate: String) on OBJECT
directive @alarm(
  name: String, when: String, for: String, clear: String, severity: String, webhook: String
) repeatable on OBJECT
directive @rollup(
  of: String, by: [String], time: String, every: String, values: Any, late: String
) on OBJECT
directive @derived(job: String, from: [String], every: String) on OBJECT
directive @query(table: String, where: String) on QUERY
directive @auth(
  roles: [String], read: String, write: String, mask: Any
) repeatable on OBJECT | FIELD_DEFINITION
directive @primaryKey on FIELD_DEFINITION
directive @indexed on FIELD_DEFINITION
directive @decimal(precision: Int, scale: Int) on FIELD_DEFINITION
directive @createdTime on FIELD_DEFINITION
directive @updatedTime on FIELD_DEFINITION
directive @expiresAt on FIELD_DEFINITION
directive @relationship(from: String, to: String) on FIELD_DEFINITION
directive @computed(from: String, version: Int) on FIELD_DEFINITION
directive @hidden on FIELD_DEFINITION
directive @enumerable on FIELD_DEFINITION
scalar Long
scalar Decimal
scalar Date
scalar Bytes
scalar Any
scalar BigInt
scalar Blob
"""

SCALARS: Final[Mapping[str, Type]] = MappingProxyType(
    {item.value: item for item in Type if item not in {Type.OBJECT, Type.LIST}}
    | {"BigInt": Type.LONG, "Blob": Type.BYTES}
)
"""Names of scalar types; the last two are Harper's."""

DIRECTIVES: Final = (
    "table",
    "export",
    "sealed",
    "deadline",
    "deliver",
    "alarm",
    "rollup",
    "derived",
    "query",
    "auth",
    "primaryKey",
    "indexed",
    "decimal",
    "createdTime",
    "updatedTime",
    "expiresAt",
    "relationship",
    "computed",
    "hidden",
    "enumerable",
)
"""Names of directives, for the nearest to a mistaken one."""

RESERVED_PATHS: Final = frozenset(
    {"docs", "openapi.json", "asyncapi.json", "health", "mqtt", "ui", "login", "metrics"}
)
"""First levels that the server itself answers at; those that begin with ``$`` are, too."""

RESERVED_TABLE_PREFIXES: Final = ("_", "rowcast_", "sqlite_")
"""Beginnings of the names of the server's and SQLite's own tables."""

RESERVED_ATTRIBUTE_PREFIXES: Final = ("_", "$")
"""Prefixes of the names that the server adds to a record: metadata, columns of its own."""
