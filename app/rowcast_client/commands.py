"""The unanswered commands of a socket without I/O: in order, over all its connections.

After a lost connection they are sent again. A write has a mark, its producer and number, so that
the server answers a repeat with what it answered first. What has none, and was sent, has failed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowcast.core.python_client_limits import CLIENT_MARKS_STEP
from rowcast_client.problem import Problem

Fields = dict[str, object]
Frame = str | bytes
Done = Callable[[Fields | Problem], None]


@dataclass(slots=True, eq=False)
class Command:
    """One command, and who waits for its answer."""

    number: int
    frame: Frame
    done: Done
    can_repeat: bool
    """Whether it may be sent again without another effect."""
    is_sent: bool = False
    is_withdrawn: bool = False


class Commands:
    """Those that wait for an answer."""

    def __init__(self, pack: Callable[[Fields], Frame], producer: str) -> None:
        self._pack = pack
        self._producer = producer
        self._waiting: dict[int, Command] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, fields: Fields, done: Done, *, can_repeat: bool, marked: bool) -> Command:
        """Make a command of these members; ``marked``: its repeats have no second effect."""
        self._last += 1
        number = self._last
        words = fields | {"id": number}
        if marked:
            words["producer"] = self._mark(number)
        command = Command(number, self._pack(words), done, can_repeat or marked)
        self._waiting[number] = command
        return command

    def _mark(self, number: int) -> str:
        least = next(iter(self._waiting), number)
        done = least // CLIENT_MARKS_STEP * CLIENT_MARKS_STEP
        return f"{self._producer}:1:{number}:{done}"

    def answered(self, number: object, outcome: Fields | Problem) -> None:
        """Tell who waits for this answer, if somebody still does."""
        command = self._waiting.pop(number, None) if type(number) is int else None
        if command is not None:
            command.done(outcome)

    def withdraw(self, command: Command) -> None:
        """Forget a command that nobody waits for any longer."""
        command.is_withdrawn = True
        self._waiting.pop(command.number, None)

    def lost(self, problem: Problem) -> None:
        """Note that the connection was lost: what was sent and must not be repeated has failed."""
        for command in [*self._waiting.values()]:
            if command.is_sent and not command.can_repeat:
                self.answered(command.number, problem)
            command.is_sent = False

    def again(self) -> Iterator[Command]:
        """Yield what the next connection sends, in order."""
        yield from self._waiting.values()

    def refuse_longest(self, problem: Problem) -> None:
        """Fail the longest command, for which the server ended the connection."""
        sent = [command for command in self._waiting.values() if command.is_sent]
        if sent:
            self.answered(max(sent, key=lambda command: len(command.frame)).number, problem)

    def end(self, problem: Problem) -> None:
        """Fail all of them."""
        for number in [*self._waiting]:
            self.answered(number, problem)
