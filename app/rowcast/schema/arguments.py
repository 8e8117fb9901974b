"""The arguments of one directive: literals read as their expected type, or noted as a problem.

GraphQL's rules for documents like ours know the names of arguments but do not look at what they
hold. Text may be quoted or, as Harper's schemas do, a bare word; a duration may be a number of
seconds.
"""

from collections.abc import Iterable
from typing import Final

from graphql import (
    ArgumentNode,
    BooleanValueNode,
    ConstDirectiveNode,
    DirectiveNode,
    EnumValueNode,
    FloatValueNode,
    IntValueNode,
    Node,
    StringValueNode,
)

from rowcast.core.durations import parse_duration
from rowcast.core.suggestions import nearest
from rowcast.schema.problems import Problems
from rowcast.schema.sizes import parse_size

COUNT_MAX: Final = 2**53
"""Above, a number is not the same in every format."""


class Arguments:
    """The arguments of one directive; each reader returns None for an absent or wrong one."""

    def __init__(self, directive: DirectiveNode | ConstDirectiveNode, problems: Problems) -> None:
        self.node = directive
        self.problems = problems
        given: Iterable[ArgumentNode] = directive.arguments or ()
        self._given = {argument.name.value: argument.value for argument in given}

    def value_node(self, name: str) -> Node:
        """Return the part of the document to blame: the argument's value, or the directive."""
        return self._given.get(name, self.node)

    def text(self, name: str) -> str | None:
        """Return text: quoted, or a bare word."""
        node = self._given.get(name)
        if isinstance(node, StringValueNode | EnumValueNode):
            return node.value
        self._wrong(name, "text in quotes")
        return None

    def boolean(self, name: str) -> bool | None:
        """Return true or false."""
        node = self._given.get(name)
        if isinstance(node, BooleanValueNode):
            return node.value
        self._wrong(name, "true or false")
        return None

    def seconds(self, name: str) -> float | None:
        """Return a duration in seconds."""
        node = self._given.get(name)
        found = None
        if isinstance(node, StringValueNode | IntValueNode | FloatValueNode):
            found = parse_duration(node.value)
        if found is None:
            self._wrong(name, 'seconds or a duration such as "7d", "12h" or "45s"')
        return found

    def count(self, name: str, least: int = 1) -> int | None:
        """Return a number of things, at least one, or as many as ``least`` says."""
        node = self._given.get(name)
        if isinstance(node, IntValueNode) and len(node.value) <= len(str(COUNT_MAX)):
            found = int(node.value)
            if least <= found <= COUNT_MAX:
                return found
        self._wrong(
            name, f"a whole number from {least} to {COUNT_MAX}; without it there is no limit"
        )
        return None

    def size(self, name: str) -> int | None:
        """Return a number of bytes, at least one."""
        node = self._given.get(name)
        found = None
        if isinstance(node, StringValueNode | IntValueNode):
            found = parse_size(node.value)
        if not found or found > COUNT_MAX:
            self._wrong(name, 'bytes or a size such as "10MB" or "512KiB", at least one byte')
            return None
        return found

    def choice(self, name: str, words: list[str]) -> str | None:
        """Return one of some words."""
        found = self.text(name)
        if found is None or found in words:
            return found
        message = f'{name} must be one of {", ".join(words)}, not "{found}"'
        self.problems.at(self._given[name], message, nearest(found, words))
        return None

    def _wrong(self, name: str, wanted: str) -> None:
        node = self._given.get(name)
        if node is not None:
            self.problems.at(node, f"{name} must be {wanted}")
