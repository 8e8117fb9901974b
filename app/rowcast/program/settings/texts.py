"""Bounded parsing of YAML, with readable errors.

PyYAML recurses without bound, expands self-references endlessly, and raises various exceptions for
a tag that does not fit its text. This module knows no settings.
"""

from typing import Final

import yaml

from rowcast.core.limits import CONFIG_DEPTH_MAX, CONFIG_NODES_MAX

_TOO_MUCH: Final = (
    f"has values nested more than {CONFIG_DEPTH_MAX} deep, or more than {CONFIG_NODES_MAX} of them "
    "with all that references (*) stand for; write less"
)

_UNWRITABLE: Final = frozenset(("\0", *map(chr, range(0xD800, 0xE000))))


def composed(text: str) -> yaml.Node | None:
    """Return the node tree of a text; None if it is empty. Raises ValueError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        raise ValueError(_TOO_MUCH) from None
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"is not YAML: {_where(error.problem_mark)}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from error
    if root is not None:
        _nodes(root, {}, CONFIG_DEPTH_MAX)
    return root


def value_of(node: yaml.Node) -> object:
    """Return the value of a node. Raises ValueError."""
    try:
        value: object = yaml.SafeLoader("").construct_document(node)
    except Exception as error:  # a tag may apply any constructor to any text
        tag = node.tag.rpartition(":")[2]
        line = node.start_mark.line + 1
        raise ValueError(f"is not YAML: something on line {line} is no {tag}") from error
    return value


def read(text: str) -> object:
    """Return the value of a text. Raises ValueError."""
    root = composed(text)
    return None if root is None else value_of(root)


def is_writable(value: object) -> bool:
    """Whether all texts of a value can be names of files and hosts: no NUL, no surrogate."""
    if isinstance(value, str):
        return _UNWRITABLE.isdisjoint(value)
    if isinstance(value, dict):
        return all(map(is_writable, (*value, *value.values())))
    return not isinstance(value, list | tuple) or all(map(is_writable, value))


def _where(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _with_pairs_joined(text: str) -> str:
    r"""Return a text whose surrogate pairs are characters: JSON may escape one as \ud83d\ude00."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _check_names(node: yaml.MappingNode) -> None:
    """Refuse a name that is there twice: the values of the first would be dropped unseen."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = key.start_mark.line + 1
        if key.value in lines:
            raise ValueError(
                f"{key.value[:80]} is there twice, on line {lines[key.value]} and on line {line}; "
                "write one of them, with the values of both"
            )
        lines[key.value] = line


def _nodes(node: yaml.Node, known: dict[int, int], below: int) -> int:
    """Count the nodes of a tree, aliases each time; join the surrogate pairs of their texts."""
    if id(node) in known:
        return known[id(node)]
    if below == 0:
        raise ValueError(_TOO_MUCH)
    if isinstance(node, yaml.ScalarNode):
        node.value = _with_pairs_joined(node.value)
    elif isinstance(node, yaml.MappingNode):
        _check_names(node)
    count = 1
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    for part in parts:
        for each in part if isinstance(part, tuple) else (part,):
            count += _nodes(each, known, below - 1)
            if count > CONFIG_NODES_MAX:
                raise ValueError(_TOO_MUCH)
    known[id(node)] = count
    return count
