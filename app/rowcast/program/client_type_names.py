"""Names of a schema's types in the text for programs.

A table may be called as the text already calls something else, such as ``Topic``, ``Receipt`` or
``Record``, as a language says a word (``class``), or as a type of another table (``DogPatch``).
Its types then have a name with ``_`` behind it: a program would not compile, or be checked against
what something else is.
"""

import re
from collections.abc import Iterable
from keyword import kwlist
from typing import Final

ENDS: Final = ("", "Insert", "Patch", "Parts")
"""Of the names of a table's types."""
QUERY_END: Final = "Record"
"""Of the name of the records of a named query."""

_TYPESCRIPT: Final = """
    await break case catch class const continue debugger default delete do else enum export extends
    false finally for function if implements import in instanceof interface let new null package
    private protected public return static super switch this throw true try typeof var void while
    with yield any bigint boolean never number object string symbol undefined unknown
    Error Partial Pick Promise Record Set
"""
"""What no type of a module may be called, and what the text takes from the library."""
_PYTHON: Final = "bool dict float int list object property str"
"""What the text takes from the built-in names."""
_DEFINED: Final = re.compile(r"^(?:export )?(?:type|interface|class) (\w+)|^(\w+) = ", re.MULTILINE)
_IMPORTED: Final = re.compile(r"^from \w+ import (.+)$", re.MULTILINE)

_LANGUAGES: Final = frozenset({*kwlist, *_PYTHON.split(), *_TYPESCRIPT.split()})


def names_in(text: str) -> set[str]:
    """Return the names that a text of either language defines or imports."""
    found = {name for pair in _DEFINED.findall(text) for name in pair if name}
    for names in _IMPORTED.findall(text):
        found.update(names.split(", "))
    return found


def type_names(tables: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return a name of each table's record, of which no type is called as another or as taken."""
    used, found = {*_LANGUAGES, *taken}, dict[str, str]()
    for table in tables:
        name = re.sub(r"\W", "_", table)
        while used & {f"{name}{end}" for end in ENDS}:
            name += "_"
        used |= {f"{name}{end}" for end in ENDS}
        found[table] = name
    return found
