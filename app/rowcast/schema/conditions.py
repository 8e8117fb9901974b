"""Conditions in arguments of directives: written as in a URL's query string, and checked here."""

from collections.abc import Sequence

from graphql import Node

from rowcast.core.conditions import ID_PATH, NOTHING, Path, Where, compared
from rowcast.core.errors import Error
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.query_windows import extent_of
from rowcast.core.relations import RelatedKeys, Tables, related_conditions
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Table
from rowcast.schema.arguments import Arguments
from rowcast.schema.problems import Problems


def condition(
    settings: Arguments, name: str, table: Table, problems: Problems, needed_by: str
) -> Where | None:
    """Return the condition in an argument; it takes no functions.

    ``needed_by`` is what is declared, such as "an alarm": it names declared attributes only, since
    a misspelt one would never hold.
    """
    text = settings.text(name)
    if not text:
        return None
    blamed = settings.value_node(name)
    try:
        query = parse_query(text, table)
    except Error as error:
        problems.at(blamed, f"{name}: {error.message}")
        return NOTHING
    if query.where is None or query != Query(query.where):
        problems.at(
            blamed,
            f'{name} takes conditions alone, such as "temp=gt=80&site==A": no select, sort, '
            "limit, after or _stale",
        )
    _check_names(query.where, blamed, table, problems, needed_by)
    return query.where


def window_or_conditions(
    settings: Arguments, name: str, table: Table, tables: Tables, problems: Problems
) -> None:
    """Check the conditions of a named query, which may have an order and a limit, or select parts.

    ``tables`` are those to which its relationships may lead.
    """
    text = settings.text(name)
    blamed = settings.value_node(name)
    try:
        query = parse_query(text or "", table, tables=tables)
        extent = extent_of(query)
    except Error as error:
        problems.at(blamed, f"{name}: {error.message}")
        return
    if query.where is None and extent is None:
        problems.at(blamed, f'{name} takes conditions, such as "temp=gt=80&sort(-temp)&limit(10)"')
    paths = [key.path for key in query.sort] + list(query.select.paths if query.select else ())
    _check_names(query.where, blamed, table, problems, "a query", paths)


def _check_names(
    where: Where | None,
    blamed: Node,
    table: Table,
    problems: Problems,
    needed_by: str,
    paths: Sequence[Path] = (),
) -> None:
    for related in related_conditions(where):
        if isinstance(related.value, RelatedKeys):
            inner, other = related.value.where, related.value.relation.table
            _check_names(inner, blamed, other, problems, needed_by)
    known = [item.name for item in table.attributes]
    for path in [*compared(where), *paths]:
        if not table.open and path != ID_PATH and path[0] not in known:
            message = f'{table.name} declares no attribute "{path[0]}", which {needed_by} needs'
            near = nearest(path[0], known)
            if (name := path[0].strip()) != path[0]:  # written as a rule is, or as SQL
                message = f'no space is beside an operator here: "{name}=gt=3" or "{name}>3"'
                near = ""
            problems.at(blamed, message, near)
