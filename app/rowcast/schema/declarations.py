"""Tables: types with ``@table``, their export paths, and their retention.

Names are checked here, because they become names of SQL tables, first levels of topics and paths of
URLs at once.
"""

import re
from collections.abc import Mapping
from typing import Final, TypedDict, TypeVar

from graphql import DirectiveNode, Node, ObjectTypeDefinitionNode

from rowcast.core.errors import Error
from rowcast.core.limits import DEADLINE_SECONDS_MIN, IDENTIFIER_CHARS_MAX
from rowcast.core.pacing_limits import CONFLATE_SECONDS_MAX, CONFLATE_SECONDS_MIN
from rowcast.core.tables import DATABASE, Invalid, Logs, Table
from rowcast.core.topics import check_topic
from rowcast.schema.alarms import with_alarms
from rowcast.schema.arguments import Arguments
from rowcast.schema.attributes import Types, description, directives
from rowcast.schema.compaction import compaction_of
from rowcast.schema.computed import with_computed
from rowcast.schema.names import database_argument, name_node, own_name
from rowcast.schema.partition import partition_of
from rowcast.schema.problems import Problems
from rowcast.schema.rights import with_rights
from rowcast.schema.vocabulary import RESERVED_PATHS, RESERVED_TABLE_PREFIXES

Word = TypeVar("Word", Logs, Invalid)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOORS: Final = ("rest", "mqtt", "ws", "sse")


def declare(node: ObjectTypeDefinitionNode, types: Types, problems: Problems) -> Table:
    """Return the table that a type with ``@table`` declares."""
    words = directives(node)
    settings = Arguments(words["table"], problems)
    exports = Arguments(words["export"], problems) if "export" in words else None
    _check_name(node, problems)
    for argument in ("eviction", "scanInterval"):  # harmless, but not to be nonsense
        settings.seconds(argument)
    for argument in ("replicate", "audit"):
        settings.boolean(argument)
    attributes = types.of_table(node)
    table = Table(
        name=types.table_name(node.name.value),
        path=None if exports is None else _path(exports, node, problems),
        attributes=attributes,
        database=_database(settings, problems),
        sealed="sealed" in words,
        logs=_one_of(settings, "logs", Logs.ALL),
        invalid=_one_of(settings, "invalid", Invalid.REJECT),
        expiration_seconds=settings.seconds("expiration") or 0,
        history_seconds=settings.seconds("history") or 0,
        history_events=settings.count("maxCount") or 0,
        history_bytes=settings.size("maxBytes") or 0,
        **compaction_of(settings, attributes),
        deadline_seconds=_deadline(words, problems),
        partition=partition_of(settings, attributes),
        **_delivery(words, problems),
        hidden_from=_hidden_from(exports),
        description=description(node),
    )
    return _with_conditions(node, table, problems)


def _with_conditions(node: ObjectTypeDefinitionNode, table: Table, problems: Problems) -> Table:
    """Return a table with what is said about its attributes; conditions may be on computed ones."""
    table = with_computed(node, table, problems)
    return with_alarms(node, with_rights(node, table, problems), problems)


class Delivery(TypedDict):
    """What ``@deliver`` says, as arguments of a table."""

    delivers_latest: bool
    conflate_seconds: float


def _one_of(settings: Arguments, name: str, usual: Word) -> Word:
    """Return the word of an argument; ``usual`` when it is not given."""
    kind = type(usual)
    word = settings.choice(name, [item.value for item in kind])
    return kind(word) if word else usual


def _check_name(node: ObjectTypeDefinitionNode, problems: Problems) -> None:
    name, blamed = own_name(node), name_node(node)
    _check_identifier(blamed, name, problems)
    prefix = next((item for item in RESERVED_TABLE_PREFIXES if name.lower().startswith(item)), "")
    if prefix:
        problems.at(blamed, f'"{name}" begins with "{prefix}", which is kept for the server')


def _check_identifier(node: Node, name: str, problems: Problems) -> None:
    if _IDENTIFIER.fullmatch(name) is None or len(name) > IDENTIFIER_CHARS_MAX:
        problems.at(
            node,
            f'"{name[:80]}" cannot name a table or database: use at most {IDENTIFIER_CHARS_MAX}'
            " letters, digits and underscores",
        )


def _database(settings: Arguments, problems: Problems) -> str:
    argument = database_argument(settings)
    name = settings.text(argument)
    if name is None:
        return DATABASE
    _check_identifier(settings.value_node(argument), name, problems)
    return name


def _hidden_from(exports: Arguments | None) -> frozenset[str]:
    if exports is None:
        return frozenset()
    return frozenset(door for door in _DOORS if exports.boolean(door) is False)


def _deadline(words: Mapping[str, DirectiveNode], problems: Problems) -> float:
    """Return after which silence a record is stale; 0 for never."""
    node = words.get("deadline")
    if node is None:
        return 0
    if "export" not in words:
        problems.at(node, "@deadline needs @export: without, there is no topic to tell it at")
    after = Arguments(node, problems)
    seconds = after.seconds("after")
    if after.value_node("after") is node:
        problems.at(node, '@deadline needs a time, such as @deadline(after: "30s")')
    elif seconds is not None and seconds < DEADLINE_SECONDS_MIN:
        problems.at(after.value_node("after"), f"a deadline is at least {DEADLINE_SECONDS_MIN:g} s")
    return seconds or 0


def _delivery(words: Mapping[str, DirectiveNode], problems: Problems) -> Delivery:
    """Return what readers get of the table's events: every one, or the latest of each record."""
    node = words.get("deliver")
    if node is None:
        return {"delivers_latest": False, "conflate_seconds": 0}
    settings = Arguments(node, problems)
    if settings.value_node("policy") is node and settings.value_node("conflate") is node:
        problems.at(node, '@deliver needs a policy, such as @deliver(policy: "latest")')
    policy = settings.choice("policy", ["every", "latest"])
    if settings.value_node("conflate") is node:
        return {"delivers_latest": policy == "latest", "conflate_seconds": 0}
    seconds = settings.seconds("conflate") or 0
    if policy == "every":
        problems.at(settings.value_node("policy"), 'with conflate, the policy is "latest"')
    if not CONFLATE_SECONDS_MIN <= seconds <= CONFLATE_SECONDS_MAX:
        least, most = f"{CONFLATE_SECONDS_MIN * 1000:g} ms", f"{CONFLATE_SECONDS_MAX:g} s"
        problems.at(settings.value_node("conflate"), f"conflate is from {least} to {most}")
    return {"delivers_latest": True, "conflate_seconds": seconds}


def _path(exports: Arguments, node: ObjectTypeDefinitionNode, problems: Problems) -> str:
    """Return a table's export path; empty for the root, which has all paths that no other has."""
    name = exports.text("name")
    path = node.name.value if name is None else name.strip("/")
    blamed = exports.value_node("name")
    first = path.partition("/")[0]
    if first in RESERVED_PATHS or path.startswith("$"):
        problems.at(blamed, f'"{first}" is a path of the server itself; export it by another name')
    try:
        if path:
            check_topic(path)
    except Error as error:
        problems.at(blamed, f"the name cannot begin topics: {error.message}")
    return path
