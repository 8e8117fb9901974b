"""The seams of the kernel: typed lists to which features add what they have to say.

Each list says when it is asked. What no feature added is in no list, so it costs nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

Facts = Sequence[tuple[str, str, bytes]]
"""What an owner stored beside the records: owner, name and value of each fact."""
Restore = Callable[[Facts], Awaitable[None] | None]
"""Takes up the facts of an earlier run."""


class RowChanged(Protocol):
    """Tells those who watch system rows that one is new, is another now, or is gone."""

    def __call__(self, name: str, happened: str = "", /) -> None:
        """Tell it; ``happened`` says why, for clients of MQTT 5."""


class Seams:
    """The part of the kernel in which features install themselves."""

    def __init__(self) -> None:
        self._restores: list[tuple[str, Restore]] = []

    def facts(self, owner: str, restore: Restore) -> None:
        """Have ``restore`` called with the owner's facts, before any feature starts.

        Owners are restored in the order in which they were added. An owner that ends with ``/``
        stands for all whose names begin so.
        """
        self._restores.append((owner, restore))

    async def restore(self, read: Callable[[str], Awaitable[Facts]]) -> None:
        """Take up what an earlier run left; ``read`` gives the stored facts of an owner."""
        for owner, restore in self._restores:
            done = restore(await read(owner))
            if done is not None:
                await done
