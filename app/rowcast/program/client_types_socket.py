"""The Python client's sockets with the types of a schema: text for ``client_types.python``.

A type checker knows no topic by its beginning, so subscriptions are typed by the filters of whole
tables, live queries by the table, and writes by what may be written to any of them.
"""

import json
from collections.abc import Iterable, Sequence

HEAD = """\
from typing import Literal, NotRequired, Protocol, Self, TypedDict, TypeVar, Unpack, overload
"""

_COMMON = '''

R_co = TypeVar("R_co", covariant=True)


class StreamEvent(Protocol[R_co]):
    """One event."""

    @property
    def kind(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def value(self) -> R_co | None: ...
    @property
    def cursor(self) -> str: ...
    @property
    def gap(self) -> dict[str, object] | None: ...


class Following(Protocol[R_co]):
    """The events of a subscription."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> StreamEvent[R_co]: ...
    @property
    def cursor(self) -> str: ...
    async def aclose(self) -> None: ...


class SyncFollowing(Protocol[R_co]):
    """The events of a subscription, without asyncio."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> StreamEvent[R_co]: ...
    @property
    def cursor(self) -> str: ...
    def close(self) -> None: ...


class WatchingOptions(TypedDict, total=False):
    since: str
    start: Literal["new"]
    last: int
    from_: str
    commits: bool
    conflate: str


class LiveOptions(TypedDict, total=False):
    since: str
    commits: bool
    sort: str
    limit: int | str


class Receipt(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def cursor(self) -> str: ...


class Got(Protocol):
    @property
    def value(self) -> object: ...
    @property
    def cursor(self) -> str: ...
'''

_CLASS = '''

class {name}(Protocol):
    """A socket of rowcast_client: ``typed = cast({name}, socket)`` of an open {real}."""

{overloads}
    {put} put(
        self, topic: str, value: {inserts}, *, if_match: str = ..., if_none_match: str = ...
    ) -> Receipt: ...
    {put} patch(
        self, topic: str, value: {patches}, *, if_match: str = ..., if_none_match: str = ...
    ) -> Receipt: ...
    {put} delete(self, topic: str, *, if_match: str = ...) -> Receipt: ...
    {put} publish(self, topic: str, value: object, *, once: bool = ...) -> Receipt: ...
    {put} get(self, topic: str) -> Got: ...
'''

_SUBSCRIBE = """\
    @overload
    def subscribe(
        self, filter: {filter}, **options: Unpack[WatchingOptions]
    ) -> {following}[{record}]: ..."""

_LIVE = """\
    @overload
    def live(
        self, table: {table}, where: str = ..., *, select: str, **options: Unpack[LiveOptions]
    ) -> {following}[object]: ...
    @overload
    def live(
        self, table: {table}, where: str = ..., **options: Unpack[LiveOptions]
    ) -> {following}[{record}]: ..."""


def socket_types(tables: Sequence[tuple[str, str, bool]], queries: Iterable[str]) -> list[str]:
    """Return the lines of both sockets.

    ``tables`` are path, name of the type, and whether it may be written; ``queries`` are names.
    """
    kinds = (
        ("TypedSocket", "Socket", "Following", "async def"),
        ("TypedSyncSocket", "SyncSocket", "SyncFollowing", "def"),
    )
    queries = [*queries]
    text = _COMMON
    for name, real, following, put in kinds:
        text += _CLASS.format(
            name=name,
            real=real,
            put=put,
            overloads="\n".join(_overloads(tables, queries, following)),
            inserts=_union(tables, "Insert"),
            patches=_union(tables, "Patch"),
        )
    return text.splitlines()


def _overloads(
    tables: Sequence[tuple[str, str, bool]], queries: Sequence[str], following: str
) -> Iterable[str]:
    for path, record, _ in tables:
        filters = _literal(f"{path}/#", f"{path}/+")
        yield _SUBSCRIBE.format(filter=filters, following=following, record=record)
    for name in queries:
        filters = _literal(f"$query/{name}/#", f"$query/{name}")
        yield _SUBSCRIBE.format(filter=filters, following=following, record=f"{name}Record")
    if tables:
        yield _SUBSCRIBE.format(filter="str", following=following, record="object")
    for path, record, _ in tables:
        yield _LIVE.format(table=_literal(path), following=following, record=record)


def _literal(*texts: str) -> str:
    return f"Literal[{', '.join(json.dumps(text) for text in texts)}]"


def _union(tables: Sequence[tuple[str, str, bool]], suffix: str) -> str:
    return " | ".join(f"{name}{suffix}" for _, name, writable in tables if writable) or "object"
