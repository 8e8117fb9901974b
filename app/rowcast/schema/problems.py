"""Problems of a schema: all of them at once, each with its place and how to mend it.

One set of problems is passed along all steps of the reading; whoever reads last refuses.
"""

from dataclasses import dataclass
from typing import NoReturn

from graphql import Node

from rowcast.core.errors import Code, Error
from rowcast.core.limits import SCHEMA_PROBLEMS_MAX


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong; line and column count from 1, ``suggestion`` is a word or empty."""

    line: int
    column: int
    message: str
    suggestion: str = ""


class Problems:
    """Collects the problems of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: set[Problem] = set()

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, line: int, column: int, message: str, suggestion: str = "") -> None:
        """Note a problem at a place."""
        self._found.add(Problem(line, column, message, suggestion))

    def at(self, node: Node, message: str, suggestion: str = "") -> None:
        """Note a problem with a part of the document."""
        token = node.loc.start_token if node.loc else None
        self.add(token.line if token else 1, token.column if token else 1, message, suggestion)

    def refuse(self) -> NoReturn:
        """Raise INVALID with all problems, in the order of the file."""
        found = sorted(self._found)[:SCHEMA_PROBLEMS_MAX]
        lines = [f"{self._file}:{item.line}:{item.column}: {_sentence(item)}" for item in found]
        facts = [
            {
                "file": self._file,
                "line": item.line,
                "column": item.column,
                "message": item.message,
                "suggestion": item.suggestion,
            }
            for item in found
        ]
        raise Error(Code.INVALID, "\n".join(lines), problems=facts)


def _sentence(problem: Problem) -> str:
    if not problem.suggestion:
        return problem.message
    return f'{problem.message}; did you mean "{problem.suggestion}"?'


def place(node: Node) -> str:
    """Return where a part of the document is, for a sentence about another part."""
    return f"line {node.loc.start_token.line}" if node.loc else "the beginning"
