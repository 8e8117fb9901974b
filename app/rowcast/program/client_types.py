"""Types of a schema for programs: TypeScript or Python text, as its records are in JSON.

Of each table there is the record, what is inserted and a patch; of each query that the schema names
there is the record as the query selects it.

Pure functions of the schema and, if given, of the roles of the program that will use the text:
what ``@auth`` keeps from these roles does not exist in it, and what they may not write is not in
the types of writes. Grants of users are not in the schema; the server checks them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from rowcast.core.clauses import Clause, read_rules, rules_reading, write_rule
from rowcast.core.conditions import EVERYTHING, holds, is_constant
from rowcast.core.named_queries import NamedQuery
from rowcast.core.queries import Projection
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Role, Table, Type, is_kept
from rowcast.program.client_type_names import QUERY_END, names_in, type_names
from rowcast.program.client_types_socket import HEAD, socket_types
from rowcast.schema import Schema

Roles = frozenset[str] | None
"""The roles of the program; None: the types are for all that is declared."""


@dataclass(frozen=True, slots=True)
class Member:
    """One attribute as a program sees it."""

    attribute: Attribute
    optional: bool
    masked: bool = False
    patched: bool = False
    """In a patch, which changes parts: objects are merged, and null removes what may be missing."""
    related: str = ""
    """The shape of what a relationship leads to, of which a query selects parts; empty if that has
    no declared form, and for any other attribute."""

    @property
    def nullable(self) -> bool:
        """Whether null is one of its values."""
        return self.optional and not (self.patched and self.attribute.required)

    def parts(self) -> tuple["Member", ...]:
        """Return the members of the nested type."""
        return tuple(
            Member(one, self.patched or not one.required, patched=self.patched)
            for one in self.attribute.fields
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """One table as a program sees it."""

    name: str
    path: str
    open: bool
    """Any content: its records have no declared form."""
    read: tuple[Member, ...]
    insert: tuple[Member, ...]
    patch: tuple[Member, ...]
    writable: bool


@dataclass(frozen=True, slots=True)
class QueryShape:
    """One named query as a program sees it."""

    name: str
    table: Shape
    selected: tuple[Member, ...] | None
    """None: the whole record."""
    known: bool = True
    """Whether its records have a declared form: not with parts of related records."""


def digest(schema: Schema, roles: Roles) -> str:
    """Return what differs for another schema or other roles; it is in the head of the text."""
    return sha256(f"{sorted(roles or ())}\n{schema.text}".encode()).hexdigest()[:16]


def shapes(schema: Schema, roles: Roles) -> list[Shape]:
    """Return the exported tables that these roles may read, in the order of the schema."""
    readable = [table for table in schema.tables if table.path and _reads(table.auth, roles)]
    queries = {f"{query.name}{QUERY_END}" for query in schema.queries}
    names = type_names([table.name for table in readable], {*_OWN_NAMES, *queries})
    related = {table.name: "" if table.open else names[table.name] for table in readable}
    return [_shape(table, names[table.name], roles, related) for table in readable]


def query_shapes(schema: Schema, found: list[Shape]) -> list[QueryShape]:
    """Return the named queries on these tables, in the order of the schema."""
    by_path = {shape.path: shape for shape in found}
    tables = {table.name: table for table in schema.tables}
    return [
        _query_shape(one, by_path[one.table.path], tables)
        for one in schema.queries
        if one.table.path in by_path
    ]


def _query_shape(query: NamedQuery, shape: Shape, tables: dict[str, Table]) -> QueryShape:
    select = parse_query(query.conditions, query.table, tables=tables).select
    if select is None:
        return QueryShape(query.name, shape, None, known=not shape.open)
    members = {one.attribute.name: one for one in shape.read}
    plain = select.shape is Projection.OBJECT and not (select.related or shape.open)
    names = [".".join(map(str, path)) for path in select.paths]
    known = plain and all(name in members for name in names)
    selected = tuple(members[name] for name in names) if known else ()
    return QueryShape(query.name, shape, selected, known)


def _shape(table: Table, name: str, roles: Roles, names: dict[str, str]) -> Shape:
    """Return a table's shape; ``names`` are those of all with a form, by names of tables."""
    seen = [
        item
        for item in table.attributes
        if not item.hidden
        and _reads(item.auth, roles)
        and (item.relationship is None or item.type_name in names)
    ]
    masked = _masked(table, roles)
    read = tuple(
        Member(
            item,
            optional=not item.required or not _always(item.auth, roles),
            masked=item.name in masked,
            related=names[item.type_name] if item.relationship else "",
        )
        for item in seen
    )
    writable = not is_kept(table) and _writes(table.auth, roles)
    written = [item for item in seen if _settable(item) and _writes(item.auth, roles)]
    insert = tuple(Member(one, one.primary_key or not one.required) for one in written)
    changed = [one for one in written if not one.primary_key]
    patch = tuple(Member(one, optional=True, patched=True) for one in changed)
    return Shape(name, table.path or "", table.open, read, insert, patch, writable)


def _settable(item: Attribute) -> bool:
    return item.stored and item.role not in {Role.CREATED_TIME, Role.UPDATED_TIME}


def _masked(table: Table, roles: Roles) -> set[str]:
    if roles is None:
        return set()
    return {name for _, clause in read_rules(table.auth, roles) for name, _ in clause.masks}


def _reads(clauses: tuple[Clause, ...], roles: Roles) -> bool:
    return roles is None or not rules_reading(clauses) or bool(read_rules(clauses, roles))


def _always(clauses: tuple[Clause, ...], roles: Roles) -> bool:
    """Whether the attribute is in each record: no rule looks at the record."""
    if not rules_reading(clauses):
        return True
    return roles is not None and any(one == EVERYTHING for one, _ in read_rules(clauses, roles))


def _writes(clauses: tuple[Clause, ...], roles: Roles) -> bool:
    if roles is None or not clauses:
        return True
    rule = write_rule(clauses, roles)
    return not is_constant(rule) or holds(rule, {}, "")


_TYPESCRIPT = {
    "ID": "string", "String": "string", "Int": "number", "Long": "number", "Float": "number",
    "Decimal": "string", "Boolean": "boolean", "Date": "string", "Bytes": "string",
}  # fmt: skip


def typescript(schema: Schema, roles: Roles = None) -> str:
    """Return a module of types; ``Typed`` is the JavaScript client with these types."""
    found = shapes(schema, roles)
    lines = [f"// rowcast generate typescript, of schema {digest(schema, roles)}. Do not edit.", ""]
    for shape in found:
        lines += _ts_interface(shape.name, shape.read, shape.open)
        if shape.writable:
            lines += _ts_interface(f"{shape.name}Insert", shape.insert, shape.open)
            lines += _ts_interface(f"{shape.name}Patch", shape.patch, shape.open)
    lines += ["export interface Tables {"]
    lines += [f"  {json.dumps(one.path)}: {_ts_entry(one)}" for one in found]
    lines += ["}", "export interface Queries {"]
    lines += [f"  {json.dumps(one.name)}: {_ts_query(one)}" for one in query_shapes(schema, found)]
    lines += ["}", "", *_TYPED.splitlines()]
    return "\n".join(lines) + "\n"


def _ts_entry(shape: Shape) -> str:
    name = shape.name
    insert, patch = (f"{name}Insert", f"{name}Patch") if shape.writable else ("never", "never")
    return f"{{ record: {name}; insert: {insert}; patch: {patch} }}"


def _ts_query(query: QueryShape) -> str:
    if not query.known:
        return "unknown"
    if query.selected is None:
        return query.table.name
    names = " | ".join(json.dumps(one.attribute.name) for one in query.selected)
    return f"Pick<{query.table.name}, {names}>"


def _ts_interface(name: str, members: tuple[Member, ...], is_open: bool) -> list[str]:
    if is_open:
        return [f"export type {name} = unknown", ""]
    return [f"export interface {name} {{", *(f"  {_ts_member(one)}" for one in members), "}", ""]


def _ts_member(member: Member) -> str:
    of = "unknown" if member.masked else _ts_type(member)
    null = " | null" if member.nullable else ""
    return f"{member.attribute.name}{'?' if member.optional else ''}: {of}{null}"


def _ts_type(member: Member) -> str:
    item = member.attribute
    if item.relationship:
        many = "[]" if item.type is Type.LIST else ""
        return f"Partial<{member.related}>{many}" if member.related else "unknown"
    if item.items is not None:
        of = _ts_type(Member(item.items, optional=False))
        return f"({of}{'' if item.items.required else ' | null'})[]"
    if item.fields:
        return "{ " + "; ".join(map(_ts_member, member.parts())) + " }"
    return _TYPESCRIPT.get(item.type.value, "unknown")


_TYPED = """\
type Name = keyof Tables & string
export interface Written { status: number; cursor: string | null; id?: string }
export interface Options {
  ifMatch?: string
  ifNoneMatch?: string
  headers?: Record<string, string>
  once?: boolean
  via?: "http"
}
type Read<T extends Name> = { value: Tables[T]["record"]; cursor: string | null }
type Rows<T extends Name> = { rows: Tables[T]["record"][]; next: string | null }
type Topic<T extends Name> = `${T}/${string}`
type Insert<T extends Name> = Tables[T]["insert"]
type Patch<T extends Name> = Tables[T]["patch"]
export type Duration = `${number}${"ms" | "s" | "m"}`
export interface Watching {
  since?: string
  start?: "new"
  last?: number
  from?: string
  commits?: boolean
  conflate?: Duration
  onState?: (state: "connecting" | "live" | "waiting" | "refused", problem?: Error) => void
}
export interface Told<R> {
  kind: string
  topic: string | null
  cursor: string | null
  value?: R | null
  gap?: { from: string | null; to: string | null; count: number | null; reason: string }
}
export type Heard<T extends Name> = Told<Tables[T]["record"]>
type OnEvent<T extends Name> = (event: Heard<T>) => void
/** A record of a live query: with select(a,b) these parts of it, with select(a) one value. */
type Live<T extends Name, W extends string> =
  W extends `${string}select(${infer Names})${string}`
    ? Names extends `${string},${string}` ? Partial<Tables[T]["record"]> : unknown
    : Tables[T]["record"]
/** The client of rowcast.js: `const rows = new Rowcast(url) as unknown as Typed` */
export interface Typed {
  get<T extends Name>(topic: Topic<T>): Promise<Read<T>>
  query<T extends Name>(table: T, query?: string): Promise<Rows<T>>
  create<T extends Name>(table: T, value: Insert<T>, options?: Options): Promise<Written>
  put<T extends Name>(topic: Topic<T>, value: Insert<T>, options?: Options): Promise<Written>
  patch<T extends Name>(topic: Topic<T>, value: Patch<T>, options?: Options): Promise<Written>
  delete<T extends Name>(topic: Topic<T>, options?: Options): Promise<Written>
  subscribe<T extends Name>(
    filter: Topic<T>, onEvent: OnEvent<T>, options?: Watching,
  ): { close(): void }
  subscribe<Q extends keyof Queries & string>(
    filter: `$query/${Q}/#`, onEvent: (event: Told<Queries[Q]>) => void, options?: Watching,
  ): { close(): void }
  subscribe<T extends Name, W extends string>(
    filter: `$query/${T}/${W}`, onEvent: (event: Told<Live<T, W>>) => void, options?: Watching,
  ): { close(): void }
}
export interface Collecting<R> {
  onChange?: (ids: Set<string>) => void
  onState?: Watching["onState"]
  compare?: (one: R, other: R) => number
  key?: keyof R & string
}
export interface Collected<T extends Name, R> {
  readonly ready: Promise<void>
  readonly rows: R[]
  readonly pending: string[]
  get(id: string): R | undefined
  create(value: Insert<T>): Promise<string>
  put(id: string, value: Insert<T>, options?: Options): Promise<Written>
  patch(id: string, value: Patch<T>, options?: Options): Promise<Written>
  delete(id: string, options?: Options): Promise<Written>
  close(): void
}
/** The class of collection.js: `const Live = Collection as unknown as TypedCollection` */
export interface TypedCollection {
  new <T extends Name, W extends string = "">(
    rows: Typed, table: T, where?: W, options?: Collecting<Live<T, W>>,
  ): Collected<T, Live<T, W>>
}
"""

_OWN_NAMES = names_in(_TYPED) | names_in("\n".join([HEAD, *socket_types((), ())])) | {
    "Tables", "Queries",
}  # fmt: skip
"""Names that the text of either language has beside those of the schema's types."""

_PYTHON = {
    "ID": "str", "String": "str", "Int": "int", "Long": "int", "Float": "float",
    "Decimal": "str", "Boolean": "bool", "Date": "str", "Bytes": "str",
}  # fmt: skip


def python(schema: Schema, roles: Roles = None) -> str:
    """Return a module of one TypedDict for each form of a record, and the sockets with them."""
    head = f"rowcast generate python, of schema {digest(schema, roles)}. Do not edit."
    lines = [f'"""{head}"""', "", HEAD]
    found = shapes(schema, roles)
    queries = query_shapes(schema, found)
    for shape in found:
        lines += _py_class(shape.name, shape.read, shape.open)
        if shape.writable:
            lines += _py_class(f"{shape.name}Insert", shape.insert, shape.open)
            lines += _py_class(f"{shape.name}Patch", shape.patch, shape.open)
    related = {one.related for shape in found for one in shape.read}
    for shape in found:
        if shape.name in related:
            parts = tuple(replace(one, optional=True) for one in shape.read)
            lines += _py_class(f"{shape.name}Parts", parts, False)
    for query in queries:
        name = f"{query.name}{QUERY_END}"
        if query.known and query.selected is None:
            lines.append(f"{name} = {query.table.name}")
        else:
            lines += _py_class(name, query.selected or (), not query.known)
    tables = [(one.path, one.name, one.writable) for one in found]
    lines += socket_types(tables, [query.name for query in queries])
    return "\n".join(lines) + "\n"


def _py_class(name: str, members: tuple[Member, ...], is_open: bool) -> Iterator[str]:
    if is_open:
        yield f"{name} = object"
        return
    inner: list[str] = []
    fields: list[str] = []
    for one in members:
        key = one.attribute.name
        of = "object" if one.masked else _py_type(f"{name}__{key}", one, inner)
        of = f"{of} | None" if one.nullable else of
        of = f'"{of}"' if one.related else of  # it may be declared below, and lead back
        of = f"NotRequired[{of}]" if one.optional else of
        fields.append(f"{json.dumps(key)}: {of}")
    yield from inner
    yield f"{name} = TypedDict({json.dumps(name)}, {{{', '.join(fields)}}})"


def _py_type(name: str, member: Member, inner: list[str]) -> str:
    item = member.attribute
    if item.relationship:
        of = f"{member.related}Parts" if member.related else "object"
        return f"list[{of}]" if item.type is Type.LIST else of
    if item.items is not None:
        null = "" if item.items.required else " | None"
        return f"list[{_py_type(name, Member(item.items, optional=False), inner)}{null}]"
    if item.fields:
        inner += _py_class(name, member.parts(), False)
        return name
    return _PYTHON.get(item.type.value, "object")
