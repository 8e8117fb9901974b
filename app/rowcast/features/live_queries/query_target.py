"""What the filter of a live query names: a table, a part of it, or a query of the schema (M3)."""

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from rowcast.core.callers import SERVER, Caller
from rowcast.core.conditions import ID_PATH, Condition, Operator, Where, join
from rowcast.core.errors import Code, Error
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.query_topics import QUERY_PREFIX, Way, check_no_past, conditions_of, way_of
from rowcast.core.query_windows import Extent, extent_of
from rowcast.core.relations import Tables, backwards, relation_of, through
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.features.live_queries.definitions import Definitions
from rowcast.routes.registry import Entry, Registry
from rowcast.seams.visibility import Visibility

_COUNTS: Final = re.compile(r"(?:^|&)(?:group|count|sum|avg|min|max)(?:[(\[&]|%28|%5[Bb]|$)")
"""A part of conditions that asks for numbers in place of records."""


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """What a filter names, and since which position it does."""

    table: Table
    conditions: str
    since: int = 0
    within: Where | None = None
    """What the records satisfy beside the conditions."""
    holder: Query | None = None
    """What the caller compares of the table whose records lead to them, if one does."""
    held: Table | None = None
    """That table."""

    def check(self, visibility: Visibility, caller: Caller) -> None:
        """Raise INVALID if what leads to the records is an attribute that it may not compare."""
        if self.held is not None and self.holder is not None:
            visibility.narrowed(caller, self.held, self.holder)


def target_of(text: str, registry: Registry, named: Definitions) -> QueryTarget:
    """Return what a filter names; raises NOT_FOUND, and INVALID."""
    asked = text.removeprefix(QUERY_PREFIX)
    known = named.get(asked)
    if known is not None:
        return QueryTarget(known.table, known.conditions, named.since(asked))
    path = asked
    while "/" in path:
        path = path.rpartition("/")[0]
        entry = registry.entry(path) or registry.entry(unquote(path))
        if entry is not None and (table := _declared(entry)) is not None:
            try:
                way = way_of(asked[len(path) + 1 :])
                check_no_past(conditions_of(way.conditions))
                return _of_table(table, way, registry.related)
            except Error as error:
                error.detail["filter"] = text
                raise
    bare = registry.entry(asked)
    if bare is not None and _declared(bare) is not None:
        raise Error(
            Code.INVALID,
            f"{text[:200]!r} lacks conditions: write them after a slash, as in "
            f"'{QUERY_PREFIX}Sensor/temp=gt=80', or end with the slash for all records",
            filter=text,
        )
    raise _not_found(text, asked, named)


def _not_found(text: str, asked: str, named: Definitions) -> Error:
    """Return the Error of a filter that names nothing which has live queries."""
    return Error(
        Code.NOT_FOUND,
        f"{text[:200]!r} names neither a declared table nor a query of the schema, and beside rows "
        f"of $SYS and of topic tables nothing else has live queries; one is "
        f"{QUERY_PREFIX}TABLE/CONDITIONS, such as "
        f"'{QUERY_PREFIX}Sensor/temp=gt=80', or {QUERY_PREFIX}NAME/#"
        f"{did_you_mean(asked, named.names)}",
        filter=text,
    )


def _declared(entry: Entry) -> Table | None:
    return entry.shape.table if entry.shape is not None and entry.view is None else None


def _of_table(table: Table, way: Way, tables: Tables) -> QueryTarget:
    """Return the records of a table, those whose ids begin alike, or those of a relationship."""
    if not way.levels:
        return QueryTarget(table, way.conditions)
    if relation_of(table, way.conditions, tables) is not None:
        raise Error(
            Code.INVALID,
            f"{way.conditions} is a relationship of {table.name}: write conditions on the records "
            "that it leads to after a slash, or end with the slash for all of them",
        )
    *levels, name = way.levels
    relation = relation_of(table, name, tables) if levels else None
    if relation is None:
        within = Condition(ID_PATH, Operator.STARTS_WITH, "/".join((*way.levels, "")))
        return QueryTarget(table, way.conditions, within=within)
    record_id = "/".join(levels)
    if not relation.many:
        raise Error(
            Code.INVALID,
            f"{name} of {table.name} {record_id[:80]!r} is one record, which has no conditions; "
            f"subscribe to a query of {relation.table.name}, or to the record at its own topic",
        )
    one = Condition(ID_PATH, Operator.EQ, parse_id(table, record_id))
    return QueryTarget(
        relation.table,
        way.conditions,
        within=through(backwards(relation, table), one),
        holder=Query(Condition(relation.own, Operator.IN, ())),
        held=table,
    )


def parsed(
    asked: QueryTarget, text: str, tables: Tables, spare: int
) -> tuple[Query, Extent | None]:
    """Return the query that is asked for, and its window; raises INVALID, and TOO_LARGE."""
    try:
        conditions = conditions_of(asked.conditions)
        check_of_records(conditions)
        query = parse_query(conditions, asked.table, tables=tables)
        extent = extent_of(query, spare)
    except Error as error:
        error.detail["filter"] = text
        raise
    if asked.within is None:
        return query, extent
    parts = [asked.within] if query.where is None else [asked.within, query.where]
    return replace(query, where=join(parts, all_of=True)), extent


def parsed_rows(rest: str, table: Table, member: str) -> tuple[Query, Extent | None]:
    """Return the query of what follows the name of a table of rows, and its window.

    ``member`` is one that conditions may be on. Raises INVALID, and TOO_LARGE.
    """
    way = way_of(rest)
    if way.levels:
        raise Error(
            Code.INVALID,
            f"{'/'.join(way.levels)[:80]!r} is no part of {table.name} that has conditions; write "
            f"'{QUERY_PREFIX}{table.name}/CONDITIONS', maybe with one on {member}",
        )
    conditions = conditions_of(way.conditions)
    check_no_past(conditions)
    check_of_records(conditions)
    query = parse_query(conditions, table)
    return query, extent_of(query)


def viewed_key(text: str, caller: Caller, sight: object) -> str:
    """Return the key of a view of rows: the same one for all who see the same."""
    return text if caller is SERVER else f"{text}\n{id(sight)}\n{seer_of(caller)}"


def seer_of(caller: Caller) -> str:
    """Return a text that is the same for callers whom no rule and no hook tells apart."""
    who = caller.user, caller.client_id, caller.peer, caller.door
    return f"{who!r} {rights_of(caller)}"


def rights_of(caller: Caller) -> str:
    """Return a text of what one user may have several of: by its tokens, and when it is changed."""
    return repr((caller.grants, sorted(caller.roles), caller.issuer, caller.claims))


def check_of_records(conditions: str) -> None:
    """Raise INVALID for a query that returns numbers in place of records."""
    if _COUNTS.search(conditions):
        raise Error(
            Code.INVALID,
            "a live query follows records, and has neither groups nor counts; GET the same "
            "conditions with group(...) or count when they are wanted, or follow the records",
        )
