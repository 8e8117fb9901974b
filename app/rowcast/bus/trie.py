"""The trie of topic filters: which subscribers want a topic.

One node for each level of a filter; ``+`` and ``#`` are children like any other. A lookup walks at
most two children per level, so it costs what the topic is deep, not how many filters there are. It
walks the levels itself, for speed; ``tests/bus/test_bus.py`` compares it with TopicFilter.matches.
Empty branches are pruned at once, so churn leaves nothing behind (D35).

Filters such as ``a/+/a`` and ``a/a/+`` select one topic, and of 13 levels there are thousands that
do. A subscriber is wanted once, so a branch with filters of one subscriber alone is left out when
that subscriber is found already.

It knows filters and opaque subscribers; it knows nothing of events, queues or callers.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from rowcast.core.topics import TopicFilter

S = TypeVar("S")

SEVERAL: Final = object()
"""Stands for the subscribers of a branch that has, or had, several."""


class Node(Generic[S]):
    """One level of the filters that pass through here."""

    __slots__ = ("children", "depth", "sole", "subscribers")

    def __init__(self, depth: int, sole: object) -> None:
        self.depth = depth
        """How many levels lead here."""
        self.sole = sole
        """The only subscriber of the filters that pass through here or end here, or SEVERAL."""
        self.children: dict[str, Node[S]] | None = None  # most nodes are the last of their filters
        self.subscribers: dict[S, None] = {}  # an ordered set: delivery in order of subscription


class Trie(Generic[S]):
    """A set of (filter, subscriber) pairs that finds the subscribers of a topic."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: Node[S] = Node(0, SEVERAL)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, topics: TopicFilter, subscriber: S) -> bool:
        """Add the pair; return whether it is new."""
        node = self._root
        for level in topics.levels:
            if node.children is None:
                node.children = {}
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = Node(node.depth + 1, subscriber)
            elif child.sole is not subscriber:
                child.sole = SEVERAL
            node = child
        if subscriber in node.subscribers:
            return False
        node.subscribers[subscriber] = None
        self._size += 1
        return True

    def remove(self, topics: TopicFilter, subscriber: S) -> bool:
        """Remove the pair and every branch it leaves empty; return whether it was there."""
        path = [self._root]
        for level in topics.levels:
            child = _child(path[-1], level)
            if child is None:
                return False
            path.append(child)
        if subscriber not in path[-1].subscribers:
            return False
        del path[-1].subscribers[subscriber]
        self._size -= 1
        for level, node, parent in zip(
            reversed(topics.levels), reversed(path), reversed(path[:-1]), strict=False
        ):
            if node.children or node.subscribers:
                break
            if parent.children is not None:
                del parent.children[level]
        return True

    def match(self, topic: str) -> tuple[S, ...]:
        """Return each subscriber that has at least one matching filter, once."""
        # MQTT-4.7.2-1: no wildcard for the first level of $-topics
        return _below(self._root, topic.split("/"), wild=topic[:1] != "$")

    def names(self, path: str) -> bool:
        """Return whether a filter names a path without wildcards, or something below it."""
        node: Node[S] | None = self._root
        for level in path.split("/"):
            node = _child(node, level) if node is not None else None
        return node is not None

    def match_named(self, path: str, rest: str) -> tuple[S, ...]:
        """Return each subscriber with a filter that names a path, and selects the rest below it."""
        node: Node[S] | None = self._root
        for level in path.split("/"):
            node = _child(node, level) if node is not None else None
        return _below(node, rest.split("/"), wild=True) if node is not None else ()

    def match_below(self, path: str, has: Callable[[str], bool]) -> tuple[S, ...]:
        """Return each subscriber with a filter that selects a topic below a path, once.

        A filter without a wildcard counts if the path ``has`` its topic.
        """
        levels, found = path.split("/") if path else [], dict[S, None]()
        nodes: list[tuple[Node[S], str | None]] = [(self._root, "")]
        while nodes:
            node, topic = nodes.pop()
            if node.depth > len(levels) and (topic is None or has(topic)):
                found.update(node.subscribers)
            for level, child in node.children.items() if node.children is not None else ():
                wild = level in {"+", "#"}
                if node.depth < len(levels) and not (wild or level == levels[node.depth]):
                    continue
                if level == "#":
                    found.update(child.subscribers)
                elif wild or topic is None:
                    nodes.append((child, None))
                else:
                    nodes.append((child, f"{topic}/{level}" if topic else level))
        return tuple(found)


def _child(node: Node[S], level: str) -> Node[S] | None:
    return node.children.get(level) if node.children is not None else None


def _below(root: Node[S], levels: Sequence[str], *, wild: bool) -> tuple[S, ...]:
    """Return the subscribers below a node whose filters select these levels, each once.

    ``wild``: a wildcard may select the first of them.
    """
    found: dict[S, None] = {}
    start, nodes = root.depth, [root]
    end = start + len(levels)
    while nodes:
        node = nodes.pop()
        if node.sole in found:
            continue
        children, depth = node.children, node.depth
        if depth == end:
            found.update(node.subscribers)
            if children is not None and "#" in children:  # "a/#" selects "a" itself too
                found.update(children["#"].subscribers)  # (MQTT 5, 4.7.1.2)
            continue
        if children is None:
            continue
        level = levels[depth - start]
        if level in children:  # a topic has no level "+" or "#": check_topic refuses it
            nodes.append(children[level])
        if wild or depth > start:
            if "+" in children:
                nodes.append(children["+"])
            if "#" in children:
                found.update(children["#"].subscribers)
    return tuple(found)
