"""Users and roles of a cluster: one list, in the log, and in the file of each node.

Each node goes on reading its own file (``auth/users_file.py``), so whoever changes it, by REST, by
``rowcast user`` or by hand, changes that of all nodes: the node that notices puts the whole list
into the log, and the others write it to theirs. Of two lists put in at the same time, the later
one in the log stays. A node that was away gets the list with the tables; a file that was changed
meanwhile is put into the log, unless the node is new to the cluster.

Which of two lists is the newer one follows from the one that file and log had in common last. What
a node has put into the log is that as soon as the log has it, not when the node looks again: the
next change may come before. While a list is on its way, nothing else is decided.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from rowcast.auth.setup_code import SetupCode
from rowcast.auth.user_list import UserList, list_of, tree_of
from rowcast.auth.users_file import Edit, UsersFile, read_users
from rowcast.core.authentication_limits import USERS_FILE_LOOK_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.facts import Change
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.program.features import Plug
from rowcast.program.parts import Parts
from rowcast.seams.seams import Facts
from rowcast.store.private import replace_file

log = logging.getLogger("rowcast.cluster")

OWNER: Final = "users"
NAME: Final = "list"
MARK: Final = "users.synced"
"""In the data directory: the digest of the list that this node and the log had in common."""
REPLACED: Final = ".replaced"
"""Behind the name of a file that the cluster's list has replaced when its node was new."""


class SharedUsers(Feature):
    """The list as one node has it; ``change`` changes its file, and tells who must know."""

    def __init__(
        self,
        users: UsersFile,
        path: Path,
        data: Path,
        change: Callable[[Edit], Awaitable[None]],
        look_seconds: float = USERS_FILE_LOOK_SECONDS,
    ) -> None:
        self._users, self._path = users, path
        self._mark = data / MARK
        self._change, self._look_seconds = change, look_seconds
        self._known: bytes | None = None
        """The list in the log; None before there was one."""
        self._sent: bytes | None = None
        """The list that is on its way into the log."""
        self._shared: str | None = None
        """The digest of the list that file and log had in common; None: as ``MARK`` says."""
        self._taken = asyncio.Event()
        """Set when the log has taken a list, so that ``MARK`` is written at once."""
        self._background = Background()
        self._said = ""

    def install(self, kernel: Kernel) -> None:
        """Hear what the log has."""
        self._committer = kernel.committer
        kernel.committer.on_facts.append(self.on_facts)
        kernel.facts(OWNER, self.restore)

    async def start(self) -> None:
        """Make file and log the same, before a port is open, and keep them so."""
        await self.look()
        self._background.run(self._watch())

    async def stop(self) -> None:
        """Look no more."""
        await self._background.stop()

    def restore(self, facts: Facts) -> None:
        """Take the list as the tables have it."""
        self.on_facts([Change(*fact) for fact in facts])

    def on_facts(self, changes: Sequence[Change]) -> None:
        """Take the list as another node has put it into the log."""
        for change in changes:
            if (change.owner, change.name) == (OWNER, NAME):
                self._known = change.value

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._taken.wait()
            self._taken.clear()
            await self.look()

    async def look(self) -> None:
        """Make file and log the same, if they are not."""
        try:
            await self._users.look()
            await self._settle()
        except (Error, OSError) as error:
            if str(error) != self._said:
                self._said = str(error)
                log.warning("users of this node may not be those of the cluster: %s", error)

    async def _settle(self) -> None:
        if self._sent is not None:
            return
        listed, known = self._users.listed, self._known
        own = _packed(listed) if listed is not None and self._path.exists() else None
        shared = self._common()
        if own == known:
            await self._note(known)
        elif known is None:
            self._publish(own)
        elif own is None or shared in {"", _digest(own)}:
            await self._take(known, own)
        else:
            self._publish(own)

    def _publish(self, own: bytes | None) -> None:
        """Put this node's list into the log."""
        if own is None:
            return

        def done(error: Error | None) -> None:
            self._sent = None
            if error is None:
                self._known, self._shared = own, _digest(own)
                self._taken.set()
            else:
                log.info("a change of users is not in the log yet: %s", error.message)

        self._sent = own
        self._committer.keep((Change(OWNER, NAME, own),), done)

    async def _take(self, known: bytes, own: bytes | None) -> None:
        """Write the log's list to the file, unless that is another one by now."""
        wanted = list_of(json.loads(known))

        def edit(there: UserList) -> UserList:
            if self._path.exists() and _packed(there) != own:
                raise Error(Code.CONFLICT, "the file was changed at the same time")
            return wanted

        if own is not None and not self._common():
            log.warning("the users of the cluster replace those in %s", self._path)
            await asyncio.to_thread(self._keep_replaced)
        await self._change(edit)
        await self._note(known)

    def _keep_replaced(self) -> None:
        replace_file(
            self._path.with_name(self._path.name + REPLACED), _packed(read_users(self._path))
        )

    async def _note(self, known: bytes | None) -> None:
        """Remember what file and log have in common."""
        self._said = ""
        if known is not None and self._marked() != _digest(known):
            await asyncio.to_thread(replace_file, self._mark, _digest(known).encode())
        self._shared = None

    def _common(self) -> str:
        """Return the digest of the list that file and log had in common; empty for a new node."""
        return self._marked() if self._shared is None else self._shared

    def _marked(self) -> str:
        try:
            return self._mark.read_text()
        except FileNotFoundError:
            return ""


def _packed(known: UserList) -> bytes:
    """Return a list as bytes that are the same for equal lists."""
    return json.dumps(tree_of(known), sort_keys=True, separators=(",", ":")).encode()


def _digest(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()


def sharing(key: bytes) -> Plug:
    """Return the feature of a node; ``key`` is the secret of its cluster."""

    def make(parts: Parts) -> SharedUsers:
        config, identity = parts.config, parts.identity
        directory = identity.directory
        # The first user is made at the sequencer, with the code that any node has printed.
        directory.setup_code = SetupCode(partial(_setup_bytes, key))
        return SharedUsers(identity.users, config.users_file, config.data, directory.change)

    return Plug("shared_users", make)


def _setup_bytes(key: bytes, size: int) -> bytes:
    return hashlib.blake2b(b"setup code", digest_size=size, key=key).digest()
