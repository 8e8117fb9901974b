"""What nodes of a cluster must have in common, as a text, and how two such texts differ.

The text is the schema, and after it a line of comment for each setting that is not the default one,
and for the version of the log's operations. So a node of an earlier version without such lines has
the same text, as long as it needs no line.
"""

from collections.abc import Mapping
from typing import Final

from rowcast.core.log_version import OPERATIONS

VERSION: Final = "log.operations"
"""The name of the line with the version of what the log says."""
VERSION_FIRST: Final = 1
"""The version of logs whose nodes tell none."""
NAMES: Final = (
    "log.archive_location",
    "log.archive_days",
    "history.keep_seconds",
    "history.keep_events",
    "history.keep_bytes",
    "topics.keep_seconds",
    "topics.keep_events",
    "topics.keep_bytes",
    "topics.tables",
    VERSION,
)
"""What there may be a line of, in this order."""


def agreement(schema: str, settings: Mapping[str, object]) -> str:
    """Return the text; ``settings`` are those that are not the default, by names of ``NAMES``."""
    agreed = dict(settings)
    if OPERATIONS != VERSION_FIRST:
        agreed[VERSION] = OPERATIONS
    lines = (f"# {name}: {agreed[name]}\n" for name in NAMES if name in agreed)
    return "\n".join((schema, *lines)) if agreed else schema


def difference(own: str, other: str) -> str:
    """Return how a node's text differs from the sequencer's, and how to mend it; empty if not."""
    if own == other:
        return ""
    schema, settings = _parts(own)
    other_schema, others = _parts(other)
    for name in NAMES:
        mine, wanted = settings.get(name), others.get(name)
        if mine == wanted:
            continue
        if name == VERSION:
            mine, wanted = mine or str(VERSION_FIRST), wanted or str(VERSION_FIRST)
            return (
                f"its release of Rowcast writes version {mine} of the log's operations, and that "
                f"of the sequencer version {wanted}; restart the nodes with the older release with "
                'the newer one, the sequencer last (docs/cluster.md, "Restart and upgrade")'
            )
        return (
            f"its {name} is {mine or 'the default'}, and that of the sequencer is "
            f"{wanted or 'the default'}; give all nodes the same"
        )
    if schema != other_schema:
        return "its schema is another one; give all nodes the same schema.graphql"
    return "its settings are others; give all nodes the same"


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """Return the schema of a text, and its settings."""
    lines, found = text.split("\n"), dict[str, str]()
    while lines:
        name, _, value = lines[-1].removeprefix("# ").partition(": ")
        if lines[-1] and name not in NAMES:
            break
        if lines.pop():
            found[name] = value
    return "\n".join(lines), found
