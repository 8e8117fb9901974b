"""Floor 1: ``schema.graphql`` read into tables. Only this room knows that it is GraphQL."""

from app.schema.read import load_schema, parse_schema
from app.schema.schema import Schema

__all__ = ["Schema", "load_schema", "parse_schema"]
