"""The text of a schema as a GraphQL document: parsed, and held against GraphQL's rules.

Three things differ from the standard grammar, all on purpose: a type may have empty braces, a
document may be empty, and a query, which is named here and not asked, needs no braces. They are the
parser's own productions overridden, so every position stays that of the user's text.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from graphql import (
    DefinitionNode,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLError,
    GraphQLSyntaxError,
    ObjectTypeDefinitionNode,
    OperationDefinitionNode,
    SelectionSetNode,
    Source,
    concat_ast,
    parse,
)
from graphql.language import Node, TokenKind, TypeDefinitionNode, TypeSystemDefinitionNode
from graphql.language.parser import Parser
from graphql.validation.validate import validate_sdl

from rowcast.core.limits import SCHEMA_CHARS_MAX
from rowcast.core.suggestions import nearest
from rowcast.schema.problems import Problems, place
from rowcast.schema.vocabulary import DEFINITIONS, DIRECTIVES

_KEYWORDS: Final = ("type", "query", "directive", "scalar", "enum", "input", "union", "interface")
_UNEXPECTED: Final = re.compile(r"Unexpected Name '(\w+)'")
_MEANT: Final = re.compile(r" Did you mean (?:the [a-z ]+ )?['\"]@?(\w+)['\"].*")
_DIRECTIVE: Final = re.compile(r"Unknown directive '@(\w+)'")
_KINDS: Final = {
    "enum_type_definition": "an enum",
    "input_object_type_definition": "an input type",
    "interface_type_definition": "an interface",
    "union_type_definition": "a union",
    "scalar_type_definition": "a scalar",
    "directive_definition": "a directive",
    "schema_definition": "a schema block",
}


class _Parser(Parser):
    """GraphQL's parser, except for what may be left out here."""

    def parse_document(self) -> DocumentNode:
        start = self._lexer.token
        definitions = self.any(TokenKind.SOF, self.parse_definition, TokenKind.EOF)
        return DocumentNode(definitions=tuple(definitions), loc=self.loc(start))

    def parse_fields_definition(self) -> tuple[FieldDefinitionNode, ...] | None:
        if not self.expect_optional_token(TokenKind.BRACE_L):
            return None
        fields: list[FieldDefinitionNode] = []
        while not self.expect_optional_token(TokenKind.BRACE_R):
            fields.append(self.parse_field_definition())
        return tuple(fields)

    def parse_selection_set(self) -> SelectionSetNode:
        if self.peek(TokenKind.BRACE_L):
            return super().parse_selection_set()
        return SelectionSetNode(selections=())


class Definitions(NamedTuple):
    """What a schema defines."""

    types: list[ObjectTypeDefinitionNode]
    queries: list[OperationDefinitionNode]


def read_document(text: str, problems: Problems) -> Definitions:
    """Return the definitions of a schema; violations of GraphQL's rules go to problems."""
    document = _parse(text, problems)
    if document is None:
        return Definitions([], [])
    kept = _without_repeated(
        [node for node in document.definitions if _supported(node, problems)], problems
    )
    whole = concat_ast([_standard(), DocumentNode(definitions=tuple(kept), loc=document.loc)])
    for error in validate_sdl(whole):
        _note(error, problems)
    return Definitions(
        [node for node in kept if isinstance(node, ObjectTypeDefinitionNode)],
        [node for node in kept if isinstance(node, OperationDefinitionNode)],
    )


@lru_cache(1)
def _standard() -> DocumentNode:
    """Parse the directives and scalars that each schema may use, once in a process."""
    return parse(Source(DEFINITIONS, "builtin"))


def _parse(text: str, problems: Problems) -> DocumentNode | None:
    if len(text) > SCHEMA_CHARS_MAX:
        problems.add(1, 1, f"the schema is longer than {SCHEMA_CHARS_MAX} characters")
        return None
    try:
        return _Parser(Source(text, "schema")).parse_document()
    except GraphQLSyntaxError as error:
        line, column = error.locations[0] if error.locations else (1, 1)
        message = error.message.removeprefix("Syntax Error: ").rstrip(".")
        unexpected = _UNEXPECTED.search(message)
        meant = nearest(unexpected[1], _KEYWORDS) if unexpected else ""
        problems.add(line, column, message, meant)
    except RecursionError:
        problems.add(1, 1, "the schema nests too deep to be read")
    return None


def _supported(node: Node, problems: Problems) -> bool:
    """Whether validation should see a definition; notes one that Rowcast does not support."""
    if isinstance(node, ObjectTypeDefinitionNode | OperationDefinitionNode):
        return True
    what = _KINDS.get(node.kind, "this definition")
    problems.at(
        node, f"{what} is not supported here; a schema holds types, as in 'type Dog @table'"
    )
    return isinstance(node, TypeDefinitionNode) and isinstance(node, TypeSystemDefinitionNode)


def _without_repeated(nodes: list[DefinitionNode], problems: Problems) -> list[DefinitionNode]:
    """Note types declared again, and leave them out: other rules would count their words twice."""
    seen: dict[str, Node] = {}
    kept: list[DefinitionNode] = []
    for node in nodes:
        if not isinstance(node, ObjectTypeDefinitionNode):
            kept.append(node)
            continue
        first = seen.setdefault(node.name.value, node.name)
        if first is node.name:
            kept.append(node)
        else:
            problems.at(node.name, f"type {node.name.value} is there already ({place(first)})")
    return kept


def _note(error: GraphQLError, problems: Problems) -> None:
    """Turn an error of GraphQL's rules into a problem at the last place that it names."""
    nodes = [node for node in error.nodes or () if _ours(node)]
    message, suggestion = error.message, ""
    meant = _MEANT.search(message)
    directive = _DIRECTIVE.match(message)
    if meant is not None:
        message, suggestion = message[: meant.start()], meant[1]
    elif directive is not None:
        suggestion = nearest(directive[1], DIRECTIVES)
    message = message.rstrip(".")
    if len(nodes) > 1:
        message += f" (the first is in {place(nodes[0])})"
    problems.at(nodes[-1], message, suggestion)


def _ours(node: Node) -> bool:
    return node.loc is not None and node.loc.source.name != "builtin"
