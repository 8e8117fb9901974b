"""``schema.graphql`` read into tables. Only this room knows that it is GraphQL."""

from rowcast.schema.read import load_schema, parse_schema
from rowcast.schema.schema import Schema

__all__ = ["Schema", "load_schema", "parse_schema"]
