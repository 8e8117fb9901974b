"""System rows of processes that follow, read and ended where rows are listed.

A follower has readers of its own, such as streams of HTTP. The sequencer asks
each for its rows when somebody reads them, and lists them behind its own as ``<node>/<id>``.
Nothing is sent before that. Rights were checked by the one that asks.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, cast

from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.messages import ROWS, ROWS_WANTED, pack
from rowcast.cluster.sequencer_links import SequencerLink, SequencerLinks
from rowcast.core.errors import Code, Error
from rowcast.core.limits import SYSTEM_ROWS_MAX
from rowcast.routes.system_rows import SystemRows

Facts = dict[str, object]
RowsOf = Callable[[str], SystemRows]
"""Returns the rows of a kind for one id; empty: for all."""

ANSWER_SECONDS: Final = 2.0
"""For the answer of one process; a list goes on without the rows of one that is silent."""


class RemoteRows:
    """All processes that follow this one, which is called ``node``."""

    def __init__(
        self, links: SequencerLinks, node: str, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self.node = node
        self._links, self._answer_seconds = links, answer_seconds
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[object]] = {}
        links.on_rows = self._answered

    async def rows(self, path: str, name: str = "") -> dict[str, Facts]:
        """Return the rows below a path by ``<node>/<id>``: all, or the one of this name.

        Of each process these are its first 1,000; one that does not answer has none.
        """
        node, _, its = name.partition("/")
        links = self._links.connected()
        asked = [one for one in links if one == node or not name]
        answers = await asyncio.gather(
            *(self._ask(links[one], path, its, ends=False) for one in asked),
            return_exceptions=True,
        )
        found: dict[str, Facts] = {}
        for one, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Error):
                continue
            if isinstance(answer, BaseException):
                raise answer
            for own, row in cast("Mapping[str, Facts]", answer).items():
                found[f"{one}/{own}"] = row | {"id": f"{one}/{own}", "node": one}
        return found

    async def of(self, node: str, path: str, name: str) -> Mapping[str, Facts]:
        """Return the row of this name below a path, of one process. Raises BUSY without answer."""
        link = self._links.connected().get(node)
        if link is None:
            return {}
        return cast("Mapping[str, Facts]", await self._ask(link, path, name, ends=False))

    async def end(self, path: str, name: str) -> None:
        """End what a row ``<node>/<id>`` stands for. Raises NOT_FOUND, and BUSY without answer."""
        node, _, its = name.partition("/")
        link = self._links.connected().get(node)
        if link is None:
            raise Error(Code.NOT_FOUND, f"there is no node {node!r} connected now")
        await self._ask(link, path, its, ends=True)

    async def _ask(self, link: SequencerLink, path: str, name: str, *, ends: bool) -> object:
        number = next(self._numbers)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            link.tell(pack(ROWS_WANTED, (number, path, name, ends)))
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except TimeoutError:
            raise Error(
                Code.BUSY,
                f"the other process does not answer; it is not known whether {path} has {name!r}",
                retry_after_seconds=1,
            ) from None
        finally:
            del self._waiting[number]

    def _answered(self, content: object) -> None:
        number, rows, refusal = cast("tuple[int, object, list[str] | None]", content)
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if refusal is None:
            answer.set_result(rows)
        else:
            code, sentence = refusal
            answer.set_exception(Error(Code(code), sentence))


class RowAnswers:
    """The side of a follower; ``kinds`` are its rows by their path."""

    def __init__(self, link: FollowerLink, kinds: Mapping[str, RowsOf]) -> None:
        self._link, self._kinds = link, kinds
        self._ending: set[asyncio.Task[None]] = set()
        link.on_rows_wanted = self._wanted

    def _wanted(self, content: object) -> None:
        number, path, name, ends = cast("tuple[int, str, str, bool]", content)
        kind = self._kinds.get(path)
        if kind is None:
            self._answer(number, {}, None)
        elif ends:
            task = asyncio.get_running_loop().create_task(self._end(number, kind(name)))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        else:
            self._answer(number, _read(kind(name), name), None)

    async def _end(self, number: int, row: SystemRows) -> None:
        refusal = None
        try:
            await row.delete()
        except Error as error:
            refusal = (error.code.value, error.message)
        self._answer(number, {}, refusal)

    def _answer(
        self, number: int, rows: Mapping[str, Facts], refusal: tuple[str, str] | None
    ) -> None:
        self._link.tell(pack(ROWS, (number, rows, refusal)))


def _read(rows: SystemRows, name: str) -> dict[str, Facts]:
    names = [name] if name else islice(rows.names(), SYSTEM_ROWS_MAX)
    found = {one: rows.row(one, whole=bool(name)) for one in names}
    return {one: row for one, row in found.items() if row is not None}
